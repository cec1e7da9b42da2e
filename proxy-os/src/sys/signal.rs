//! Signals: dying the way a killed process dies, without destructor, exit hook or flush; being stopped; and a bell that a signal
//! rings, for programs that opt in.
#![allow(unsafe_code, reason = "raise and sigaction are C calls")]

use std::ffi::c_void;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::check;
use super::eventfd::EventFd;
use super::fork;

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
/// The signal that rings the bell; 0 = none. Relaxed throughout: a number by itself, which orders nothing.
static RINGS: AtomicI32 = AtomicI32::new(0);
/// What was there before ours, by signal, as our handler may be left in the chains of several.
static FORMERS: [Former; SIGNALS] = [const { Former::none() }; SIGNALS];
/// The kernel's signals, 1 to 64.
const SIGNALS: usize = 65;
/// What our handler was left with in a chain: who had hooked the signal after us calls it still.
static LEFT: Mutex<Vec<(libc::c_int, SavedAction)>> = Mutex::new(Vec::new());

/// The handler that a signal had before ours.
struct Former {
    /// As a number; `SIG_DFL` and `SIG_IGN` are none.
    handler: AtomicUsize,
    /// Whether it takes three arguments.
    takes_info: AtomicBool,
}

type Plain = extern "C" fn(libc::c_int);
type WithInfo = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

impl Former {
    const fn none() -> Self {
        Self {
            handler: AtomicUsize::new(libc::SIG_DFL),
            takes_info: AtomicBool::new(false),
        }
    }

    fn set(&self, action: &libc::sigaction) {
        // Relaxed: ordered by the release below.
        (self.takes_info).store(action.sa_flags & libc::SA_SIGINFO != 0, Ordering::Relaxed);
        // Release pairs with the acquire in `call`.
        (self.handler).store(action.sa_sigaction, Ordering::Release);
    }

    /// Async-signal-safe if the handler is.
    fn call(&self, signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // Acquire pairs with the release in `set`, so that the flag belongs to the handler.
        let handler = self.handler.load(Ordering::Acquire);
        if !is_function(handler) {
            return;
        }
        // Relaxed: ordered by the load above.
        if self.takes_info.load(Ordering::Relaxed) {
            // SAFETY: the kernel gave this number as a handler with `SA_SIGINFO`.
            let handler = unsafe { mem::transmute::<usize, WithInfo>(handler) };
            handler(signal, info, context);
        } else {
            // SAFETY: the kernel gave this number as a handler without `SA_SIGINFO`.
            let handler = unsafe { mem::transmute::<usize, Plain>(handler) };
            handler(signal);
        }
    }
}

const fn is_function(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

fn former(signal: libc::c_int) -> Option<&'static Former> {
    FORMERS.get(usize::try_from(signal).ok()?)
}

/// Rings the bell and calls the former handler. Async-signal-safe: atomic loads and one `write`.
extern "C" fn ring(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Relaxed: see `RINGS`. A forked child has the handler, too, but the bell is its parent's.
    if RINGS.load(Ordering::Relaxed) == signal
        && !fork::is_child()
        && let Some(bell) = BELL.get()
    {
        bell.ring();
    }
    if let Some(former) = former(signal) {
        former.call(signal, info, context);
    }
}

/// A signal whose handler is ours, or calls ours; dropping it puts the former disposition back, if nobody has changed it since.
#[derive(Debug)]
pub(crate) struct Hooked {
    signal: libc::c_int,
    former: SavedAction,
}

/// What the kernel said a signal did before.
#[derive(Clone, Copy)]
struct SavedAction(libc::sigaction);

impl std::fmt::Debug for SavedAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0.sa_sigaction)
    }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == ring as WithInfo as usize
}

/// What a signal does now.
fn current(signal: libc::c_int) -> io::Result<libc::sigaction> {
    // SAFETY: all zeros is a valid action: the default handler and an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: `action` is valid for the kernel to write; no new action is given.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) })?;
    Ok(action)
}

/// Takes out what our handler was left with in the chain of a signal.
fn take_left(signal: libc::c_int) -> Option<SavedAction> {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let place = left.iter().position(|(of, _)| *of == signal)?;
    Some(left.swap_remove(place).1)
}

impl Hooked {
    /// Takes a signal: from now on it rings the bell, and then does what it did before, if that was a handler. One signal at a time.
    ///
    /// Where an earlier one was left in a chain, that one does it: to hook once more would make a circle of the two handlers.
    ///
    /// # Errors
    /// `EINVAL` for what is no signal, or cannot be caught; descriptor limits.
    pub(crate) fn new(signal: libc::c_int) -> io::Result<Self> {
        if BELL.get().is_none() {
            // Somebody else's bell is as good.
            let _ = BELL.set(EventFd::new()?);
        }
        if let Some(bell) = BELL.get() {
            // A ring for the one before, which nobody has heard.
            bell.wait(Some(Duration::ZERO))?;
        }
        let before = current(signal)?;
        let hooked = match take_left(signal) {
            // Called by the handler that is there, or that one itself.
            Some(former) if is_function(before.sa_sigaction) => Self { signal, former },
            _ => Self::hook(signal, before)?,
        };
        // Relaxed: see `RINGS`.
        RINGS.store(signal, Ordering::Relaxed);
        Ok(hooked)
    }

    fn hook(signal: libc::c_int, before: libc::sigaction) -> io::Result<Self> {
        let former = former(signal).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        // Ours, where somebody has put it back who had it from an earlier service: it goes on calling what it has called, and not itself.
        if !is_ours(&before) {
            former.set(&before);
        }
        // SAFETY: all zeros is a valid action.
        let mut ours: libc::sigaction = unsafe { mem::zeroed() };
        ours.sa_sigaction = ring as WithInfo as usize;
        // Restart: the program's calls must not notice. The former mask stays, as its handler may count on it.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | (before.sa_flags & libc::SA_ONSTACK);
        ours.sa_mask = before.sa_mask;
        // SAFETY: the action is valid, and its handler is async-signal-safe.
        check(unsafe { libc::sigaction(signal, &raw const ours, std::ptr::null_mut()) })?;
        let former = SavedAction(before);
        Ok(Self { signal, former })
    }

    /// The bell that the signal rings.
    pub(crate) fn bell() -> Option<&'static EventFd> {
        BELL.get()
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        // In a forked child the handler rings no bell, and the lock may be held by a thread that it has not.
        if fork::is_child() {
            return;
        }
        // Relaxed: see `RINGS`.
        RINGS.store(0, Ordering::Relaxed);
        if current(self.signal).is_ok_and(|action| is_ours(&action)) {
            // SAFETY: the kernel itself gave this action.
            unsafe { libc::sigaction(self.signal, &raw const self.former.0, std::ptr::null_mut()) };
        } else {
            // Who has hooked it after us keeps it, and calls us as its former handler.
            let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
            left.push((self.signal, self.former));
        }
    }
}
