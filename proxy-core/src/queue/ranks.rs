//! Whose slots are whose: each rank that has contexts has one place, which is a row of slots.
//!
//! ```text
//!        1 name            2 named          3 join
//!   0 --------> NAMING ------------> 1 <--------------> n     contexts of the rank (and registers of them under way)
//!   ^ ^           |                  |     4 leave
//!   | +-----------+                  |
//!   |  5 slots are in use            |
//!   +--------------------------------+
//! ```
//!
//! A place without contexts keeps its rank until another rank takes it (edges 1 and 2), which it may do once all slots are free. Only
//! one thread at a time names places, so a rank never gets two: the order of its tasks hangs on its having one.

use super::Queue;
use crate::board::Phase;
use crate::context::ContextError;
use crate::id::Rank;
use crate::limits::{index, narrow};
use crate::sync::{AtomicU32, Edge, Ordering, edge, shared_fn};

/// Count of a place that is being given to a rank.
const NAMING: u32 = u32::MAX;

/// One rank's place: who it is, how many contexts it has, where to look for a free slot first, and what its next push may find.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct RankPlace {
    /// Rank + 1; 0 = nobody yet.
    rank: AtomicU32,
    users: AtomicU32,
    pub(super) hint: AtomicU32,
    /// The link to what the last push left on the stack if it found something there, for then the worker may not have come to this
    /// one either; else 0. A guess.
    pub(super) pushed: AtomicU32,
}

impl RankPlace {
    shared_fn! {
        pub(super) fn new() -> Self {
            Self {
                rank: AtomicU32::new(0),
                users: AtomicU32::new(0),
                hint: AtomicU32::new(0),
                pushed: AtomicU32::new(0),
            }
        }
    }

    pub(super) fn rank(&self) -> Option<Rank> {
        // Relaxed: the number is the whole message.
        self.rank.load(Ordering::Relaxed).checked_sub(1).map(Rank)
    }

    /// Edge 3: counts one more context if the place is this rank's.
    fn join(&self, rank: Rank) -> bool {
        if self.rank() != Some(rank) {
            return false;
        }
        // Relaxed: a guess; the compare-and-swap decides.
        let mut seen = self.users.load(Ordering::Relaxed);
        // Not while it is NAMING, the largest number.
        while let Some(more) = seen.checked_add(1) {
            // Acquire pairs with the release in `name`: the rank below is the one that the count belongs to.
            let acquire = edge(Edge::RankPlace, Ordering::Acquire);
            // Relaxed on failure: the value is only the next guess.
            match (self.users).compare_exchange_weak(seen, more, acquire, Ordering::Relaxed) {
                Ok(_) if self.rank() == Some(rank) => return true,
                Ok(_) => {
                    self.leave();
                    return false;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Edge 4: counts one context less.
    fn leave(&self) {
        // Release pairs with the acquire in `name`: what was done with the slots is over before another rank looks at them.
        self.users
            .fetch_sub(1, edge(Edge::RankPlace, Ordering::Release));
    }

    /// Edges 1 and 2, or 1 and 5: gives a place without contexts to a rank, which then has one, if its slots are free.
    fn name(&self, rank: u32, slots_are_free: impl FnOnce() -> bool) -> bool {
        // Acquire pairs with the release in `leave`. Relaxed on failure: it has contexts.
        let acquire = edge(Edge::RankPlace, Ordering::Acquire);
        if (self.users)
            .compare_exchange(0, NAMING, acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        let free = slots_are_free();
        if free {
            // Relaxed: published by the count.
            self.rank.store(rank, Ordering::Relaxed);
        }
        // Release pairs with the acquire in `join`.
        self.users
            .store(u32::from(free), edge(Edge::RankPlace, Ordering::Release));
        free
    }
}

impl<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize> Queue<RANKS, TASKS, CONTEXTS> {
    /// Counts one more context at the place of a rank, which gets one if it has none.
    pub(super) fn join_rank(&self, rank: Rank) -> Result<u32, ContextError> {
        let stored = rank.0.checked_add(1).ok_or(ContextError::OutOfRange {
            field: "rank",
            found: rank.0,
            accepted: "0 to 4294967294",
        })?;
        if let Some(place) = self.joined(rank) {
            return Ok(place);
        }
        // Acquire pairs with the release below: a rank that was just given a place is found to have one. Relaxed on failure: refused.
        let acquire = edge(Edge::RankPlace, Ordering::Acquire);
        self.naming
            .compare_exchange(0, 1, acquire, Ordering::Relaxed)
            .map_err(|_| ContextError::Contended)?;
        let place = self
            .joined(rank)
            .or_else(|| self.named(stored, false))
            .or_else(|| self.named(stored, true));
        // Release pairs with the acquire above.
        self.naming
            .store(0, edge(Edge::RankPlace, Ordering::Release));
        place.ok_or(ContextError::TooManyRanks {
            capacity: narrow(RANKS),
        })
    }

    /// Counts one context less at a place.
    pub(super) fn leave_rank(&self, bucket: u32) {
        if let Some(place) = self.ranks.get(index(bucket)) {
            place.leave();
        }
    }

    fn joined(&self, rank: Rank) -> Option<u32> {
        self.ranks
            .iter()
            .position(|place| place.join(rank))
            .map(narrow)
    }

    /// The first place without contexts whose slots are free, or can be made so by giving up statuses that nobody has consumed.
    fn named(&self, stored: u32, give_up: bool) -> Option<u32> {
        (0..)
            .zip(&self.ranks)
            .find(|(bucket, place)| place.name(stored, || self.is_vacant(*bucket, give_up)))
            .map(|(bucket, _)| bucket)
    }

    fn is_vacant(&self, bucket: u32, give_up: bool) -> bool {
        if give_up {
            self.reclaim(bucket);
        }
        let mut slots = self.slots.get(index(bucket)).into_iter().flatten();
        // The worker counts a task as finished before it reports it, so a retired context's slot may still be about to change.
        slots.all(|slot| slot.word().phase() == Phase::Free)
    }
}
