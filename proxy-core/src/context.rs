//! The context table: what a task of a context is made of, looked up by id on both sides without a lock.

use core::fmt;

use crate::id::{BlockIndex, ContextId, Rank};
use crate::limits::{BLOCKS, STREAMS, index, narrow};
use crate::port::DeviceWords;
use crate::status::TaskKind;
use crate::sync::{AtomicU32, AtomicUsize, Edge, Ordering, edge, shared_array, shared_fn};
use crate::trigger::{Arming, Arms, Gate, Polarity};

/// When the library is told to stop (design decision on several blocks: the specification stops at each switch, but a stop
/// frees every block of its stream).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StopAt {
    /// Once per started stream, when the task ends (done, error or abort).
    #[default]
    End,
    /// The specification's letter: every stream after the progress calls of each tick that switched blocks; at the end only
    /// what was started and not stopped since, which is everything if there was no switch.
    Switch,
}

/// The shape of a context's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Spec {
    /// Rank whose tasks these are.
    pub rank: Rank,
    /// Streams of the network task, 0..=4. None: nothing to progress, the task passes its gate and is done.
    pub streams: u8,
    /// Basic blocks of the network task, 1..=1024.
    pub blocks: u16,
    /// The whole network stage is skipped: INIT goes straight to DONE.
    pub skip: bool,
    /// The network task waits for its streams' start words.
    pub device_wait: bool,
    /// An execution also has a barrier task.
    pub barrier: bool,
    /// Start words of the barrier task, 0..=4.
    pub barrier_triggers: u8,
    /// Sense of the start words.
    pub polarity: Polarity,
    /// Who arms them.
    pub arming: Arming,
    /// When the library is told to stop.
    pub stop_at: StopAt,
}

impl Spec {
    /// A network task of one stream and one block that starts at once; no barrier.
    #[must_use]
    pub const fn new(rank: Rank) -> Self {
        Self {
            rank,
            streams: 1,
            blocks: 1,
            skip: false,
            device_wait: false,
            barrier: false,
            barrier_triggers: 0,
            polarity: Polarity::Specification,
            arming: Arming::OnEnqueue,
            stop_at: StopAt::End,
        }
    }

    /// Names the first field that is out of range.
    pub fn validate(&self) -> Result<(), ContextError> {
        for (field, value) in [
            ("streams", self.streams),
            ("barrier_triggers", self.barrier_triggers),
        ] {
            if usize::from(value) > STREAMS {
                return Err(ContextError::OutOfRange {
                    field,
                    found: value.into(),
                    accepted: "0 to 4",
                });
            }
        }
        if self.blocks == 0 || self.blocks > BLOCKS {
            return Err(ContextError::OutOfRange {
                field: "blocks",
                found: self.blocks.into(),
                accepted: "1 to 1024",
            });
        }
        Ok(())
    }

    /// Start words of the network task.
    pub(crate) const fn network_triggers(&self) -> u8 {
        if self.device_wait && !self.skip {
            self.streams
        } else {
            0
        }
    }

    fn pack(&self) -> (u32, u32) {
        let mut flags = u32::from(self.streams) | u32::from(self.barrier_triggers) << 4;
        for (bit, set) in [
            (8, self.skip),
            (9, self.device_wait),
            (10, self.barrier),
            (11, self.polarity == Polarity::Header),
            (12, self.arming == Arming::Explicit),
            (13, self.arming == Arming::ByDevice),
            (14, self.stop_at == StopAt::Switch),
        ] {
            flags |= u32::from(set) << bit;
        }
        (flags | u32::from(self.blocks) << 16, self.rank.0)
    }

    fn unpack(flags: u32, rank: u32) -> Self {
        let bit = |bit: u32| flags >> bit & 1 == 1;
        let byte = |shift: u32| u8::try_from(flags >> shift & 0xF).unwrap_or(0);
        Self {
            rank: Rank(rank),
            streams: byte(0),
            barrier_triggers: byte(4),
            blocks: u16::try_from(flags >> 16).unwrap_or(0),
            skip: bit(8),
            device_wait: bit(9),
            barrier: bit(10),
            polarity: if bit(11) {
                Polarity::Header
            } else {
                Polarity::Specification
            },
            arming: match (bit(12), bit(13)) {
                (true, _) => Arming::Explicit,
                (_, true) => Arming::ByDevice,
                _ => Arming::OnEnqueue,
            },
            stop_at: if bit(14) { StopAt::Switch } else { StopAt::End },
        }
    }

    pub(crate) const fn first_block() -> BlockIndex {
        BlockIndex(0)
    }
}

