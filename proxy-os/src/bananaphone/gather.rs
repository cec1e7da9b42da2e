//! All-gather: every rank contributes bytes, every rank gets all contributions.
//!
//! Contributions can be of any size, also each of another. They go to all ranks in parts of half a ring, in lockstep: nobody sends part
//! k+1 before it has part k of everybody who has one. So when a rank sends part k, all have read its part k-2, there is room, and
//! no two ranks wait for each other.

use proxy_core::phone::ring::To;

use super::channel::{Ends, INTERNAL};
use super::counters::Counters;
use super::error::BusError;
use super::wait::Waiting;

impl Ends<'_> {
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
        self.forget_own_but(tag);
        let mut gathered: Vec<Option<Vec<u8>>> =
            vec![None; usize::from(self.segment.geometry().world())];
        gathered[usize::from(self.me)] = Some(own.to_vec());
        let (mut part, mut sending) = (0, true);
        while sending || gathered.iter().any(Option::is_none) {
            if sending {
                sending = self.send_own(tag, own, part, waiting, counters)?;
            }
            part += 1;
            for rank in self.peers() {
                let place = &mut gathered[usize::from(rank)];
                if place.is_none() {
                    *place = self.next_part(rank, tag, part, waiting, counters)?;
                }
            }
        }
        Ok(gathered
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect())
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

    /// Waits until so many parts of a rank's contribution are here; returns the contribution when that is all of it.
    fn next_part(
        &mut self,
        from: u16,
        tag: u32,
        parts: usize,
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<Option<Vec<u8>>, BusError> {
        self.await_news(from, waiting, counters, |ends| {
            let whole = ends.take_own(from, tag)?;
            let came = whole.is_some() || ends.own_frames(from, tag) >= parts;
            Ok(came.then_some(whole))
        })
    }
}
