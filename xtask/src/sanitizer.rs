//! What the sanitizers' verbs share: building tests with a sanitizer, running them, and counting what it reports.
//!
//! Reports go to files of their own, one for each process: a test may keep what its child processes print, and a child that
//! reports may be one that its test kills.

pub(crate) mod compiler;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::child;
use crate::libtest::{self, Counts, Reader, Tally};
use crate::table;
use crate::test;
use crate::workspace::{Workspace, emptied};

/// The only target. Naming it keeps build scripts free of instrumentation.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// More than building and running one package needs on a slow machine.
const LIMIT: Duration = Duration::from_secs(1800);

/// What every run is told: as many rounds of H10 as the requirement asks for, and that a build with a sanitizer in it is slow.
const TOLD: [(&str, &str); 2] = [("PROXY_H10_ROUNDS", "1000000"), ("PROXY_SLOWDOWN", "10")];

/// A sanitizer and what is run under it.
#[derive(Debug)]
pub(crate) struct Sanitizer {
    /// The verb, also the ending of the runtime's name.
    pub(crate) name: &'static str,
    /// The compiler's name for it.
    pub(crate) flag: &'static str,
    /// Whether the standard library has to be instrumented as well.
    pub(crate) builds_std: bool,
    /// The variable with the runtime's options, and the options.
    pub(crate) options: (&'static str, &'static str),
    /// How reports begin.
    pub(crate) reports: &'static [&'static str],
    /// What is run.
    pub(crate) runs: &'static [Run],
}

/// The tests of one package.
#[derive(Debug)]
pub(crate) struct Run {
    /// The package.
    pub(crate) package: &'static str,
    /// The choice of its targets. None includes doc tests: rustdoc would build them without instrumentation.
    pub(crate) targets: &'static [&'static str],
    /// The choice of what is built before them, for tests that start it.
    pub(crate) beside: &'static [&'static str],
    /// Tests that are left out, each with the reason.
    pub(crate) without: &'static [(&'static str, &'static str)],
}

impl Sanitizer {
    /// The packages whose tests it is for.
    pub(crate) fn packages(&self) -> Vec<&'static str> {
        self.runs.iter().map(|run| run.package).collect()
    }
}

/// What the tests of one package came to.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    counts: Counts,
    reports: u64,
    skips: Vec<String>,
}

/// The verb: runs the tests of the named packages, or of all, and ends with the closing line. Where the sanitizer cannot be had it says so and does not fail.
pub(crate) fn verb(
    workspace: &Workspace,
    sanitizer: &Sanitizer,
    packages: &[String],
) -> Result<ExitCode, String> {
    let name = sanitizer.name;
    let found = match sanitizer.builds_std {
        true => compiler::with_source(workspace, sanitizer),
        false => compiler::own(workspace, sanitizer),
    };
    let rustc = match found {
        Ok(rustc) => rustc,
        Err(why) => {
            println!("SKIPPED: {name} not available ({why})");
            return Ok(ExitCode::SUCCESS);
        }
    };
    // Built with the ordinary compiler: what a test loads need not be instrumented, and under some sanitizers cannot be.
    let given = test::build_given(workspace)?;
    let mut outcomes = Vec::new();
    let mut troubles = Vec::new();
    let is_named =
        |tests: &&Run| packages.is_empty() || packages.iter().any(|name| name == tests.package);
    for tests in sanitizer.runs.iter().filter(is_named) {
        build_beside(workspace, sanitizer, &rustc, tests)?;
        let mut command = command(workspace, sanitizer, &rustc, tests);
        command.envs(given.iter().map(|(name, path)| (name, path)));
        let files = Files::fresh(&folder(workspace, sanitizer).join("reports"))?;
        let (variable, options) = sanitizer.options;
        command.env(variable, format!("log_path={}:{options}", files.prefix()));
        let (outcome, trouble) = run(sanitizer, tests.package, command, &files);
        outcomes.push((tests.package, outcome));
        troubles.extend(trouble);
    }
    say(sanitizer, &outcomes, &troubles);
    Ok(ExitCode::from(u8::from(!troubles.is_empty())))
}

/// The end of the output.
fn say(sanitizer: &Sanitizer, outcomes: &[(&str, Outcome)], troubles: &[String]) {
    println!("\n{}", drawn(outcomes));
    let ran = |run: &&Run| outcomes.iter().any(|(package, _)| *package == run.package);
    for (test, why) in sanitizer
        .runs
        .iter()
        .filter(ran)
        .flat_map(|run| run.without)
    {
        println!("left out: {test}: {why}");
    }
    for skip in outcomes.iter().flat_map(|(_, outcome)| &outcome.skips) {
        println!("{skip}");
    }
    for trouble in troubles {
        println!("FAILED: {trouble}");
    }
    println!("{}", closing_line(&total(outcomes)));
}

