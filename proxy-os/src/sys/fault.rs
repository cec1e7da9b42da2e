//! Failures on demand: makes a named system call fail a number of times with a chosen error.
//!
//! For tests that show what happens when the kernel refuses. Compiled always, so that the tested code is the shipped code;
//! unarmed it costs one relaxed load, and only on cold paths. The state belongs to the whole process: tests that arm it must
//! not run beside others that make the same calls.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The calls that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Creation of a thread.
    ThreadCreate,
    /// Setting the CPUs of a thread, at its creation or later.
    SetAffinity,
    /// Reading the CPUs of a thread.
    GetAffinity,
    /// Creation of memory without a name.
    MemfdCreate,
    /// Creation of a file without a name.
    UnnamedFile,
    /// Reserving memory of a file.
    Reserve,
    /// Sealing a file.
    AddSeals,
    /// Taking the process of a connection as a descriptor.
    PeerPidfd,
    /// Taking a process by its number as a descriptor.
    PidfdOpen,
    /// Accepting a connection.
    Accept,
    /// Receiving a record and its descriptors.
    Receive,
    /// Sleeping on a word.
    FutexWait,
    /// Creation of a doorbell.
    BellCreate,
    /// Sleeping on a doorbell.
    BellWait,
    /// Ringing a worker's doorbell after an append: the ring is lost, as the call itself cannot fail.
    BellRing,
    /// Mapping the memory of a queue.
    MapMemory,
}

const CALLS: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Fault {
    /// Calls that are made before the first one fails.
    after: u32,
    left: u32,
    errno: i32,
}

const NONE: Fault = Fault {
    after: 0,
    left: 0,
    errno: 0,
};

/// Whether any fault was ever armed. Relaxed on both sides: it guards no data, the mutex does.
static ARMED: AtomicBool = AtomicBool::new(false);
static FAULTS: Mutex<[Fault; CALLS]> = Mutex::new([NONE; CALLS]);

fn with<R>(call: Call, change: impl FnOnce(&mut Fault) -> R) -> R {
    let mut faults = FAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut faults[call as usize])
}

/// Makes the next `times` calls of `call` fail with `errno`; 0 times disarms.
pub fn inject(call: Call, times: u32, errno: i32) {
    inject_after(call, 0, times, errno);
}

/// As [`inject`], but `after` calls are made first.
pub fn inject_after(call: Call, after: u32, times: u32, errno: i32) {
    let left = times;
    with(call, |fault| *fault = Fault { after, left, errno });
    // Relaxed: a thread that should see the fault is started after, or synchronises with, the caller.
    ARMED.store(true, Ordering::Relaxed);
}

/// How many injected failures of `call` have not been used up. Unchanged = the call was never made.
pub fn left(call: Call) -> u32 {
    with(call, |fault| fault.left)
}

/// Asked right before `call` is made; an error stands for the call's own failure.
pub(crate) fn point(call: Call) -> io::Result<()> {
    // Relaxed: see `inject`.
    if !ARMED.load(Ordering::Relaxed) {
        return Ok(());
    }
    with(call, |fault| {
        if fault.left == 0 {
            return Ok(());
        }
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        fault.left -= 1;
        Err(io::Error::from_raw_os_error(fault.errno))
    })
}
