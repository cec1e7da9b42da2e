//! Whether the program was started without a standard output that can be written; and one that takes no more as an error.
//!
//! Before `main` the runtime opens the null device in its place, so that what is written is lost without an error, and so is what
//! is written to one that was opened for reading alone. Only who looks before that can tell. Of the tool `proxytop` alone: what embeds the driver gets nothing that runs before its `main`.
#![allow(
    unsafe_code,
    reason = "a function of the C library's start, fcntl and signal"
)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether it was closed, or for reading alone, when the program began.
pub(crate) fn was_closed() -> bool {
    // Relaxed: written before `main`, by the thread that runs it.
    CLOSED.load(Ordering::Relaxed)
}

/// Makes a file that may not become so large an error of the write, as a full disk is, instead of a signal that ends the program. For a
/// whole program, whose own that is to say, as what is left of standard output is written after its `main`.
pub(crate) fn refuse_large_files_by_error() {
    // SAFETY: a signal's number and a treatment of it without a handler; the call cannot fail for these.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Called by the C library before the runtime's beginning.
#[used]
// SAFETY: the section holds pointers to functions that the C library calls once, with arguments that this one leaves alone.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: no memory is passed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFL) };
    // Relaxed: see `was_closed`.
    CLOSED.store(
        flags < 0 || flags & libc::O_ACCMODE == libc::O_RDONLY,
        Ordering::Relaxed,
    );
}
