//! What can be seen of a worker from outside while it is stuck: the seam call it is in, its counters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use proxy_core::ladder::Levels;
use proxy_core::{EnqueueError, Next, Status, Tick};

use crate::diagnosis;
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
    /// Steps of tasks.
    pub steps: u64,
    /// Ticks that moved nothing.
    pub idle_ticks: u64,
    /// Tasks taken from the inbox.
    pub drained: u64,
    /// Tasks that ended.
    pub ended: u64,
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
    /// Appends that found no place.
    pub full: u64,
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
    steps: AtomicU64,
    idle_ticks: AtomicU64,
    drained: AtomicU64,
    ended: AtomicU64,
    asleep: AtomicBool,
    /// Failed tasks by code. Locked by the worker when a task fails, for the time of an increment.
    errors: Mutex<BTreeMap<i32, u64>>,
    pauses: AtomicU64,
    yields: AtomicU64,
    sleeps: AtomicU64,
    rings: AtomicU64,
    failures: AtomicU64,
    full: AtomicU64,
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

    /// Notes a tick. The worker is the only writer, so plain additions do.
    pub(crate) fn tick(&self, tick: &Tick, levels: Levels) {
        // Relaxed, all: see the type.
        let add = |word: &AtomicU64, count: u32| {
            let sum = word.load(Ordering::Relaxed).wrapping_add(count.into());
            word.store(sum, Ordering::Relaxed);
        };
        add(&self.ticks, 1);
        if tick.stepped > 0 {
            add(&self.steps, tick.stepped);
        }
        if tick.next != Next::Again {
            add(&self.idle_ticks, 1);
        }
        if tick.drained > 0 {
            add(&self.drained, tick.drained);
        }
        let ended = tick.done.wrapping_add(tick.aborted);
        if ended > 0 {
            add(&self.ended, ended);
        }
        // Relaxed, both: see the type.
        self.pauses.store(levels.pauses, Ordering::Relaxed);
        self.yields.store(levels.yields, Ordering::Relaxed);
    }

    /// Notes tasks that ended outside of a tick. The worker only.
    pub(crate) fn aborted(&self, count: u32) {
        // Relaxed: see the type.
        let ended = self.ended.load(Ordering::Relaxed);
        // Relaxed: see the type.
        self.ended
            .store(ended.wrapping_add(count.into()), Ordering::Relaxed);
    }

    /// The worker goes to sleep, or was woken.
    pub(crate) fn asleep(&self, asleep: bool) {
        // Relaxed, both: see the type.
        self.sleeps.fetch_add(asleep.into(), Ordering::Relaxed);
        self.asleep.store(asleep, Ordering::Relaxed);
    }

    /// Whether the worker sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        // Relaxed: see the type.
        self.asleep.load(Ordering::Relaxed)
    }

    pub(crate) fn count_ring(&self) {
        // Relaxed: see the type.
        self.rings.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes an append that was refused, if that was for want of a place.
    pub(crate) fn refused(&self, error: &EnqueueError) {
        if matches!(error, EnqueueError::Full { .. }) {
            // Relaxed: see the type.
            self.full.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_failure(&self, status: Status) {
        // Relaxed: see the type.
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let count = errors.entry(status.0).or_default();
        *count = count.wrapping_add(1);
    }

    /// Failed tasks by code; `None` if they are locked for longer than a report waits.
    pub(crate) fn errors(&self) -> Option<BTreeMap<i32, u64>> {
        diagnosis::lock(&self.errors).map(|errors| errors.clone())
    }

    pub(crate) fn counters(&self) -> Counters {
        // Relaxed, all: see the type.
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Counters {
            ticks: read(&self.ticks),
            steps: read(&self.steps),
            idle_ticks: read(&self.idle_ticks),
            drained: read(&self.drained),
            ended: read(&self.ended),
            pauses: read(&self.pauses),
            yields: read(&self.yields),
            sleeps: read(&self.sleeps),
            rings: read(&self.rings),
            failures: read(&self.failures),
            full: read(&self.full),
        }
    }
}
