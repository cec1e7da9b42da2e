//! The status board: one published word per slot, and the fields behind it.
//!
//! ```text
//!            1 claim                2 publish               3 report
//!   FREE(g) ---------> CLAIMED(g+1) ---------> INIT(g+1) ------------> ... DONE(g+1)
//!     ^  ^                  | 5 unclaim                                     |
//!     |  +------------------+                                               |
//!     +---------------------------------------------------------------------+
//!                               4 consume
//! ```
//!
//! | edge | who | function | how |
//! |---|---|---|---|
//! | 1 | a producer | [`Slot::claim`] | compare-and-swap |
//! | 2 | the same producer | [`Slot::publish`] | store |
//! | 3 | the worker | [`Slot::report`] | store, only when the state changes |
//! | 4 | any consumer, exactly one | [`Slot::consume`] | compare-and-swap |
//! | 5 | the same producer; for a task that ended by its mark see [`order`] | [`Slot::unclaim`] | store |
//!
//! Each state has one writer, except DONE, whose consumers settle it by compare-and-swap. The status code is stored before
//! DONE and read after it, so that no reader sees a torn pair (in the original the two are written and read under different
//! locks). A slot is the worker's until it reports DONE, and that store is its last access (requirement H10).
//!
//! Beside the word stands the slot's mark, by which others have the worker end a task early: see [`order`].

mod order;

pub use order::Cause;
use order::End;
pub(crate) use order::Verdict;

use core::fmt;

use crate::id::{ContextId, ExecId};
use crate::status::{RunState, Status, TaskKind};
use crate::sync::{AtomicU32, AtomicUsize, Edge, Ordering, WideCell, edge, shared_fn};

/// What the word says of a slot, besides its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Free,
    Claimed,
    Live(RunState),
}

/// A snapshot of a slot's word: phase in bits 0..3, kind in bit 3, generation from bit 8 on. All zero is a fresh, free slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(usize);

const PHASE: usize = 0b111;
const BARRIER: usize = 0b1000;
const GENERATION_SHIFT: u32 = 8;

impl Word {
    #[inline]
    const fn bits(phase: Phase) -> usize {
        match phase {
            Phase::Free => 0,
            Phase::Claimed => 1,
            Phase::Live(RunState::Init) => 2,
            Phase::Live(RunState::Progressing) => 3,
            Phase::Live(RunState::WaitingDeviceTrigger) => 4,
            Phase::Live(RunState::Idle) => 5,
            Phase::Live(RunState::Done) => 6,
        }
    }

    #[inline]
    const fn pack(phase: Phase, kind: TaskKind, generation: usize) -> Self {
        let kind = match kind {
            TaskKind::Network => 0,
            TaskKind::Barrier => BARRIER,
        };
        Self(generation << GENERATION_SHIFT | kind | Self::bits(phase))
    }

    #[inline]
    pub(crate) const fn phase(self) -> Phase {
        match self.0 & PHASE {
            0 => Phase::Free,
            1 => Phase::Claimed,
            2 => Phase::Live(RunState::Init),
            3 => Phase::Live(RunState::Progressing),
            4 => Phase::Live(RunState::WaitingDeviceTrigger),
            5 => Phase::Live(RunState::Idle),
            _ => Phase::Live(RunState::Done),
        }
    }

    /// The state of a live task that is not DONE.
    #[inline]
    pub(crate) const fn unfinished(self) -> Option<RunState> {
        match self.phase() {
            Phase::Live(RunState::Done) | Phase::Free | Phase::Claimed => None,
            Phase::Live(state) => Some(state),
        }
    }

    #[inline]
    pub(crate) const fn kind(self) -> TaskKind {
        if self.0 & BARRIER == 0 {
            TaskKind::Network
        } else {
            TaskKind::Barrier
        }
    }

    #[inline]
    pub(crate) const fn generation(self) -> usize {
        self.0 >> GENERATION_SHIFT
    }

    #[inline]
    const fn with(self, phase: Phase) -> Self {
        Self(self.0 & !PHASE | Self::bits(phase))
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}/{}/{}",
            self.phase(),
            self.kind(),
            self.generation()
        )
    }
}

/// What a task is, fixed from its append to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskKey {
    pub(crate) context: ContextId,
    pub(crate) exec: ExecId,
    /// Position among the appends of its context, from 0.
    pub(crate) sequence: usize,
}

/// One task's place: 64 bytes, one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    word: AtomicUsize,
    sequence: AtomicUsize,
    exec: WideCell,
    context: AtomicU32,
    context_generation: AtomicU32,
    code: AtomicU32,
    /// Orders of others, and their verdict; see [`order`].
    mark: AtomicUsize,
    /// Inbox link: the slot below this one, plus 1; 0 = bottom.
    next: AtomicU32,
    appended: WideCell,
}

