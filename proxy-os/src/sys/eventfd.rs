//! A doorbell that a thread can sleep on and that an embedder can poll: an eventfd.
//!
//! Non-blocking and closed on exec. Ringing is one write that never blocks; a bell that was rung many times before it is
//! waited for is rung once, so one wait takes all rings.
#![allow(unsafe_code, reason = "eventfd, read, write and ppoll are C calls")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::check;
use super::fault::{self, Call};

/// The doorbell. Shared by reference between ringers and sleeper.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// The kernel's: descriptor limits (`EMFILE`, `ENFILE`) or memory.
    pub fn new() -> io::Result<Self> {
        fault::point(Call::BellCreate)?;
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the descriptor was just created and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Rings. Never blocks and has nothing to report: the only refusal of a live eventfd is a full counter, and then the
    /// bell is rung already.
    ///
    /// Any thread; also a signal handler: one `write`, `errno` is kept as it was.
    pub fn ring(&self) {
        // SAFETY: the C library gives every thread a valid errno location.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: `errno` is this thread's own and valid.
        let saved = unsafe { errno.read() };
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the buffer is valid for its 8 bytes and the descriptor is open as long as `self`.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        // SAFETY: as for the read above.
        unsafe { errno.write(saved) };
    }

    /// Sleeps until the bell is rung or `timeout` has passed; `None` = for ever. True = it was rung, and is silent again.
    ///
    /// A signal does not end the wait and does not lengthen it. With several sleepers one ring wakes one of them.
    ///
    /// # Errors
    /// The kernel's, for example `ENOMEM`.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        // A timeout beyond the clock's range is for ever.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if self.sleep(left)? {
                if self.drain()? {
                    return Ok(true);
                }
                // Another sleeper took the ring between the two calls.
            } else if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// The descriptor, for `poll` or `epoll`: readable = rung. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// One sleep. True = readable; false = time passed or a signal came.
    fn sleep(&self, left: Option<Duration>) -> io::Result<bool> {
        fault::point(Call::BellWait)?;
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let left = left.map(|left| libc::timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let left = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: one valid pollfd; the time is null or points to a local that outlives the call; no signal mask.
        match check(unsafe { libc::ppoll(&raw mut poll, 1, left, std::ptr::null()) }) {
            Ok(ready) => Ok(ready > 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes all rings. False = there was none.
    fn drain(&self) -> io::Result<bool> {
        let mut count = [0_u8; 8];
        // SAFETY: the buffer is valid for its 8 bytes and the descriptor is open as long as `self`.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        if read >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rings_are_one_and_the_wait_takes_them() {
        let bell = EventFd::new().unwrap();
        bell.ring();
        bell.ring();
        assert!(bell.wait(None).unwrap());
        assert!(!bell.wait(Some(Duration::ZERO)).unwrap());
    }

    #[test]
    fn a_silent_bell_times_out_at_its_deadline() {
        let bell = EventFd::new().unwrap();
        let start = Instant::now();
        assert!(!bell.wait(Some(Duration::from_millis(20))).unwrap());
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_full_counter_stays_rung() {
        let bell = EventFd::new().unwrap();
        let full = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: the buffer is valid for its 8 bytes.
        let wrote = unsafe { libc::write(bell.fd().as_raw_fd(), full.as_ptr().cast(), 8) };
        assert_eq!(wrote, 8);
        bell.ring();
        assert!(bell.wait(Some(Duration::ZERO)).unwrap());
    }

    #[test]
    fn a_ring_from_another_thread_ends_the_wait() {
        let bell = EventFd::new().unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| bell.wait(None).unwrap());
            bell.ring();
            assert!(sleeper.join().unwrap());
        });
    }

    #[test]
    fn signals_neither_end_nor_lengthen_the_wait() {
        extern "C" fn ignore(_: libc::c_int) {}
        let handler: extern "C" fn(libc::c_int) = ignore;
        // SAFETY: the handler does nothing; the signal is used by this test only.
        unsafe { libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t) };
        let bell = EventFd::new().unwrap();
        let start = Instant::now();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                // SAFETY: no arguments.
                send.send(unsafe { libc::pthread_self() }).unwrap();
                bell.wait(Some(Duration::from_millis(60))).unwrap()
            });
            let target = receive.recv().unwrap();
            while start.elapsed() < Duration::from_millis(30) {
                // SAFETY: the id is valid until the thread is joined, below.
                unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
            }
            assert!(!sleeper.join().unwrap());
        });
        assert!(start.elapsed() >= Duration::from_millis(60));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
