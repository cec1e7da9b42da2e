//! The shared side of one group: what producers, consumers and the worker all reach (the original's `enc_proxy_queue`).
//!
//! Only words cross threads: a task in flight between producer and worker is a slot number; its fields are a handful of
//! integers in that slot.

mod abort;
mod answer;
mod append;
mod lookup;
mod ranks;

use crate::board::{Phase, Slot, Verdict};
use crate::context::{COUNT, ContextError, ContextSlot, Contexts, Spec};
use crate::doorbell::{Bell, Shut};
use crate::id::{ContextId, ExecId, Rank, Ticket};
use crate::inbox::Inbox;
use crate::limits::{MAX_SLOTS, index, narrow};
use crate::port::DeviceWords;
use crate::status::{RunState, TaskKind};
use crate::sync::{AtomicU32, shared_array, shared_fn};

use append::Of;
use ranks::RankPlace;

pub use abort::OrderError;
pub use answer::{Accounts, Appended, EnqueueError, Poll, PollError, TaskView};

/// The queue of one group: `RANKS` ranks with `TASKS` slots each, and `CONTEXTS` contexts.
///
/// | operation | progress | from |
/// |---|---|---|
/// | [`enqueue`](Self::enqueue), [`append`](Self::append) | lock-free | any thread |
/// | [`poll`](Self::poll), [`check`](Self::check) | lock-free | any thread |
/// | [`order`](Self::order), [`conclude`](Self::conclude) | lock-free | any thread |
/// | [`register`](Self::register), [`retire`](Self::retire), [`reset_words`](Self::reset_words) | lock-free, cold | any thread |
/// | [`arm_bell`](Self::arm_bell) | lock-free | the worker |
///
/// All-zero is a valid empty queue. Size: 64 bytes per slot and rank, 256 per context.
#[derive(Debug)]
pub struct Queue<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize> {
    inbox: Inbox,
    ranks: [RankPlace; RANKS],
    /// 1 while a thread gives a rank its place.
    naming: AtomicU32,
    slots: [[Slot; TASKS]; RANKS],
    contexts: Contexts<CONTEXTS>,
}

impl<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize> Queue<RANKS, TASKS, CONTEXTS> {
    const LIMITS: () = {
        assert!(
            RANKS > 0 && TASKS > 1 && CONTEXTS > 0,
            "an execution needs a rank, two slots and a context"
        );
        assert!(
            RANKS < MAX_SLOTS && TASKS < MAX_SLOTS && CONTEXTS < MAX_SLOTS,
            "indices are 27 bits"
        );
        assert!(
            TASKS < MAX_SLOTS / RANKS,
            "slot numbers must fit the inbox word"
        );
        assert!(TASKS < COUNT, "unfinished tasks must be countable");
    };

    shared_fn! {
        /// An empty queue.
        pub fn new() -> Self {
            let () = Self::LIMITS;
            Self {
                inbox: Inbox::new(),
                ranks: shared_array!(RankPlace::new()),
                naming: AtomicU32::new(0),
                slots: shared_array!(shared_array!(Slot::new())),
                contexts: Contexts::new(),
            }
        }
    }

    /// Registers a context and returns its id. Cold; O(contexts + ranks), and O(slots) if its rank needs the place of another.
    ///
    /// A rank keeps its place as long as it has contexts, and after that until another rank finds no other place; statuses that
    /// nobody has consumed are given up only if there is no place without them. Two threads that register contexts of new
    /// ranks at once may find one of them told [`ContextError::Contended`], which a lock around this call prevents.
    pub fn register(&self, spec: &Spec) -> Result<ContextId, ContextError> {
        spec.validate()?;
        let bucket = self.join_rank(spec.rank)?;
        let registered = self.contexts.register(spec, bucket);
        if registered.is_err() {
            self.leave_rank(bucket);
        }
        registered
    }

    /// Forgets a context, once none of its tasks is unfinished. Statuses that were not consumed can be polled by ticket until an
    /// append finds the rank full: then they are given up, and answer [`PollError::AlreadyConsumed`]. An append
    /// that runs beside it keeps the context and makes this say busy, or is refused with [`EnqueueError::UnknownContext`].
    pub fn retire(&self, context: ContextId) -> Result<(), ContextError> {
        let bucket = self.contexts.retire(context)?;
        self.leave_rank(bucket);
        Ok(())
    }

