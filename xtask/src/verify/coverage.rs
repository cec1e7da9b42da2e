//! Row `coverage`: which lines and branches of the core its tests reach: unit tests, conformance, oracle, requirements and
//! fuzz corpora. Every line has to be reached, but those that `tests/coverage.txt` argues for.
//!
//! Doc tests and loom models are not counted: they are built differently.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Found, Options};
use crate::child;
use crate::table;
use crate::workspace::Workspace;

/// What is measured.
const MEASURED: &str = "proxy-core/src/";

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

/// How long rustup may take to fetch the reader of counters.
const RUSTUP_PATIENCE: Duration = Duration::from_secs(120);

/// More than any of the test programs takes.
const LIMIT: Duration = Duration::from_secs(600);

pub(super) fn run(workspace: &Workspace, _: Options) -> Result<Found, String> {
    let Some(tools) = tools(workspace) else {
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
            .env("LLVM_PROFILE_FILE", raw.join("%p-%m.profraw"));
        child::run_within(&mut command, LIMIT)?;
    }
    let merged = merge(&tools, &raw, &place)?;
    let files = read(&export(&tools, &merged, &programs)?, &workspace.root);
    judge(workspace, &files)
}

/// The folder of the toolchain's LLVM programs, asked for where it is missing.
fn tools(workspace: &Workspace) -> Option<PathBuf> {
    let mut command = Command::new("rustc");
    command
        .args(["--print", "target-libdir"])
        .current_dir(&workspace.root);
    let libraries = PathBuf::from(child::stdout_of(&mut command).ok()?.trim());
    let tools = libraries.parent()?.join("bin");
    if !tools.join("llvm-cov").is_file() {
        let mut command = Command::new("rustup");
        command
            .args(["component", "add", "llvm-tools"])
            .current_dir(&workspace.root)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _ = child::run_within(&mut command, RUSTUP_PATIENCE);
    }
    tools.join("llvm-cov").is_file().then_some(tools)
}

/// Builds the test programs with counters; returns each with the folder of its package.
fn build(workspace: &Workspace, place: &Path) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let mut command = workspace.cargo(&["test", "--no-run", "--quiet", "--target-dir"]);
    command.arg(place).args(TESTS);
    command
        .env(
            "RUSTFLAGS",
            "-Cinstrument-coverage -Zcoverage-options=branch",
        )
        // The flag that counts branches is refused by a stable compiler without this.
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

fn merge(tools: &Path, raw: &Path, place: &Path) -> Result<PathBuf, String> {
    let merged = place.join("merged.profdata");
    let mut command = Command::new(tools.join("llvm-profdata"));
    command
        .args(["merge", "-sparse", "-o"])
        .arg(&merged)
        .arg(raw);
    child::run(&mut command)?;
    Ok(merged)
}

/// What LLVM knows of the lines, in the format of lcov.
fn export(tools: &Path, merged: &Path, programs: &[(PathBuf, PathBuf)]) -> Result<String, String> {
    let mut command = Command::new(tools.join("llvm-cov"));
    command
        .args(["export", "-format=lcov", "-instr-profile"])
        .arg(merged);
    for (_, program) in programs {
        command.arg("-object").arg(program);
    }
    child::stdout_of(&mut command)
}

/// What was reached in one file.
#[derive(Debug, Default, PartialEq)]
struct Reached {
    lines: u64,
    /// Lines, counted from 1, that nothing reached.
    missed: BTreeSet<usize>,
    branches: u64,
    branches_missed: u64,
}

/// Reads lcov: the files of the core that are not tests.
fn read(text: &str, root: &Path) -> BTreeMap<String, Reached> {
    let mut files: BTreeMap<String, Reached> = BTreeMap::new();
    let mut name = None;
    for line in text.lines() {
        let (key, rest) = line.split_once(':').unwrap_or((line, ""));
        if key == "SF" {
            let path = Path::new(rest)
                .strip_prefix(root)
                .unwrap_or(Path::new(rest));
            let path = path.display().to_string();
            let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
            name = (path.starts_with(MEASURED) && !is_test).then_some(path);
        }
        let Some(name) = &name else { continue };
        let file = files.entry(name.clone()).or_default();
        let mut numbers = rest.split(',');
        match key {
            "DA" => {
                let number: Option<usize> = numbers.next().and_then(|word| word.parse().ok());
                file.lines += 1;
                if numbers.next() == Some("0") {
                    file.missed.extend(number);
                }
            }
            "BRDA" => {
                file.branches += 1;
                file.branches_missed += u64::from(matches!(numbers.nth(3), Some("0" | "-")));
            }
            _ => {}
        }
    }
    files
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
    Ok(Found::Ran(summary(files, argued.len())))
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

fn summary(files: &BTreeMap<String, Reached>, argued: usize) -> String {
    let sum = |of: fn(&Reached) -> u64| files.values().map(of).sum::<u64>();
    let lines = sum(|file| file.lines);
    let missed = files.values().map(|file| file.missed.len()).sum::<usize>();
    let (branches, unbranched) = (sum(|file| file.branches), sum(|file| file.branches_missed));
    format!(
        "{lines} lines, {missed} missed ({argued} argued), {} of {branches} branches",
        branches - unbranched
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_branches_are_read_and_test_files_left_out() {
        let text = "SF:/w/proxy-core/src/a.rs\nDA:1,3\nDA:2,0\nBRDA:1,0,0,4\nBRDA:1,0,1,0\nend_of_record\n\
                    SF:/w/proxy-core/src/a/tests.rs\nDA:1,0\nend_of_record\n\
                    SF:/w/proxy-os/src/b.rs\nDA:1,0\nend_of_record\n";
        let files = read(text, Path::new("/w"));
        let expected = Reached {
            lines: 2,
            missed: BTreeSet::from([2]),
            branches: 2,
            branches_missed: 1,
        };
        assert_eq!(files.len(), 1);
        assert_eq!(files["proxy-core/src/a.rs"], expected);
    }
}
