//! Being called when the process ends, before the exit hooks of libraries loaded so far.
#![allow(unsafe_code, reason = "atexit is a C call")]

use std::io;

/// Has `hook` called when `main` returns or `exit` is called.
///
/// Hooks run in the reverse order of their registration, so one registered after a library was loaded runs before the
/// hooks that the library's constructors registered. It runs on the thread that ends the process while all others go on.
/// There is no way to take it back.
///
/// # Errors
/// Out of memory.
pub fn at_exit(hook: extern "C" fn()) -> io::Result<()> {
    // SAFETY: the hook is a plain function of this program, valid for the life of the process.
    match unsafe { libc::atexit(hook) } {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
    }
}
