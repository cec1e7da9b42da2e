//! What can be seen of a worker from outside while it is stuck: the seam call it is in, its counters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use proxy_core::ladder::Wait;
use proxy_core::{ContextId, EnqueueError, Status, Tick};

use crate::context::note::Entered;
use crate::diagnosis;
use crate::queue::Shared;
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
    context: ContextId,
    entered: Entered,
}

impl InCall {
    /// Whether both are one and the same call.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        (self.context, self.entered) == (other.context, other.entered)
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

/// Written by the worker (and, for rings and refused appends, by producers), read by anybody.
///
/// A tick writes as little as it can: one of four counters, by what follows it, from which the others are added up by who reads, and the steps.
/// The library calls are noted by their contexts.
///
/// Relaxed throughout: every word is a message by itself and orders nothing. On lines of its own (in pairs, as they are prefetched):
/// it is written in every tick, and its neighbours are what every append reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Watch {
    /// Ticks by how the worker waited after them: it went on at once, paused, gave its core away, or was to sleep, whether or not there was
    /// something to see first.
    waits: [AtomicU64; 4],
    steps: AtomicU64,
    drained: AtomicU64,
    ended: AtomicU64,
    asleep: AtomicBool,
    /// Failed tasks by code. Locked by the worker when a task fails, for the time of an increment.
    errors: Mutex<BTreeMap<i32, u64>>,
    sleeps: AtomicU64,
    rings: AtomicU64,
    failures: AtomicU64,
    full: AtomicU64,
    /// When the worker last went to sleep or woke, in nanoseconds of the monotonic clock; 0 = it has not slept yet.
    turned: AtomicU64,
    /// What observers have seen of the worker's calls. Never locked by the worker.
    sighting: Mutex<Sighting>,
}

/// Calls that observers have found the worker inside of.
#[derive(Debug, Default)]
struct Sighting {
    /// The last one, and when it was first seen.
    last: Option<(InCall, u64)>,
    /// The one that was seen for longest.
    longest: Option<InCall>,
}

impl Shared {
    /// The call that the worker is in, and how long observers have seen it there. Any thread but the worker.
    pub(crate) fn observe(&self) -> Option<InCall> {
        let found = self.contexts.entered()?;
        let mut sighting = (self.watch.sighting.lock()).unwrap_or_else(PoisonError::into_inner);
        Some(self.watch.sight(found, &mut sighting))
    }

    /// The same without waiting for anybody.
    pub(crate) fn try_observe(&self) -> Result<Option<InCall>, Held> {
        self.watch.try_sight(self.contexts.try_entered()?)
    }
}

/// Adds to a counter. Its only writer, so that no read-modify-write is needed.
#[inline]
fn add(word: &AtomicU64, count: u32) {
    // Relaxed, both: see `Watch`.
    let sum = word.load(Ordering::Relaxed).wrapping_add(count.into());
    word.store(sum, Ordering::Relaxed);
}

impl Watch {
    /// When observers first saw the worker inside a call that it is found in now.
    fn sight(&self, (context, entered): (ContextId, Entered), sighting: &mut Sighting) -> InCall {
        let now = clock::monotonic_ns();
        let mut found = InCall {
            call: entered.call,
            age: Duration::ZERO,
            context,
            entered,
        };
        let since = match &sighting.last {
            Some((seen, since)) if seen.is(&found) => *since,
            _ => now,
        };
        sighting.last = Some((found, since));
        found.age = Duration::from_nanos(now.saturating_sub(since));
        if found.age
            > sighting
                .longest
                .map_or(Duration::ZERO, |longest| longest.age)
        {
            sighting.longest = Some(found);
        }
        found
    }

    /// The call that observers have seen for longest, with the age that it had when it was seen last; an error instead of a wait. A call
    /// that no two of them have found the worker inside of is not known: the worker reads no clock for its steps.
    pub(crate) fn try_longest(&self) -> Result<Option<InCall>, Held> {
        match self.sighting.try_lock() {
            Ok(sighting) => Ok(sighting.longest),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner().longest),
            Err(TryLockError::WouldBlock) => Err(Held),
        }
    }

    /// A call that was found, with its age; an error instead of a wait for another observer.
    pub(crate) fn try_sight(
        &self,
        found: Option<(ContextId, Entered)>,
    ) -> Result<Option<InCall>, Held> {
        let Some(found) = found else { return Ok(None) };
        match self.sighting.try_lock() {
            Ok(mut sighting) => Ok(Some(self.sight(found, &mut sighting))),
            Err(TryLockError::Poisoned(poisoned)) => {
                Ok(Some(self.sight(found, &mut poisoned.into_inner())))
            }
            Err(TryLockError::WouldBlock) => Err(Held),
        }
    }

    /// Notes a tick that has moved something. The worker only, as all that follow.
    #[inline]
    pub(crate) fn moved(&self, tick: &Tick) {
        self.stepped(tick);
        add(&self.drained, tick.drained);
        self.ended(tick.done.wrapping_add(tick.aborted));
    }

    /// Notes the steps of a tick.
    #[inline]
    pub(crate) fn stepped(&self, tick: &Tick) {
        add(&self.steps, tick.stepped);
    }

    /// Notes how the worker waits after a tick.
    #[inline]
    pub(crate) fn waits(&self, wait: Wait) {
        if let Some(counter) = self.waits.get(wait as usize) {
            add(counter, 1);
        }
    }

    /// Notes tasks that ended.
    pub(crate) fn ended(&self, count: u32) {
        add(&self.ended, count);
    }

    /// How often the worker waited so after a tick.
    fn waited(&self, wait: Wait) -> u64 {
        let counter = self.waits.get(wait as usize);
        // Relaxed: see the type.
        counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Ticks after which the worker did not go on at once.
    fn idle_ticks(&self) -> u64 {
        [Wait::Pause, Wait::Yield, Wait::Sleep]
            .map(|wait| self.waited(wait))
            .into_iter()
            .fold(0, u64::wrapping_add)
    }

    /// Ticks that are over.
    pub(crate) fn ticks(&self) -> u64 {
        self.waited(Wait::Run).wrapping_add(self.idle_ticks())
    }

    /// The worker goes to sleep, or was woken, at `now`.
    pub(crate) fn asleep(&self, asleep: bool, now: u64) {
        // Relaxed, all: see the type.
        self.turned.store(now, Ordering::Relaxed);
        self.sleeps.fetch_add(asleep.into(), Ordering::Relaxed);
        self.asleep.store(asleep, Ordering::Relaxed);
    }

    /// When the worker went to sleep or woke; `None` if it has not slept yet.
    pub(crate) fn turned(&self) -> Option<u64> {
        // Relaxed: see the type.
        let turned = self.turned.load(Ordering::Relaxed);
        (turned > 0).then_some(turned)
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
            ticks: self.ticks(),
            steps: read(&self.steps),
            idle_ticks: self.idle_ticks(),
            drained: read(&self.drained),
            ended: read(&self.ended),
            pauses: self.waited(Wait::Pause),
            yields: self.waited(Wait::Yield),
            sleeps: read(&self.sleeps),
            rings: read(&self.rings),
            failures: read(&self.failures),
            full: read(&self.full),
        }
    }
}
