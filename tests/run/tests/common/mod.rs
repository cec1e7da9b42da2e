//! Starts the main job as a user does, and looks at what it leaves behind.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_kit::command::with_usual_signals;
use proxy_kit::processes;

/// Names the processes of one run in their environment.
const MARK: &str = "PROXY_RUN_TEST_MARK";
/// More than any of these runs needs on a slow machine.
const LIMIT: Duration = Duration::from_secs(180);

/// The stand-in library: the one that the caller names, else one that is built here.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        std::env::var_os("PROXY_NCCOM_LIB").map_or_else(build_library, PathBuf::from)
    })
}

/// Builds the library into the folder of the program under test.
fn build_library() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_proxy-run"))
        .parent()
        .expect("a folder");
    let target = folder.parent().expect("a target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--package", "nccom", "--target-dir"])
        .arg(target);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo runs").success());
    folder.join("libnccom.so")
}

/// A command line of the main job, with an environment that is the same everywhere.
pub(crate) fn command(args: &str) -> Command {
    command_through(&[], args)
}

/// The same, started by another program: `prefix` and its arguments come first.
pub(crate) fn command_through(prefix: &[&str], args: &str) -> Command {
    let program = env!("CARGO_BIN_EXE_proxy-run");
    let mut words = prefix.iter().copied().chain([program]);
    let mut command = Command::new(words.next().unwrap_or(program));
    command.args(words).args(args.split_whitespace());
    if !args.contains("--library") {
        command.arg("--library").arg(library());
    }
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"NEURON_") {
            command.env_remove(name);
        }
    }
    command
}

/// What a run printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// The exit code, or minus the signal.
    pub(crate) fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| -self.status.signal().unwrap_or(0))
    }

    /// Asserts an exit code and parts of standard error.
    pub(crate) fn assert(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code(), code, "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in {self:?}");
        }
    }

    /// Asserts that standard error is one line, which begins with `text`.
    pub(crate) fn assert_one_message(&self, text: &str) {
        let alone = self.stderr.lines().count() == 1 && self.stderr.starts_with(text);
        assert!(alone, "not {text:?} alone: {self:?}");
    }

    /// The table: size to cells.
    pub(crate) fn rows(&self) -> BTreeMap<u64, Vec<String>> {
        let cells = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let rows = self.stdout.lines().map(cells);
        rows.filter_map(|cells| Some((cells.first()?.parse().ok()?, cells)))
            .collect()
    }

    /// Asserts that exactly these sizes were run and checked.
    pub(crate) fn assert_checked(&self, what: &str, sizes: &[u64]) {
        assert_eq!(self.code(), 0, "{what}: {self:?}");
        assert_eq!(
            self.rows().into_keys().collect::<Vec<_>>(),
            sizes,
            "{what}: {self:?}"
        );
        for (size, cells) in self.rows() {
            assert_eq!(
                cells.last().map(String::as_str),
                Some("ok"),
                "{what}, {size} bytes: {self:?}"
            );
        }
    }
}

/// A started run. Dropping it kills the launcher.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
    stderr: std::thread::JoinHandle<String>,
    seen: Vec<String>,
    mark: String,
    /// The folder for temporary files that the run was given.
    folder: PathBuf,
}

/// Starts a run with both streams as pipes.
pub(crate) fn start(args: &str) -> Running {
    start_command(command(args))
}

/// Starts a prepared run with both streams as pipes.
pub(crate) fn start_command(mut command: Command) -> Running {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only uniqueness matters, which a read-modify-write gives.
    let mark = format!(
        "{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{mark}"));
    fs::create_dir_all(&folder).expect("a folder");
    command.env(MARK, &mark).env("TMPDIR", &folder);
    let mut child = with_usual_signals(&mut command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let stdout = child.stdout.take().map(|pipe| BufReader::new(pipe).lines());
    let mut pipe = child.stderr.take().expect("a pipe");
    let stderr = std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text)
            .map(|_| text)
            .expect("standard error is text")
    });
    Running {
        child,
        stdout,
        stderr,
        seen: Vec::new(),
        mark,
        folder,
    }
}

impl Running {
    /// Waits for the next line of the table, however it begins.
    pub(crate) fn line(&mut self) -> String {
        let lines = self.stdout.as_mut().expect("open");
        let line = lines
            .next()
            .expect("a line")
            .expect("standard output is text");
        self.seen.push(line.clone());
        line
    }

