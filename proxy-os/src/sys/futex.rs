//! Sleeping on a word of shared memory.
//!
//! The shared form of the call, never the private one: the kernel then knows the word by its page and offset, so that sleepers and
//! wakers may have it at different addresses and in different processes.
#![allow(unsafe_code, reason = "futex is a raw system call")]

use std::io;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::fault::{self, Call};

/// Sleeps until somebody wakes the word, `slice` at most, unless it has another value than `seen` already.
///
/// Says nothing about why it returned: the caller looks at what it waits for. A signal ends the sleep.
///
/// # Errors
/// The kernel's refusal to sleep at all, for example by a sandbox (`EPERM`, `ENOSYS`). The call has returned at once then.
pub(crate) fn wait(word: &AtomicU32, seen: u32, slice: Duration) -> io::Result<()> {
    fault::point(Call::FutexWait)?;
    let slice = libc::timespec {
        tv_sec: slice.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: slice.subsec_nanos().into(),
    };
    // SAFETY: the word and the time are valid for the call, which only reads them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            seen,
            &raw const slice,
        )
    };
    if answer >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT) => Ok(()),
        _ => Err(error),
    }
}

/// Wakes everybody who sleeps on the word, in whatever process.
///
/// Has nothing to report: the word is mapped, so the kernel has nothing to refuse but the call itself, and then nobody could
/// sleep either.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the kernel uses the address only to find sleepers.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            i32::MAX,
            ptr::null::<libc::timespec>(),
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_changed_word_is_not_slept_on_and_a_slice_ends() {
        let word = AtomicU32::new(1);
        let start = Instant::now();
        wait(&word, 0, Duration::from_secs(5)).unwrap();
        assert!(start.elapsed() < Duration::from_secs(1));
        let start = Instant::now();
        wait(&word, 1, Duration::from_millis(10)).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(10));
    }
}