/// Why a context was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ContextError {
    /// A field of the description.
    OutOfRange {
        /// Its name.
        field: &'static str,
        /// Its value.
        found: u32,
        /// What is accepted.
        accepted: &'static str,
    },
    /// All places of the table are in use.
    TableFull {
        /// How many there are.
        capacity: u32,
    },
    /// The queue serves as many ranks as it can: each has a context, or tasks that are unfinished.
    TooManyRanks {
        /// How many it can.
        capacity: u32,
    },
    /// Another thread is giving a rank its place at this moment: register again.
    Contended,
    /// The id is not one of a registered context.
    Unknown,
    /// The caller is a forked child: the worker is its parent's. Said by shells; the core knows no processes.
    Forked,
    /// Tasks of the context are unfinished.
    Busy {
        /// How many.
        unfinished: u32,
    },
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange {
                field,
                found,
                accepted,
            } => {
                write!(f, "context field {field} is {found}, accepted: {accepted}")
            }
            Self::TableFull { capacity } => {
                write!(f, "all {capacity} contexts of the queue are in use")
            }
            Self::TooManyRanks { capacity } => {
                write!(f, "the queue already serves {capacity} ranks, its limit")
            }
            Self::Contended => {
                f.write_str("another thread is giving a rank its place: register again")
            }
            Self::Unknown => f.write_str("no such context is registered"),
            Self::Forked => f.write_str(crate::FORKED),
            Self::Busy { unfinished } => {
                write!(f, "{unfinished} tasks of the context are unfinished")
            }
        }
    }
}

impl core::error::Error for ContextError {}

/// Place in the table: phase in the low two bits of `word`, generation above.
///
/// ```text
///        1 register             2 register           3 retire
///   FREE ----------> CLAIMED -------------> LIVE -------------> RETIRING
///     ^                                       ^  4 in use, reset |   |
///     |                                       +------------------+   |
///     +--------------------------------------------------------------+
///                           5 nothing unfinished
/// ```
///
/// An append counts itself first and then confirms, by a read-modify-write of the word, that the context is still LIVE; a retire
/// (or a reset of its start words, which goes the same way and back) leaves LIVE first and then reads the count. So at least one of
/// them sees the other and gives way.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct ContextSlot {
    word: AtomicU32,
    flags: AtomicU32,
    rank: AtomicU32,
    bucket: AtomicU32,
    enqueued: AtomicUsize,
    finished: AtomicUsize,
    network_arms: Arms,
    barrier_arms: Arms,
}

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const LIVE: u32 = 2;
const RETIRING: u32 = 3;
const PHASE: u32 = 3;
const GENERATION: u32 = 4;

/// What enqueue and drain need of a context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) spec: Spec,
    pub(crate) bucket: u32,
}

impl ContextSlot {
    shared_fn! {
        fn new() -> Self {
            Self {
                word: AtomicU32::new(0),
                flags: AtomicU32::new(0),
                rank: AtomicU32::new(0),
                bucket: AtomicU32::new(0),
                enqueued: AtomicUsize::new(0),
                finished: AtomicUsize::new(0),
                network_arms: Arms::new(),
                barrier_arms: Arms::new(),
            }
        }
    }

    /// Counts an append and returns its sequence number, or `None`, and counts nothing, if `id` is not live any more. What
    /// is counted must be finished with [`count_finish`](Self::count_finish); until then the context stays.
    pub(crate) fn count_enqueue(&self, id: ContextId, tasks: usize) -> Option<usize> {
        // Relaxed: published by the confirmation below.
        let sequence = self.enqueued.fetch_add(tasks, Ordering::Relaxed);
        // Pairs with the acquire of the swap in `retire`: the two hit one word, so either the retire came first and is seen
        // here, or it sees the count. Changes nothing.
        let word = self
            .word
            .fetch_or(0, edge(Edge::ContextConfirm, Ordering::AcqRel));
        if word == live_word(id) {
            return Some(sequence);
        }
        self.count_finish(tasks);
        None
    }

    /// Counts a finished (or never pushed) append.
    pub(crate) fn count_finish(&self, tasks: usize) {
        // Release pairs with the acquire in `retire`: a retired context's last task no longer touches anything of it.
        self.finished
            .fetch_add(tasks, edge(Edge::ContextFinish, Ordering::Release));
    }

    /// Whether nothing that was counted is unfinished.
    fn check_finished(&self) -> Result<(), ContextError> {
        // Acquire pairs with the release in `count_finish`.
        let finished = self
            .finished
            .load(edge(Edge::ContextFinish, Ordering::Acquire));
        // Relaxed: read after the other, so the difference is never too small for what is visible.
        match (self.enqueued.load(Ordering::Relaxed)).wrapping_sub(finished) {
            0 => Ok(()),
            unfinished => Err(ContextError::Busy {
                unfinished: u32::try_from(unfinished).unwrap_or(u32::MAX),
            }),
        }
    }

