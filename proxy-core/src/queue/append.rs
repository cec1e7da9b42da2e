//! Appending: claim slots, count, arm, fill, publish, push; each step is undone if a later one fails.
//!
//! Three read-modify-writes for one task: its slot, its context's count, the inbox. Nothing is looked at on the inbox's line
//! before it is pushed to, so the line moves once; whether the queue is shut is then told by the push. What the push expects there is
//! nothing, as a worker that keeps up leaves it, or in a burst that it does not keep up with, the rank's last one.

use core::iter;

use super::{Appended, EnqueueError, Queue};
use crate::board::{Phase, Slot, TaskKey, Word};
use crate::context::{ContextSlot, Entry, Spec};
use crate::doorbell::{Bell, Shut};
use crate::id::{ContextId, ExecId, Ticket};
use crate::limits::{index, narrow};
use crate::port::DeviceWords;
use crate::status::{RunState, TaskKind};
use crate::sync::Ordering;
use crate::trigger::Gate;

/// A claimed slot.
#[derive(Clone, Copy)]
struct Claim<'a> {
    /// As wide as the rest, so that it is copied without holes, which the processor would have to wait at.
    number: usize,
    slot: &'a Slot,
    word: Word,
}

impl Claim<'_> {
    #[inline]
    const fn ticket(self) -> Ticket {
        Ticket {
            slot: narrow(self.number),
            generation: self.word.generation(),
        }
    }

    /// The slot as a link.
    #[inline]
    const fn link(self) -> u32 {
        narrow(self.number).wrapping_add(1)
    }

    /// Makes the task visible to look-ups, in INIT.
    #[inline]
    fn publish(self, key: &TaskKey, appended: u64) {
        self.slot.fill(key);
        self.slot.set_appended(appended);
        self.slot.publish(self.word);
    }
}

/// The slots of one append, in order. Of a known number, so that they stay in registers and an append of one task never asks
/// whether there is a second.
#[derive(Clone, Copy)]
struct Claims<'a, const MORE: usize> {
    first: Claim<'a>,
    more: [Claim<'a>; MORE],
}

impl<'a, const MORE: usize> Claims<'a, MORE> {
    const COUNT: usize = {
        assert!(MORE <= 1, "a task of each kind");
        MORE.wrapping_add(1)
    };

    #[inline(always)]
    fn iter(self) -> impl Iterator<Item = Claim<'a>> {
        iter::once(self.first).chain(self.more)
    }

    #[inline(always)]
    fn give_back(self) {
        self.iter().for_each(|claim| claim.slot.unclaim(claim.word));
    }
}

/// The context that is appended to.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) id: ContextId,
    pub(super) slot: &'a ContextSlot,
    pub(super) entry: Entry,
}

/// The gates of a context, whose spec is unpacked only where one is armed.
struct Gates<'a> {
    id: ContextId,
    slot: &'a ContextSlot,
    spec: Spec,
}

impl<'a> Gates<'a> {
    #[inline(always)]
    fn of(of: Of<'a>) -> Self {
        let Of { id, slot, entry } = of;
        let spec = entry.spec();
        Self { id, slot, spec }
    }

    fn gate(&self, claim: Claim<'_>) -> Gate<'a> {
        self.slot.gate(self.id, claim.word.kind(), &self.spec)
    }

    /// Arms the words of every claimed task, or of none.
    #[inline(never)]
    fn arm<const MORE: usize, W: DeviceWords + ?Sized>(
        &self,
        claims: Claims<'_, MORE>,
        words: &W,
    ) -> Result<(), EnqueueError> {
        for (armed, claim) in claims.iter().enumerate() {
            if let Err(error) = self.gate(claim).arm(words) {
                self.disarm(claims.iter().take(armed));
                return Err(EnqueueError::FiredBeforeArm(error));
            }
        }
        Ok(())
    }

    fn disarm<'b>(&self, claims: impl Iterator<Item = Claim<'b>>) {
        claims.for_each(|claim| self.gate(claim).disarm(|| 0));
    }
}

