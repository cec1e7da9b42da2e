//! The context table: what a task of a context is made of, looked up by id on both sides without a lock.

mod error;
mod spec;

use crate::hint::Hint;
use crate::id::{ContextId, Rank};
use crate::limits::{index, narrow};
use crate::port::DeviceWords;
use crate::status::TaskKind;
use crate::sync::{
    AtomicU32, AtomicUsize, CacheLine, Edge, Ordering, edge, shared_array, shared_fn,
};
use crate::trigger::{Arms, Gate};

pub use error::ContextError;
use spec::{ARMS, BARRIER};
pub use spec::{Spec, StopAt};

/// Place in the table, on four lines: what appends count, what is written once, what the worker counts, what
/// look-ups keep.
///
/// ```text
///        1 register             2 register           4 reset
///   FREE ----------> CLAIMED -------------> LIVE <------------> RESETTING
///     ^                                       |      5 reset
///     +---------------------------------------+
///                     3 retire
/// ```
///
/// Phase and generation stand in one word with the count of appends. So an append learns from its own count whether the context
/// was live when it was counted; and retire and reset leave LIVE (edges 3 and 4) by a compare-and-swap, when all that was counted
/// is finished, which fails if an append was counted meanwhile.
#[derive(Debug)]
pub(crate) struct ContextSlot {
    appends: Appends,
    shape: Shape,
    finished: CacheLine<Finished>,
    /// Of network and barrier tasks; the consumers'.
    hints: CacheLine<[Hint; 2]>,
}

/// What appends write.
#[derive(Debug)]
#[repr(align(64))]
struct Appends {
    /// Phase, generation and count.
    word: AtomicUsize,
    /// Sequence numbers, where the word is too narrow to hold enough of them.
    numbers: AtomicUsize,
}

/// What is finished of what appends have counted.
#[derive(Debug)]
struct Finished {
    /// Tasks that have ended: the worker's own count.
    ended: AtomicUsize,
    /// What was counted and not pushed.
    taken_back: AtomicUsize,
}

/// What is written when the place is taken, and the arms, which only contexts with start words use.
#[derive(Debug)]
#[repr(align(64))]
struct Shape {
    flags: AtomicU32,
    rank: AtomicU32,
    bucket: AtomicU32,
    network_arms: Arms,
    barrier_arms: Arms,
}

const FREE: usize = 0;
const CLAIMED: usize = 1;
const LIVE: usize = 2;
const RESETTING: usize = 3;
const PHASE: usize = 3;
const GENERATION: usize = 4;

/// Phase and generation: the low bits of the word; the rest is the count. On 64-bit hosts 4 million generations and 10^12 appends;
/// on 32-bit targets 16384 generations, and appends are counted modulo 65536.
const STATE_BITS: u32 = if WIDE { 24 } else { 16 };
const STATE: usize = (1 << STATE_BITS) - 1;
const ONE_APPEND: usize = 1 << STATE_BITS;
/// A count of appends takes the rest. What is counted and not finished must be fewer.
pub(crate) const COUNT: usize = usize::MAX >> STATE_BITS;
/// Whether counts serve as sequence numbers. A task that nobody consumes may be older than others by any number of appends, so a
/// count that wraps soon would put them in a wrong order.
const WIDE: bool = usize::BITS >= 64;
const SEQUENCE: usize = if WIDE { COUNT } else { usize::MAX };

/// Whether sequence number `left` was given out before `right`.
#[inline]
pub(crate) const fn is_older(left: usize, right: usize) -> bool {
    left.wrapping_sub(right) & SEQUENCE > SEQUENCE / 2
}

/// What enqueue and drain need of a context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    flags: u32,
    pub(crate) rank: Rank,
    pub(crate) bucket: u32,
}

impl Entry {
    /// The shape of the context's tasks.
    #[inline]
    pub(crate) fn spec(&self) -> Spec {
        Spec::unpack(self.flags, self.rank.0)
    }

    /// Whether an execution has a barrier task.
    #[inline]
    pub(crate) const fn barrier(&self) -> bool {
        self.flags & BARRIER != 0
    }

    /// Whether appends arm start words.
    #[inline]
    pub(crate) const fn arms(&self) -> bool {
        self.flags & ARMS != 0
    }
}

