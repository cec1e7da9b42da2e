//! Row `fuzz`: every target of `tests/fuzz` for a fixed time, from its committed seeds.
//!
//! The targets are built as cargo-fuzz builds them (libFuzzer's counters, the checker for memory errors), by the pinned compiler
//! and without that tool, so that nothing has to be installed. What a run finds is left in the build folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Found, Options};
use crate::child;
use crate::test::build_given;
use crate::workspace::Workspace;

const FOLDER: &str = "tests/fuzz";

/// The target: naming it keeps build scripts free of instrumentation.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Counters for libFuzzer at every edge, its view of comparisons, and the checker for memory errors.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-stack-depth \
    -Clink-dead-code -Zsanitizer=address --cfg fuzzing -Ccodegen-units=1";

/// Seconds per target, in both forms.
const SHORT: u64 = 6;
const FULL: u64 = 60;

/// A run may take this much longer: it ends its last input first.
const GRACE: u64 = 120;

pub(super) fn run(workspace: &Workspace, options: Options) -> Result<Found, String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(Found::Skipped(format!(
            "fuzzing on anything but {TARGET} not available"
        )));
    }
    if child::stdout_of(Command::new("c++").arg("--version")).is_err() {
        return Ok(Found::Skipped(
            "c++, which builds libFuzzer, not available".to_owned(),
        ));
    }
    let programs = build(workspace)?;
    let given = build_given(workspace)?;
    let seconds = if options.short { SHORT } else { FULL };
    let mut shown = Vec::new();
    let mut wrong = Vec::new();
    for (name, program) in &programs {
        match fuzz(workspace, &given, (name, program), seconds) {
            Ok(runs) => shown.push(format!("{name} {runs}")),
            Err(what) => wrong.push(format!("{name}: {what}")),
        }
    }
    match wrong.is_empty() {
        true => Ok(Found::Ran(format!("runs: {}", shown.join(", ")))),
        false => Err(wrong.join("\n")),
    }
}

/// Builds every target; returns names and programs.
fn build(workspace: &Workspace) -> Result<Vec<(String, PathBuf)>, String> {
    let mut command = workspace.cargo(&["build", "--quiet", "--release", "--locked", "--bins"]);
    command.args(["--target", TARGET, "--target-dir"]);
    command.arg(workspace.target.join("fuzz"));
    command
        .current_dir(workspace.root.join(FOLDER))
        .env("RUSTFLAGS", FLAGS)
        // Flags that begin with -Z are refused by a stable compiler without this.
        .env("RUSTC_BOOTSTRAP", "1");
    let artifacts = Workspace::built_by(&mut command)?;
    let programs: Vec<_> = artifacts
        .into_iter()
        .filter_map(|artifact| Some((artifact.target, artifact.executable?)))
        .collect();
    match programs.is_empty() {
        true => Err(format!("{FOLDER} has no target")),
        false => Ok(programs),
    }
}

/// Fuzzes one target, which finds what it loads by the variables `given`; returns how many inputs it ran.
fn fuzz(
    workspace: &Workspace,
    given: &[(&str, PathBuf)],
    (name, program): (&str, &Path),
    seconds: u64,
) -> Result<u64, String> {
    let found = workspace.target.join("fuzz/found").join(name);
    fs::create_dir_all(&found)
        .map_err(|error| format!("cannot make {}: {error}", found.display()))?;
    let mut command = Command::new(program);
    command
        .envs(given.iter().cloned())
        .arg(format!("-max_total_time={seconds}"))
        // An input that runs for longer is a finding, too: every body bounds its steps.
        .args(["-timeout=30", "-print_final_stats=1", "-max_len=4096"])
        .arg(format!(
            "-artifact_prefix={}/crash-",
            found.parent().unwrap_or(&found).display()
        ))
        .args([
            &found,
            &workspace.root.join(FOLDER).join("corpus").join(name),
        ]);
    let shown = child::rerun(&command);
    let mut runs = 0;
    let mut tail = Vec::new();
    let limit = Duration::from_secs(seconds + GRACE);
    let status = child::lines_of(command, limit, |line| {
        if let Some(number) = executed(line) {
            runs = number;
        }
        if line.contains("panicked") || line.contains("ERROR") || line.starts_with("==") {
            tail.push(line.to_owned());
        }
    })?;
    println!("fuzz: {name}: {runs} runs in {seconds} s");
    if !status.success() {
        return Err(format!("{}\n{status}; rerun: {shown}", tail.join("\n")));
    }
    match runs {
        0 => Err(format!("nothing ran; rerun: {shown}")),
        runs => Ok(runs),
    }
}

/// `stat::number_of_executed_units: N`.
fn executed(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("stat::number_of_executed_units:")?;
    rest.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_runs_is_read_from_the_statistics() {
        assert_eq!(executed("stat::number_of_executed_units: 4711"), Some(4711));
        assert_eq!(executed("stat::average_exec_per_sec:     1"), None);
    }
}
