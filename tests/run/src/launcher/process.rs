//! A process of ranks as the launcher sees it: started, listened to, reaped.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use crate::job::{RANK_VERB, Start};
use crate::sys;
use crate::wire::{Lines, Said};

/// Lines of standard error that are kept for the case of a failure.
const KEPT_LINES: usize = 20;

/// The library's own deadline for the messages by which ranks meet, in seconds.
const BOOTSTRAP_TIMEOUT: &str = "NEURON_CCOM_SOCK_TIMEOUT";

/// A pipe from the process. Closed when the process has ended.
#[derive(Debug)]
struct Pipe<R> {
    end: Option<R>,
    lines: Lines,
}

impl<R: Read + AsRawFd> Pipe<R> {
    fn new(end: Option<R>) -> Self {
        Self {
            end,
            lines: Lines::default(),
        }
    }

    fn fd(&self) -> Option<RawFd> {
        self.end.as_ref().map(R::as_raw_fd)
    }

    /// Reads what is there.
    fn read(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut bytes = [0; 1 << 14];
        while let Some(end) = &mut self.end {
            match end.read(&mut bytes) {
                Ok(0) => {
                    self.end = None;
                    lines.extend(self.lines.rest());
                }
                Ok(count) => lines.extend(self.lines.add(&bytes[..count])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.end = None,
            }
        }
        lines
    }
}

/// The process.
#[derive(Debug)]
pub(super) struct RankProcess {
    ranks: Range<u32>,
    child: Child,
    speech: Pipe<ChildStdout>,
    errors: Pipe<ChildStderr>,
    /// How it ended.
    pub(super) status: Option<ExitStatus>,
    /// The last lines that it wrote to standard error.
    pub(super) last_words: VecDeque<String>,
}

impl RankProcess {
    /// What starts ranks, in a process group of their own, so that a Ctrl-C at the terminal reaches the launcher alone.
    pub(super) fn command(ranks: &Range<u32>, start: &Start) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(RANK_VERB).arg(ranks.start.to_string());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if std::env::var_os(BOOTSTRAP_TIMEOUT).is_none() {
            command.env(BOOTSTRAP_TIMEOUT, start.job.timeout.to_string());
        }
        command.process_group(0);
        Ok(command)
    }

    /// Takes over what [`command`](Self::command) has become, and gives it its job.
    pub(super) fn adopt(ranks: Range<u32>, mut child: Child, start: &Start) -> io::Result<Self> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut process = Self {
            ranks,
            child,
            speech: Pipe::new(stdout),
            errors: Pipe::new(stderr),
            status: None,
            last_words: VecDeque::new(),
        };
        let told = process.tell(stdin, start);
        if told.is_err() {
            process.end();
        }
        told.map(|()| process)
    }

    /// Gives the ranks their job. It fits into the pipe, so this does not wait; a process that has died already is found when
    /// it is reaped.
    fn tell(&self, stdin: Option<std::process::ChildStdin>, start: &Start) -> io::Result<()> {
        self.speech
            .end
            .as_ref()
            .map_or(Ok(()), sys::set_nonblocking)?;
        self.errors
            .end
            .as_ref()
            .map_or(Ok(()), sys::set_nonblocking)?;
        let text = serde_json::to_vec(start)?;
        match stdin.map_or(Ok(()), |mut pipe| pipe.write_all(&text)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            told => told,
        }
    }

    /// Its ranks.
    pub(super) const fn ranks(&self) -> &Range<u32> {
        &self.ranks
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What can become readable.
    pub(super) fn fds(&self) -> impl Iterator<Item = RawFd> {
        self.speech.fd().into_iter().chain(self.errors.fd())
    }

    /// What its ranks have said. A line that is no message of one of them is an error with that line.
    pub(super) fn messages(&mut self) -> Vec<Result<Said, String>> {
        let lines = self.speech.read();
        lines
            .iter()
            .map(|line| Said::read(line, &self.ranks))
            .collect()
    }

    /// What the process has written to standard error; the last lines are kept.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        let lines = self.errors.read();
        self.last_words.extend(lines.iter().cloned());
        let excess = self.last_words.len().saturating_sub(KEPT_LINES);
        self.last_words.drain(..excess);
        lines
    }

    /// Looks whether the process has ended; says so once. Its pipes may still hold something.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        if self.status.is_some() {
            return None;
        }
        // An error would mean that the child is not ours any more, which nothing here brings about.
        self.status = self.child.try_wait().ok().flatten();
        self.status
    }

    /// Whether the process has been stopped since the last call (the inner value is the signal) or goes on.
    pub(super) fn stop_news(&self) -> Option<Option<i32>> {
        match self.status {
            None => sys::stop_news(self.pid()),
            Some(_) => None,
        }
    }

    /// Kills the process if it is there, and waits for its end.
    pub(super) fn end(&mut self) {
        if self.status.is_none() {
            // It may have ended in this moment.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a process ended, or many did alike, in words.
pub(crate) fn ending(status: ExitStatus, many: bool) -> String {
    let core = if status.core_dumped() {
        ", core dumped"
    } else {
        ""
    };
    let (was, before) = match many {
        true => ("were", "they were"),
        false => ("was", "it was"),
    };
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!(
            "{was} killed by signal {signal}{}{core}",
            signal_name(signal)
        ),
        (None, Some(code)) => format!("ended with exit code {code} before {before} finished"),
        (None, None) => format!("ended: {status}"),
    }
}

/// A signal's name behind its number, if it has one that a reader may look for.
pub(super) fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => " (SIGHUP)",
        libc::SIGINT => " (SIGINT)",
        libc::SIGQUIT => " (SIGQUIT)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGTERM => " (SIGTERM)",
        libc::SIGSTOP => " (SIGSTOP)",
        libc::SIGTSTP => " (SIGTSTP)",
        libc::SIGTTIN => " (SIGTTIN)",
        libc::SIGTTOU => " (SIGTTOU)",
        _ => "",
    }
}
