//! Whether the program was started without a standard output that can be written.
//!
//! Before `main` the runtime opens the null device in its place, so that what is written is lost without an error, and so is what
//! is written to one that was opened for reading alone. Only who looks before that can tell. Of the tool `proxytop` alone: what embeds the driver gets nothing that runs before its `main`.
#![allow(unsafe_code, reason = "a function of the C library's start, and fcntl")]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether it was closed, or for reading alone, when the program began.
pub(crate) fn was_closed() -> bool {
    // Relaxed: written before `main`, by the thread that runs it.
    CLOSED.load(Ordering::Relaxed)
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
