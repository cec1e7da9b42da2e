//! `cargo xtask ci`: everything a change has to pass, on a fresh clone, without a terminal.
//!
//! Every step runs, whatever became of the ones before it, so that one run shows all that is wrong; the first failure
//! is the one that is reported. The last line of the output is the closing line of the tests.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::child;
use crate::doc;
use crate::guard::{self, Guarded};
use crate::header;
use crate::libtest::Counts;
use crate::mutants;
use crate::run;
use crate::table;
use crate::targets;
use crate::test;
use crate::tidy;
use crate::verify;
use crate::workspace::Workspace;

/// Targets without std on which the core must build. The first has no compare-and-swap.
const BARE_TARGETS: [&str; 3] = [
    "thumbv6m-none-eabi",
    "thumbv7m-none-eabi",
    "x86_64-unknown-none",
];

/// How long the smoke run of the main job may take; it takes about a second.
const SMOKE_LIMIT: Duration = Duration::from_secs(120);

/// The smoke run: the README's command, smaller.
const SMOKE: &str = "allr -r 2 -b 4 -e 64kb -f 4 -d fp32 -c random";

/// The first column of the table that it prints.
const SMOKE_SIZES: [&str; 8] = ["4", "16", "64", "256", "1024", "4096", "16384", "65536"];