impl ContextSlot {
    shared_fn! {
        fn new() -> Self {
            Self {
                appends: Appends { word: AtomicUsize::new(0), numbers: AtomicUsize::new(0) },
                shape: Shape {
                    flags: AtomicU32::new(0),
                    rank: AtomicU32::new(0),
                    bucket: AtomicU32::new(0),
                    network_arms: Arms::new(),
                    barrier_arms: Arms::new(),
                },
                finished: CacheLine(Finished { ended: AtomicUsize::new(0), taken_back: AtomicUsize::new(0) }),
                hints: CacheLine([Hint::new(), Hint::new()]),
            }
        }
    }

    /// Counts an append and returns its sequence number, or `None`, and counts nothing, if `id` is not live any more. What
    /// is counted must be finished with [`count_end`](Self::count_end) or [`take_back`](Self::take_back); until then the context
    /// stays. Lock-free, one read-modify-write.
    #[inline]
    pub(crate) fn count_enqueue(&self, id: ContextId, tasks: usize) -> Option<usize> {
        let more = tasks.wrapping_mul(ONE_APPEND);
        // Release pairs with the acquire in `appends`: who sees the count sees the appends before this one. Acquire pairs with the
        // release in `reset_words`: the arms are reset before they are added to. What was read of the context before is this
        // generation's, as the generation has not changed since it was acquired.
        let both = edge(Edge::ContextPublish, Ordering::AcqRel);
        let before = self.appends.word.fetch_add(more, both);
        if before & STATE != live(id) {
            self.take_back(tasks);
            return None;
        }
        Some(if WIDE {
            before >> STATE_BITS
        } else {
            // Relaxed: only the number counts.
            self.appends.numbers.fetch_add(tasks, Ordering::Relaxed)
        })
    }

    /// Counts the end of a task. The worker only, so that no read-modify-write is needed, which would wait for all that was stored before.
    #[inline]
    pub(crate) fn count_end(&self) {
        let Finished { ended, .. } = &self.finished.0;
        // Relaxed: this thread is the only writer.
        let count = ended.load(Ordering::Relaxed).wrapping_add(1);
        // Release pairs with the acquire in `accounts`: a retired context's last task no longer touches anything of it.
        ended.store(count, edge(Edge::ContextFinish, Ordering::Release));
    }

    /// Counts back what was counted and not pushed.
    #[inline]
    pub(crate) fn take_back(&self, tasks: usize) {
        // Release as in `count_end`.
        let release = edge(Edge::ContextFinish, Ordering::Release);
        self.finished.0.taken_back.fetch_add(tasks, release);
    }

    /// The word, and how many of the appends that it counts are not finished.
    #[inline]
    fn accounts(&self) -> (usize, usize) {
        // Acquire pairs with the releases in `count_end` and `take_back`: of what is finished, the published status is visible, and no
        // access to the context is left. Read before the other, which then counts at least as many.
        let acquire = edge(Edge::ContextFinish, Ordering::Acquire);
        let Finished { ended, taken_back } = &self.finished.0;
        let ended = ended.load(acquire); // as above
        let finished = ended.wrapping_add(taken_back.load(acquire)); // as above
        // Relaxed: only compared, here or by the caller's compare-and-swap.
        let word = self.appends.word.load(Ordering::Relaxed);
        (word, (word >> STATE_BITS).wrapping_sub(finished) & COUNT)
    }

    /// The count of appends. Of the same producer, those before the last are visible.
    #[inline]
    pub(crate) fn appends(&self) -> usize {
        // Acquire pairs with the release in `count_enqueue`.
        self.appends
            .word
            .load(edge(Edge::ContextRead, Ordering::Acquire))
            >> STATE_BITS
    }

    /// The count of appends, if all of them are finished and `id` is registered: the next context of the place goes on with the count, and
    /// what a look-up finds of `id` says nothing about that one's tasks.
    #[inline]
    pub(crate) fn settled(&self, id: ContextId) -> Option<usize> {
        let (word, unfinished) = self.accounts();
        let settled = unfinished == 0 && is_registered(word & STATE, id);
        settled.then_some(word >> STATE_BITS)
    }