impl Slot {
    shared_fn! {
        pub(crate) fn new() -> Self {
            Self {
                word: AtomicUsize::new(0),
                sequence: AtomicUsize::new(0),
                exec: WideCell::new(),
                context: AtomicU32::new(0),
                context_generation: AtomicU32::new(0),
                code: AtomicU32::new(0),
                mark: AtomicUsize::new(0),
                next: AtomicU32::new(0),
                appended: WideCell::new(),
            }
        }
    }

    /// Edge 1. Lock-free; fails if the slot is in use or another producer was first.
    #[inline]
    pub(crate) fn claim(&self, kind: TaskKind) -> Option<Word> {
        // Relaxed: the compare-and-swap decides.
        let seen = Word(self.word.load(Ordering::Relaxed));
        if seen.phase() != Phase::Free {
            return None;
        }
        let claimed = Word::pack(Phase::Claimed, kind, seen.generation().wrapping_add(1));
        // Acquire pairs with the release in `consume` and `unclaim`: the last user's reads are over before we write.
        let acquire = edge(Edge::SlotClaim, Ordering::Acquire);
        // Relaxed on failure: nothing is read then.
        (self.word)
            .compare_exchange(seen.0, claimed.0, acquire, Ordering::Relaxed)
            .is_ok()
            .then_some(claimed)
    }

    /// Fills a claimed slot.
    #[inline]
    pub(crate) fn fill(&self, key: &TaskKey) {
        // Release pairs with the acquire in `key`: a lookup that sees one of these sees the claim before it, and retries.
        let order = edge(Edge::SlotFields, Ordering::Release);
        self.context.store(key.context.index, order); // as above
        self.context_generation.store(key.context.generation, order); // as above
        self.exec.store(key.exec.0, order); // as above
        self.sequence.store(key.sequence, order); // as above
    }

    /// Edge 2: the status can be seen from here on, before the task can run. `claimed` is what `claim` returned.
    #[inline]
    pub(crate) fn publish(&self, claimed: Word) -> Word {
        let live = claimed.with(Phase::Live(RunState::Init));
        // Release pairs with the acquire in `word`: a lookup that sees INIT sees the fields.
        self.word
            .store(live.0, edge(Edge::StatusPublish, Ordering::Release));
        live
    }

    /// Edge 5: gives a claimed or published slot back that was never pushed, or whose end was told by its mark.
    #[inline]
    pub(crate) fn unclaim(&self, claimed: Word) {
        // Release pairs with the acquire in `claim`, as for `consume`.
        self.word.store(
            claimed.with(Phase::Free).0,
            edge(Edge::SlotFree, Ordering::Release),
        );
    }

    /// Edge 3, by the worker only. `live` is the word as published; `code` counts only with DONE.
    #[inline]
    pub(crate) fn report(&self, live: Word, state: RunState, code: Status) {
        if state == RunState::Done {
            match self.close(live) {
                End::Publish => {}
                End::Leave => return,
                End::Free => return self.unclaim(live),
            }
            // Relaxed: ordered before the word by its release below.
            self.code.store(code.to_bits(), Ordering::Relaxed);
        }
        // Release pairs with the acquire in `word`: who sees DONE sees the code.
        self.word.store(
            live.with(Phase::Live(state)).0,
            edge(Edge::StatusPublish, Ordering::Release),
        );
    }

    /// Edge 4: takes the code of a task seen DONE; `None` if another consumer was first.
    #[inline]
    pub(crate) fn consume(&self, done: Word) -> Option<Status> {
        // Relaxed: `done` was read with acquire, so the code stored before it is visible; and it cannot have been
        // overwritten if the compare-and-swap below still finds the same generation.
        let code = Status::from_bits(self.code.load(Ordering::Relaxed));
        // Release pairs with the acquire in `claim`: our read of the code is over before the slot is used again.
        let release = edge(Edge::SlotFree, Ordering::Release);
        // Relaxed on failure: the other consumer has everything.
        (self.word)
            .compare_exchange(done.0, done.with(Phase::Free).0, release, Ordering::Relaxed)
            .is_ok()
            .then_some(code)
    }

    /// Where it is: all of it is on one line.
    #[inline]
    pub(crate) const fn address(&self) -> *const () {
        core::ptr::from_ref(self).cast()
    }

