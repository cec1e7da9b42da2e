//! Rows that are tests of the workspace, each run alone: every state of the small worlds, the face of the C interface, and its
//! examples under valgrind.

use std::process::Command;
use std::time::Duration;

use super::{Found, Options, listen};
use crate::apt;
use crate::child;
use crate::header;
use crate::libtest::{self, Reader, Tally};
use crate::test;
use crate::workspace::Workspace;

/// Many times what any of them takes.
const LIMIT: Duration = Duration::from_secs(900);

/// Row `explore`: every reachable state of the small worlds, in release, as the large ones among them are left out without; the test
/// prints its counts.
pub(super) fn explore(workspace: &Workspace, _: Options) -> Result<Found, String> {
    let mut command = workspace.cargo(&["test", "--quiet", "--release", "-p", "proxy-sim"]);
    command.args(["--test", "exhaustion", "--", "--nocapture"]);
    listen(command, LIMIT)
}

/// Row `abi`: the header is what the sources say, its layouts are what C makes of them, and what the libraries export is listed.
pub(super) fn abi(workspace: &Workspace, _: Options) -> Result<Found, String> {
    // Its verdict is an exit code, which can only be compared as a pattern.
    let std::process::ExitCode::SUCCESS = header::verb(workspace, true)? else {
        return Err("the C header is not current; `cargo xtask header` writes it".to_owned());
    };
    let mut command = workspace.cargo(&["test", "--no-fail-fast"]);
    command.args(["-p", "proxy-ffi", "--test", "header"]);
    command.args(["-p", "proxy-install", "--test", "symbols"]);
    command.envs(test::build_all_given(workspace)?);
    tested(command, &[])
}

/// Row `valgrind`: the C examples under valgrind, leaks included.
pub(super) fn valgrind(workspace: &Workspace, _: Options) -> Result<Found, String> {
    if let Err(what) = apt::provide("valgrind", "valgrind") {
        return Ok(Found::Skipped(format!("{what} not available")));
    }
    let mut command = workspace.cargo(&["test", "-p", "proxy-ffi", "--test", "programs"]);
    command.envs(test::build_given(workspace)?);
    tested(command, &["clean_under_valgrind"])
}

/// Runs tests whose name contains a word of `filter`; what ran, and what was left out.
fn tested(mut command: Command, filter: &[&str]) -> Result<Found, String> {
    command.args(["--", libtest::SHOW]).args(filter);
    let shown = child::rerun(&command);
    let (mut reader, mut tally) = (Reader::default(), Tally::default());
    let status = child::lines_of(command, LIMIT, |line| {
        let event = reader.event(line);
        if !reader.in_successes() {
            println!("{line}");
        }
        if let Some(event) = event {
            tally.take(event, |_| "tests");
        }
    })?;
    tally.finish();
    if !status.success() {
        return Err(format!("{status}; rerun: {shown}"));
    }
    for what in tally.skips() {
        println!("{what}");
    }
    found(&tally).ok_or_else(|| format!("no test ran; rerun: {shown}"))
}

/// What tests came to that did not fail. If all of them left out all they had, the row is skipped.
fn found(tally: &Tally) -> Option<Found> {
    let counts = tally.total();
    match (counts.passed, tally.skips().first()) {
        (0, None) => None,
        (0, Some(what)) => Some(Found::Skipped(what.trim_start_matches("SKIPPED: ").into())),
        (passed, None) => Some(Found::Ran(format!("{passed} tests passed"))),
        (passed, Some(_)) => Some(Found::Ran(format!(
            "{passed} tests passed, {} skipped",
            counts.skipped
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtest::{Counts, Event};

    fn tally(passed: u64, skips: &[&'static str]) -> Tally {
        let mut tally = Tally::default();
        tally.start("tests");
        for (number, &what) in skips.iter().enumerate() {
            let test = number.to_string();
            let first = true;
            tally.take(Event::Skipped { test, what, first }, |_| "tests");
        }
        let counts = Counts {
            passed,
            ..Counts::default()
        };
        tally.result(counts);
        tally
    }

    #[test]
    fn tests_that_leave_out_all_they_have_are_no_success() {
        let lacking = "valgrind not available";
        assert_eq!(found(&tally(0, &[])), None);
        let skipped = Found::Skipped(format!("{lacking} (0)"));
        assert_eq!(found(&tally(1, &[lacking])), Some(skipped));
        let ran = |text: &str| Some(Found::Ran(text.to_owned()));
        assert_eq!(found(&tally(4, &[])), ran("4 tests passed"));
        assert_eq!(
            found(&tally(4, &[lacking])),
            ran("3 tests passed, 1 skipped")
        );
    }
}
