//! Row `coverage`: which lines and branches of the core its tests reach: unit tests, conformance, oracle, requirements, fuzz
//! corpora, exhaustion and worlds. Every line has to be reached, but those that `tests/coverage.txt` argues for.
//!
//! Doc tests and loom models are not counted: they are built differently. Nor are lines without a word, which belong to others, and
//! the constructors of shared values, which are constants but for loom's.

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
const TESTS: [&str; 24] = [
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
    "--test",
    "fuzz_corpora",
    "--test",
    "core_texts",
    "-p",
    "proxy-sim",
    "--test",
    "exhaustion",
    "--test=worlds",
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
        if let (Some(program), Some(folder)) = (artifact.executable, folder)
            // A package's own program is built beside its tests, and lies elsewhere.
            && program.parent().is_some_and(|place| place.ends_with("deps"))
        {
            programs.push((folder, program));
        }
    }
    Ok(programs)
}

/// Prints the table and compares the missed lines with those that are argued for.
fn judge(workspace: &Workspace, files: &BTreeMap<String, Reached>) -> Result<Found, String> {
    let argued = argued(&workspace.root.join(ARGUED))?;
    let (mut missed, mut texts) = (BTreeSet::new(), BTreeMap::new());
    for (name, reached) in files {
        let text = fs::read_to_string(workspace.root.join(name))
            .map_err(|error| format!("{name}: {error}"))?;
        let lines = counted(&text);
        let at = |number: &usize| *lines.get(number - 1).unwrap_or(&"");
        let lines = reached.missed.iter().map(at);
        let counted = lines.filter(|line| !line.is_empty());
        missed.extend(counted.map(|line| (name.clone(), line.to_owned())));
        texts.insert(name.clone(), text);
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
    for (name, line) in argued.difference(&missed) {
        // What only a second thread at the right moment leads to is reached in some runs.
        let is_there = |text: &String| counted(text).contains(&line.as_str());
        match texts.get(name).is_some_and(is_there) {
            true => println!("reached in this run, though argued for: {name}: {line}"),
            false => wrong.push(format!("{ARGUED}: {name}: gone: {line}")),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    Ok(Found::Ran(format!(
        "{} (lines argued for: {})",
        llvm::sums(files),
        argued.len()
    )))
}

/// The lines of a file, trimmed; empty where a line need not be reached.
fn counted(text: &str) -> Vec<&str> {
    let mut constant = false;
    let mut lines = Vec::new();
    // A file's own tests are no part of what is measured.
    let end = text
        .find("\n#[cfg(test)]\nmod tests {")
        .unwrap_or(text.len());
    for line in text[..end].lines() {
        let trimmed = line.trim();
        constant |= trimmed == "shared_fn! {";
        let is_word = trimmed.contains(|c: char| c.is_alphanumeric() || c == '_');
        lines.push(if is_word && !constant { trimmed } else { "" });
        // Those blocks stand in an `impl`, one level in.
        constant &= line != "    }";
    }
    lines
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_word_and_constants_need_not_be_reached() {
        let text = "impl A {\n    shared_fn! {\n        fn new() -> Self {\n            Self { a }\n        }\n    }\n\n    fn b() {\n    }\n}\n";
        let counted = counted(text);
        let lines: Vec<_> = counted.iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines, [&"impl A {", &"fn b() {"]);
    }
}
