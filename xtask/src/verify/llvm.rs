//! What the pinned compiler's own counters say that a run has reached of the core: flags for the build, the programs of its LLVM
//! that read the counters, and sums. Rows `coverage` and `fuzz` use it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child;
use crate::workspace::Workspace;

/// What is measured.
const MEASURED: &str = "proxy-core/src/";

/// Counts lines and branches. The second flag is refused by a stable compiler without `RUSTC_BOOTSTRAP`.
pub(super) const FLAGS: &str = "-Cinstrument-coverage -Zcoverage-options=branch";

/// The variable that says where a program leaves its counters.
pub(super) const FILE: &str = "LLVM_PROFILE_FILE";

/// How long rustup may take to fetch the reader of counters.
const RUSTUP_PATIENCE: Duration = Duration::from_secs(120);

/// The folder of the toolchain's LLVM programs, asked for where it is missing.
pub(super) fn tools(workspace: &Workspace) -> Option<PathBuf> {
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

/// Adds up what programs left in the folder `raw`, and reads it.
pub(super) fn reached<'p>(
    workspace: &Workspace,
    tools: &Path,
    raw: &Path,
    programs: impl Iterator<Item = &'p Path>,
) -> Result<BTreeMap<String, Reached>, String> {
    let merged = raw.with_extension("profdata");
    let mut command = Command::new(tools.join("llvm-profdata"));
    command
        .args(["merge", "-sparse", "-o"])
        .arg(&merged)
        .arg(raw);
    child::run(&mut command)?;
    let mut command = Command::new(tools.join("llvm-cov"));
    command
        .args(["export", "-format=lcov", "-instr-profile"])
        .arg(merged);
    for program in programs {
        command.arg("-object").arg(program);
    }
    Ok(read(&child::stdout_of(&mut command)?, &workspace.root))
}

/// Sums over all files, as text.
pub(super) fn sums(files: &BTreeMap<String, Reached>) -> String {
    let sum = |of: fn(&Reached) -> u64| files.values().map(of).sum::<u64>();
    let lines = sum(|file| file.lines);
    let missed = files.values().map(|file| file.missed.len()).sum::<usize>();
    let (branches, unbranched) = (sum(|file| file.branches), sum(|file| file.branches_missed));
    format!(
        "{lines} lines, {missed} missed, {} of {branches} branches",
        branches - unbranched
    )
}

/// What was reached in one file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reached {
    pub(super) lines: u64,
    /// Lines, counted from 1, that nothing reached.
    pub(super) missed: BTreeSet<usize>,
    pub(super) branches: u64,
    pub(super) branches_missed: u64,
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
