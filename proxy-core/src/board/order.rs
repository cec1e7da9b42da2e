//! A slot's mark: how others have the worker end a task early, and what a consumer is told when the worker does not come.
//!
//! ```text
//!              1 order            2 conclude              3 take
//!   (older) ------------> ORDERED ---------> FINAL ------------------> TAKEN
//!      |                     |                 | 5 leave                 |
//!      | 4 close             | 4               v            6 take       | 4, and the slot is free
//!      +---------------------+----> CLOSED <- FINAL|LEFT ----+           |
//!                                     ^        (and the slot is free)    |
//!                                     +----------------------------------+
//! ```
//!
//! | edge | who | function |
//! |---|---|---|
//! | 1 | anybody | [`Slot::order`] |
//! | 2 | whoever has ordered and waited in vain | [`Slot::conclude`] |
//! | 3, 6 | a consumer, exactly one | [`Slot::take_verdict`] |
//! | 4, 5 | the worker, at the task's end, whatever ends it | [`Slot::close`] |
//!
//! All edges are read-modify-writes of this one word, which carries the generation of the task that it is about: a late
//! order for a task that is over changes nothing, the first order of a task stands, and the end is told by the verdict or by
//! the slot's word, never by both. From edge 2 on every look finds a final code. A verdict is about the status only: until the
//! worker itself ends the task the slot stays the worker's, and so does everything that the library may touch.

use super::{GENERATION_SHIFT, Slot, Word};
use crate::status::Status;
use crate::sync::{AtomicUsize, Edge, Ordering, edge};

/// Why a task is ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Cause {
    /// Its owner wants it to end: [`Status::ABORTED`].
    Aborted,
    /// Its deadline has passed: [`Status::TIMEOUT`].
    TimedOut,
}

impl Cause {
    /// The code that the task ends with.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Aborted => Status::ABORTED,
            Self::TimedOut => Status::TIMEOUT,
        }
    }
}

/// What a consumer finds at a task that is not DONE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// None: the worker will say.
    None,
    /// A final code, to be taken.
    Given,
    /// A consumer has taken it.
    Taken,
}

const TIMED_OUT: usize = 1 << 1;
const FINAL: usize = 1 << 2;
const TAKEN: usize = 1 << 3;
const LEFT: usize = 1 << 4;
const CLOSED: usize = 1 << 5;

/// A snapshot of the mark: generation from bit 8 on, as in the slot's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark(usize);

impl Mark {
    const fn new(generation: usize, flags: usize) -> Self {
        Self(generation << GENERATION_SHIFT | flags)
    }

    #[inline]
    const fn ordered(generation: usize, cause: Cause) -> Self {
        match cause {
            Cause::Aborted => Self::new(generation, 0),
            Cause::TimedOut => Self::new(generation, TIMED_OUT),
        }
    }

    /// Whether one of these is set.
    const fn has(self, flags: usize) -> bool {
        self.0 & flags != 0
    }

    /// Whether the mark is about this generation.
    const fn is_of(self, generation: usize) -> bool {
        self.0 >> GENERATION_SHIFT == generation
    }

    /// Whether the mark is about a later generation, counted around the wrap.
    const fn is_after(self, generation: usize) -> bool {
        let ahead = (self.0 & !0xFF).wrapping_sub(generation << GENERATION_SHIFT);
        ahead != 0 && ahead < usize::MAX / 2
    }

    #[inline]
    const fn verdict(self, generation: usize) -> Verdict {
        if !self.is_of(generation) || self.has(CLOSED) || !self.has(FINAL) {
            Verdict::None
        } else if self.has(TAKEN) {
            Verdict::Taken
        } else {
            Verdict::Given
        }
    }

    const fn cause(self) -> Cause {
        if self.has(TIMED_OUT) {
            Cause::TimedOut
        } else {
            Cause::Aborted
        }
    }
}

impl Slot {
    #[inline]
    fn mark(&self) -> Mark {
        // Relaxed: the word is the whole message; that the worker sees a mark in time is the order bit's doing (`Inbox::order`), and
        // who frees the slot has swapped the mark first.
        Mark(self.mark.load(Ordering::Relaxed))
    }

