//! `cargo xtask tsan`: runs the tests that use threads under ThreadSanitizer and counts the data races it reports.
//!
//! The standard library has to be instrumented as well, or every use of it looks like a race. That takes a compiler and the
//! source of exactly its standard library. A toolchain seldom has the source, so a pair of packages of Debian is unpacked
//! beside the build (137 MB to fetch; nothing is installed). Where there is neither, the verb says so and does not fail.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::child;
use crate::libtest::{Counts, Reader, Tally};
use crate::table;
use crate::workspace::Workspace;

/// The target: the one for which the packages are fetched. Naming it keeps build scripts free of instrumentation.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The sanitizer's own code, as a stable toolchain ships it and as a compiler looks for it.
const RUNTIME: &str = "librustc-stable_rt.tsan.a";

/// How the detector begins a report. libtest may have begun the line.
const REPORT: &str = "WARNING: ThreadSanitizer";

/// More than building and running one package needs on a slow machine.
const LIMIT: Duration = Duration::from_secs(1800);

/// What is run: a package, the choice of its targets, and what is told to its test programs. No choice includes doc tests:
/// they would be built by rustdoc, without instrumentation.
const RUNS: [(&str, &[&str], &[&str]); 4] = [
    ("proxy-core", &["--tests"], &[]),
    ("proxy-os", &["--tests"], &[]),
    ("proxy-loom", &["--tests"], &[]),
    (
        "proxy-checks",
        &[
            "--test",
            "core_requirements",
            "--test",
            "h04_errors",
            "--test",
            "h38_lifecycle",
        ],
        // A hundred thousand threads take too long here; the other tests start and end threads the same way.
        &["--skip", "h38_a_hundred_thousand"],
    ),
];

/// What the tests of one package came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Outcome {
    counts: Counts,
    races: u64,
}

/// The verb.
pub(crate) fn verb(workspace: &Workspace) -> Result<ExitCode, String> {
    let rustc = match compiler(workspace) {
        Ok(rustc) => rustc,
        Err(why) => {
            println!("SKIPPED: tsan not available ({why})");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let scripted = scripted_library(workspace)?;
    let mut outcomes = Vec::new();
    let mut troubles = Vec::new();
    for (package, targets, words) in RUNS {
        let mut command = command(workspace, &rustc, package, targets, words);
        command.env("PROXY_SCRIPTED_LIB", &scripted);
        let (outcome, trouble) = run(package, command);
        outcomes.push((package, outcome));
        troubles.extend(trouble);
    }
    println!("\n{}", drawn(&outcomes));
    for trouble in &troubles {
        println!("FAILED: {trouble}");
    }
    println!("{}", closing_line(&total(&outcomes)));
    Ok(ExitCode::from(u8::from(!troubles.is_empty())))
}

/// Builds the library that tests load with the ordinary compiler: an instrumented one cannot be loaded, as the detector has
/// to be there from the start of a process.
fn scripted_library(workspace: &Workspace) -> Result<PathBuf, String> {
    let artifacts = workspace.build(&["build", "--profile", "test", "-p", "scripted"])?;
    artifacts
        .iter()
        .filter(|artifact| artifact.target == "scripted")
        .find_map(|artifact| artifact.file("so").cloned())
        .ok_or_else(|| "the build made no library `libscripted.so`".to_owned())
}

fn command(
    workspace: &Workspace,
    rustc: &Path,
    package: &str,
    targets: &[&str],
    words: &[&str],
) -> Command {
    let mut command = workspace.cargo(&["test", "--no-fail-fast", "-Zbuild-std"]);
    command.args(["--target", TARGET, "-p", package]);
    command.args(targets).arg("--target-dir");
    // Other flags and another compiler mean other builds of everything; an own folder keeps both.
    command.arg(folder(workspace).join("build"));
    command.arg("--").args(words);
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    command
        .env("RUSTC", rustc)
        // Both flags that begin with -Z are refused by a stable compiler without this.
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "RUSTFLAGS",
            format!("{flags} -Zsanitizer=thread").trim_start(),
        );
    command
}

/// Runs the tests of one package; returns what they came to and, if anything is wrong, what.
fn run(package: &str, command: Command) -> (Outcome, Option<String>) {
    let shown = child::rerun(&command);
    println!("tsan: {shown}");
    let mut reader = Reader::default();
    let mut tally = Tally::default();
    let mut races = 0;
    let status = child::lines_of(command, LIMIT, |line| {
        println!("{line}");
        races += u64::from(line.contains(REPORT));
        if let Some(event) = reader.event(line) {
            tally.take(event, |_| package);
        }
    });
    tally.finish();
    let mut outcome = Outcome {
        counts: tally.total(),
        races,
    };
    let ended = status.and_then(|status| match status.success() {
        true => Ok(()),
        false => Err(format!("{status}; rerun: {shown}")),
    });
    let trouble = trouble(package, &outcome, ended);
    if trouble.is_some() && outcome.counts.failed + races == 0 {
        // Nothing was counted, because a build failed or no test was there: that is a failure as well.
        outcome.counts.failed = 1;
    }
    (outcome, trouble)
}

/// What is wrong with a package's run, if anything. A package in which no test ran would look like success.
fn trouble(package: &str, outcome: &Outcome, ended: Result<(), String>) -> Option<String> {
    let Outcome { counts, races } = outcome;
    if *races > 0 {
        return Some(format!("{package}: reports of the race detector: {races}"));
    }
    if let Err(what) = ended {
        return Some(format!("{package}: {what}"));
    }
    (!counts.any()).then(|| format!("{package}: no test ran"))
}

fn total(outcomes: &[(&str, Outcome)]) -> Outcome {
    let mut total = Outcome::default();
    for (_, outcome) in outcomes {
        total.counts += outcome.counts;
        total.races += outcome.races;
    }
    total
}

/// The last line; a report counts as a failure beside the test in which it came, which passes all the same.
fn closing_line(total: &Outcome) -> String {
    let failed = total.counts.failed + total.races;
    format!("{} passed, {failed} failed", total.counts.passed)
}

fn drawn(outcomes: &[(&str, Outcome)]) -> String {
    let row = |name: &str, outcome: &Outcome| {
        vec![
            name.to_owned(),
            outcome.counts.passed.to_string(),
            outcome.counts.failed.to_string(),
            outcome.races.to_string(),
            format!("{:.1} s", outcome.counts.seconds),
        ]
    };
    let mut rows: Vec<_> = outcomes
        .iter()
        .map(|(name, outcome)| row(name, outcome))
        .collect();
    rows.push(row("all", &total(outcomes)));
    table::draw(&["package", "passed", "failed", "races", "time"], &rows)
}

/// The folder of all that this verb makes.
fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tsan")
}

