//! How a soak ends when it is not its own time: signals, and command lines that are not accepted.
#![allow(unsafe_code, reason = "kill is a C call")]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::library;
use proxy_kit::command::with_usual_signals;
use proxy_kit::processes;

/// More than any of this needs on a slow machine.
const LIMIT: Duration = Duration::from_secs(120);

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_proxy-soak"))
}

/// A soak in a folder of its own.
struct Soak {
    child: Child,
    folder: PathBuf,
}

impl Soak {
    fn start(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("soak-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut command = command();
        command
            .args(["--minutes", "10", "--seed", "1", "--library"])
            .arg(library())
            .env("TMPDIR", &folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = with_usual_signals(&mut command)
            .spawn()
            .expect("the program starts");
        Self { child, folder }
    }

    /// Its processes: those that have their files in its folder.
    fn hosts(&self) -> Vec<i32> {
        let job = self.folder.join(format!("proxy-soak-{}", self.child.id()));
        processes::with(&format!("TMPDIR={}", job.display()))
    }

    fn wait_for_hosts(&self, enough: impl Fn(usize) -> bool) {
        let since = Instant::now();
        while !enough(self.hosts().len()) {
            assert!(since.elapsed() < LIMIT, "{:?}", self.hosts());
            std::thread::yield_now();
        }
    }

    /// Sends a signal in the middle of a round, with a host that is stopped; returns what is said. All processes have to end.
    fn end_by(mut self, signal: i32) -> Output {
        self.wait_for_hosts(|count| count > 2);
        for host in self.hosts().into_iter().take(1) {
            send(host, libc::SIGSTOP);
        }
        send(self.child.id().cast_signed(), signal);
        self.child.wait().expect("our child");
        self.wait_for_hosts(|count| count == 0);
        let left: Vec<_> = fs::read_dir(&self.folder)
            .expect("the folder")
            .flatten()
            .collect();
        // Nobody can clean up after its own death.
        assert_eq!(left.len(), usize::from(signal == libc::SIGKILL), "{left:?}");
        fs::remove_dir_all(&self.folder).expect("the folder");
        self.child.wait_with_output().expect("our child")
    }
}

fn send(pid: i32, signal: i32) {
    // SAFETY: no memory is passed.
    let answer = unsafe { libc::kill(pid, signal) };
    assert_eq!(answer, 0, "signal {signal} to {pid}");
}

#[test]
fn a_signal_ends_a_soak_its_processes_and_its_folder() {
    for (signal, name) in [
        (libc::SIGINT, "int"),
        (libc::SIGTERM, "term"),
        (libc::SIGHUP, "hup"),
    ] {
        let output = Soak::start(name).end_by(signal);
        assert_eq!(output.status.code(), Some(128 + signal), "{output:?}");
        let said = format!("ended by signal {signal}; all processes are ended\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), said, "{output:?}");
    }
}

#[test]
fn a_killed_soak_leaves_no_process() {
    let output = Soak::start("kill").end_by(libc::SIGKILL);
    assert_eq!(output.status.signal(), Some(libc::SIGKILL));
}

/// Runs a command line to its end: exit code and standard error.
fn said(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

#[test]
fn what_is_not_accepted_is_named_with_what_is() {
    for (args, parts) in [
        (
            &["--minutes", "x"][..],
            &["'x'", "--minutes", "accepted: "][..],
        ),
        (&["--minutes", "-1"], &["'-1'", "--minutes", "accepted: "]),
        (&["--minutes", "nan"], &["'nan'", "--minutes", "accepted: "]),
        (&["--rounds", "0"], &["'0'", "--rounds", "accepted: 1 to"]),
        (&["--seed", "-1"], &["'-1'", "--seed", "accepted: 0 to"]),
        (&["--from", "x"], &["'x'", "--from", "accepted: 0 to"]),
        (&["extra"], &["'extra'"]),
        (&["--seed", "1"], &["--library <PATH>"]),
    ] {
        let (code, text) = said(command().args(args));
        assert_eq!(code, Some(2), "{args:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }
}

#[test]
fn a_library_that_is_none_and_a_full_disk_are_told() {
    let mut soak = command();
    soak.args(["--rounds", "1", "--library", "/dev/null"]);
    let output = soak.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains("\"/dev/null\": it is a device"), "{text}");
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    let mut soak = command();
    soak.args(["--rounds", "1", "--library"]).arg(library());
    soak.stdout(full.expect("a full device"))
        .stderr(Stdio::piped());
    let (code, text) = said(&mut soak);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("cannot write standard output: No space left"),
        "{text}"
    );
}
