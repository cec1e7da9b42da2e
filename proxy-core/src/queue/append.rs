//! Appending: claim slots, arm, fill, publish, push; each step is undone if a later one fails.

use super::{Appended, EnqueueError, Queue};
use crate::board::{Phase, Slot, TaskKey, Word};
use crate::context::{ContextSlot, Entry, Spec};
use crate::doorbell::{Bell, Shut};
use crate::id::{ContextId, ExecId, Ticket};
use crate::limits::{index, narrow};
use crate::port::DeviceWords;
use crate::status::{RunState, TaskKind};
use crate::sync::Ordering;
use crate::trigger::{Arming, FiredBeforeArm};

impl<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize> Queue<RANKS, TASKS, CONTEXTS> {
    /// A free slot of the rank, from the hint on. Answers `None` at once when all are in use.
    fn claim(&self, bucket: u32, kind: TaskKind) -> Option<(u32, &Slot, Word)> {
        let row = self.slots.get(index(bucket))?;
        let hint = &self.ranks.get(index(bucket))?.hint;
        // Relaxed: a hint; a wrong one only costs a longer search.
        let from = index(hint.load(Ordering::Relaxed));
        let (before, after) = row.split_at_checked(from).unwrap_or((row, &[]));
        let places = (from..).zip(after).chain((0..).zip(before));
        for (place, slot) in places {
            if let Some(claimed) = slot.claim(kind) {
                // Relaxed, as above.
                hint.store(narrow(place).wrapping_add(1), Ordering::Relaxed);
                let number = bucket
                    .wrapping_mul(narrow(TASKS))
                    .wrapping_add(narrow(place));
                return Some((number, slot, claimed));
            }
        }
        None
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
                (self.contexts.get(id)).is_none_or(|context| context.entry_of_task(id).is_none())
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

    /// A slot for each kind that is asked for, or none at all.
    fn claim_all(
        &self,
        entry: &Entry,
        kinds: [Option<TaskKind>; 2],
    ) -> Result<Claims<'_>, EnqueueError> {
        let mut claims: Claims<'_> = [None, None];
        for (claim, kind) in claims.iter_mut().zip(kinds) {
            let Some(kind) = kind else { continue };
            *claim = self.claim(entry.bucket, kind).or_else(|| {
                let freed = self.reclaim(entry.bucket);
                freed.then(|| self.claim(entry.bucket, kind)).flatten()
            });
            if claim.is_none() {
                unclaim(&claims);
                return Err(EnqueueError::Full {
                    rank: entry.spec.rank,
                    capacity: narrow(TASKS),
                });
            }
        }
        Ok(claims)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one private call for both public forms"
    )]
    pub(super) fn append_kinds<W: DeviceWords + ?Sized>(
        &self,
        context_slot: &ContextSlot,
        entry: Entry,
        context: ContextId,
        exec: ExecId,
        network: Option<TaskKind>,
        barrier: Option<TaskKind>,
        words: &W,
    ) -> Result<Appended, EnqueueError> {
        if let Some(shut) = self.inbox.shut_by() {
            return Err(shut.into());
        }
        let claims = self.claim_all(&entry, [network, barrier])?;
        let count = claims.iter().flatten().count();
        let Some(sequence) = context_slot.count_enqueue(context, count) else {
            unclaim(&claims);
            return Err(EnqueueError::UnknownContext);
        };
        if let Err(error) = arm_claimed(&claims, context_slot, context, &entry.spec, words) {
            unclaim(&claims);
            context_slot.count_finish(count);
            return Err(EnqueueError::FiredBeforeArm(error));
        }
        let appended = words.append_time();
        for ((_, slot, word), offset) in claims.iter().flatten().zip(0..) {
            slot.set_appended(appended);
            slot.fill(&TaskKey {
                context,
                exec,
                sequence: sequence.wrapping_add(offset),
            });
            slot.publish(*word);
        }
        let bell = self.push(&claims).inspect_err(|_| {
            disarm_claimed(&claims, context_slot, context, &entry.spec);
            unclaim(&claims);
            context_slot.count_finish(count);
        })?;
        let [network, barrier] = claims.map(|claim| {
            claim.map(|(slot, _, word)| Ticket {
                slot,
                generation: word.generation(),
            })
        });
        Ok(Appended {
            network,
            barrier,
            sequence,
            bell,
        })
    }

    /// Pushes one or two slots as one chain, the first of them at the bottom.
    fn push(&self, claims: &Claims<'_>) -> Result<Bell, Shut> {
        let mut chain = claims.iter().flatten();
        let Some((bottom, bottom_slot, _)) = chain.next() else {
            return Ok(Bell::Quiet);
        };
        let top = match chain.next() {
            Some((top, top_slot, _)) => {
                top_slot.set_next(bottom.wrapping_add(1));
                top
            }
            None => bottom,
        };
        self.inbox.push(*top, |link| bottom_slot.set_next(link))
    }
}

type Claims<'a> = [Option<(u32, &'a Slot, Word)>; 2];

fn unclaim(claims: &Claims<'_>) {
    for (_, slot, word) in claims.iter().flatten() {
        slot.unclaim(*word);
    }
}

/// Arms the words of every claimed task, or of none.
fn arm_claimed<W: DeviceWords + ?Sized>(
    claims: &Claims<'_>,
    context_slot: &ContextSlot,
    context: ContextId,
    spec: &Spec,
    words: &W,
) -> Result<(), FiredBeforeArm> {
    if spec.arming != Arming::OnEnqueue {
        return Ok(());
    }
    for (armed, (_, _, word)) in claims.iter().flatten().enumerate() {
        if let Err(error) = context_slot.gate(context, word.kind(), spec).arm(words) {
            for (_, _, word) in claims.iter().flatten().take(armed) {
                context_slot.gate(context, word.kind(), spec).disarm();
            }
            return Err(error);
        }
    }
    Ok(())
}

fn disarm_claimed(
    claims: &Claims<'_>,
    context_slot: &ContextSlot,
    context: ContextId,
    spec: &Spec,
) {
    if spec.arming == Arming::OnEnqueue {
        for (_, _, word) in claims.iter().flatten() {
            context_slot.gate(context, word.kind(), spec).disarm();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        queue.context_slot(context).unwrap().count_finish(1);
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