    /// The gate of a task of this context.
    pub(crate) fn gate(&self, context: ContextId, kind: TaskKind, spec: &Spec) -> Gate<'_> {
        let (arms, streams) = match kind {
            TaskKind::Network => (&self.network_arms, spec.network_triggers()),
            TaskKind::Barrier => (&self.barrier_arms, spec.barrier_triggers),
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

    /// The entry, if `id` is live.
    pub(crate) fn entry(&self, id: ContextId) -> Option<Entry> {
        self.entry_in(|word| word == live_word(id))
    }

    /// The entry for a task of `id` that is counted, and so keeps the context even while a retire is looking.
    pub(crate) fn entry_of_task(&self, id: ContextId) -> Option<Entry> {
        self.entry_in(|word| word == live_word(id) || word == retiring_word(id))
    }

    fn entry_in(&self, accepts: impl Fn(u32) -> bool) -> Option<Entry> {
        // Acquire pairs with the release in `register`.
        let word = self.word.load(edge(Edge::ContextRead, Ordering::Acquire));
        if !accepts(word) {
            return None;
        }
        // Relaxed: written before the word that was acquired. If a retire and a register come in between, this may be
        // the next context's: an append finds that out when it confirms, see `count_enqueue`.
        let spec = Spec::unpack(
            self.flags.load(Ordering::Relaxed),
            self.rank.load(Ordering::Relaxed),
        );
        // Relaxed: as above.
        let bucket = self.bucket.load(Ordering::Relaxed);
        Some(Entry { spec, bucket })
    }
}

const fn live_word(id: ContextId) -> u32 {
    id.generation.wrapping_mul(GENERATION) | LIVE
}

const fn retiring_word(id: ContextId) -> u32 {
    id.generation.wrapping_mul(GENERATION) | RETIRING
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
            // Relaxed: the compare-and-swap decides.
            let seen = slot.word.load(Ordering::Relaxed);
            if seen & PHASE != FREE {
                continue;
            }
            let claimed = seen.wrapping_add(GENERATION) | CLAIMED;
            // Acquire pairs with the release in `retire`.
            let acquire = edge(Edge::ContextRead, Ordering::Acquire);
            // Relaxed on failure: the next place is tried.
            if slot
                .word
                .compare_exchange(seen, claimed, acquire, Ordering::Relaxed)
                .is_err()
            {
                continue;
            }
            let (flags, rank) = spec.pack();
            // Relaxed, all five: published by the word below.
            slot.flags.store(flags, Ordering::Relaxed);
            slot.rank.store(rank, Ordering::Relaxed);
            slot.bucket.store(bucket, Ordering::Relaxed);
            slot.network_arms.reset();
            slot.barrier_arms.reset();
            let id = ContextId {
                index: narrow(place),
                generation: claimed / GENERATION,
            };
            // Release pairs with the acquire in `entry`. A swap, not a store, because a late append may confirm on this word
            // by a read-modify-write of its own; acquire places this one behind it.
            slot.word
                .swap(live_word(id), edge(Edge::ContextPublish, Ordering::AcqRel));
            return Ok(id);
        }
        Err(ContextError::TableFull {
            capacity: narrow(N),
        })
    }

    /// Frees a place whose tasks are all finished, and returns its bucket. An append that comes while it looks is refused as unknown.
    pub(crate) fn retire(&self, id: ContextId) -> Result<u32, ContextError> {
        self.at_rest(id, |_, _| FREE).map(|entry| entry.bucket)
    }

    /// Resets the start words of both kinds and their arms, if all tasks are finished; appends and arms meanwhile as in `retire`.
    pub(crate) fn reset_words<W: DeviceWords + ?Sized>(
        &self,
        id: ContextId,
        words: &W,
    ) -> Result<(), ContextError> {
        let reset = |slot: &ContextSlot, entry: &Entry| {
            for kind in [TaskKind::Network, TaskKind::Barrier] {
                slot.gate(id, kind, &entry.spec).reset(words);
            }
            LIVE
        };
        self.at_rest(id, reset).map(|_| ())
    }

    /// Keeps appends out, and if then no task is unfinished does `what`, whose answer is the phase in which the place is left.
    fn at_rest(
        &self,
        id: ContextId,
        what: impl FnOnce(&ContextSlot, &Entry) -> u32,
    ) -> Result<Entry, ContextError> {
        let slot = self.get(id).ok_or(ContextError::Unknown)?;
        let entry = slot.entry(id).ok_or(ContextError::Unknown)?;
        // Looked at first without leaving LIVE, so that a call that must fail disturbs no append.
        slot.check_finished()?;
        let (live, retiring) = (live_word(id), retiring_word(id));
        // Acquire pairs with the confirmation in `count_enqueue`; relaxed on failure: somebody else retires it.
        let acquire = edge(Edge::ContextConfirm, Ordering::Acquire);
        slot.word
            .compare_exchange(live, retiring, acquire, Ordering::Relaxed)
            .map_err(|_| ContextError::Unknown)?;
        let finished = slot.check_finished();
        let phase = match finished {
            Ok(()) => what(slot, &entry),
            Err(_) => LIVE,
        };
        // Release pairs with the acquire in `register` or, if the context stays, in `entry`. A swap, as in `register`.
        slot.word.swap(
            live & !PHASE | phase,
            edge(Edge::ContextPublish, Ordering::AcqRel),
        );
        finished.map(|()| entry)
    }
}

#[cfg(test)]
mod tests;
