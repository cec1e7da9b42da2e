//! `cargo xtask test`: every test of the workspace, then the loom models in short form, and one table over all.
//!
//! Tests are built with the `test` profile: overflow checks and debug assertions stay on, because they find what release
//! hides; `.cargo/config.toml` raises its optimisation level to 1, because the end-to-end tests reduce megabytes
//! element by element on eight rank processes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::child;
use crate::install;
use crate::libtest::{self, Counts, Reader, Tally};
use crate::loom;
use crate::table;
use crate::workspace::{Artifact, Workspace};

/// The part of the table that holds the doc tests of all crates.
const DOCS: &str = "doc tests";

/// The part that holds what went wrong before or beside the tests.
const OUTSIDE: &str = "cargo test";

/// More than the whole run needs on a slow machine; a test that hangs must not hold CI for ever.
const LIMIT: Duration = Duration::from_secs(1800);

/// The variables by which tests find what they start and load, and the build target that each one names.
const GIVEN: [(&str, &str); 3] = [
    ("PROXY_NCCOM_LIB", "nccom"),
    ("PROXY_SCRIPTED_LIB", "scripted"),
    ("PROXY_RUN_BIN", "proxy-run"),
];

/// The verb: runs all, ends with the closing line.
pub(crate) fn verb(workspace: &Workspace, filter: Option<&str>) -> Result<ExitCode, String> {
    let outcome = all(workspace, filter);
    for trouble in &outcome.troubles {
        println!("FAILED: {trouble}");
    }
    println!("{}", outcome.total.closing_line());
    Ok(ExitCode::from(u8::from(!outcome.troubles.is_empty())))
}

/// What a whole run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The sum over all parts.
    pub(crate) total: Counts,
    /// What is wrong, failed tests included; empty when all is well.
    pub(crate) troubles: Vec<String>,
}

/// Runs the workspace's tests and the models, and prints the table.
pub(crate) fn all(workspace: &Workspace, filter: Option<&str>) -> Outcome {
    let mut tally = Tally::default();
    let mut troubles = Vec::new();
    if let Err(trouble) = workspace_tests(workspace, filter, &mut tally) {
        troubles.push(trouble);
        if tally.total().failed == 0 {
            // Nothing was counted, because a build failed or a process was left behind: that is a failure as well.
            tally.start(OUTSIDE);
            tally.finish();
        }
    }
    tally.start(loom::PART);
    match loom::explore(workspace, false, filter) {
        Ok(counts) => tally.result(counts),
        Err(trouble) => troubles.push(trouble),
    }
    // Models without a result count as a failure here.
    tally.finish();
    println!("\n{}", drawn(&tally));
    for skip in tally.skips() {
        println!("{skip}");
    }
    let total = tally.total();
    if total.failed > 0 {
        troubles.push(format!("tests failed: {}", total.failed));
    }
    troubles.extend(empty_parts(&tally, filter));
    Outcome { total, troubles }
}

/// Runs `cargo test` over the workspace and counts.
fn workspace_tests(
    workspace: &Workspace,
    filter: Option<&str>,
    tally: &mut Tally,
) -> Result<(), String> {
    let given = build_all_given(workspace)?;
    let packages = packages_by_program(workspace)?;
    let with_tests = |name: &&str| packages.values().any(|package| package == name);
    for name in workspace
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .filter(with_tests)
    {
        tally.list(name);
    }
    let mut command = workspace.cargo(&["test", "--workspace", "--no-fail-fast"]);
    command.envs(given);
    // A filter before the dashes makes cargo run targets that are set not to be tested.
    command.args(["--", libtest::SHOW]).args(filter);
    let shown = child::rerun(&command);
    println!("test: {shown}");
    let mut reader = Reader::default();
    let status = child::lines_of(command, LIMIT, |line| {
        let event = reader.event(line);
        if !reader.in_successes() {
            println!("{line}");
        }
        if let Some(event) = event {
            tally.take(event, |program| match program {
                Some(program) => packages.get(program).map_or(program, String::as_str),
                None => DOCS,
            });
        }
    })?;
    tally.finish();
    match status.success() {
        true => Ok(()),
        false => Err(format!("{status}; rerun: {shown}")),
    }
}

