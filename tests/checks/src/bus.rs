//! Buses for tests: fresh job ids, ranks as threads, ranks as processes.

use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_os::bananaphone::{Bus, Options, Within};

use crate::child;

/// Far longer than anything here takes on a busy machine.
pub const AMPLE: Duration = Duration::from_secs(30);
/// What the requirements call promptly.
pub const PROMPT: Duration = Duration::from_millis(200);

/// A job id that nobody else has.
pub fn job() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only uniqueness matters.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("check-{}-{number}", std::process::id())
}

/// Options of a rank of a job, with time enough to join.
pub fn options(job: &str, rank: u16, world: u16) -> Options {
    let mut options = Options::new(job, rank, world);
    options.deadline = Within::new(AMPLE, "AMPLE");
    options
}

/// Joins a bus and waits until it is complete.
pub fn connected(job: &str, rank: u16, world: u16) -> Bus {
    let bus = Bus::create(&options(job, rank, world)).expect("joined");
    bus.connect(AMPLE).expect("all are there");
    bus
}

/// All ranks of a fresh bus, complete, for a test that is all of them.
pub fn everybody(world: u16) -> Vec<Bus> {
    threads(world, |bus| bus)
}

/// Runs `body` as every rank of one bus, each a thread; returns what they return, in order of rank.
pub fn threads<T: Send>(world: u16, body: impl Fn(Bus) -> T + Sync) -> Vec<T> {
    let job = job();
    let (job, body) = (job.as_str(), &body);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..world)
            .map(|rank| scope.spawn(move || body(connected(job, rank, world))))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|result| result.expect("no panic")).collect()
    })
}

/// What a rank that is a process of its own was told.
#[derive(Debug, Clone)]
pub struct Role {
    /// The job.
    pub job: String,
    /// The rank.
    pub rank: u16,
    /// Ranks of the bus.
    pub world: u16,
    /// What to do, in the test's own words.
    pub what: String,
}

const ROLE: &str = "PROXY_CHECKS_ROLE";

impl Role {
    /// A role.
    pub fn new(job: &str, rank: u16, world: u16, what: &str) -> Self {
        let (job, what) = (job.to_owned(), what.to_owned());
        Self {
            job,
            rank,
            world,
            what,
        }
    }

    /// The role of this process, if it was started for the test `test`.
    pub fn of(test: &str) -> Option<Self> {
        if !child::is(test) {
            return None;
        }
        let text = std::env::var(ROLE).expect("a role");
        let mut parts = text.splitn(4, ' ');
        let mut next = || parts.next().expect("four parts");
        let (job, rank, world, what) = (next(), next(), next(), next());
        Some(Self {
            job: job.to_owned(),
            rank: rank.parse().expect("a rank"),
            world: world.parse().expect("a world"),
            what: what.to_owned(),
        })
    }

    /// Puts the role into a command's environment.
    pub fn give(&self, command: &mut Command) {
        let Self {
            job,
            rank,
            world,
            what,
        } = self;
        command.env(ROLE, format!("{job} {rank} {world} {what}"));
    }

    /// Starts the test `test` in a process with this role.
    pub fn start(&self, test: &str) -> Process {
        self.start_by(child::command(test))
    }

    /// Starts the test `test` in a process of its own namespaces of users and process ids; `None` = not permitted here.
    pub fn start_apart(&self, test: &str) -> Option<Process> {
        const APART: [&str; 4] = ["--user", "--pid", "--fork", "--kill-child"];
        let mut probe = Command::new("unshare");
        probe.args(APART).arg("true").stderr(Stdio::null());
        if !probe.status().is_ok_and(|status| status.success()) {
            return None;
        }
        let plain = child::command(test);
        let mut apart = Command::new("unshare");
        apart
            .args(APART)
            .arg(plain.get_program())
            .args(plain.get_args());
        for (name, value) in plain.get_envs() {
            apart.env(name, value.unwrap_or_default());
        }
        Some(self.start_by(apart))
    }

    fn start_by(&self, mut command: Command) -> Process {
        self.give(&mut command);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Process(Some(command.spawn().expect("this program can be started")))
    }

    /// Runs the test `test` in a process with this role, and returns what it has written.
    pub fn run(&self, test: &str) -> String {
        self.start(test).succeed()
    }

    /// The bus of this role, complete.
    pub fn connected(&self) -> Bus {
        connected(&self.job, self.rank, self.world)
    }
}

/// A child process; killed on drop.
#[derive(Debug)]
pub struct Process(Option<Child>);

impl Process {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("not taken").id()
    }

    /// Waits for a line of its output with `part` in it. What it writes after that line is still there for [`Self::output`].
    pub fn await_line(&mut self, part: &str) {
        let child = self.0.as_mut().expect("not taken");
        let output = child.stdout.as_mut().expect("piped");
        let mut line = Vec::new();
        // Byte by byte, so that nothing of the next line is taken. The end of the output is the end of the child.
        let mut byte = [0];
        while !String::from_utf8_lossy(&line).contains(part) || byte != *b"\n" {
            if byte == *b"\n" {
                line.clear();
            }
            output.read_exact(&mut byte).expect("it lives");
            line.extend(byte);
        }
    }

    /// Writes a line to its input.
    pub fn tell(&mut self, line: &str) {
        let child = self.0.as_mut().expect("not taken");
        let input = child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("it reads");
    }

    /// Kills it at once, and collects it.
    pub fn kill(&mut self) {
        if let Some(child) = &mut self.0 {
            child.kill().expect("it can be killed");
            child.wait().expect("it is ours");
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        let child = self.0.as_mut().expect("not taken");
        child.try_wait().expect("it is ours").is_some()
    }

    /// Waits until it has ended, and fails if it takes too long.
    pub fn output(mut self) -> Output {
        let mut child = self.0.take().expect("not taken");
        let start = Instant::now();
        while child.try_wait().expect("it is ours").is_none() {
            if start.elapsed() > AMPLE * 2 {
                let _ = child.kill();
                let output = child.wait_with_output().expect("it is ours");
                panic!("still running: {}", text(&output));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        child.wait_with_output().expect("it is ours")
    }

    /// Waits until it has ended well, and returns what it has written.
    pub fn succeed(self) -> String {
        let output = self.output();
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Both streams of a child.
pub fn text(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{}\n{out}\n{err}", output.status)
}
