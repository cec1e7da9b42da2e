//! `cargo xtask guard`: instruction counts of the hot operations, compared with committed limits.
//!
//! Counted by valgrind's callgrind inside one function of `tests/benches/src/bin/guard.rs`, so a count does not depend on the
//! machine's load. `tests/benches/limits.txt` has a line `row limit` per row; a row above its limit fails, and so does one
//! that needs far less, because its limit then guards nothing. A line `row 2% recorded` bounds what a worker records of itself, in percent of
//! the rest of the row; see [`recorded`].

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::apt;
use crate::child;
use crate::table;
use crate::workspace::Workspace;

mod recorded;

/// The committed limits.
const LIMITS: &str = "tests/benches/limits.txt";

/// What is counted, and what is left out of that: a worker's readings of the clock, which come by time and not by operation.
const COUNTED: [&str; 2] = [
    "--toggle-collect=*measured*",
    "--toggle-collect=*Counter::anchor*",
];

/// A limit may be this much above the count, in percent.
const SLACK: u64 = 25;

/// How the guard ended, if nothing prevented it.
pub(crate) enum Guarded {
    /// Every row is within its limit, or these are not.
    Counted(Vec<String>),
    /// This program is not there.
    Skipped(String),
}

/// The verb.
pub(crate) fn verb(workspace: &Workspace) -> Result<ExitCode, String> {
    match run(workspace)? {
        Guarded::Skipped(program) => println!("SKIPPED: {program} not available"),
        Guarded::Counted(failures) if failures.is_empty() => {}
        Guarded::Counted(failures) => {
            println!("{}", failures.join("\n"));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts every row that has a limit, and prints the table.
pub(crate) fn run(workspace: &Workspace) -> Result<Guarded, String> {
    if let Err(what) = apt::provide("valgrind", "valgrind") {
        return Ok(Guarded::Skipped(what));
    }
    let text = fs::read_to_string(workspace.root.join(LIMITS))
        .map_err(|error| format!("{LIMITS}: {error}"))?;
    let program = build(workspace)?;
    let overhead = count(&program, "call")?;
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for (name, limit) in limits(&text)? {
        let counted = count(&program, name)?.without(overhead);
        let (found, verdict) = match limit {
            Limit::Instructions(limit) => (
                counted.each().to_string(),
                judge(counted.each(), limit).map(str::to_owned),
            ),
            Limit::Recorded(percent) => {
                let Some(share) = recorded::share(&program, name)? else {
                    return Ok(Guarded::Skipped("addr2line".to_owned()));
                };
                let above = share > f64::from(percent);
                (
                    format!("{}, {share:.2}%", counted.each()),
                    above.then(|| "more is recorded than".to_owned()),
                )
            }
        };
        let said = verdict.clone().unwrap_or_else(|| "ok".to_owned());
        rows.push(vec![
            name.to_owned(),
            found.clone(),
            limit.to_string(),
            said,
        ]);
        if let Some(verdict) = verdict {
            failures.push(format!("{name}: {found} instructions, {verdict} {limit}"));
        }
    }
    let head = ["operation", "instructions", "limit", "verdict"];
    println!("{}", table::draw(&head, &rows));
    Ok(Guarded::Counted(failures))
}

/// What is wrong with a count, if anything.
fn judge(counted: u64, limit: u64) -> Option<&'static str> {
    if counted > limit {
        Some("above the limit of")
    } else if counted + counted * SLACK / 100 + 2 < limit {
        Some("so low that nothing is guarded by the limit of")
    } else {
        None
    }
}

/// What a row is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// So many instructions.
    Instructions(u64),
    /// What is recorded may be so many percent of the rest.
    Recorded(u32),
}

impl Limit {
    fn read(text: &str) -> Option<Self> {
        match text.strip_suffix("% recorded") {
            Some(percent) => percent.parse().ok().map(Self::Recorded),
            None => text.parse().ok().map(Self::Instructions),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instructions(limit) => write!(f, "{limit}"),
            Self::Recorded(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What a run counted: of all its operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    total: u64,
    operations: u64,
}

impl Count {
    /// Without what measuring an operation costs.
    const fn without(self, overhead: Self) -> Self {
        let all = overhead.each().saturating_mul(self.operations);
        Self {
            total: self.total.saturating_sub(all),
            ..self
        }
    }

    /// Of one operation, rounded up.
    const fn each(self) -> u64 {
        self.total.div_ceil(self.operations)
    }
}

/// The lines of the limits file; `#` begins a comment.
fn limits(text: &str) -> Result<Vec<(&str, Limit)>, String> {
    let lines = text.lines().zip(1..);
    let used = lines.filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    used.map(|(line, number)| {
        let parsed = line
            .split_once(' ')
            .and_then(|(name, limit)| Some((name, Limit::read(limit.trim())?)));
        parsed.ok_or_else(|| {
            format!("{LIMITS}:{number}: {line:?}, accepted: a row and a number, or `2% recorded`")
        })
    })
    .collect()
}

fn build(workspace: &Workspace) -> Result<PathBuf, String> {
    let args = [
        "build",
        "--release",
        "-p",
        "proxy-benches",
        "--bin",
        "guard",
    ];
    let artifacts = workspace.build_quietly(&args, "the guarded operations (release)")?;
    let program = artifacts
        .into_iter()
        .filter(|artifact| artifact.target == "guard")
        .find_map(|artifact| artifact.executable);
    program.ok_or_else(|| "the build made no program `guard`".to_owned())
}

/// Instructions of a row.
fn count(program: &Path, row: &str) -> Result<Count, String> {
    callgrind(program, row, &["--callgrind-out-file=/dev/null"])
}

/// Runs a row under callgrind.
fn callgrind(program: &Path, row: &str, options: &[&str]) -> Result<Count, String> {
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").args(COUNTED);
    command.args(options).arg(program).arg(row);
    let output = command
        .output()
        .map_err(|error| format!("cannot start valgrind: {error}"))?;
    let (said, told) = (
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout),
    );
    let numbers = total(&said).zip(operations(&told));
    match numbers {
        Some((total, operations)) if output.status.success() && operations > 0 => {
            Ok(Count { total, operations })
        }
        _ => Err(format!(
            "{}; rerun: {}\n{said}",
            output.status,
            child::rerun(&command)
        )),
    }
}

/// The number in callgrind's line `==1== Collected : 123`.
fn total(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// The number in the program's own line.
fn operations(told: &str) -> Option<u64> {
    told.trim().strip_prefix("operations ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_judged_from_both_sides() {
        assert_eq!(judge(100, 100), None);
        assert_eq!(judge(100, 125), None);
        assert_eq!(judge(101, 100), Some("above the limit of"));
        assert!(judge(100, 200).is_some());
    }

    #[test]
    fn limits_are_lines_of_a_name_and_a_number() {
        assert_eq!(
            limits("# why\n\nenqueue 120\ncheck 9\npass 2% recorded\n"),
            Ok(vec![
                ("enqueue", Limit::Instructions(120)),
                ("check", Limit::Instructions(9)),
                ("pass", Limit::Recorded(2)),
            ])
        );
        assert!(limits("pass % recorded\n").is_err());
        let error = limits("enqueue\n").expect_err("no number");
        assert!(error.starts_with("tests/benches/limits.txt:1:"), "{error}");
    }

    #[test]
    fn an_operation_is_counted_without_what_measuring_it_costs() {
        let of = |total, operations| Count { total, operations };
        let counted = of(10_401, 100).without(of(200, 100));
        assert_eq!((counted, counted.each()), (of(10_201, 100), 103));
    }

    #[test]
    fn the_numbers_are_found_in_what_is_printed() {
        assert_eq!(
            total("==7== Events    : Ir\n==7== Collected : 4242\n"),
            Some(4242)
        );
        assert_eq!(operations("operations 60\n"), Some(60));
        assert_eq!(total("==7== nothing"), None);
    }
}
