//! Row `coverage`: which lines and branches of the core its tests reach: unit tests, conformance, oracle, requirements, fuzz
//! corpora, exhaustion and worlds. Every line has to be reached, but those that `tests/coverage.txt` argues for.
//!
//! Doc tests and loom models are not counted: they are built differently. Nor are lines without a word, which belong to others, and
//! the constructors of shared values, which are constants but for loom's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::llvm::{self, Reached};
use super::{Found, Options};
use crate::child;
use crate::table;
use crate::workspace::Workspace;

/// Lines that no test reaches, each with its reason: `file: the line's text # why`, and `file: 2 x the line's text # why` where it
/// stands there more than once.
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

/// How many lines of a file have a text.
type Lines = BTreeMap<(String, String), usize>;

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
        // Build scripts and macros are built the same way, and run meanwhile.
        .env(llvm::FILE, "/dev/null")
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
    let (mut missed, mut texts) = (Lines::new(), BTreeMap::new());
    for (name, reached) in files {
        let text = fs::read_to_string(workspace.root.join(name))
            .map_err(|error| format!("{name}: {error}"))?;
        let lines = counted(&text);
        let at = |number: &usize| *lines.get(number - 1).unwrap_or(&"");
        for line in reached
            .missed
            .iter()
            .map(at)
            .filter(|line| !line.is_empty())
        {
            *missed.entry((name.clone(), line.to_owned())).or_default() += 1;
        }
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
    let mut wrong = Vec::new();
    for (of @ (name, line), lines) in &missed {
        let excused = argued.get(of).copied().unwrap_or(0);
        if *lines > excused {
            wrong.push(format!(
                "{name}: nothing reaches {lines} of the lines `{line}`, argued for: {excused}"
            ));
        }
    }
    for (of @ (name, line), excused) in &argued {
        let there = texts.get(name).map_or(0, |text| {
            let same = |other: &&&str| *other == line;
            counted(text).iter().filter(same).count()
        });
        let lines = missed.get(of).copied().unwrap_or(0);
        if there < *excused {
            wrong.push(format!(
                "{ARGUED}: {name}: {excused} lines are argued for, there are {there}: {line}"
            ));
        } else if lines < *excused {
            // What only a second thread at the right moment leads to is reached in some runs.
            println!("reached in this run, though argued for: {name}: {line}");
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    Ok(Found::Ran(format!(
        "{} (lines argued for: {})",
        llvm::sums(files),
        argued.values().sum::<usize>()
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
fn argued(file: &Path) -> Result<Lines, String> {
    let failed = |what: &str| format!("{}: {what}", file.display());
    let text = fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
    let lines = text.lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| entry(line).ok_or_else(|| failed(&format!("not `file: line # why`: {line}"))))
        .collect()
}

/// One entry of that file.
fn entry(text: &str) -> Option<((String, String), usize)> {
    let (of, why) = text.split_once(" # ")?;
    let (name, line) = of.split_once(": ")?;
    let several = line.split_once(" x ").and_then(|(times, line)| {
        let times = times.parse().ok()?;
        Some((times, line))
    });
    let (times, line) = several.unwrap_or((1, line));
    (!why.trim().is_empty()).then(|| ((name.to_owned(), line.trim().to_owned()), times))
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

    #[test]
    fn an_entry_excuses_as_many_lines_as_it_says_and_has_a_reason() {
        let of = |line: &str| ("core/a.rs".to_owned(), line.to_owned());
        assert_eq!(entry("core/a.rs: return; # why"), Some((of("return;"), 1)));
        assert_eq!(
            entry("core/a.rs: 3 x return; # why"),
            Some((of("return;"), 3))
        );
        assert_eq!(
            entry("core/a.rs: a(b x c) # why"),
            Some((of("a(b x c)"), 1))
        );
        assert_eq!(entry("core/a.rs: return; # "), None);
        assert_eq!(entry("core/a.rs: return;"), None);
    }
}
