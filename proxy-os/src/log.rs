//! Where messages go: one function that an embedder may replace, and a level.
//!
//! Never called from a tick: messages come from set-up, tear-down and errors.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{PoisonError, RwLock};

/// How important a message is; a level lets itself and the more important ones pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something works, but not as asked.
    Warn,
    /// What was decided.
    Info,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
        })
    }
}

/// Receives messages: one call each, without a line end, from any thread.
pub type Sink = fn(Level, &str);

static SINK: RwLock<Sink> = RwLock::new(to_stderr);
/// Relaxed on both sides: a level is a number by itself and orders nothing.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

/// Replaces the sink; the first one writes to standard error. Any thread, at any time.
pub fn set_sink(sink: Sink) {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = sink;
}

/// Sets the level; the first one is [`Level::Warn`], as in the reference runtime. Any thread, at any time.
pub fn set_level(level: Level) {
    // Relaxed: see `LEVEL`.
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Writes a message when the level lets it pass.
pub fn write(level: Level, message: fmt::Arguments<'_>) {
    // Relaxed: see `LEVEL`.
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    // Copied, so that a sink may log or replace itself without meeting the lock.
    let sink = *SINK.read().unwrap_or_else(PoisonError::into_inner);
    sink(level, &message.to_string());
}

/// Writes an error.
pub fn error(message: fmt::Arguments<'_>) {
    write(Level::Error, message);
}

/// Writes a warning.
pub fn warn(message: fmt::Arguments<'_>) {
    write(Level::Warn, message);
}

/// Writes an information.
pub fn info(message: fmt::Arguments<'_>) {
    write(Level::Info, message);
}

/// The first sink: standard error.
pub fn to_stderr(level: Level, message: &str) {
    use std::io::Write;
    // A closed standard error is no reason to end the process, which eprintln would.
    let _ = writeln!(std::io::stderr(), "proxy {level}: {message}");
}