    /// Gives the start words of a context, of both kinds, a fresh start: no execution is armed, and every word holds
    /// [`CONSUMED`](crate::trigger::CONSUMED), so that the next enqueue (or [`arm`](Self::arm), or the device) arms anew.
    ///
    /// For use after an execution that ended before its gate: its fire, if it came late, would open the gate of the next one or
    /// answer every later enqueue with [`EnqueueError::FiredBeforeArm`]. The device must have been stopped or have come to rest: a
    /// fire that comes after this call is taken for the next execution's. Refused while a task of the context is unfinished;
    /// an append beside it comes first, and makes this say busy, or after it, or is refused with [`EnqueueError::UnknownContext`].
    /// Cold, any thread.
    pub fn reset_words<W: DeviceWords + ?Sized>(
        &self,
        context: ContextId,
        words: &W,
    ) -> Result<(), ContextError> {
        self.contexts.reset_words(context, words)
    }

    /// Appends one execution: its network task and, if the context has one, its barrier task; both or none. The status
    /// is visible before the task can run. Arms the start words if the context asks for it.
    ///
    /// Lock-free: one compare-and-swap per slot, one for the inbox. Allocates nothing. Appends of two tasks each that meet
    /// at a rank's last places may each hold one of them for a moment, and all be told [`EnqueueError::Full`].
    pub fn enqueue<W: DeviceWords + ?Sized>(
        &self,
        context: ContextId,
        exec: ExecId,
        words: &W,
    ) -> Result<Appended, EnqueueError> {
        let of = self.context(context)?;
        if of.entry.barrier() {
            return self.append_pair(context, exec, words);
        }
        self.append_kinds(of, exec, (TaskKind::Network, []), words)
    }

    /// Appends a single task of one kind (the original's `append_task`).
    pub fn append<W: DeviceWords + ?Sized>(
        &self,
        context: ContextId,
        kind: TaskKind,
        exec: ExecId,
        words: &W,
    ) -> Result<Appended, EnqueueError> {
        let of = self.context(context)?;
        if kind == TaskKind::Barrier && !of.entry.barrier() {
            return Err(EnqueueError::NoSuchKind(kind));
        }
        self.append_kinds(of, exec, (kind, []), words)
    }

    /// Out of line, and with a look-up of its own, so that an append of one task keeps nothing in memory for it.
    #[inline(never)]
    fn append_pair<W: DeviceWords + ?Sized>(
        &self,
        context: ContextId,
        exec: ExecId,
        words: &W,
    ) -> Result<Appended, EnqueueError> {
        let of = self.context(context)?;
        self.append_kinds(of, exec, (TaskKind::Network, [TaskKind::Barrier]), words)
    }

    /// Arms the start words of one kind for one more execution, the oldest that is not armed; for contexts with
    /// [`Arming::Explicit`](crate::Arming::Explicit). See the [trigger module](crate::trigger).
    pub fn arm<W: DeviceWords + ?Sized>(
        &self,
        context: ContextId,
        kind: TaskKind,
        words: &W,
    ) -> Result<(), EnqueueError> {
        let Of { slot, entry, .. } = self.context(context)?;
        // Counted like an append, so that the context is not retired, and its place given away, in the middle of it.
        slot.count_enqueue(context, 1)
            .ok_or(EnqueueError::UnknownContext)?;
        let armed = slot.gate(context, kind, &entry.spec()).arm(words);
        slot.take_back(1);
        armed.map_err(EnqueueError::FiredBeforeArm)
    }

    /// State of a task; consumes the status if it is done. Two loads of one line, and one compare-and-swap when done.
    pub fn poll(&self, ticket: Ticket) -> Result<Poll, PollError> {
        let (slot, word, state) = self.live(ticket)?;
        if state == RunState::Done {
            return (slot.consume(word))
                .map(Poll::Done)
                .ok_or(PollError::AlreadyConsumed);
        }
        match slot.verdict(word) {
            Verdict::None => Ok(Poll::Pending(state)),
            Verdict::Given => (slot.take_verdict(word))
                .map(Poll::Done)
                .ok_or(PollError::AlreadyConsumed),
            Verdict::Taken => Err(PollError::AlreadyConsumed),
        }
    }