impl<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize> Queue<RANKS, TASKS, CONTEXTS> {
    /// Appends a task of each kind, in this order; all or none.
    #[inline(always)]
    pub(super) fn append_kinds<const MORE: usize, W: DeviceWords + ?Sized>(
        &self,
        of: Of<'_>,
        exec: ExecId,
        kinds: (TaskKind, [TaskKind; MORE]),
        words: &W,
    ) -> Result<Appended, EnqueueError> {
        let Some(claims) = self.claim_all(of.entry.bucket, kinds) else {
            let (rank, capacity) = (of.entry.rank, narrow(TASKS));
            return Err(self.refused(EnqueueError::Full { rank, capacity }));
        };
        let Some(sequence) = of.slot.count_enqueue(of.id, Claims::<MORE>::COUNT) else {
            claims.give_back();
            return Err(self.refused(EnqueueError::UnknownContext));
        };
        let arms = of.entry.arms();
        if arms && let Err(error) = self.arm_all(claims, of, words) {
            claims.give_back();
            of.slot.take_back(Claims::<MORE>::COUNT);
            return Err(error);
        }
        let appended = words.append_time();
        let key = TaskKey {
            context: of.id,
            exec,
            sequence,
        };
        claims.first.publish(&key, appended);
        for (claim, ahead) in claims.more.iter().zip(1..) {
            let sequence = sequence.wrapping_add(ahead);
            claim.publish(&TaskKey { sequence, ..key }, appended);
        }
        let bell = match self.push(of.entry.bucket, claims) {
            Ok(bell) => bell,
            Err(shut) => {
                if arms {
                    Gates::of(of).disarm(claims.iter());
                }
                claims.give_back();
                of.slot.take_back(Claims::<MORE>::COUNT);
                return Err(shut.into());
            }
        };
        let first = claims.first.ticket();
        let (network, barrier) = match kinds.0 {
            TaskKind::Network => (Some(first), claims.more.first().map(|claim| claim.ticket())),
            TaskKind::Barrier => (None, Some(first)),
        };
        Ok(Appended {
            network,
            barrier,
            sequence,
            bell,
        })
    }