/// Finds or fetches a compiler that comes with the source of its standard library and with the detector's runtime; an error
/// says why there is none.
fn compiler(workspace: &Workspace) -> Result<PathBuf, String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(format!("only on {TARGET}"));
    }
    let mut command = Command::new("rustc");
    command
        .args(["--print", "sysroot"])
        .current_dir(&workspace.root);
    let sysroot = PathBuf::from(child::stdout_of(&mut command)?.trim());
    let runtime = libraries(&sysroot).join(RUNTIME);
    if !runtime.is_file() {
        return Err(format!("the toolchain has no {RUNTIME}"));
    }
    if has_own_source(&sysroot) {
        return Ok(sysroot.join("bin/rustc"));
    }
    let place = folder(workspace).join("compiler");
    let wrapper = place.join("bin/rustc");
    // The wrapper is written last: where it is, all is there.
    if !wrapper.is_file() {
        fetch(&place)?;
        link(&runtime, &libraries(&place.join("usr")).join(RUNTIME))?;
        write_wrapper(&place, &wrapper)?;
    }
    let version = child::stdout_of(Command::new(&wrapper).arg("-V"))?;
    println!("tsan: {}", version.trim());
    Ok(wrapper)
}

/// Whether a toolchain has the source of its standard library, with the lock file that a build of it needs.
fn has_own_source(sysroot: &Path) -> bool {
    sysroot
        .join("lib/rustlib/src/rust/library/Cargo.lock")
        .is_file()
}

fn libraries(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(TARGET).join("lib")
}

/// Fetches the packages with apt and unpacks them into `place`.
fn fetch(place: &Path) -> Result<(), String> {
    let policy = child::stdout_of(Command::new("apt-cache").args(["policy", "rustc-web"]))?;
    let version = candidate(&policy).ok_or(
        "apt knows no package rustc-web; `apt-get update` may help where its lists are empty",
    )?;
    let base = libstd(version).ok_or_else(|| {
        format!("rustc-web has the version {version}, which does not begin with MAJOR.MINOR")
    })?;
    let mut wanted: Vec<String> = [
        "rustc-web",
        "libstd-rust-web-dev",
        base.as_str(),
        "rust-web-src",
    ]
    .iter()
    .map(|name| format!("{name}={version}"))
    .collect();
    let about = child::stdout_of(Command::new("apt-cache").args(["show", &wanted[2]]))?;
    wanted.push(llvm(&about).ok_or_else(|| format!("{base} depends on no libllvm"))?);
    // What an interrupted run left is of no use.
    let packages = place.join("packages");
    if place.exists() {
        fs::remove_dir_all(place).map_err(|error| cannot("remove", place, &error))?;
    }
    fs::create_dir_all(&packages).map_err(|error| cannot("make", &packages, &error))?;
    println!("tsan: fetching {}", wanted.join(" "));
    let mut download = Command::new("apt-get");
    // The user of apt's sandbox may not write into our folder; that option matters to root alone.
    download.args(["-o", "APT::Sandbox::User=root", "-q=2", "download"]);
    child::stdout_of(download.args(&wanted).current_dir(&packages))?;
    unpack(&packages, place)
}

/// Unpacks every package and removes it.
fn unpack(packages: &Path, place: &Path) -> Result<(), String> {
    let unreadable = |error| cannot("read", packages, &error);
    for entry in fs::read_dir(packages).map_err(unreadable)? {
        let package = entry.map_err(unreadable)?.path();
        child::run(Command::new("dpkg").arg("-x").arg(&package).arg(place))?;
    }
    fs::remove_dir_all(packages).map_err(|error| cannot("remove", packages, &error))
}

