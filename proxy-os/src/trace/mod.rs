//! The trace of one worker: every state change, seam call, semaphore, sleep and wake-up from a moment on, for a timeline.
//!
//! Off until [`ProxyQueue::trace`](crate::ProxyQueue::trace) is called; a tick pays one load for it then. The worker appends to
//! memory that was set aside at that moment, so nothing is allocated while it runs; when that is full, events are counted and
//! dropped, and what is kept is the beginning. Anybody may read it at any time, also while the worker is stuck.

mod chrome;
mod tracks;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use proxy_core::port::Change;
use proxy_core::{ContextId, Rank, Stream, TaskKind};

use crate::memory::{self, NoMemory};
use crate::sys::clock;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A task changed its state.
    Change(Change),
    /// A block of a stream was registered with the library.
    Started(Lane, u32),
    /// A block of a stream is progressed for the first time.
    Selected(Lane, u32),
    /// A stream has drained the block.
    Drained(Lane, u32),
    /// A stream was stopped.
    Stopped(Lane),
    /// A semaphore of the device was raised.
    Semaphore {
        /// For which rank and kind of task, when that is known.
        of: Option<(Rank, TaskKind)>,
        /// Its address.
        address: usize,
        /// By how much.
        by: u32,
    },
    /// The worker goes to sleep.
    Sleep,
    /// The worker was woken.
    Wake,
}

/// One stream of one context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The context's rank.
    pub rank: Rank,
    /// The context.
    pub context: ContextId,
    /// The stream.
    pub stream: Stream,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of the monotonic clock.
    pub time: u64,
    /// What happened.
    pub what: What,
}

/// Why a trace was not started.
#[derive(Debug)]
pub enum TraceError {
    /// The queue is traced already: one trace per queue.
    AlreadyTraced,
    /// There is no memory for so many events.
    Memory(NoMemory),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyTraced => {
                f.write_str("the queue is traced already; a queue has one trace")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TraceError {}

/// The events of one worker, in order.
#[derive(Debug)]
pub struct Trace {
    events: Box<[OnceLock<Event>]>,
    /// Events so far, also those that found no place.
    count: AtomicUsize,
}

impl Trace {
    fn new(capacity: usize) -> Result<Self, NoMemory> {
        Ok(Self {
            events: memory::side_by_side("the trace", capacity, OnceLock::new)?,
            count: AtomicUsize::new(0),
        })
    }

    /// The worker only, so that the counter needs no read-modify-write.
    fn push(&self, time: u64, what: What) {
        // Relaxed: the worker is the only writer.
        let place = self.count.load(Ordering::Relaxed);
        if let Some(cell) = self.events.get(place) {
            let _ = cell.set(Event { time, what });
        }
        // Relaxed: a reader takes each event by its own cell.
        self.count.store(place.wrapping_add(1), Ordering::Relaxed);
    }

    /// The events so far, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().map_while(OnceLock::get)
    }

    /// How many events found no place.
    #[must_use]
    pub fn dropped(&self) -> usize {
        // Relaxed: a counter orders nothing.
        (self.count.load(Ordering::Relaxed)).saturating_sub(self.events.len())
    }
}

/// The place of a worker's trace, which is empty until somebody asks for one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot(Arc<OnceLock<Trace>>);

impl Slot {
    /// Starts the trace.
    pub(crate) fn start(&self, capacity: usize) -> Result<(), TraceError> {
        // Looked at first, so that a second call does not allocate for nothing.
        if self.0.get().is_some() {
            return Err(TraceError::AlreadyTraced);
        }
        let trace = Trace::new(capacity).map_err(TraceError::Memory)?;
        self.0.set(trace).map_err(|_| TraceError::AlreadyTraced)
    }

    pub(crate) fn get(&self) -> Option<&Trace> {
        self.0.get()
    }

    /// Notes an event as of now. The worker only. One load when nobody traces.
    pub(crate) fn note(&self, what: impl FnOnce() -> What) {
        if let Some(trace) = self.0.get() {
            trace.push(clock::monotonic_ns(), what());
        }
    }

    /// Notes a state change. The worker only.
    pub(crate) fn changed(&self, time: u64, change: &Change) {
        if let Some(trace) = self.0.get() {
            trace.push(time, What::Change(*change));
        }
    }

    /// Says for which rank and kind of task the calling worker is inside the library or a barrier from now on.
    pub(crate) fn inside(&self, rank: Rank, kind: TaskKind) {
        if self.0.get().is_some() {
            INSIDE.set(Some((rank, kind)));
        }
    }

    /// Makes this the trace of the calling worker's thread, for what is noted there without its queue.
    pub(crate) fn adopt(&self) {
        HERE.with(|here| here.replace(Some(self.clone())));
    }
}

thread_local! {
    /// On a worker's thread: its trace.
    static HERE: RefCell<Option<Slot>> = const { RefCell::new(None) };
    /// On a worker's thread: whose seam call or barrier it was in last.
    static INSIDE: Cell<Option<(Rank, TaskKind)>> = const { Cell::new(None) };
}

/// Notes that a semaphore was raised. Any thread; noted if it is a worker's and traced.
pub fn semaphore(address: usize, by: u32) {
    // Not available while the thread ends, when nothing is traced any more.
    let _ = HERE.try_with(|here| {
        if let Some(slot) = here.borrow().as_ref() {
            let of = INSIDE.get();
            slot.note(|| What::Semaphore { of, address, by });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_trace_keeps_the_beginning_and_counts_the_rest() {
        let slot = Slot::default();
        slot.note(|| What::Sleep);
        assert_eq!(slot.get().map(Trace::dropped), None, "not started");
        assert!(matches!(slot.start(usize::MAX), Err(TraceError::Memory(_))));
        assert!(slot.start(2).is_ok(), "the one without memory left nothing");
        assert!(matches!(slot.start(2), Err(TraceError::AlreadyTraced)));
        for _ in 0..3 {
            slot.note(|| What::Sleep);
            slot.note(|| What::Wake);
        }
        let trace = slot.get().unwrap();
        let kept: Vec<What> = trace.events().map(|event| event.what).collect();
        assert_eq!(kept, [What::Sleep, What::Wake]);
        assert_eq!(trace.dropped(), 4);
    }

    #[test]
    fn a_semaphore_is_noted_on_its_workers_thread_only() {
        let slot = Slot::default();
        slot.start(8).unwrap();
        semaphore(0x10, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                slot.adopt();
                semaphore(0x20, 1);
                slot.inside(Rank(3), TaskKind::Barrier);
                semaphore(0x30, 2);
            });
        });
        let kept: Vec<What> = slot
            .get()
            .unwrap()
            .events()
            .map(|event| event.what)
            .collect();
        let expected = [
            (None, 0x20, 1),
            (Some((Rank(3), TaskKind::Barrier)), 0x30, 2),
        ]
        .map(|(of, address, by)| What::Semaphore { of, address, by });
        assert_eq!(kept, expected);
    }
}