    /// A free slot for each kind, or none at all.
    #[inline(always)]
    fn claim_all<const MORE: usize>(
        &self,
        bucket: u32,
        (first, kinds): (TaskKind, [TaskKind; MORE]),
    ) -> Option<Claims<'_, MORE>> {
        let first = self.claim(bucket, first)?;
        let mut more = [first; MORE];
        for (claim, kind) in more.iter_mut().zip(&kinds) {
            let Some(next) = self.claim(bucket, *kind) else {
                first.slot.unclaim(first.word);
                return None;
            };
            *claim = next;
        }
        Some(Claims { first, more })
    }

    /// A free slot of the rank, from the hint on. Answers `None` at once when all are in use.
    fn claim(&self, bucket: u32, kind: TaskKind) -> Option<Claim<'_>> {
        // Relaxed: a hint; a wrong one only costs a search.
        let from = index(self.ranks.get(index(bucket))?.hint.load(Ordering::Relaxed));
        // Slots come free in about the order in which they were taken, so the first is the usual one.
        self.claim_at(bucket, from, kind)
            .or_else(|| self.search(bucket, from, kind))
    }

    /// Any free slot of the rank, also one that is freed for it.
    #[cold]
    fn search(&self, bucket: u32, from: usize, kind: TaskKind) -> Option<Claim<'_>> {
        let look = || {
            let mut places = (from..TASKS).chain(0..from.min(TASKS));
            places.find_map(|place| self.claim_at(bucket, place, kind))
        };
        // A queue that is shut takes nothing away for an append that it refuses.
        let may = || self.inbox.shut_by().is_none() && self.reclaim(bucket);
        look().or_else(|| may().then(look).flatten())
    }

    /// Frees the slots of tasks that are done and whose context has been retired; returns whether there were any.
    ///
    /// Only who kept a ticket can still ask for such a status, and others need the room more. Lock-free, O(slots of the rank); an
    /// append comes here only when the rank is full, a register when every other place is in use.
    pub(super) fn reclaim(&self, bucket: u32) -> bool {
        let mut any = false;
        for slot in self.slots.get(index(bucket)).into_iter().flatten() {
            let word = slot.word();
            let left = slot.is_left(word);
            if word.phase() != Phase::Live(RunState::Done) && !left {
                continue;
            }
            let retired = |id| {
                let context = self.contexts.get(id);
                context.is_none_or(|context| context.entry_of_registered(id).is_none())
            };
            if slot.key(word).is_some_and(|key| retired(key.context)) {
                // A consumer who is faster has it, and the slot is free all the same.
                let _ = if left {
                    slot.take_verdict(word)
                } else {
                    slot.consume(word)
                };
                any = true;
            }
        }
        any
    }

    /// This slot of the rank, if it is free. The next claim begins behind it.
    fn claim_at(&self, bucket: u32, place: usize, kind: TaskKind) -> Option<Claim<'_>> {
        let slot = self.slots.get(index(bucket))?.get(place)?;
        let word = slot.claim(kind)?;
        let next = narrow(place).wrapping_add(1);
        let next = if next == narrow(TASKS) { 0 } else { next };
        // Relaxed: a hint.
        self.ranks
            .get(index(bucket))?
            .hint
            .store(next, Ordering::Relaxed);
        let number = bucket
            .wrapping_mul(narrow(TASKS))
            .wrapping_add(narrow(place));
        Some(Claim {
            number: index(number),
            slot,
            word,
        })
    }

    /// Arms the words of every claimed task, or of none; of a queue that is shut already, of none.
    #[inline(always)]
    fn arm_all<const MORE: usize, W: DeviceWords + ?Sized>(
        &self,
        claims: Claims<'_, MORE>,
        of: Of<'_>,
        words: &W,
    ) -> Result<(), EnqueueError> {
        if let Some(shut) = self.inbox.shut_by() {
            return Err(shut.into());
        }
        Gates::of(of).arm(claims, words)
    }

    /// What an append is told that failed with `error`: of a queue that is shut, that.
    #[cold]
    fn refused(&self, error: EnqueueError) -> EnqueueError {
        self.inbox.shut_by().map_or(error, EnqueueError::from)
    }

    /// Pushes the slots as one chain, the first of them at the bottom.
    #[inline(always)]
    fn push<const MORE: usize>(&self, bucket: u32, claims: Claims<'_, MORE>) -> Result<Bell, Shut> {
        let Claims { first, more } = claims;
        let mut last = first;
        for claim in &more {
            claim.slot.set_next(last.link());
            last = *claim;
        }
        let top = narrow(last.number);
        let place = self.ranks.get(index(bucket));
        // Relaxed: a guess.
        let guess = place.map_or(0, |place| place.pushed.load(Ordering::Relaxed));
        let below = (self.inbox).push(top, guess, |link| first.slot.set_next(link))?;
        let pushed = if below.link() == 0 { 0 } else { last.link() };
        if let Some(place) = place.filter(|_| pushed != guess) {
            // Relaxed: a guess.
            place.pushed.store(pushed, Ordering::Relaxed);
        }
        Ok(below.bell())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Spec;
    use crate::id::Rank;
    use crate::queue::{Poll, PollError};
    use crate::status::Status;

    /// Words that nobody looks at: the contexts here have none.
    struct NoWords;

    impl DeviceWords for NoWords {
        fn load(&self, _: ContextId, _: TaskKind, _: crate::id::Stream) -> u32 {
            0
        }

        fn compare_exchange(
            &self,
            _: ContextId,
            _: TaskKind,
            _: crate::id::Stream,
            _: u32,
            _: u32,
        ) -> bool {
            false
        }
    }

    /// Appends a task and ends it, as the worker would.
    fn ended(queue: &Queue<1, 2, 2>, context: ContextId, status: Status) -> Ticket {
        let appended = queue.enqueue(context, ExecId(1), &NoWords).unwrap();
        let ticket = appended.network.unwrap();
        queue.context_slot(context).unwrap().count_end();
        let slot = queue.slot(ticket.slot).unwrap();
        slot.report(slot.word(), RunState::Done, status);
        ticket
    }

    #[test]
    fn statuses_of_retired_contexts_can_be_polled_until_their_room_is_needed() {
        let queue = Queue::<1, 2, 2>::new();
        let first = queue.register(&Spec::new(Rank(0))).unwrap();
        let tickets = [
            ended(&queue, first, Status(1)),
            ended(&queue, first, Status(2)),
        ];
        let second = queue.register(&Spec::new(Rank(0))).unwrap();
        let full = EnqueueError::Full {
            rank: Rank(0),
            capacity: 2,
        };
        let refused = queue.enqueue(second, ExecId(2), &NoWords);
        assert_eq!(refused, Err(full), "statuses of a live context are kept");
        queue.retire(first).unwrap();
        assert_eq!(queue.poll(tickets[0]), Ok(Poll::Done(Status(1))));
        // One place is free now, so nothing is taken away.
        let other = queue.enqueue(second, ExecId(2), &NoWords).unwrap();
        let third = queue.enqueue(second, ExecId(3), &NoWords).unwrap();
        assert_eq!(
            third.network.map(|ticket| ticket.slot),
            Some(tickets[1].slot)
        );
        assert_eq!(
            other.network.map(|ticket| ticket.slot),
            Some(tickets[0].slot)
        );
        assert_eq!(queue.poll(tickets[1]), Err(PollError::AlreadyConsumed));
        let refused = queue.enqueue(second, ExecId(4), &NoWords);
        assert_eq!(refused, Err(full), "nothing is left to be reclaimed");
    }
}