    /// Sequence numbers given out, and how many of them are not finished.
    pub(crate) fn progress(&self) -> (usize, usize) {
        let (word, unfinished) = self.accounts();
        let appends = if WIDE {
            word >> STATE_BITS
        } else {
            // Relaxed: only the number counts.
            self.appends.numbers.load(Ordering::Relaxed)
        };
        (appends, unfinished)
    }

    /// Where look-ups of this kind begin.
    #[inline]
    pub(crate) const fn hint(&self, kind: TaskKind) -> &Hint {
        let [network, barrier] = &self.hints.0;
        match kind {
            TaskKind::Network => network,
            TaskKind::Barrier => barrier,
        }
    }

    /// The gate of a task of this context.
    #[inline]
    pub(crate) fn gate(&self, context: ContextId, kind: TaskKind, spec: &Spec) -> Gate<'_> {
        let (arms, streams) = match kind {
            TaskKind::Network => (&self.shape.network_arms, spec.network_triggers()),
            TaskKind::Barrier => (&self.shape.barrier_arms, spec.barrier_triggers),
        };
        Gate {
            arms,
            pass: 0,
            context,
            kind,
            streams,
            polarity: spec.polarity,
            arming: spec.arming,
        }
    }

    /// The entry, if `id` is live. A task that is counted keeps its context live.
    #[inline]
    pub(crate) fn entry(&self, id: ContextId) -> Option<Entry> {
        self.entry_in(|state| state == live(id))
    }

    /// The entry, if `id` is registered: also while its start words are being reset.
    #[inline]
    pub(crate) fn entry_of_registered(&self, id: ContextId) -> Option<Entry> {
        self.entry_in(|state| is_registered(state, id))
    }

    /// Whether `id` is registered.
    #[inline]
    pub(crate) fn is_registered(&self, id: ContextId) -> bool {
        // Acquire as in `entry_in`.
        let acquire = edge(Edge::ContextRead, Ordering::Acquire);
        is_registered(self.appends.word.load(acquire) & STATE, id)
    }

    /// The entry, for the worker, of a task that is counted and that it has taken. Does not look at the word, whose line is the
    /// appends': who appends next would have to fetch it back.
    #[inline]
    pub(crate) fn entry_of_counted(&self) -> Entry {
        // Ordered by the take, whose acquire pairs with the push's release: the append had acquired the word that these were written
        // before. They stay as they are, as the context stays live until the task is finished.
        self.shape()
    }

    #[inline]
    fn entry_in(&self, accepts: impl Fn(usize) -> bool) -> Option<Entry> {
        // Acquire pairs with the release in `register`. If a retire and a register come behind it, the shape may be the next
        // context's: an append finds that out when it is counted, see `count_enqueue`.
        let acquire = edge(Edge::ContextRead, Ordering::Acquire);
        accepts(self.appends.word.load(acquire) & STATE).then(|| self.shape())
    }

    #[inline]
    fn shape(&self) -> Entry {
        // Relaxed, all: written before the word that the caller, or who handed it the task, has acquired.
        let Shape {
            flags,
            rank,
            bucket,
            ..
        } = &self.shape;
        Entry {
            flags: flags.load(Ordering::Relaxed),     // as above
            rank: Rank(rank.load(Ordering::Relaxed)), // as above
            bucket: bucket.load(Ordering::Relaxed),   // as above
        }
    }
}

#[inline]
const fn is_registered(state: usize, id: ContextId) -> bool {
    // LIVE and RESETTING, and no other phase, differ in this bit alone.
    let either = LIVE ^ RESETTING;
    state | either == live(id) | either
}

/// State of a live context.
#[inline]
const fn live(id: ContextId) -> usize {
    index(id.generation).wrapping_mul(GENERATION) | LIVE
}

/// All contexts of one queue.
#[derive(Debug)]
pub(crate) struct Contexts<const N: usize> {
    slots: [ContextSlot; N],
}

impl<const N: usize> Contexts<N> {
    shared_fn! {
        pub(crate) fn new() -> Self {
            Self { slots: shared_array!(ContextSlot::new()) }
        }
    }

