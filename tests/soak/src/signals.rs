//! Signals that end a soak: they come to the conductor as news, so that it ends its processes and removes its folder as it does when
//! something is wrong; and the end of a conductor that could not do that ends its processes.
#![allow(unsafe_code, reason = "signal sets and prctl are C calls")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// What ends a soak: Ctrl-C, `kill`, a terminal that is closed, and the quit key.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The signals, blocked in this thread and those that it starts, also in the processes: the conductor answers for all.
pub(crate) struct Signals {
    set: libc::sigset_t,
    came: Arc<AtomicI32>,
}

impl Signals {
    /// Takes the signals over. Call it before the first thread is started.
    pub(crate) fn take() -> io::Result<Self> {
        // SAFETY: a signal set is plain bits; `sigemptyset` gives it its value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is a valid local.
        unsafe { libc::sigemptyset(&raw mut set) };
        for signal in ENDING {
            // SAFETY: the set is a valid local, the signal one of the system's.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: the set is a valid local, the old one is not wanted.
        match unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
        } {
            0 => Ok(Self {
                set,
                came: Arc::new(AtomicI32::new(0)),
            }),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// From now on a thread waits for them and calls `tell` for each.
    pub(crate) fn watch(&self, tell: impl Fn() + Send + 'static) {
        let (set, came) = (self.set, Arc::clone(&self.came));
        std::thread::spawn(move || {
            loop {
                let mut signal = 0;
                // SAFETY: both are valid locals; the signals of the set are blocked.
                let waited = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
                if waited == 0 {
                    // Release: see `came`.
                    came.store(signal, Ordering::Release);
                    tell();
                }
            }
        });
    }

    /// The signal that has come last, if one has.
    pub(crate) fn came(&self) -> Option<i32> {
        // Acquire: the store of the thread that waits, so that who was told finds the signal.
        Some(self.came.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }
}

/// Has the kernel kill this process when its conductor ends, also when it is stopped and so sees no end of its input.
pub(crate) fn die_with_conductor() -> io::Result<()> {
    // SAFETY: this option takes a signal number; no memory is passed.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