/// The files of reports of one run.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
}

impl Files {
    /// An empty folder.
    fn fresh(folder: &Path) -> Result<Self, String> {
        emptied(folder)?;
        let folder = folder.to_owned();
        Ok(Self { folder })
    }

    /// To which each process adds its number.
    fn prefix(&self) -> String {
        self.folder.join("report").display().to_string()
    }

    /// What was written, line by line.
    fn lines(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let texts = entries.map(|entry| fs::read(entry.path()).unwrap_or_default());
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        texts.map(text).flat_map(lines).collect()
    }
}

/// Builds what the tests of a package start.
fn build_beside(
    workspace: &Workspace,
    sanitizer: &Sanitizer,
    rustc: &Path,
    tests: &Run,
) -> Result<(), String> {
    if tests.beside.is_empty() {
        return Ok(());
    }
    // The profile of tests, which they find it beside.
    let verb = ["build", "--profile", "test"];
    child::run(&mut cargo(
        workspace,
        sanitizer,
        rustc,
        &verb,
        tests.package,
        tests.beside,
    ))
}

fn command(workspace: &Workspace, sanitizer: &Sanitizer, rustc: &Path, tests: &Run) -> Command {
    let verb = ["test", "--no-fail-fast"];
    let mut command = cargo(
        workspace,
        sanitizer,
        rustc,
        &verb,
        tests.package,
        tests.targets,
    );
    command.args(["--", libtest::SHOW]);
    for (test, _) in tests.without {
        command.args(["--skip", test]);
    }
    command
}

/// A run of cargo over targets of a package, with the sanitizer.
fn cargo(
    workspace: &Workspace,
    sanitizer: &Sanitizer,
    rustc: &Path,
    verb: &[&str],
    package: &str,
    targets: &[&str],
) -> Command {
    let mut command = workspace.cargo(verb);
    if sanitizer.builds_std {
        command.arg("-Zbuild-std");
    }
    command.args(["--target", TARGET, "-p", package]);
    command.args(targets).arg("--target-dir");
    // Other flags and another compiler mean other builds of everything; an own folder keeps both.
    command.arg(folder(workspace, sanitizer).join("build"));
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let flags = format!("{flags} -Zsanitizer={}", sanitizer.flag);
    command
        .env("RUSTC", rustc)
        // Flags that begin with -Z are refused by a stable compiler without this.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags.trim_start())
        .envs(TOLD);
    command
}

/// Runs the tests of one package; returns what they came to and, if anything is wrong, what.
fn run(
    sanitizer: &Sanitizer,
    package: &str,
    command: Command,
    files: &Files,
) -> (Outcome, Option<String>) {
    let shown = child::rerun(&command);
    println!("{}: {shown}", sanitizer.name);
    let mut reader = Reader::default();
    let mut tally = Tally::default();
    let status = child::lines_of(command, LIMIT, |line| {
        let event = reader.event(line);
        if !reader.in_successes() {
            println!("{line}");
        }
        if let Some(event) = event {
            tally.take(event, |_| package);
        }
    });
    tally.finish();
    let mut outcome = Outcome {
        counts: tally.total(),
        reports: 0,
        skips: tally.skips().to_vec(),
    };
    for line in files.lines() {
        println!("{line}");
        outcome.reports += u64::from(sanitizer.reports.iter().any(|begin| line.contains(begin)));
    }
    let ended = status.and_then(|status| match status.success() {
        true => Ok(()),
        false => Err(format!("{status}; rerun: {shown}")),
    });
    let trouble = trouble(package, &outcome, ended);
    if trouble.is_some() && outcome.counts.failed + outcome.reports == 0 {
        // Nothing was counted, because a build failed or no test was there: that is a failure as well.
        outcome.counts.failed = 1;
    }
    (outcome, trouble)
}

/// What is wrong with a package's run, if anything. A package in which no test ran would look like success.
fn trouble(package: &str, outcome: &Outcome, ended: Result<(), String>) -> Option<String> {
    if outcome.reports > 0 {
        let reports = outcome.reports;
        return Some(format!("{package}: reports of the sanitizer: {reports}"));
    }
    if let Err(what) = ended {
        return Some(format!("{package}: {what}"));
    }
    (!outcome.counts.any()).then(|| format!("{package}: no test ran"))
}

