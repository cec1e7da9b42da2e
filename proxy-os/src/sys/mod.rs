//! System calls, one thing per file.
//!
//! Every call into the kernel or the C library that needs `unsafe` is made here, behind a safe function, so that the rest
//! of the shell is ordinary Rust. The only other unsafe folder is `nccom`, which calls the collective library.

pub mod affinity;
pub mod clock;
pub(crate) mod copy;
pub(crate) mod counter;
pub mod cpuset;
pub mod eventfd;
pub mod exit;
#[doc(hidden)]
pub mod fault;
pub mod fork;
pub(crate) mod futex;
pub(crate) mod line;
pub(crate) mod linkmap;
pub(crate) mod memfd;
pub(crate) mod mmap;
pub mod mute;
mod pause;
pub(crate) mod pidfd;
pub(crate) mod poll;
pub(crate) mod random;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod stderr;
pub mod terminal;
pub mod thread;
mod thread_name;
pub(crate) mod zeroed;

use std::io;

/// Turns the answer of a call that sets `errno` and returns a negative number on failure into a result.
fn check(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

/// Turns the answer of a pthread call, which returns the error number itself, into a result.
fn check_errno(answer: libc::c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
