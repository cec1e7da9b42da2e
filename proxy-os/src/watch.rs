//! What can be seen of a worker from outside while it is stuck: the seam call it is in, its counters.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use proxy_core::ladder::Levels;

use crate::sys::clock;

/// A call into the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SeamCall {
    /// `neuronStartNetworkProxy`
    Start = 1,
    /// `neuronNetworkProxyProgress`
    Progress = 2,
    /// `neuronStopNetworkProxy`
    Stop = 3,
}

impl fmt::Display for SeamCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "neuronStartNetworkProxy",
            Self::Progress => "neuronNetworkProxyProgress",
            Self::Stop => "neuronStopNetworkProxy",
        })
    }
}

/// A library call that has not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InCall {
    /// The call.
    pub call: SeamCall,
    /// For how long it has been seen there. The worker reads no clock for this, so the call may be older by as much time as went
    /// by until somebody looked: the watchdog does, see [`watchdog`](crate::watchdog).
    pub age: Duration,
    number: u32,
}

impl InCall {
    /// Whether both are one and the same call.
    #[must_use]
    pub const fn is(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl fmt::Display for InCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, age, .. } = self;
        write!(f, "{call} of the library for {age:.1?} or longer")
    }
}

/// Counters of a worker since its start. Each is exact by itself; together they are not one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Ticks.
    pub ticks: u64,
    /// Pauses between ticks that moved nothing.
    pub pauses: u64,
    /// Times the worker gave its core away.
    pub yields: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Appends that rang the doorbell: each is one system call of a producer.
    pub rings: u64,
    /// Tasks that ended with an error.
    pub failures: u64,
}

/// A lock is held that was only tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held;

/// Written by the worker (and, for rings, by producers), read by anybody.
///
/// Relaxed throughout: every word is a message by itself and orders nothing. On lines of its own (in pairs, as they are prefetched):
/// it is written in every tick, and its neighbours are what every append reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Watch {
    call: AtomicU32,
    calls: AtomicU32,
    ticks: AtomicU64,
    pauses: AtomicU64,
    yields: AtomicU64,
    sleeps: AtomicU64,
    rings: AtomicU64,
    failures: AtomicU64,
    /// The last call that an observer has seen, by its number, and when it first did. Never locked by the worker.
    sighting: Mutex<(u32, u64)>,
}

impl Watch {
    pub(crate) fn enter(&self, call: SeamCall) {
        // Relaxed, both: see the type. The worker is the only writer, so a plain increment does.
        let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(calls, Ordering::Relaxed);
        self.call.store(call as u32, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        // Relaxed: see the type.
        self.call.store(0, Ordering::Relaxed);
    }

    /// The call that the worker is in, and how long observers have seen it there. Any thread but the worker.
    pub(crate) fn observe(&self) -> Option<InCall> {
        let mut sighting = self.sighting.lock().unwrap_or_else(PoisonError::into_inner);
        self.sight(&mut sighting)
    }

    /// The same without waiting for another observer.
    pub(crate) fn try_observe(&self) -> Result<Option<InCall>, Held> {
        match self.sighting.try_lock() {
            Ok(mut sighting) => Ok(self.sight(&mut sighting)),
            Err(TryLockError::Poisoned(poisoned)) => Ok(self.sight(&mut poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => Err(Held),
        }
    }

    fn sight(&self, sighting: &mut (u32, u64)) -> Option<InCall> {
        let (call, number) = self.call()?;
        let now = clock::monotonic_ns();
        if sighting.0 != number {
            *sighting = (number, now);
        }
        Some(InCall {
            call,
            age: Duration::from_nanos(now.saturating_sub(sighting.1)),
            number,
        })
    }

    /// The call that the worker is in, and the number of calls so far, which tells two calls apart.
    fn call(&self) -> Option<(SeamCall, u32)> {
        // Relaxed: see the type.
        let calls = self.calls.load(Ordering::Relaxed);
        // Relaxed: see the type.
        let call = match self.call.load(Ordering::Relaxed) {
            1 => SeamCall::Start,
            2 => SeamCall::Progress,
            3 => SeamCall::Stop,
            _ => return None,
        };
        Some((call, calls))
    }

    pub(crate) fn tick(&self, ticks: u64, levels: Levels) {
        // Relaxed, all: see the type.
        self.ticks.store(ticks, Ordering::Relaxed);
        self.pauses.store(levels.pauses, Ordering::Relaxed);
        self.yields.store(levels.yields, Ordering::Relaxed);
    }

    pub(crate) fn count_sleep(&self) {
        // Relaxed: see the type.
        self.sleeps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_ring(&self) {
        // Relaxed: see the type.
        self.rings.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failure(&self) {
        // Relaxed: see the type.
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> Counters {
        // Relaxed, all: see the type.
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Counters {
            ticks: read(&self.ticks),
            pauses: read(&self.pauses),
            yields: read(&self.yields),
            sleeps: read(&self.sleeps),
            rings: read(&self.rings),
            failures: read(&self.failures),
        }
    }
}
