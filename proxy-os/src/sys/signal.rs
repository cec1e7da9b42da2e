//! Signals: dying the way a killed process dies, without destructor, exit hook or flush; being stopped; and a bell that a signal
//! rings, for programs that opt in.
#![allow(unsafe_code, reason = "raise and sigaction are C calls")]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::check;
use super::eventfd::EventFd;

/// Kills this process with `SIGKILL`. Only for tests of what its peers do then.
pub(crate) fn kill_self() -> ! {
    // SAFETY: no pointers are passed.
    unsafe { libc::raise(libc::SIGKILL) };
    // The signal cannot be caught, so nobody comes here.
    std::process::abort()
}

/// Stops this process until somebody sends it `SIGCONT`. Only for tests.
pub(crate) fn stop_self() {
    // SAFETY: no pointers are passed.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// The bell of the signal that was hooked; made once and never closed, as a handler may run at any time.
static BELL: OnceLock<EventFd> = OnceLock::new();
/// The handler that was there before ours, as a number; `SIG_DFL` and `SIG_IGN` are none.
static FORMER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
/// Whether the former handler takes three arguments.
static FORMER_TAKES_INFO: AtomicBool = AtomicBool::new(false);

type Plain = extern "C" fn(libc::c_int);
type WithInfo = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

/// Rings the bell and calls the former handler. Async-signal-safe: atomic loads and one `write`.
extern "C" fn ring(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if let Some(bell) = BELL.get() {
        bell.ring();
    }
    // Acquire pairs with the release in `hook`, so that the flag belongs to the handler.
    let former = FORMER.load(Ordering::Acquire);
    if former == libc::SIG_DFL || former == libc::SIG_IGN {
        return;
    }
    // Relaxed: ordered by the load above.
    if FORMER_TAKES_INFO.load(Ordering::Relaxed) {
        // SAFETY: the kernel gave this number as a handler with `SA_SIGINFO`.
        let former = unsafe { mem::transmute::<usize, WithInfo>(former) };
        former(signal, info, context);
    } else {
        // SAFETY: the kernel gave this number as a handler without `SA_SIGINFO`.
        let former = unsafe { mem::transmute::<usize, Plain>(former) };
        former(signal);
    }
}

/// A signal whose handler is ours; dropping it puts the former disposition back, if nobody has changed it since.
#[derive(Debug)]
pub(crate) struct Hooked {
    signal: libc::c_int,
    former: SavedAction,
}

/// What the kernel said a signal did before.
struct SavedAction(libc::sigaction);

impl std::fmt::Debug for SavedAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0.sa_sigaction)
    }
}

impl Hooked {
    /// Takes a signal: from now on it rings the bell, and then does what it did before, if that was a handler. One signal at a time.
    ///
    /// # Errors
    /// `EINVAL` for what is no signal, or cannot be caught; descriptor limits.
    pub(crate) fn new(signal: libc::c_int) -> io::Result<Self> {
        if BELL.get().is_none() {
            // Somebody else's bell is as good.
            let _ = BELL.set(EventFd::new()?);
        }
        // SAFETY: all zeros is a valid action: the default handler and an empty mask.
        let mut former: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: `former` is valid for the kernel to write; no new action is given.
        check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut former) })?;
        // Relaxed: ordered by the release below.
        FORMER_TAKES_INFO.store(former.sa_flags & libc::SA_SIGINFO != 0, Ordering::Relaxed);
        // Release pairs with the acquire in `ring`.
        FORMER.store(former.sa_sigaction, Ordering::Release);
        // SAFETY: as above.
        let mut ours: libc::sigaction = unsafe { mem::zeroed() };
        ours.sa_sigaction = ring as WithInfo as usize;
        // Restart: the program's calls must not notice. The former mask stays, as its handler may count on it.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | (former.sa_flags & libc::SA_ONSTACK);
        ours.sa_mask = former.sa_mask;
        // SAFETY: the action is valid, and its handler is async-signal-safe.
        check(unsafe { libc::sigaction(signal, &raw const ours, std::ptr::null_mut()) })?;
        let former = SavedAction(former);
        Ok(Self { signal, former })
    }

    /// The bell that the signal rings.
    pub(crate) fn bell() -> Option<&'static EventFd> {
        BELL.get()
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        // SAFETY: all zeros is a valid action.
        let mut current: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: `current` is valid for the kernel to write; no new action is given.
        unsafe { libc::sigaction(self.signal, std::ptr::null(), &raw mut current) };
        // Who has hooked it after us keeps it, and calls us as its former handler.
        if current.sa_sigaction == ring as WithInfo as usize {
            // SAFETY: the kernel itself gave this action.
            unsafe { libc::sigaction(self.signal, &raw const self.former.0, std::ptr::null_mut()) };
        }
    }
}
