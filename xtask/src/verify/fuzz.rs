//! Row `fuzz`: every target of `tests/fuzz` for a fixed time, from its committed corpus; then what the corpora reach of the core.
//!
//! The targets are built as cargo-fuzz builds them (libFuzzer's counters, the checker for memory errors), by the pinned compiler
//! and without that tool, so that nothing has to be installed. What a run finds is left in the build folder; `--bless` puts the
//! fewest inputs that reach all that it reached into the committed corpus.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{Found, Options, llvm};
use crate::child;
use crate::test::build_given;
use crate::workspace::{Workspace, emptied};

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
const FULL: u64 = 40;

/// Targets that run at a time. Each is one thread at work, more or less.
const AT_A_TIME: usize = 2;

/// A run may take this much longer: it ends its last input first.
const GRACE: u64 = 120;

/// A target's program, with the folders that it reads and writes.
struct Target {
    name: String,
    program: PathBuf,
    /// What is committed.
    corpus: PathBuf,
    /// What a run finds beside it.
    found: PathBuf,
}

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
    let targets = build(workspace)?;
    let given = build_given(workspace)?;
    let seconds = if options.short { SHORT } else { FULL };
    let runs = all_for(&targets, &given, seconds)?;
    if options.bless {
        for target in &targets {
            keep_fewest(target, &given)?;
        }
    }
    let reached = reached(workspace, &targets, &given)?;
    let count = targets.len();
    Ok(Found::Ran(format!(
        "{count} targets, {runs} runs; of the core: {reached}"
    )))
}

/// Fuzzes all targets, some at a time; how many inputs they ran, or what each found.
fn all_for(targets: &[Target], given: &[(&str, PathBuf)], seconds: u64) -> Result<u64, String> {
    let (mut sum, mut wrong) = (0, Vec::new());
    for some in targets.chunks(AT_A_TIME) {
        let outcomes: Vec<_> = thread::scope(|scope| {
            let start = |target| scope.spawn(move || fuzz(given, target, seconds));
            let started: Vec<_> = some.iter().map(start).collect();
            let ended = started.into_iter().map(|thread| thread.join());
            ended
                .map(|ended| ended.unwrap_or_else(|_| Err("this program panicked".to_owned())))
                .collect()
        });
        for (target, outcome) in some.iter().zip(outcomes) {
            match outcome {
                Ok(runs) => sum += runs,
                Err(what) => wrong.push(format!("{}: {what}", target.name)),
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(sum),
        false => Err(wrong.join("\n")),
    }
}

/// Builds every target.
fn build(workspace: &Workspace) -> Result<Vec<Target>, String> {
    let mut command = workspace.cargo(&["build", "--quiet", "--release", "--locked", "--bins"]);
    command.args(["--target", TARGET, "--target-dir"]);
    command.arg(workspace.target.join("fuzz"));
    command
        .current_dir(workspace.root.join(FOLDER))
        // The compiler's own counters beside libFuzzer's: those tell what was reached in lines.
        .env("RUSTFLAGS", format!("{FLAGS} {}", llvm::FLAGS))
        // Flags that begin with -Z are refused by a stable compiler without this.
        .env("RUSTC_BOOTSTRAP", "1");
    let mut targets = Vec::new();
    for artifact in Workspace::built_by(&mut command)? {
        if let Some(program) = artifact.executable {
            let name = artifact.target;
            targets.push(Target {
                corpus: workspace.root.join(FOLDER).join("corpus").join(&name),
                found: workspace.target.join("fuzz/found").join(&name),
                name,
                program,
            });
        }
    }
    match targets.is_empty() {
        true => Err(format!("{FOLDER} has no target")),
        false => Ok(targets),
    }
}

impl Target {
    /// Its program, which finds what it loads by the variables `given` and leaves the compiler's counters in `counters`.
    fn command(&self, given: &[(&str, PathBuf)], counters: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .envs(given.iter().cloned())
            .env(llvm::FILE, counters)
            // An input that runs for longer is a finding, too: every body bounds its steps.
            .args(["-timeout=30", "-print_final_stats=1", "-max_len=4096"])
            .arg(format!("-artifact_prefix={}-crash-", self.found.display()));
        command
    }
}

/// Fuzzes one target; returns how many inputs it ran.
fn fuzz(given: &[(&str, PathBuf)], target: &Target, seconds: u64) -> Result<u64, String> {
    let name = &target.name;
    // Each run starts from what is committed, so that its length does not grow with its number.
    emptied(&target.found)?;
    let mut command = target.command(given, &target.found.with_extension("counters"));
    command
        .arg(format!("-max_total_time={seconds}"))
        .args([&target.found, &target.corpus]);
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

/// Adds the fewest of the found inputs to the committed corpus that reach all that they reach together.
fn keep_fewest(target: &Target, given: &[(&str, PathBuf)]) -> Result<(), String> {
    let mut command = target.command(given, &target.found.with_extension("counters"));
    command
        .arg("-set_cover_merge=1")
        .args([&target.corpus, &target.found]);
    let status = child::lines_of(command, Duration::from_secs(GRACE), |_| {})?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{}: cannot merge: {status}", target.name)),
    }
}

/// What of the core the committed corpora reach, and what with those inputs that this run has found.
fn reached(
    workspace: &Workspace,
    targets: &[Target],
    given: &[(&str, PathBuf)],
) -> Result<String, String> {
    let Some(tools) = llvm::tools(workspace) else {
        println!("SKIPPED: llvm-tools of the toolchain not available");
        return Ok("not measured, as there are no llvm-tools".to_owned());
    };
    let of = |folders: fn(&Target) -> Vec<&PathBuf>, name: &str| {
        let raw = workspace.target.join("fuzz/counted").join(name);
        emptied(&raw)?;
        for target in targets {
            let counters = raw.join(&target.name).with_extension("profraw");
            let mut command = target.command(given, &counters);
            // No run beyond the corpus.
            command.arg("-runs=0").args(folders(target));
            let shown = child::rerun(&command);
            let status = child::lines_of(command, Duration::from_secs(GRACE), |_| {})?;
            if !status.success() {
                return Err(format!("{status}; rerun: {shown}"));
            }
        }
        let programs = targets.iter().map(|target| target.program.as_path());
        let files = llvm::reached(workspace, &tools, &raw, programs)?;
        Ok(llvm::sums(&files))
    };
    let committed = of(|target| vec![&target.corpus], "committed")?;
    let all = of(|target| vec![&target.corpus, &target.found], "all")?;
    println!("fuzz: the core by the committed corpora: {committed}");
    println!("fuzz: the core by these and what was found: {all}");
    Ok(all)
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