    /// Every unconsumed task, done ones included, and those that the worker still holds although a verdict was consumed, as of
    /// the moment its slot is visited. Lock-free, O(slots of the ranks in use), cold.
    pub fn tasks(&self) -> impl Iterator<Item = TaskView> + '_ {
        // A place is some rank's from before its first task on.
        let in_use = |place: &RankPlace| place.rank().is_some();
        let rows = (0_u32..).zip(self.ranks.iter().zip(&self.slots));
        rows.filter(move |(_, (place, _))| in_use(place))
            .flat_map(|(bucket, (_, row))| (bucket.wrapping_mul(narrow(TASKS))..).zip(row))
            .filter_map(|(number, slot)| {
                let word = slot.word();
                let Phase::Live(state) = word.phase() else {
                    return None;
                };
                // Read before the key, which is refused once the slot is another task's.
                let appended = slot.appended();
                let key = slot.key(word)?;
                Some(TaskView {
                    ticket: Ticket {
                        slot: number,
                        generation: word.generation(),
                    },
                    context: key.context,
                    exec: key.exec,
                    kind: word.kind(),
                    sequence: key.sequence,
                    state: if slot.is_left(word) {
                        RunState::Done
                    } else {
                        state
                    },
                    appended,
                })
            })
    }

    /// How far a context has come; `None` if there is none of this id. Each number is exact by itself. An arm, and an append that was
    /// refused because the queue is shut, take a number, too. Cold, any thread.
    pub fn accounts(&self, context: ContextId) -> Option<Accounts> {
        let of = self.context(context).ok()?;
        let (appends, unfinished) = of.slot.progress();
        Some(Accounts {
            appends,
            unfinished,
        })
    }

    /// Refuses every later append. What was appended before stays queued. The bell must be obeyed.
    pub fn shut(&self, by: Shut) -> Bell {
        self.inbox.shut(by)
    }

    /// Whether appends are refused, and why.
    pub fn shut_by(&self) -> Option<Shut> {
        self.inbox.shut_by()
    }

    /// Arms the bell. `true`: nothing is queued, the queue is open, and the next append or shut will ring. Worker only,
    /// and only when no task is active; the sequence is tick, arm, and sleep if armed.
    pub fn arm_bell(&self) -> bool {
        self.inbox.arm()
    }

    /// Whether nothing is queued. Advisory.
    pub fn is_inbox_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    /// The rank in whose slots a ticket lies. Once the ticket is spent that may be another rank than it was given out for.
    pub fn rank_of(&self, ticket: Ticket) -> Option<Rank> {
        let place = index(ticket.slot.checked_div(narrow(TASKS))?);
        self.ranks.get(place)?.rank()
    }

    /// Where a poll of this ticket looks and, when it finds an end, writes: for a shell that has the line fetched to be written. `None` if
    /// there is no such slot.
    pub fn slot_address(&self, ticket: Ticket) -> Option<*const ()> {
        self.slot(ticket.slot).map(Slot::address)
    }

    pub(crate) const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(crate) fn slot(&self, number: u32) -> Option<&Slot> {
        let tasks = narrow(TASKS);
        let row = self.slots.get(index(number.checked_div(tasks)?))?;
        row.get(index(number.checked_rem(tasks)?))
    }

    pub(crate) fn context_slot(&self, id: ContextId) -> Option<&ContextSlot> {
        self.contexts.get(id)
    }

    fn context(&self, id: ContextId) -> Result<Of<'_>, EnqueueError> {
        let slot = self.contexts.get(id).ok_or(EnqueueError::UnknownContext)?;
        let entry = slot.entry(id).ok_or(EnqueueError::UnknownContext)?;
        Ok(Of { id, slot, entry })
    }

    /// A context, also while its start words are being reset.
    fn registered(&self, id: ContextId) -> Option<Of<'_>> {
        let slot = self.contexts.get(id)?;
        let entry = slot.entry_of_registered(id)?;
        Some(Of { id, slot, entry })
    }
}

impl<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize> Default
    for Queue<RANKS, TASKS, CONTEXTS>
{
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_line_of_its_own_in_the_queue() {
        let queue = Queue::<2, 4, 2>::new();
        let at = |slot| {
            let ticket = Ticket {
                slot,
                generation: 0,
            };
            queue.slot_address(ticket)
        };
        let slots = (0..8).map(|slot| at(slot).unwrap());
        let mut lines: std::vec::Vec<usize> = slots.map(|place| place.addr() / 64).collect();
        let inside = (&raw const queue).addr() / 64;
        assert!(
            lines
                .iter()
                .all(|line| (inside..inside + size_of_val(&queue) / 64 + 1).contains(line))
        );
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 8);
        assert_eq!(at(8), None);
    }
}
