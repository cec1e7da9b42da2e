//! Whose barrier a slot is: the first participant notes its set, the others compare theirs.
//!
//! Ranks that were told different sets would wait for who never comes, or take each other's verdicts. So each rank compares when it
//! makes its handle, before anybody waits, and both sets can be named, also when they have no rank in common.

use super::{Arrival, Corrupt, Participant, RankSet, WORDS};
use crate::phone::Signal;
use crate::sync::Ordering;

/// Another rank has claimed the barrier for another set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherParticipants {
    /// The rank that came first.
    pub rank: u16,
    /// Its participants.
    pub theirs: RankSet,
}

impl<'a> Participant<'a> {
    /// Claims the barrier for these participants, or makes sure that who claimed it has the same ones.
    ///
    /// # Errors
    /// The claim is of a rank that cannot be.
    pub fn claim(&self) -> Result<Result<(), OtherParticipants>, Corrupt> {
        let (Some(claim), Some(own)) = (self.claimed(), self.arrival(self.me)) else {
            return Ok(Ok(()));
        };
        let mut first = claim.load();
        if first == 0 {
            for (word, bits) in own.participants.iter().zip(self.participants.words()) {
                // Relaxed: published by the claim.
                word.store(bits, Ordering::Relaxed);
            }
            match claim.exchange(0, u32::from(self.me).wrapping_add(1)) {
                // Nobody sleeps on a claim.
                Ok(_) => return Ok(Ok(())),
                Err(standing) => first = standing,
            }
        }
        let rank = first
            .checked_sub(1)
            .and_then(|rank| u16::try_from(rank).ok());
        let (rank, arrival) = rank
            .filter(|rank| *rank < self.segment.geometry().world())
            .and_then(|rank| Some((rank, self.arrival(rank)?)))
            .ok_or(Corrupt {
                field: "claim of a barrier",
                rank: self.leader(),
                found: first,
            })?;
        let theirs = arrival.participants();
        if theirs == self.participants {
            return Ok(Ok(()));
        }
        Ok(Err(OtherParticipants { rank, theirs }))
    }

    /// The rank that came first, from 1; 0 = none. It stands on the verdict's line, behind the verdict.
    fn claimed(&self) -> Option<Signal<'a>> {
        let verdict = self.segment.geometry().verdict(self.barrier);
        self.segment.signal(verdict.checked_add(WORDS)?)
    }
}

impl Arrival<'_> {
    fn participants(&self) -> RankSet {
        // Relaxed: made visible by the acquire of the claim.
        RankSet::from_words(
            self.participants
                .each_ref()
                .map(|word| word.load(Ordering::Relaxed)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phone::layout::Segment;
    use crate::phone::tests::on_bus;

    fn claim(segment: Segment<'_>, rank: u16, set: RankSet) -> Result<(), OtherParticipants> {
        let participant = Participant::new(segment, 0, rank, set).unwrap();
        participant.claim().unwrap()
    }

    #[test]
    fn the_first_set_stands_and_others_learn_it() {
        on_bus(4, 2, 2, |segment| {
            let pair = RankSet::below(2);
            assert_eq!(claim(segment, 1, pair), Ok(()));
            assert_eq!(claim(segment, 0, pair), Ok(()));
            assert_eq!(claim(segment, 1, pair), Ok(()), "made again");
            let other = OtherParticipants {
                rank: 1,
                theirs: pair,
            };
            // More, fewer, none in common; and the first one itself, which does not change what it has noted.
            for (rank, set) in [
                (0, RankSet::below(3)),
                (1, RankSet::default().with(1)),
                (3, RankSet::default().with(2).with(3)),
            ] {
                assert_eq!(claim(segment, rank, set), Err(other));
            }
            assert_eq!(claim(segment, 0, pair), Ok(()));
            let free = Participant::new(segment, 1, 3, RankSet::below(4)).unwrap();
            assert_eq!(free.claim(), Ok(Ok(())), "another slot");
        });
    }

    #[test]
    fn h66_a_claim_of_no_rank_is_corrupt() {
        on_bus(2, 1, 2, |segment| {
            let participant = Participant::new(segment, 0, 0, RankSet::below(2)).unwrap();
            for found in [3, u32::MAX] {
                let _ = participant.claimed().unwrap().store(found);
                assert_eq!(participant.claim().unwrap_err().found, found);
            }
        });
    }
}