fn total(outcomes: &[(&str, Outcome)]) -> Outcome {
    let mut total = Outcome::default();
    for (_, outcome) in outcomes {
        total.counts += outcome.counts;
        total.reports += outcome.reports;
    }
    total
}

/// The last line; a report counts as a failure beside the test in which it came, which passes all the same.
fn closing_line(total: &Outcome) -> String {
    let Counts {
        passed,
        failed,
        skipped,
        ..
    } = total.counts;
    let failed = failed + total.reports;
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

fn drawn(outcomes: &[(&str, Outcome)]) -> String {
    let row = |name: &str, outcome: &Outcome| {
        vec![
            name.to_owned(),
            outcome.counts.passed.to_string(),
            outcome.counts.failed.to_string(),
            outcome.counts.skipped.to_string(),
            outcome.reports.to_string(),
            format!("{:.1} s", outcome.counts.seconds),
        ]
    };
    let mut rows: Vec<_> = outcomes
        .iter()
        .map(|(name, outcome)| row(name, outcome))
        .collect();
    rows.push(row("all", &total(outcomes)));
    let head = ["package", "passed", "failed", "skipped", "reports", "time"];
    table::draw(&head, &rows)
}

/// The folder of all that the verb makes.
fn folder(workspace: &Workspace, sanitizer: &Sanitizer) -> PathBuf {
    workspace.target.join(sanitizer.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SANITIZER: Sanitizer = Sanitizer {
        name: "asan",
        flag: "address",
        builds_std: false,
        options: ("ASAN_OPTIONS", ""),
        reports: &["ERROR: AddressSanitizer", "ERROR: LeakSanitizer"],
        runs: &[],
    };

    fn outcome(passed: u64, failed: u64, reports: u64) -> Outcome {
        Outcome {
            counts: Counts {
                passed,
                failed,
                ..Counts::default()
            },
            reports,
            skips: Vec::new(),
        }
    }

    /// Runs a shell for which `$reports` is the beginning of a file of reports.
    fn said(name: &str, text: &str) -> (Outcome, Option<String>) {
        let folder = env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let files = Files::fresh(&folder).expect("the folder for temporary files takes one more");
        let mut command = Command::new("sh");
        command.args(["-c", text]).env("reports", files.prefix());
        let result = run(&SANITIZER, "proxy-core", command, &files);
        fs::remove_dir_all(&folder).expect("the folder is there");
        result
    }

    #[test]
    fn reports_and_results_are_counted() {
        let (outcome, trouble) = said(
            "reports",
            "echo '     Running unittests src/lib.rs (target/deps/proxy_core-01ab)'
            echo '==1==ERROR: AddressSanitizer: heap-use-after-free' > $reports.1
            echo '==2==ERROR: LeakSanitizer: detected memory leaks' > $reports.2
            echo 'SUMMARY: AddressSanitizer: 8 byte(s) leaked' >> $reports.2
            echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s'
            exit 0",
        );
        assert_eq!((outcome.counts.passed, outcome.counts.failed), (3, 0));
        assert_eq!(outcome.reports, 2);
        assert_eq!(
            trouble.as_deref(),
            Some("proxy-core: reports of the sanitizer: 2")
        );
        assert_eq!(closing_line(&outcome), "3 passed, 2 failed, 0 skipped");
    }

    #[test]
    fn a_build_that_fails_is_one_failure() {
        let (outcome, trouble) = said("build", "echo 'error: could not compile'; exit 101");
        assert_eq!(outcome.counts.failed, 1);
        let trouble = trouble.expect("the status is not success");
        assert!(
            trouble.starts_with("proxy-core: exit status: 101; rerun: "),
            "{trouble}"
        );
    }

    #[test]
    fn a_run_without_a_test_is_no_success() {
        let nothing = trouble("proxy-os", &outcome(0, 0, 0), Ok(()));
        assert_eq!(nothing.as_deref(), Some("proxy-os: no test ran"));
        assert_eq!(trouble("proxy-os", &outcome(1, 0, 0), Ok(())), None);
    }

    #[test]
    fn the_table_ends_with_the_sum() {
        let outcomes = [
            ("proxy-core", outcome(3, 0, 1)),
            ("proxy-os", outcome(4, 1, 0)),
        ];
        let text = drawn(&outcomes);
        assert!(
            text.ends_with("all              7       1        0        1  0.0 s\n"),
            "{text}"
        );
    }
}
