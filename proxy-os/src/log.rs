//! Where messages go: one function that an embedder may replace, and a level.
//!
//! Messages come from set-up, tear-down and errors; from a tick in which nothing goes wrong only at [`Level::Debug`]. A worker writes one when a call of the
//! library or a barrier fails: the other tasks of its group wait for the sink then. No lock is held while a sink runs, so one that takes
//! its time delays nobody but the thread that it runs on. The first sink takes none: what standard error has no room for is counted
//! instead of written.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::sys::{stderr, thread};
use crate::words::counted;

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
    /// What a worker does, task by task: a message per barrier task, on the worker's time.
    Debug,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
        })
    }
}

/// Receives messages: one call each, without a line end, from any thread, a worker's too. May log, replace itself and make a report; must not
/// wait for a task. If it panics, that message is lost and nothing else. While it runs on the watchdog's thread, what the message is about
/// has happened already, but deadlines and stalls of all groups that come due meanwhile are late by as long as it takes; none is lost.
pub type Sink = fn(Level, &str);

static SINK: RwLock<Sink> = RwLock::new(to_stderr);
/// Twice the level, and [`GIVEN`] once the embedder has set one: so a look at it is one comparison. Relaxed on all sides: a number by itself
/// orders nothing.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8 * 2);
/// The embedder has set the level: that of the environment counts no more.
const GIVEN: u8 = 1;

/// Messages within messages that are still handed to the sink, so that one that logs whatever it gets comes to an end.
const NESTED: u32 = 4;

thread_local! {
    /// Messages that this thread is inside of.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Replaces the sink; the first one writes to standard error. Any thread, at any time; a message that another thread is writing may still go to
/// the former one.
pub fn set_sink(sink: Sink) {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = sink;
}

/// Sets the level, whatever the environment says, now or later; the first one is [`Level::Warn`], as in the reference runtime. Any thread, at
/// any time.
pub fn set_level(level: Level) {
    // Relaxed: see `LEVEL`.
    LEVEL.store(level as u8 * 2 + GIVEN, Ordering::Relaxed);
}

/// Sets the level that the environment gives, unless the embedder has set one.
pub(crate) fn set_default_level(level: Level) {
    let next = |word: u8| (word & GIVEN == 0).then_some(level as u8 * 2);
    // Relaxed, both: see `LEVEL`.
    let _ = LEVEL.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

/// Whether a message of this level would be written.
#[inline]
pub(crate) fn passes(level: Level) -> bool {
    // Relaxed: see `LEVEL`.
    level as u8 * 2 <= LEVEL.load(Ordering::Relaxed)
}

/// Writes a message when the level lets it pass. Any thread; never panics.
pub fn write(level: Level, message: fmt::Arguments<'_>) {
    if !passes(level) {
        return;
    }
    let nested = INSIDE.get();
    if nested > NESTED {
        return;
    }
    // Copied, so that a sink may log or replace itself without meeting the lock.
    let sink = *SINK.read().unwrap_or_else(PoisonError::into_inner);
    INSIDE.set(nested + 1);
    // A message is worth less than the thread that writes it; the panic hook has told of the panic.
    let told = catch_unwind(AssertUnwindSafe(|| sink(level, &message.to_string())));
    INSIDE.set(nested);
    if let Err(payload) = told {
        thread::forget(payload);
    }
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

/// Writes what a worker does.
pub fn debug(message: fmt::Arguments<'_>) {
    write(Level::Debug, message);
}

/// Messages that standard error had no room for, since one found some. Relaxed throughout: a number by itself, which orders nothing.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Whether the last one that was written is cut off within. Relaxed throughout, as above.
static CUT: AtomicBool = AtomicBool::new(false);

/// The first sink: standard error. Never waits: a message that finds no room there, as its reader does not read, is dropped, and the next
/// one that does is preceded by how many were.
pub fn to_stderr(level: Level, message: &str) {
    // Relaxed: see `LOST` and `CUT`.
    let (lost, cut) = (
        LOST.swap(0, Ordering::Relaxed),
        CUT.swap(false, Ordering::Relaxed),
    );
    let mut text = String::from(if cut { "\n" } else { "" });
    if lost > 0 {
        let lost = counted(usize::try_from(lost).unwrap_or(usize::MAX), "message");
        text += &format!(
            "proxy {}: standard error had no room for {lost}\n",
            Level::Warn
        );
    }
    let told = text.len();
    // One write, so that a line stays whole beside those of other processes.
    text += &format!("proxy {level}: {message}\n");
    let written = stderr::offer(text.as_bytes());
    if written == text.len() {
        return;
    }
    let owed = if written < told { lost } else { 0 };
    // Relaxed: see `LOST`.
    LOST.fetch_add(owed + 1, Ordering::Relaxed);
    // Relaxed: see `CUT`.
    CUT.fetch_or(cut || written > 0, Ordering::Relaxed);
}