    pub(crate) fn get(&self, id: ContextId) -> Option<&ContextSlot> {
        self.slots.get(index(id.index))
    }

    /// Puts a validated spec into a free place.
    pub(crate) fn register(&self, spec: &Spec, bucket: u32) -> Result<ContextId, ContextError> {
        for (place, slot) in self.slots.iter().enumerate() {
            let Some(generation) = slot.claim() else {
                continue;
            };
            let (flags, rank) = spec.pack();
            let shape = &slot.shape;
            // Relaxed, all five: published by the word below.
            shape.flags.store(flags, Ordering::Relaxed);
            shape.rank.store(rank, Ordering::Relaxed);
            shape.bucket.store(bucket, Ordering::Relaxed);
            shape.network_arms.reset();
            shape.barrier_arms.reset();
            // Release pairs with the acquire in `entry`. An addition, as a late append may be counted, and be taken back, meanwhile.
            let release = edge(Edge::ContextPublish, Ordering::Release);
            slot.appends.word.fetch_add(LIVE - CLAIMED, release);
            return Ok(ContextId {
                index: narrow(place),
                generation,
            });
        }
        Err(ContextError::TableFull {
            capacity: narrow(N),
        })
    }

    /// Frees a place whose tasks are all finished, and returns its bucket. An append that comes beside it is counted first, and keeps
    /// the context, or is refused as unknown.
    pub(crate) fn retire(&self, id: ContextId) -> Result<u32, ContextError> {
        let slot = self.get(id).ok_or(ContextError::Unknown)?;
        let entry = slot.entry(id).ok_or(ContextError::Unknown)?;
        slot.leave_live(id, FREE).map(|()| entry.bucket)
    }

    /// Resets the start words of both kinds and their arms, if all tasks are finished; appends and arms beside it as in `retire`.
    pub(crate) fn reset_words<W: DeviceWords + ?Sized>(
        &self,
        id: ContextId,
        words: &W,
    ) -> Result<(), ContextError> {
        let slot = self.get(id).ok_or(ContextError::Unknown)?;
        let spec = slot.entry(id).ok_or(ContextError::Unknown)?.spec();
        slot.leave_live(id, RESETTING)?;
        for kind in [TaskKind::Network, TaskKind::Barrier] {
            slot.gate(id, kind, &spec).reset(words);
        }
        // Release pairs with the acquire in `count_enqueue`. A subtraction, as late appends may be counted meanwhile.
        let release = edge(Edge::ContextPublish, Ordering::Release);
        slot.appends.word.fetch_sub(RESETTING - LIVE, release);
        Ok(())
    }
}

impl ContextSlot {
    /// Edges 3 and 4: leaves LIVE for another phase of this generation, unless something that was counted is unfinished.
    fn leave_live(&self, id: ContextId, phase: usize) -> Result<(), ContextError> {
        loop {
            let (seen, unfinished) = self.accounts();
            if seen & STATE != live(id) {
                return Err(ContextError::Unknown);
            }
            if unfinished > 0 {
                let unfinished = u32::try_from(unfinished).unwrap_or(u32::MAX);
                return Err(ContextError::Busy { unfinished });
            }
            // Release pairs with the acquire in `claim`. Relaxed on failure: looked at anew.
            let release = edge(Edge::ContextPublish, Ordering::Release);
            let next = seen & !PHASE | phase;
            if (self.appends.word)
                .compare_exchange(seen, next, release, Ordering::Relaxed)
                .is_ok()
            {
                return Ok(());
            }
        }
    }

    /// Takes the place if it is free; returns its next generation.
    fn claim(&self) -> Option<u32> {
        // Relaxed: the compare-and-swap decides.
        let mut seen = self.appends.word.load(Ordering::Relaxed);
        while seen & PHASE == FREE {
            let state = (seen & STATE).wrapping_add(GENERATION) & STATE | CLAIMED;
            // Acquire pairs with the release in `leave_live`.
            let acquire = edge(Edge::ContextRead, Ordering::Acquire);
            // Relaxed on failure: the next guess. A late append may have been counted here.
            match (self.appends.word).compare_exchange(
                seen,
                seen & !STATE | state,
                acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return u32::try_from(state / GENERATION).ok(),
                Err(now) => seen = now,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