    /// Edge 1: has the task of this word ended early. `false` = it is over.
    pub(crate) fn order(&self, word: Word, cause: Cause) -> bool {
        let generation = word.generation();
        let ordered = Mark::ordered(generation, cause);
        let mut seen = self.mark();
        loop {
            if seen.is_of(generation) {
                return !seen.has(CLOSED | FINAL);
            }
            if seen.is_after(generation) {
                return false;
            }
            match swap(&self.mark, seen, ordered) {
                Ok(()) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the task of this word is to be ended early. The worker asks, of slots that it owns.
    #[inline]
    pub(crate) fn ordered(&self, live: Word) -> Option<Cause> {
        let mark = self.mark();
        // A closed mark is of an older generation here: this one's is closed at its end.
        mark.is_of(live.generation()).then(|| mark.cause())
    }

    /// Edge 2: gives an ordered task its final code, although the worker has not come to it. `false` = it is over, or nobody
    /// has ordered.
    pub(crate) fn conclude(&self, word: Word) -> bool {
        let mut seen = self.mark();
        loop {
            if !seen.is_of(word.generation()) || seen.has(CLOSED) {
                return false;
            }
            if seen.has(FINAL) {
                return true;
            }
            match swap(&self.mark, seen, Mark(seen.0 | FINAL)) {
                Ok(()) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// What a consumer finds besides the word.
    #[inline]
    pub(crate) fn verdict(&self, word: Word) -> Verdict {
        self.mark().verdict(word.generation())
    }

    /// Edges 3 and 6: takes a verdict that was given; `None` if another consumer was first.
    pub(crate) fn take_verdict(&self, word: Word) -> Option<Status> {
        let mut seen = self.mark();
        while seen.verdict(word.generation()) == Verdict::Given {
            let left = seen.has(LEFT);
            let new = if left {
                Mark::new(word.generation(), CLOSED)
            } else {
                Mark(seen.0 | TAKEN)
            };
            match swap(&self.mark, seen, new) {
                Ok(()) => {
                    if left {
                        self.unclaim(word);
                    }
                    return Some(seen.cause().status());
                }
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Whether the worker has ended the task of this word and left the rest to the consumer.
    #[inline]
    pub(crate) fn is_left(&self, word: Word) -> bool {
        let mark = self.mark();
        mark.is_of(word.generation()) && mark.has(LEFT)
    }

    /// Whether the worker, who asks, has ended the task of this word: also where a consumer has taken what was left to it and has not freed the
    /// slot yet.
    #[inline]
    pub(crate) fn is_ended(&self, word: Word) -> bool {
        let mark = self.mark();
        mark.is_of(word.generation()) && mark.has(LEFT | CLOSED)
    }

    /// Edges 4 and 5: no order is taken from here on. Says what the worker does with the slot.
    #[inline]
    pub(super) fn close(&self, live: Word) -> End {
        let generation = live.generation();
        // What the end before has left, if nobody has ordered anything. It is not looked up first, as that would move the line, which
        // consumers poll, twice; a wrong guess costs a second attempt.
        let mut seen = Mark::new(generation.wrapping_sub(1), CLOSED);
        loop {
            let (end, new) = match seen.verdict(generation) {
                Verdict::None => (End::Publish, Mark::new(generation, CLOSED)),
                Verdict::Given => (End::Leave, Mark(seen.0 | LEFT)),
                Verdict::Taken => (End::Free, Mark::new(generation, CLOSED)),
            };
            match swap(&self.mark, seen, new) {
                Ok(()) => return end,
                Err(now) => seen = now,
            }
        }
    }
}

/// What the worker does with the slot of a task that it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Publishes DONE with the code.
    Publish,
    /// Nothing: a consumer finds the verdict, and frees the slot.
    Leave,
    /// Frees it: a consumer has taken the verdict.
    Free,
}

/// One attempt; the word as it is now if that is not `seen`.
#[inline]
fn swap(mark: &AtomicUsize, seen: Mark, new: Mark) -> Result<(), Mark> {
    // Acquire-release pairs with the other swaps of the mark: who frees the slot, a consumer or the worker, does so behind the
    // other one's last access.
    let both = edge(Edge::Mark, Ordering::AcqRel);
    // Relaxed on failure: the value is only the next guess.
    mark.compare_exchange(seen.0, new.0, both, Ordering::Relaxed)
        .map(|_| ())
        .map_err(Mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{RunState, TaskKind};

    fn published(slot: &Slot) -> Word {
        let claimed = slot.claim(TaskKind::Network).unwrap();
        slot.publish(claimed)
    }

    #[test]
    fn every_state_of_the_mark_answers_every_event() {
        let slot = Slot::new();
        let word = published(&slot);
        assert_eq!(slot.ordered(word), None);
        assert!(!slot.conclude(word), "nobody has ordered");
        assert!(slot.order(word, Cause::TimedOut));
        assert!(slot.order(word, Cause::Aborted), "the first order stands");
        assert_eq!(slot.ordered(word), Some(Cause::TimedOut));
        assert_eq!(slot.verdict(word), Verdict::None);
        assert_eq!(slot.take_verdict(word), None);
        assert!(slot.conclude(word));
        assert!(slot.conclude(word), "a verdict stands");
        assert_eq!(slot.verdict(word), Verdict::Given);
        assert_eq!(slot.take_verdict(word), Some(Status::TIMEOUT));
        assert_eq!(slot.take_verdict(word), None, "a second consumer");
        assert_eq!(slot.verdict(word), Verdict::Taken);
        slot.report(word, RunState::Done, Status::SUCCESS);
        assert!(!slot.order(word, Cause::Aborted), "it is over");
        assert!(!slot.conclude(word));
        let next = published(&slot);
        assert_eq!(
            next.generation(),
            word.generation() + 1,
            "the worker freed it"
        );
        assert!(!slot.order(word, Cause::Aborted), "a late order");
        assert_eq!(slot.ordered(next), None);
    }

    #[test]
    fn a_verdict_that_nobody_took_stands_when_the_worker_ends_the_task() {
        let slot = Slot::new();
        let word = published(&slot);
        assert!(slot.order(word, Cause::Aborted));
        assert!(slot.conclude(word));
        assert!(!slot.is_left(word));
        slot.report(word, RunState::Done, Status::SUCCESS);
        assert!(slot.is_left(word));
        assert_eq!(slot.verdict(word), Verdict::Given);
        assert_eq!(slot.claim(TaskKind::Network), None, "not consumed yet");
        assert_eq!(slot.take_verdict(word), Some(Status::ABORTED));
        assert_eq!(slot.take_verdict(word), None);
        let next = published(&slot);
        assert_eq!(next.generation(), word.generation() + 1);
    }

    /// The worker looks between a consumer's swap of the mark and its store of the word.
    #[test]
    fn a_task_whose_verdict_is_being_taken_has_ended() {
        let slot = Slot::new();
        let word = published(&slot);
        assert!(slot.order(word, Cause::Aborted));
        assert!(slot.conclude(word));
        assert!(!slot.is_over(word), "the worker has not come yet");
        slot.report(word, RunState::Done, Status::SUCCESS);
        assert!(slot.is_over(word));
        let closed = Mark::new(word.generation(), CLOSED);
        assert_eq!(swap(&slot.mark, slot.mark(), closed), Ok(()));
        assert_eq!(slot.word(), word, "not freed yet");
        assert!(slot.is_over(word));
        slot.unclaim(word);
        assert!(!slot.is_over(published(&slot)), "the next task");
    }

    #[test]
    fn an_order_that_comes_too_late_changes_no_code() {
        let slot = Slot::new();
        let word = published(&slot);
        assert!(slot.order(word, Cause::Aborted));
        slot.report(word, RunState::Done, Status(7));
        assert_eq!(slot.consume(slot.word()), Some(Status(7)));
    }

    #[test]
    fn generations_are_ordered_around_the_wrap() {
        let last = usize::MAX >> GENERATION_SHIFT;
        assert!(Mark::new(0, CLOSED).is_after(last));
        assert!(!Mark::new(last, CLOSED).is_after(0));
        assert!(!Mark::new(3, CLOSED).is_after(3));
    }
}
