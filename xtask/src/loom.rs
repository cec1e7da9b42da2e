//! `cargo xtask loom`: runs the models of tests/loom and shows how many interleavings each one explored.
//!
//! loom can pass a model after a single execution without having looked at anything, so the number of iterations is a
//! result like any other: every model prints `loom: <name> <iterations> iterations`, and a run without such a line fails.

use std::env;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::child;
use crate::libtest::{Counts, Reader, Tally};
use crate::table;
use crate::workspace::Workspace;

/// Preemptions per execution in the short form. Two find most mistakes in practice; three leave room for a helper thread.
const SHORT_PREEMPTIONS: &str = "3";

/// More than every model together needs on a slow machine with the models' own bounds, which are larger than the short form's.
const LIMIT: Duration = Duration::from_secs(3600);

/// The part of the test table that holds the models.
pub(crate) const PART: &str = "loom models";

/// The verb.
pub(crate) fn verb(workspace: &Workspace, full: bool) -> Result<ExitCode, String> {
    let counts = explore(workspace, full, None)?;
    println!("{}", counts.closing_line());
    Ok(ExitCode::from(u8::from(counts.failed > 0)))
}

/// Runs the models whose test name contains `filter`, prints their table, and returns what the tests came to.
///
/// Fails when no model said what it explored, unless a filter may have left out all of them.
pub(crate) fn explore(
    workspace: &Workspace,
    full: bool,
    filter: Option<&str>,
) -> Result<Counts, String> {
    let start = Instant::now();
    let command = command(workspace, full, filter);
    let shown = child::rerun(&command);
    println!("loom: {shown}");
    let mut tally = Tally::default();
    let mut models: Vec<Vec<String>> = Vec::new();
    let mut reader = Reader::default();
    let status = child::lines_of(command, LIMIT, |line| {
        println!("{line}");
        models.extend(iterations(line));
        if let Some(event) = reader.event(line) {
            tally.take(event, |_| PART);
        }
    })?;
    tally.finish();
    let mut counts = tally.total();
    if !status.success() && counts.failed == 0 {
        return Err(format!("{status}; rerun: {shown}"));
    }
    if models.is_empty() && filter.is_none() && counts.failed == 0 {
        return Err(format!("no loom model ran; rerun: {shown}"));
    }
    counts.seconds = start.elapsed().as_secs_f64();
    if !models.is_empty() {
        println!("\n{}", table::draw(&["model", "iterations"], &models));
    }
    Ok(counts)
}

fn command(workspace: &Workspace, full: bool, filter: Option<&str>) -> Command {
    let mut command = workspace.cargo(&["test", "--profile", "loom", "-p", "proxy-loom"]);
    // Other flags mean other builds of everything; an own folder keeps both.
    command
        .arg("--target-dir")
        .arg(workspace.target.join("loom"));
    // One at a time, so that a model's line stands beside its test.
    command.args(["--", "--test-threads=1", "--nocapture"]);
    command.args(filter);
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} --cfg loom").trim_start());
    if full {
        command.env_remove("LOOM_MAX_PREEMPTIONS");
    } else {
        command.env("LOOM_MAX_PREEMPTIONS", SHORT_PREEMPTIONS);
    }
    command
}

/// Reads `loom: <name> <iterations> iterations` as a row of the table. libtest may have begun the line.
fn iterations(line: &str) -> Option<Vec<String>> {
    let (_, rest) = line.split_once("loom: ")?;
    let rest = rest.trim_end().strip_suffix(" iterations")?;
    let (name, number) = rest.rsplit_once(' ')?;
    number.parse::<u64>().ok()?;
    Some(vec![name.to_owned(), number.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_line_is_read_wherever_it_begins() {
        let row = Some(vec!["inbox".to_owned(), "594".to_owned()]);
        assert_eq!(iterations("loom: inbox 594 iterations"), row);
        assert_eq!(
            iterations("test inbox::order ... loom: inbox 594 iterations"),
            row
        );
    }

    #[test]
    fn other_lines_are_not_models() {
        for line in [
            "loom: inbox",
            "loom: inbox many iterations",
            "594 iterations",
        ] {
            assert_eq!(iterations(line), None, "{line}");
        }
    }
}
