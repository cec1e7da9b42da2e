//! What a look-up by context and kind found last, so that the next one need not search.
//!
//! Two facts about one context and kind that stay true without anybody keeping them so:
//! - a task that was the oldest is the oldest until it is consumed, as later ones have higher sequence numbers;
//! - if all of a context's appends are finished and none of this kind is unconsumed, none is until there is another append.
//!
//! So a hint that comes late, from a look-up that was stopped, is either still true or seen to be about the past. Kept in one word
//! each. A slot's number and generation name one task of the queue for ever, so a hint that another context has left at the same place of
//! the table names none of this one's; and the count of appends goes on from one context of a place to the next, so that *none* is kept
//! under a count of its own context's only (`ContextSlot::settled`). On 32-bit targets, where a word has no room for both, nothing is kept and every look searches.

use crate::limits::{index, narrow};
use crate::sync::{AtomicUsize, Ordering, shared_fn};

/// Bits of a word that hold a slot number plus 1; the rest is the tag.
const NUMBER_BITS: u32 = 29;
const NUMBER: usize = (1 << NUMBER_BITS) - 1;
const WIDE: bool = usize::BITS >= 64;

const _: () = assert!(crate::limits::MAX_SLOTS < 1 << NUMBER_BITS);

/// The hint of one context and kind. All-zero: nothing is known.
#[derive(Debug)]
pub(crate) struct Hint {
    task: AtomicUsize,
    /// Count of the appends, plus 1.
    none: AtomicUsize,
}

impl Hint {
    shared_fn! {
        pub(crate) fn new() -> Self {
            Self { task: AtomicUsize::new(0), none: AtomicUsize::new(0) }
        }
    }

    /// What is kept of a slot's generation: all but bits that change every 2^35 uses of one slot.
    #[inline]
    pub(crate) const fn tag(generation: usize) -> usize {
        generation & usize::MAX >> NUMBER_BITS
    }

    /// Slot number, and tag, of the task that was the oldest.
    #[inline]
    pub(crate) fn task(&self) -> Option<(u32, usize)> {
        // Relaxed, here and below: only a place to look at; the slot's own word says, with acquire, what is there.
        let word = self.task.load(Ordering::Relaxed);
        let number = (word & NUMBER).checked_sub(1)?;
        Some((narrow(number), word >> NUMBER_BITS))
    }

    /// Keeps the oldest task.
    #[inline]
    pub(crate) fn keep_task(&self, number: u32, generation: usize) {
        if WIDE {
            let word = Self::tag(generation) << NUMBER_BITS | index(number.wrapping_add(1));
            // Relaxed: as above.
            self.task.store(word, Ordering::Relaxed);
        }
    }

    /// Whether there was none when the context had so many appends, all finished.
    #[inline]
    pub(crate) fn is_none_since(&self, appends: usize) -> bool {
        // Relaxed: true for ever for this number of appends.
        WIDE && self.none.load(Ordering::Relaxed) == appends.wrapping_add(1)
    }

    /// Keeps that there is none.
    #[inline]
    pub(crate) fn keep_none(&self, appends: usize) {
        if WIDE {
            // Relaxed: as above.
            self.none.store(appends.wrapping_add(1), Ordering::Relaxed);
        }
    }
}