/// Steps that are one cargo command, before those that are more.
const CARGO_STEPS: [(&str, &[&str]); 4] = [
    ("format", &["fmt", "--all", "--", "--check"]),
    (
        "clippy",
        &[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    (
        "core, no features",
        &[
            "build",
            "--quiet",
            "-p",
            "proxy-core",
            "--no-default-features",
        ],
    ),
    (
        "core, defmt",
        &[
            "build",
            "--quiet",
            "-p",
            "proxy-core",
            "--features",
            "defmt",
        ],
    ),
];

/// Of the planted faults every fourth: they are built one after the other, and all of them take minutes.
const EVERY: usize = 4;

/// How a step ended.
enum End {
    Passed,
    Failed(String),
    Skipped(String),
}

/// The steps so far.
#[derive(Default)]
struct Log {
    rows: Vec<Vec<String>>,
    failures: Vec<String>,
}

impl Log {
    /// Runs one step between its header and its result.
    fn step(&mut self, name: &str, work: impl FnOnce() -> End) {
        println!("\n== {name}");
        flush();
        let start = Instant::now();
        let end = work();
        let time = format!("{:.1} s", start.elapsed().as_secs_f64());
        println!("{}", self.keep(name, end, time));
        flush();
    }

    /// Keeps what a step came to; returns what is to be said of it.
    fn keep(&mut self, name: &str, end: End, time: String) -> String {
        let (said, result) = match end {
            End::Passed => (String::new(), "passed"),
            End::Failed(what) => {
                self.failures.push(format!("{name}: {what}"));
                (format!("{what}\n"), "FAILED")
            }
            End::Skipped(what) => (format!("SKIPPED: {what}\n"), "skipped"),
        };
        let said = format!("{said}== {name}: {result} in {time}");
        self.rows
            .push(vec![name.to_owned(), result.to_owned(), time]);
        said
    }
}

impl From<Result<(), String>> for End {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

/// The verb.
pub(crate) fn verb(workspace: &Workspace) -> Result<ExitCode, String> {
    let mut log = Log::default();
    for (name, args) in CARGO_STEPS {
        log.step(name, || child::run(&mut workspace.cargo(args)).into());
    }
    log.step("tidy", || ended(tidy::verb(workspace)));
    log.step("header", || ended(header::verb(workspace, true)));
    targets::add(workspace, &BARE_TARGETS);
    for target in BARE_TARGETS {
        log.step(&format!("core, {target}"), || core_for(workspace, target));
    }
    log.step("doc", || ended(doc::verb(workspace)));
    log.step(&format!("cargo xtask run {SMOKE}"), || {
        smoke(workspace).into()
    });
    log.step("cargo xtask guard", || match guard::run(workspace) {
        Ok(Guarded::Skipped(program)) => End::Skipped(format!("{program} not available")),
        Ok(Guarded::Counted(failures)) if failures.is_empty() => End::Passed,
        Ok(Guarded::Counted(failures)) => End::Failed(failures.join("\n")),
        Err(what) => End::Failed(what),
    });
    log.step(&format!("cargo xtask mutants --every {EVERY}"), || {
        ended(mutants::verb(workspace, EVERY))
    });
    log.step("cargo xtask verify --short", || {
        let short = verify::Options {
            short: true,
            bless: false,
        };
        ended(verify::verb(workspace, &[], short))
    });
    let mut total = Counts::default();
    log.step("cargo xtask test", || {
        let outcome = test::all(workspace, None);
        total = outcome.total;
        match outcome.troubles.is_empty() {
            true => End::Passed,
            false => End::Failed(outcome.troubles.join("\n")),
        }
    });
    println!("\n{}", table::draw(&["step", "result", "time"], &log.rows));
    // All on stdout: the closing line has to stay the last one, wherever the two streams go.
    for failure in &log.failures {
        println!("FAILED: {failure}");
    }
    println!("{}", total.closing_line());
    Ok(ExitCode::from(u8::from(!log.failures.is_empty())))
}

/// The end of a step that is a verb of its own and says itself what it found.
fn ended(code: Result<ExitCode, String>) -> End {
    match code {
        Ok(ExitCode::SUCCESS) => End::Passed,
        Ok(_) => End::Failed("see above".to_owned()),
        Err(what) => End::Failed(what),
    }
}

/// Runs the main job on two ranks and small sizes. Success alone shows little: the table has to hold every size.
fn smoke(workspace: &Workspace) -> Result<(), String> {
    let args: Vec<OsString> = SMOKE.split(' ').map(OsString::from).collect();
    let command = run::command(workspace, &args)?;
    let shown = child::rerun(&command);
    let mut missing = SMOKE_SIZES.to_vec();
    let status = child::lines_of(command, SMOKE_LIMIT, |line| {
        println!("{line}");
        let size = line.split_whitespace().next();
        missing.retain(|wanted| Some(*wanted) != size);
    })?;
    if !status.success() {
        return Err(format!("{status}; rerun: {shown}"));
    }
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let sizes = missing.join(", ");
            Err(format!("no row for the sizes {sizes}; rerun: {shown}"))
        }
    }
}

/// Builds the core for a target, if the target's libraries are there.
fn core_for(workspace: &Workspace, target: &str) -> End {
    if !targets::is_installed(workspace, target) {
        return End::Skipped(format!("target {target} not available"));
    }
    let args = [
        "build",
        "--quiet",
        "-p",
        "proxy-core",
        "--no-default-features",
    ];
    let mut command = workspace.cargo(&args);
    // clippy looks at the host's build only, so here the compiler's own warnings are errors.
    command
        .args(["--target", target])
        .env("RUSTFLAGS", "-D warnings");
    child::run(&mut command).into()
}

/// Puts our lines in front of those that a child prints next. If stdout is gone there is no one to tell.
fn flush() {
    let _ = io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_kept_and_the_next_one_runs() {
        let mut log = Log::default();
        let mut keep = |name, end| log.keep(name, end, "0.1 s".to_owned());
        let said = [
            keep("first", End::Failed("broken".to_owned())),
            keep("second", End::Skipped("nothing there".to_owned())),
            keep("third", Ok(()).into()),
        ];
        assert_eq!(
            said,
            [
                "broken\n== first: FAILED in 0.1 s",
                "SKIPPED: nothing there\n== second: skipped in 0.1 s",
                "== third: passed in 0.1 s",
            ]
        );
        assert_eq!(log.failures, ["first: broken"]);
        let results: Vec<&str> = log.rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(results, ["FAILED", "skipped", "passed"]);
    }
}
