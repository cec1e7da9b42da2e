//! Row `coverage`: which lines and branches of the core its tests reach: unit tests, conformance, oracle, requirements and
//! fuzz corpora. Every line has to be reached, but those that `tests/coverage.txt` argues for.
//!
//! Doc tests and loom models are not counted: they are built differently.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::llvm::{self, Reached};
use super::{Found, Options};
use crate::child;
use crate::table;
use crate::workspace::Workspace;

/// Lines that no test reaches, each with its reason: `file: the line's text # why`.
const ARGUED: &str = "tests/coverage.txt";

/// The tests that count.
const TESTS: [&str; 16] = [
    "-p",
    "proxy-core",
    "-p",
    "proxy-conformance",
    "-p",
    "proxy-checks",
    "--lib",
    "--test",
    "host",
    "--test",
    "core_oracle",
    "--test",
    "core_requirements",
    "--test",
    "h66_hostile",
    "--test=fuzz_corpora",
];

/// More than any of the test programs takes.
const LIMIT: Duration = Duration::from_secs(600);

pub(super) fn run(workspace: &Workspace, _: Options) -> Result<Found, String> {
    let Some(tools) = llvm::tools(workspace) else {
        return Ok(Found::Skipped(
            "llvm-tools of the toolchain not available".to_owned(),
        ));
    };
    let place = workspace.target.join("coverage");
    let raw = place.join("raw");
    // Counters of an earlier run would count lines that have changed since.
    let _ = fs::remove_dir_all(&raw);
    let programs = build(workspace, &place)?;
    for (folder, program) in &programs {
        let mut command = Command::new(program);
        command
            .arg("--quiet")
            .current_dir(folder)
            .stdout(Stdio::null())
            .env(llvm::FILE, raw.join("%p-%m.profraw"));
        child::run_within(&mut command, LIMIT)?;
    }
    let built = programs.iter().map(|(_, program)| program.as_path());
    let files = llvm::reached(workspace, &tools, &raw, built)?;
    judge(workspace, &files)
}

/// Builds the test programs with counters; returns each with the folder of its package.
fn build(workspace: &Workspace, place: &Path) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let mut command = workspace.cargo(&["test", "--no-run", "--quiet", "--target-dir"]);
    command.arg(place).args(TESTS);
    command
        .env("RUSTFLAGS", llvm::FLAGS)
        .env("RUSTC_BOOTSTRAP", "1");
    let artifacts = Workspace::built_by(&mut command)?;
    let mut programs = Vec::new();
    for artifact in artifacts {
        let folder = artifact.manifest.parent().map(Path::to_path_buf);
        if let (Some(program), Some(folder)) = (artifact.executable, folder) {
            programs.push((folder, program));
        }
    }
    Ok(programs)
}

/// Prints the table and compares the missed lines with those that are argued for.
fn judge(workspace: &Workspace, files: &BTreeMap<String, Reached>) -> Result<Found, String> {
    let argued = argued(&workspace.root.join(ARGUED))?;
    let mut missed = BTreeSet::new();
    for (name, reached) in files {
        let text = fs::read_to_string(workspace.root.join(name))
            .map_err(|error| format!("{name}: {error}"))?;
        for number in &reached.missed {
            let line = text.lines().nth(number - 1).unwrap_or("");
            missed.insert((name.clone(), line.trim().to_owned()));
        }
    }
    let rows: Vec<_> = files
        .iter()
        .map(|(name, reached)| row(name, reached))
        .collect();
    println!(
        "{}",
        table::draw(&["file", "lines", "missed", "branches", "missed"], &rows)
    );
    let mut wrong: Vec<String> = missed
        .difference(&argued)
        .map(|(name, line)| format!("{name}: nothing reaches: {line}"))
        .collect();
    let stale = argued.difference(&missed);
    wrong.extend(stale.map(|(name, line)| format!("{ARGUED}: {name}: reached or gone: {line}")));
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    Ok(Found::Ran(format!(
        "{} (lines argued for: {})",
        llvm::sums(files),
        argued.len()
    )))
}

fn row(name: &str, reached: &Reached) -> Vec<String> {
    vec![
        name.to_owned(),
        reached.lines.to_string(),
        reached.missed.len().to_string(),
        reached.branches.to_string(),
        reached.branches_missed.to_string(),
    ]
}

/// The lines that no test needs to reach.
fn argued(file: &Path) -> Result<BTreeSet<(String, String)>, String> {
    let failed = |what: &str| format!("{}: {what}", file.display());
    let text = fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
    let mut argued = BTreeSet::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let parts = line.split_once(" # ").and_then(|(line, why)| {
            let (name, line) = line.split_once(": ")?;
            (!why.trim().is_empty()).then(|| (name.to_owned(), line.trim().to_owned()))
        });
        argued.insert(parts.ok_or_else(|| failed(&format!("not `file: line # why`: {line}")))?);
    }
    Ok(argued)
}