    /// The word as of now.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        // Acquire pairs with the release in `publish` and `report`.
        Word(self.word.load(edge(Edge::StatusRead, Ordering::Acquire)))
    }

    /// Whether the worker, who asks, has reported the end of the task that was published as `live`.
    pub(crate) fn is_over(&self, live: Word) -> bool {
        let now = self.word();
        let ended = matches!(now.phase(), Phase::Free | Phase::Live(RunState::Done));
        now.generation() != live.generation() || ended || self.is_ended(now)
    }

    /// Whether the task of this word is of `context`.
    #[inline]
    pub(crate) fn is_of(&self, context: ContextId, seen: Word) -> bool {
        // Acquire pairs with the release in `fill`, as in `key`.
        let order = edge(Edge::SlotFields, Ordering::Acquire);
        let index = self.context.load(order); // as above
        let generation = self.context_generation.load(order); // as above
        (index, generation) == (context.index, context.generation)
            && self.word().generation() == seen.generation()
    }

    /// The fields, if the slot is live and still is what `seen` said after they were read.
    #[inline]
    pub(crate) fn key(&self, seen: Word) -> Option<TaskKey> {
        let key = self.key_unchecked();
        // Acquire: a field of a newer claim makes that claim's word visible here (see `fill`).
        (self.word().generation() == seen.generation()).then_some(key)
    }

    /// The fields, for the worker, who owns a pushed slot.
    #[inline]
    pub(crate) fn key_unchecked(&self) -> TaskKey {
        // Acquire pairs with the release in `fill`.
        let order = edge(Edge::SlotFields, Ordering::Acquire);
        TaskKey {
            context: ContextId {
                index: self.context.load(order),                 // as above
                generation: self.context_generation.load(order), // as above
            },
            exec: ExecId(self.exec.load(order)), // as above
            sequence: self.sequence.load(order), // as above
        }
    }

    /// Notes the time of the append. Only the slot's owner calls it, before its push.
    #[inline]
    pub(crate) fn set_appended(&self, time: u64) {
        // Relaxed: published by the push that follows.
        self.appended.store(time, Ordering::Relaxed);
    }

    /// The time of the append, read by the worker after its take, and by others for reports.
    #[inline]
    pub(crate) fn appended(&self) -> u64 {
        // Relaxed: made visible by the take's acquire.
        self.appended.load(Ordering::Relaxed)
    }

    /// Sets the inbox link. Only the slot's owner calls it, before its push.
    #[inline]
    pub(crate) fn set_next(&self, link: u32) {
        // Relaxed: published by the push that follows.
        self.next.store(link, Ordering::Relaxed);
    }

    /// The inbox link, read by the worker after its take.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        // Relaxed: made visible by the take's acquire.
        self.next.load(Ordering::Relaxed)
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: TaskKey = TaskKey {
        context: ContextId {
            index: 3,
            generation: 9,
        },
        exec: ExecId(u64::MAX - 1),
        sequence: 41,
    };

    #[test]
    fn words_keep_phase_kind_and_generation_apart() {
        let phases = [Phase::Free, Phase::Claimed]
            .into_iter()
            .chain(RunState::ALL.into_iter().map(Phase::Live));
        for phase in phases {
            for kind in [TaskKind::Network, TaskKind::Barrier] {
                for generation in [0, 1, 255, usize::MAX >> GENERATION_SHIFT] {
                    let word = Word::pack(phase, kind, generation);
                    assert_eq!(
                        (word.phase(), word.kind(), word.generation()),
                        (phase, kind, generation)
                    );
                }
            }
        }
    }

    #[test]
    fn every_state_answers_every_event() {
        let slot = Slot::new();
        let claimed = slot.claim(TaskKind::Barrier).unwrap();
        assert_eq!(claimed.generation(), 1);
        assert_eq!(
            slot.claim(TaskKind::Network),
            None,
            "a claimed slot cannot be claimed"
        );
        slot.fill(&KEY);
        let live = slot.publish(claimed);
        assert_eq!(slot.word(), live);
        assert_eq!(slot.key(live), Some(KEY));
        for state in RunState::ALL {
            slot.report(live, state, Status(7));
            assert_eq!(slot.word().phase(), Phase::Live(state));
            assert_eq!(
                slot.claim(TaskKind::Network),
                None,
                "a live slot cannot be claimed"
            );
        }
        let done = slot.word();
        assert_eq!(slot.consume(done), Some(Status(7)));
        assert_eq!(slot.consume(done), None, "a second consumer comes too late");
        assert_eq!(slot.word().phase(), Phase::Free);
        let again = slot.claim(TaskKind::Network).unwrap();
        assert_eq!(again.generation(), 2);
        assert_eq!(
            slot.key(done),
            None,
            "a field read is refused once the slot has moved on"
        );
        slot.unclaim(again);
        assert_eq!(slot.word().phase(), Phase::Free);
    }
}
