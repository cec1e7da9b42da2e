//! All-gather: every rank contributes bytes, every rank gets all contributions.
//!
//! Contributions can be of any size, also each of another. They go to all ranks in parts of half a ring, in lockstep: nobody sends part
//! k+1 before it has part k of everybody who has one. So when a rank sends part k, all have read its part k-2, there is room, and
//! no two ranks wait for each other.
//!
//! Where all contributions have one length, known to all, there is nothing to put together: each part is a message of its own that is
//! copied to its place, and nothing is allocated.

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::ring::To;

use super::channel::{Ends, INTERNAL};
use super::counters::Counters;
use super::error::{BusError, Why};
use super::frame::{Kind, Place};
use super::wait::{self, Look, Stage, Waiting};

/// The contributions that are complete, by rank.
type Gathered = [Option<Vec<u8>>];

/// One part of contributions that all have one length.
struct Part {
    tag: u32,
    /// Where it begins in a contribution.
    from: usize,
    length: usize,
    /// Of a whole contribution.
    size: usize,
}

impl<'a> Ends<'a> {
    /// Gathers the contributions of all ranks, in order of rank.
    pub(super) fn all_gather(
        &mut self,
        own: &[u8],
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<Vec<Vec<u8>>, BusError> {
        // Ranks call it in the same order, so the count tells a late part of a failed one from this one's.
        self.gathers = self.gathers.wrapping_add(1);
        let tag = INTERNAL | (self.gathers & (INTERNAL - 1));
        self.forget_own_before(tag);
        let _ = waiting.since();
        let mut gathered = vec![None; usize::from(self.segment.geometry().world())];
        gathered[usize::from(self.me)] = Some(own.to_vec());
        let (mut part, mut sending) = (0, true);
        while sending || gathered.iter().any(Option::is_none) {
            if sending {
                sending = match self.send_own(tag, own, part, waiting, counters) {
                    Ok(sending) => sending,
                    Err(error) => return Err(self.unsent(error, &mut gathered, tag, waiting)),
                };
            }
            part += 1;
            self.next_parts(&mut gathered, tag, part, waiting, counters)?;
        }
        Ok(gathered
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect())
    }

    /// Gathers contributions of one length into `all`, in order of rank.
    pub(super) fn all_gather_into(
        &mut self,
        own: &[u8],
        all: &mut [u8],
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(), BusError> {
        let (size, world) = (own.len(), self.segment.geometry().world());
        if all.len() != size.saturating_mul(world.into()) {
            return Err(BusError::TooSmall {
                bytes: size.saturating_mul(world.into()),
            });
        }
        let place = usize::from(self.me).saturating_mul(size);
        // At least one part, so that also nothing is gathered together. All are counted at once: wherever a call ends, the next one's numbers
        // are those of the other ranks'.
        let parts = size.div_ceil(self.part()).max(1);
        let before = self.gathers;
        self.gathers = before.wrapping_add(u32::try_from(parts).unwrap_or(u32::MAX));
        if parts > 1 {
            // Of them only some may have to be waited for.
            let _ = waiting.since();
        }
        for (number, gather) in (0..parts).zip(1..) {
            let from = number * self.part();
            let length = size.saturating_sub(from).min(self.part());
            let tag = INTERNAL | (before.wrapping_add(gather) & (INTERNAL - 1));
            self.forget_own_before(tag);
            let sent = &own[from..from + length];
            let word = Kind::Whole.word(tag);
            self.publish(To::Everybody, word, sent, waiting, counters)?;
            // After it was written, while the others read it.
            all[place + from..][..length].copy_from_slice(sent);
            let part = Part {
                tag,
                from,
                length,
                size,
            };
            self.gather_part(all, &part, waiting, counters)?;
        }
        Ok(())
    }

    /// Waits for one part of every other rank, the own one having been written.
    fn gather_part(
        &mut self,
        all: &mut [u8],
        part: &Part,
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(), BusError> {
        let (segment, pace) = (self.segment, self.pace);
        let mut pending: RankSet = self.peers().collect();
        // Looked at before the sleepers are called, so that lines go both ways at the same time.
        let early = self.look_for_part(all, part, &mut pending, Stage::Spin, waiting);
        self.call();
        if let Look::Done(done) = early {
            return done;
        }
        let ended = wait::until(segment, pace, waiting, counters, |stage| {
            self.look_for_part(all, part, &mut pending, stage, waiting)
        });
        ended.unwrap_or_else(|| Err(waiting.error(segment, Why::Deadline, pending).into()))
    }

    /// Takes parts that have come to their places. While it spins it looks no further than the first that has not; before a sleep
    /// at all, as the death of any rank whose part is missing ends it, see [`Self::look`].
    fn look_for_part(
        &mut self,
        all: &mut [u8],
        part: &Part,
        pending: &mut RankSet,
        stage: Stage,
        waiting: &Waiting,
    ) -> Look<'a, Result<(), BusError>> {
        let (me, world) = (self.me, self.segment.geometry().world());
        let mut next = None;
        // From the next rank on, so that not all look at the same one first.
        for rank in (1..world).map(|ahead| (me + ahead) % world) {
            if !pending.has(rank) {
                continue;
            }
            let why = match stage {
                Stage::Spin => Ok(None),
                Stage::Sleep => wait::gone(self.segment, rank),
            };
            match (self.take_part_of(all, part, rank), why) {
                (Ok(true), _) => *pending = pending.without(rank),
                (Ok(false), Ok(None)) => {
                    next = next.or(Some(rank));
                    if stage == Stage::Spin {
                        break;
                    }
                }
                (Ok(false), Ok(Some(why))) => {
                    return Look::Done(Err(waiting.error(self.segment, why, *pending).into()));
                }
                (Err(error), _) => return Look::Done(Err(error)),
                (_, Err(error)) => return Look::Done(Err(error.into())),
            }
        }
        match next.map(|rank| self.news(rank)) {
            None => Look::Done(Ok(())),
            Some(Ok(news)) => Look::Sleep(news, *pending),
            Some(Err(error)) => Look::Done(Err(error)),
        }
    }

    /// Copies a rank's part to its place, if it has come.
    fn take_part_of(&mut self, all: &mut [u8], part: &Part, rank: u16) -> Result<bool, BusError> {
        let place = usize::from(rank) * part.size + part.from;
        let room = all.get_mut(place..place + part.length).unwrap_or_default();
        match self.take(rank, Some(part.tag), &mut Place::Buffer(room))? {
            Some((_, bytes)) if bytes == part.length => Ok(true),
            Some((_, bytes)) => Err(BusError::TooSmall { bytes }),
            None => Ok(false),
        }
    }

    /// Sends one part of the own contribution. False = that was all.
    fn send_own(
        &mut self,
        tag: u32,
        own: &[u8],
        part: usize,
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<bool, BusError> {
        if own.len() <= self.part() {
            self.send(To::Everybody, tag, own, waiting, counters)?;
            return Ok(false);
        }
        self.send_part(To::Everybody, tag, own, part, waiting, counters)
    }

    /// The error of a contribution that could not be sent: the wait needed those of the others, too.
    fn unsent(
        &mut self,
        error: BusError,
        gathered: &mut Gathered,
        tag: u32,
        waiting: &Waiting,
    ) -> BusError {
        let BusError::Wait(mut error) = error else {
            return error;
        };
        // So that nobody is listed whose contribution is here.
        let _ = self.look(gathered, tag, 0, waiting);
        error.missing = missing(gathered).iter().fold(error.missing, RankSet::with);
        error.into()
    }

    /// Waits until so many parts of every contribution are here, or all of it.
    fn next_parts(
        &mut self,
        gathered: &mut Gathered,
        tag: u32,
        parts: usize,
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(), BusError> {
        let (segment, pace) = (self.segment, self.pace);
        let ended = wait::until(segment, pace, waiting, counters, |_| {
            self.look(gathered, tag, parts, waiting)
        });
        ended.unwrap_or_else(|| {
            let missing = missing(gathered);
            Err(waiting.error(segment, Why::Deadline, missing).into())
        })
    }

    /// Takes what has come. All ranks whose contribution is not complete are needed, so the death of any of them ends it: the
    /// others may have noticed it before they sent theirs.
    fn look(
        &mut self,
        gathered: &mut Gathered,
        tag: u32,
        parts: usize,
        waiting: &Waiting,
    ) -> Look<'a, Result<(), BusError>> {
        let (mut next, mut gone) = (None, None);
        for rank in missing(gathered).iter() {
            // A rank may have published right before it went, so this is asked before the last look at its ring.
            let why = match wait::gone(self.segment, rank) {
                Ok(why) => why,
                Err(error) => return Look::Done(Err(error.into())),
            };
            match self.take_own(rank, tag) {
                Ok(Some(whole)) => gathered[usize::from(rank)] = Some(whole),
                Ok(None) => {
                    gone = gone.or(why);
                    if next.is_none() && self.own_frames(rank, tag) < parts {
                        next = Some(rank);
                    }
                }
                Err(error) => return Look::Done(Err(error)),
            }
        }
        if let Some(why) = gone {
            // After all have been looked at, so that nobody is listed whose contribution is here.
            let missing = missing(gathered);
            return Look::Done(Err(waiting.error(self.segment, why, missing).into()));
        }
        match next.map(|rank| self.news(rank)) {
            None => Look::Done(Ok(())),
            Some(Ok(news)) => Look::Sleep(news, missing(gathered)),
            Some(Err(error)) => Look::Done(Err(error)),
        }
    }
}

/// Ranks whose contribution is not complete.
fn missing(gathered: &Gathered) -> RankSet {
    let ranks = (0..).zip(gathered);
    ranks
        .filter_map(|(rank, whole)| whole.is_none().then_some(rank))
        .collect()
}
