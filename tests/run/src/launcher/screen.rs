//! What the user sees: the table on standard output, everything else on standard error.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use crate::sys;

/// The two streams, and the progress line that may be on the second one.
#[derive(Debug)]
pub(super) struct Screen {
    interactive: bool,
    shown: bool,
}

impl Screen {
    /// A progress line needs a terminal that can erase it.
    pub(super) fn new(non_interactive: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            interactive: !non_interactive && !dumb && io::stderr().is_terminal(),
            shown: false,
        }
    }

    /// A line of the table. The error is that of standard output.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.erase();
        line(text)
    }

    /// A line for the user's attention.
    pub(super) fn note(&mut self, text: &str) {
        self.erase();
        note(text);
    }

    /// The one line that says how far a size is; replaced by the next one, erased by any other line.
    pub(super) fn progress(&mut self, text: &str) {
        if self.interactive {
            self.shown = true;
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Takes the progress line away.
    pub(super) fn erase(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A line of a table on standard output. Its reader is waited for until a signal comes, which is then in [`unwritten_or_signal`].
pub(crate) fn line(text: &str) -> io::Result<()> {
    if !sys::wait_for_room(io::stdout().as_raw_fd()) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    io::stdout().write_all(format!("{text}\n").as_bytes())
}

/// A line on standard error, which ends nothing when it is full or closed: nobody is left to be told. Its reader is waited for until a
/// signal comes.
pub(crate) fn note(text: &str) {
    if !sys::wait_for_room(io::stderr().as_raw_fd()) {
        return;
    }
    // Whole, in one write: other processes write there, too, and this one may be killed between two.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Refuses to play a part that only the launcher gives.
pub(crate) fn not_for_users() -> ExitCode {
    note("error: a rank is started by the launcher alone; run `proxy-run --help`");
    ExitCode::from(USAGE)
}

/// Exit code for a command line that is not accepted, as for those that the parser refuses.
pub(crate) const USAGE: u8 = 2;
/// The exit code of a program whose reader went away, as a shell shows it: 128 + SIGPIPE.
const READER_GONE: u8 = 141;

/// Why standard output cannot be written; nothing to say where its reader has seen enough, as `head` does.
pub(crate) fn unwritten(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::BrokenPipe => String::new(),
        _ => format!("cannot write standard output: {error}"),
    }
}

/// The signal that has come while standard output had no room; else why it cannot be written, as [`unwritten`].
pub(crate) fn unwritten_or_signal(error: io::Error) -> Result<i32, String> {
    match error.kind() {
        io::ErrorKind::Interrupted => sys::pending().ok_or_else(|| unwritten(error)),
        _ => Err(unwritten(error)),
    }
}

/// Says that a signal has ended a run, and whom it has ended; returns the exit code, as a shell shows it.
pub(crate) fn signalled(signal: i32, whom: &str, note: impl FnOnce(&str)) -> u8 {
    note(&format!("ended by signal {signal}; {whom} are ended"));
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Says why a run failed, if there is anything to say; returns its exit code.
pub(crate) fn failed(message: &str, note: impl FnOnce(&str)) -> ExitCode {
    if message.is_empty() {
        return ExitCode::from(READER_GONE);
    }
    note(&format!("error: {message}"));
    ExitCode::FAILURE
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.erase();
    }
}