/// Builds the libraries and the program that tests start; returns the variables that name them.
pub(crate) fn build_given(workspace: &Workspace) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let mut args = vec!["build", "--profile", "test"];
    for (_, target) in GIVEN {
        // Each of these targets is called like its package.
        args.extend(["-p", target]);
    }
    let artifacts = workspace.build(&args)?;
    let find = |(variable, target)| {
        artifacts
            .iter()
            .filter(|artifact| artifact.target == target)
            .find_map(|artifact| artifact.executable.as_ref().or_else(|| artifact.file("so")))
            .map(|file| (variable, file.clone()))
            .ok_or_else(|| format!("the build made neither program nor library `{target}`"))
    };
    GIVEN.into_iter().map(find).collect()
}

/// Builds these and an installation, for tests that have that alone.
pub(crate) fn build_all_given(
    workspace: &Workspace,
) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let mut given = build_given(workspace)?;
    // The blank belongs to the tests: a prefix may have one.
    let prefix = workspace.target.join("install/a prefix");
    install::install(workspace, &prefix, "test")?;
    given.push(("PROXY_PREFIX", prefix));
    Ok(given)
}

/// Builds the test programs; returns the package of each, by the file name of the program.
fn packages_by_program(workspace: &Workspace) -> Result<HashMap<String, String>, String> {
    let artifacts = workspace.build(&["test", "--workspace", "--no-run"])?;
    let named = |artifact: &Artifact| {
        let program = artifact.executable.as_ref()?.file_name()?;
        let package = workspace
            .packages
            .iter()
            .find(|package| artifact.manifest == workspace.root.join(&package.manifest))?;
        Some((text(program), package.name.clone()))
    };
    Ok(artifacts.iter().filter_map(named).collect())
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn drawn(tally: &Tally) -> String {
    let row = |name: &str, counts: &Counts| {
        vec![
            name.to_owned(),
            counts.passed.to_string(),
            counts.failed.to_string(),
            counts.skipped.to_string(),
            format!("{:.1} s", counts.seconds),
        ]
    };
    let mut rows: Vec<_> = tally
        .parts()
        .iter()
        .map(|(name, counts)| row(name, counts))
        .collect();
    rows.push(row("all", &tally.total()));
    table::draw(&["part", "passed", "failed", "skipped", "time"], &rows)
}

/// A part in which nothing ran is a finding: it would look like success. With a filter only the whole must not be empty.
fn empty_parts(tally: &Tally, filter: Option<&str>) -> Option<String> {
    if let Some(filter) = filter {
        let none = !tally.total().any();
        return none.then(|| format!("no test has a name that contains `{filter}`"));
    }
    let empty: Vec<&str> = tally
        .parts()
        .iter()
        .filter(|(_, counts)| !counts.any())
        .map(|(name, _)| name.as_str())
        .collect();
    (!empty.is_empty()).then(|| format!("no test ran in: {}", empty.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: u64) -> Tally {
        let mut tally = Tally::default();
        tally.list("proxy-os");
        tally.start("proxy-core");
        tally.result(Counts {
            passed,
            ..Counts::default()
        });
        tally
    }

    #[test]
    fn a_part_without_tests_is_named() {
        assert_eq!(
            empty_parts(&tally(1), None).as_deref(),
            Some("no test ran in: proxy-os")
        );
    }

    #[test]
    fn a_filter_may_leave_parts_empty_but_not_all() {
        assert_eq!(empty_parts(&tally(1), Some("h14")), None);
        assert_eq!(
            empty_parts(&tally(0), Some("h99")).as_deref(),
            Some("no test has a name that contains `h99`")
        );
    }

    #[test]
    fn the_table_ends_with_the_sum() {
        let text = drawn(&tally(4));
        assert!(
            text.ends_with("all              4       0        0  0.0 s\n"),
            "{text}"
        );
    }
}
