//! Writes whose failure is an error, and no signal.
//!
//! At the process's limit of file sizes (`RLIMIT_FSIZE`, `ulimit -f`) the kernel answers a write with `EFBIG` and sends SIGXFSZ besides; where
//! nobody reads any more it answers with `EPIPE` and sends SIGPIPE. Both end a program that has not said otherwise, and it is not for a
//! library to say so for a whole process. The kernel sends them to the thread that writes, so that thread alone blocks them for as long as
//! it does, and takes what has come before it lets them through again; one that somebody else sends the process in that moment may be among it.
#![allow(unsafe_code, reason = "sets and masks of signals are C calls")]

use std::mem::MaybeUninit;
use std::{io, ptr};

/// What a write may send.
const SENT: [libc::c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

/// Runs `write`, on whose thread no write raises a signal meanwhile. Any thread but in a handler of signals; four system calls. What the
/// signals do in the process stays as it is.
pub fn while_writing<T>(write: impl FnOnce() -> T) -> T {
    let _muted = Muted::new();
    write()
}

/// The signals are blocked on this thread.
struct Muted {
    /// Those that were not waiting to be let through before.
    fresh: libc::sigset_t,
    /// The thread's mask as it was.
    before: libc::sigset_t,
}

impl Muted {
    fn new() -> Self {
        let (pending, mut fresh) = (pending(), empty());
        for signal in SENT {
            // SAFETY: the set is initialised.
            let waits = unsafe { libc::sigismember(&raw const pending, signal) } == 1;
            if !waits {
                // SAFETY: the set is initialised, and the signal is one.
                unsafe { libc::sigaddset(&raw mut fresh, signal) };
            }
        }
        let mut before = empty();
        // SAFETY: both sets are initialised; the call cannot fail with this first argument.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const fresh, &raw mut before) };
        Self { fresh, before }
    }
}

impl Drop for Muted {
    fn drop(&mut self) {
        while take_one(&self.fresh) {}
        // SAFETY: the mask is what the kernel gave; the call cannot fail with this first argument.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

/// Takes a signal of the set that has come; whether to look again.
fn take_one(set: &libc::sigset_t) -> bool {
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the set and the time are valid; nothing is asked about the signal.
    let taken = unsafe { libc::sigtimedwait(set, ptr::null_mut(), &raw const at_once) };
    taken > 0 || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the memory is valid for a set, and the call cannot fail for that.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: written by the call above.
    unsafe { set.assume_init() }
}

/// Signals that are blocked on this thread and have come.
fn pending() -> libc::sigset_t {
    let mut set = empty();
    // SAFETY: the set is valid to be written, which is all that the call could refuse.
    unsafe { libc::sigpending(&raw mut set) };
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(signal: libc::c_int) {
        // SAFETY: no pointers are passed; the thread has the signal blocked.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    fn waits(signal: libc::c_int) -> bool {
        let pending = pending();
        // SAFETY: the set is initialised.
        unsafe { libc::sigismember(&raw const pending, signal) == 1 }
    }

    /// On a thread of its own, as what is blocked is the thread's.
    #[test]
    fn what_comes_meanwhile_is_taken_and_what_waited_before_still_does() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Twice: the first time has left nothing.
                for _ in 0..2 {
                    while_writing(|| SENT.into_iter().for_each(raise));
                    assert!(!waits(libc::SIGXFSZ) && !waits(libc::SIGPIPE));
                }
                let (mut own, mut before) = (empty(), empty());
                // SAFETY: the set is initialised.
                unsafe { libc::sigaddset(&raw mut own, libc::SIGXFSZ) };
                // SAFETY: both sets are initialised.
                unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const own, &raw mut before) };
                raise(libc::SIGXFSZ);
                while_writing(|| SENT.into_iter().for_each(raise));
                assert!(waits(libc::SIGXFSZ), "the embedder's own");
                assert!(!waits(libc::SIGPIPE));
                assert!(take_one(&own));
            });
        });
    }
}
