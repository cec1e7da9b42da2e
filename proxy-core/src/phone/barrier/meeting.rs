//! Two ranks that do nothing between their arrival and their passing: each passes when it sees the other, and nobody decides.
//!
//! By a verdict, the second learns from the first what it could have seen itself: a line that goes there, and one that comes back. Here each
//! looks at the other's arrival, so that two lines go at the same time. It needs that both are bound by it: a rank says with its
//! arrival that it is *ready*, to pass as soon as the other is, for the same execution; and then it cannot make the generation fail any
//! more without having asked the other.
//!
//! ```text
//!   to pass:  store "ready"     full fence   load the other's word: ready                           -> passed
//!   to fail:  store "arrived"   full fence   load the other's word: ready, it may have passed       -> decide that it passed
//!                                                                   else it will not see us ready   -> decide that it failed
//! ```
//!
//! Of two that store and then load, one sees the other's store at least. So who fails a generation without having seen the other
//! ready has taken its own readiness back before the other looks, and the other finds the verdict. Who sees the other ready too
//! late to fail says by a verdict that it passed, as the other may have looked before or after. Each word has one writer.
//!
//! Who passes goes on, and what it wrote for this generation must stay until the other has read it. So the execution stands in one of
//! two places by turns: nobody comes to the generation after the next without the other, but by failures, and these stand in the
//! verdict. Where nothing fails the verdict's word stays behind; the leader brings it up now and then, as only the distance counts.

use super::{Arrival, Corrupt, Participant, REFRESH, Verdict, halves};
use crate::phone::{Wake, Word};
use crate::sync::{Edge, Ordering, acquire_fence};

/// What a meeting has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Meeting {
    /// The generation is over.
    Over(Verdict),
    /// This rank has not arrived; its arrival is the news to wait for.
    Missing(u16),
    /// No meeting: there are more than two, or one is not ready, or they differ. What counts is the verdict.
    None,
}

/// In the word of an arrival: the rank is ready.
pub(super) const READY: u32 = 1;

impl<'a> Participant<'a> {
    /// Arrives as by [`Self::arrive`], to do nothing more than to pass. With one other participant that does the same,
    /// [`Self::meet`] tells when; else the verdict.
    #[inline]
    pub fn arrive_ready(&mut self, exec: u64) -> Wake {
        if self.partner.is_none() {
            return self.arrive(exec);
        }
        self.go_on();
        for (word, half) in self.own.meeting(self.generation).iter().zip(halves(exec)) {
            // Relaxed: published by the arrival.
            word.store(half, Ordering::Relaxed);
        }
        self.announce(exec, READY)
    }

    /// After [`Self::arrive_ready`] for execution `exec`: what the other's arrival says.
    ///
    /// # Errors
    /// The verdict cannot be.
    #[inline]
    pub fn meet(&mut self, exec: u64) -> Result<Meeting, Corrupt> {
        let Some((rank, other)) = &self.partner else {
            return Ok(Meeting::None);
        };
        let ready = self.arrived() | READY;
        // This rank's own word: ready, unless it has taken that back or came otherwise.
        if self.own.generation.load() != ready {
            return Ok(Meeting::None);
        }
        let theirs = other.generation.load();
        if !self.reached(theirs) {
            return Ok(Meeting::Missing(*rank));
        }
        if theirs == ready && self.is_same(other, exec) {
            return self.met().map(Meeting::Over);
        }
        if self.is_beyond(other.generation.load()) {
            // Over: it has passed with us, or there is a verdict, which stands since before it went on.
            return Ok(Meeting::Over(match self.verdict()? {
                None | Some(Verdict::Passed) => self.met()?,
                Some(failed) => failed,
            }));
        }
        Ok(Meeting::None)
    }

    /// Of a rank that is made again, and whose last generation is over for it: whether that passed by a meeting.
    pub(super) fn remember(&mut self) {
        let met = self.meet(self.own.exec());
        let Some((_, other)) = &self.partner else {
            return;
        };
        let is_ready = self.own.generation.load() == self.arrived() | READY;
        let is_other_back = other.generation.load() == self.arrived();
        // Ready to the end, and no verdict: it saw the other ready, which has taken that back since and is about to say that it passed.
        if met == Ok(Meeting::None) && is_ready && is_other_back && self.verdict() == Ok(None) {
            self.passed = self.generation;
        }
    }

    /// This generation passed by a meeting.
    fn met(&mut self) -> Result<Verdict, Corrupt> {
        self.passed = self.generation;
        if self.generation.is_multiple_of(REFRESH) && self.is_leader() {
            // Nobody waits for it.
            let _ = self.decide(Verdict::Passed)?;
        }
        Ok(Verdict::Passed)
    }

    /// Takes back that this rank is ready, before it decides that the generation fails; whether that is too late, as the other may have seen
    /// it and passed.
    pub(super) fn has_met(&self) -> bool {
        let (Some((_, other)), ready) = (&self.partner, self.arrived() | READY) else {
            return false;
        };
        if self.own.generation.load() != ready {
            return false;
        }
        if self.passed == self.generation {
            // This rank has passed, and what it said for that stands.
            return true;
        }
        // With a full fence behind it, before the load. Nobody waits for this change.
        let _ = self.own.generation.store(self.arrived());
        let is_ready = other.generation.load() == ready;
        // Looked at again behind that: it may have passed and gone on meanwhile.
        is_ready && self.is_same(other, self.own.exec()) || self.is_beyond(other.generation.load())
    }

    /// Whether the other, which was seen ready, is so for this execution. No, if it has gone on while we looked.
    #[inline]
    fn is_same(&self, other: &Arrival<'_>, exec: u64) -> bool {
        let same = other.reads(self.generation) == halves(exec);
        // Pairs with the fence behind its next arrival: if the execution of the one after that was read, the word is another now.
        acquire_fence(Edge::PhoneSignal);
        same && other.generation.load() == self.arrived() | READY
    }

    /// Whether the word of an arrival is of a later generation.
    const fn is_beyond(&self, arrived: u32) -> bool {
        let ahead = arrived.wrapping_sub(self.arrived() | READY);
        ahead != 0 && ahead <= u32::MAX / 2
    }
}

impl<'a> Arrival<'a> {
    /// Where the execution stands of a rank that is ready at this generation.
    #[inline]
    const fn meeting(&self, generation: u32) -> [&'a Word; 2] {
        let [low, high, odd_low, odd_high] = self.met;
        if generation & 1 == 0 {
            [low, high]
        } else {
            [odd_low, odd_high]
        }
    }

    #[inline]
    fn reads(&self, generation: u32) -> [u32; 2] {
        // Relaxed: made visible by the acquire of the arrival.
        self.meeting(generation)
            .map(|word| word.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