    /// Waits until the first row is there: all ranks have joined and run.
    pub(crate) fn first_row(&mut self) {
        while !self
            .line()
            .trim_start()
            .starts_with(|c: char| c.is_ascii_digit())
        {}
    }

    /// Reads no more.
    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Whether the launcher has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("the launcher is ours")
            .is_some()
    }

    /// The launcher's process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Processes of this run, the launcher included, by rank (`None` = the launcher).
    pub(crate) fn processes(&self) -> Vec<(Option<u32>, i32)> {
        let pids = processes::with(&format!("{MARK}={}", self.mark)).into_iter();
        pids.map(|pid| (rank_of(pid), pid)).collect()
    }

    /// The process of a rank.
    pub(crate) fn rank(&self, rank: u32) -> i32 {
        let found = self
            .processes()
            .into_iter()
            .find(|(found, _)| *found == Some(rank));
        found.expect("the rank runs").1
    }

    /// The process of a rank, as soon as there is one.
    pub(crate) fn wait_for_rank(&self, rank: u32) -> i32 {
        let since = Instant::now();
        loop {
            let all = self.processes();
            if let Some((_, pid)) = all.into_iter().find(|(found, _)| *found == Some(rank)) {
                return pid;
            }
            assert!(since.elapsed() < LIMIT, "no rank {rank}");
            std::thread::yield_now();
        }
    }

    /// Waits for the end; asserts that nothing is left of the run.
    pub(crate) fn finish(mut self) -> Outcome {
        let stdout: Vec<String> = self
            .stdout
            .take()
            .into_iter()
            .flatten()
            .map(|line| line.expect("text"))
            .collect();
        let status = self.child.wait().expect("the launcher is ours");
        self.assert_gone();
        let left: Vec<_> = fs::read_dir(&self.folder)
            .expect("the folder")
            .flatten()
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        fs::remove_dir(&self.folder).expect("an empty folder");
        self.seen.extend(stdout);
        let stdout = self.seen.join("\n");
        Outcome {
            status,
            stdout,
            stderr: self.stderr.join().expect("no panic"),
        }
    }

    /// Asserts that no process of the run is left; ranks of a killed launcher get the time to be reaped by init.
    fn assert_gone(&self) {
        until("no process of the run is left", || {
            self.processes().is_empty()
        });
    }
}

/// Returns when `met`, which other processes bring about.
pub(crate) fn until(what: &str, mut met: impl FnMut() -> bool) {
    let since = Instant::now();
    while !met() {
        assert!(since.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::yield_now();
    }
}

fn rank_of(pid: i32) -> Option<u32> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|&byte| byte == 0).skip(1);
    matches!(words.next()?, b"rank" | b"latency-rank")
        .then(|| std::str::from_utf8(words.next()?).ok()?.parse().ok())?
}

/// A port of 127.0.0.1 that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    probe.local_addr().expect("an address").port()
}

/// Runs to the end.
pub(crate) fn run(args: &str) -> Outcome {
    start(args).finish()
}

/// Sends a signal.
#[allow(unsafe_code, reason = "kill is a C call")]
pub(crate) fn signal(pid: i32, signal: i32) {
    // SAFETY: no memory is passed.
    let answer = unsafe { libc::kill(pid, signal) };
    assert_eq!(answer, 0, "signal {signal} to {pid}");
}

/// A folder of this test file for files that a test makes itself.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    // Left by an earlier run with the same process id.
    let _ = fs::remove_file(&path);
    path
}

/// A shared library from C text.
pub(crate) fn compile(name: &str, text: &str) -> PathBuf {
    compile_over(name, text, &[])
}

/// A shared library from C text that has all that it does not define itself from `others`.
pub(crate) fn compile_over(name: &str, text: &str, others: &[&Path]) -> PathBuf {
    let (source, library) = (
        scratch(&format!("{name}.c")),
        scratch(&format!("lib{name}.so")),
    );
    fs::write(&source, text).expect("a source");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-x", "c", "-o"])
        .args([&library, &source])
        .args(["-x", "none", "-Wl,--no-as-needed"])
        .args(others);
    assert!(compiler.status().expect("a C compiler").success());
    library
}