fn link(original: &Path, name: &Path) -> Result<(), String> {
    symlink(original, name).map_err(|error| cannot("link", name, &error))
}

/// Writes the program that starts the unpacked compiler with the unpacked libraries.
fn write_wrapper(place: &Path, wrapper: &Path) -> Result<(), String> {
    let failed = |error| cannot("write", wrapper, &error);
    fs::create_dir_all(place.join("bin")).map_err(failed)?;
    let draft = place.join("bin/rustc.new");
    fs::write(&draft, WRAPPER).map_err(failed)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    fs::rename(&draft, wrapper).map_err(failed)
}

/// It finds its libraries from its own place.
const WRAPPER: &str = r#"#!/bin/sh
here=$(dirname "$(dirname "$(readlink -f "$0")")")
LD_LIBRARY_PATH=$here/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/usr/bin/rustc" "$@"
"#;

/// The candidate version in what `apt-cache policy` prints.
fn candidate(policy: &str) -> Option<&str> {
    policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "))
        .filter(|version| *version != "(none)")
}

/// The name of the package of the compiler's own libraries: it carries MAJOR.MINOR of the version.
fn libstd(version: &str) -> Option<String> {
    let mut numbers = version.split(['.', '+', '-', '~']);
    let (major, minor) = (numbers.next()?, numbers.next()?);
    major.parse::<u32>().ok()?;
    minor.parse::<u32>().ok()?;
    Some(format!("libstd-rust-web-{major}.{minor}"))
}

/// The libllvmNN among the dependencies that `apt-cache show` prints.
fn llvm(about: &str) -> Option<String> {
    let depends = about
        .lines()
        .find_map(|line| line.strip_prefix("Depends: "))?;
    depends
        .split([',', '|', ' '])
        .find(|word| {
            word.strip_prefix("libllvm")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .map(str::to_owned)
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {verb} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(passed: u64, failed: u64, races: u64) -> Outcome {
        let counts = Counts {
            passed,
            failed,
            ..Counts::default()
        };
        Outcome { counts, races }
    }

    fn said(text: &str) -> (Outcome, Option<String>) {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        run("proxy-core", command)
    }

    #[test]
    fn reports_and_results_are_counted() {
        let (outcome, trouble) = said(
            "echo '     Running unittests src/lib.rs (target/deps/proxy_core-01ab)'
            echo 'test a ... WARNING: ThreadSanitizer: data race (pid=1)'
            echo 'WARNING: ThreadSanitizer: data race (pid=1)' >&2
            echo 'SUMMARY: ThreadSanitizer: data race'
            echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s'
            exit 66",
        );
        assert_eq!((outcome.counts.passed, outcome.counts.failed), (3, 0));
        assert_eq!(outcome.races, 2);
        assert_eq!(
            trouble.as_deref(),
            Some("proxy-core: reports of the race detector: 2")
        );
        assert_eq!(closing_line(&outcome), "3 passed, 2 failed");
    }

    #[test]
    fn a_build_that_fails_is_one_failure() {
        let (outcome, trouble) = said("echo 'error: could not compile'; exit 101");
        assert_eq!(outcome.counts.failed, 1);
        let trouble = trouble.expect("the status is not success");
        assert!(
            trouble.starts_with("proxy-core: exit status: 101; rerun: sh"),
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
            text.ends_with("all              7       1      1  0.0 s\n"),
            "{text}"
        );
    }

    #[test]
    fn the_version_and_the_packages_follow_from_what_apt_says() {
        let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n";
        assert_eq!(candidate(policy), Some("1.96.0+dfsg1-1~deb12u2"));
        assert_eq!(candidate("rustc-web:\n  Candidate: (none)\n"), None);
        assert_eq!(candidate(""), None);
        assert_eq!(
            libstd("1.96.0+dfsg1-1~deb12u2").as_deref(),
            Some("libstd-rust-web-1.96")
        );
        assert_eq!(libstd("unknown"), None);
        let about = "Package: x\nDepends: libc6 (>= 2.36), libllvm22 (>= 1:22.1), zlib1g\n";
        assert_eq!(llvm(about).as_deref(), Some("libllvm22"));
        assert_eq!(llvm("Depends: libc6, libllvm-dev\n"), None);
    }

    #[test]
    fn a_toolchain_is_taken_only_with_its_lock_file() {
        let sysroot = env::temp_dir().join(format!("xtask-tsan-{}", std::process::id()));
        let library = sysroot.join("lib/rustlib/src/rust/library");
        fs::create_dir_all(&library).expect("the folder for temporary files takes one more");
        let without = has_own_source(&sysroot);
        fs::write(library.join("Cargo.lock"), "").expect("the folder is there");
        let with = has_own_source(&sysroot);
        fs::remove_dir_all(&sysroot).expect("the folder is there");
        assert_eq!((without, with), (false, true));
    }
}
