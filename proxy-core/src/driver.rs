//! The driver: the worker's own side of a queue, and its tick (specification section 3, `process`).
//!
//! A tick drains the inbox into per-rank lists, ends what others have ordered to end, steps every active task exactly once, ranks in order and tasks in
//! order of arrival, recycles those that are DONE, and says what the worker should do next. No lock is held, and none
//! exists. IDLE is not terminal: only DONE takes a task off its list.

use heapless::Vec;

use crate::board::Phase;
use crate::context::ContextSlot;
use crate::id::Rank;
use crate::limits::{index, narrow};
use crate::port::{Drained, Observer, Ports};
use crate::queue::Queue;
use crate::status::{RunState, Status};
use crate::task::{Active, Step, Task};
use crate::trigger::Gate;

/// What the worker should do after a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Next {
    /// Something moved: tick again at once.
    Again,
    /// Tasks are active, but nothing moved: spin or yield, then tick. Never sleep: nothing would wake the worker.
    Relax,
    /// Nothing is active: arm the bell, and sleep if that succeeds.
    Sleep,
}

/// What one tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub struct Tick {
    /// Tasks taken from the inbox.
    pub drained: u32,
    /// Tasks stepped.
    pub stepped: u32,
    /// Of those, tasks that moved.
    pub moved: u32,
    /// Of those, tasks that reached DONE.
    pub done: u32,
    /// Tasks that were ended by order instead of a step.
    pub aborted: u32,
    /// What to do next.
    pub next: Next,
}

/// What a drain found.
#[derive(Debug, Clone, Copy, Default)]
struct Inflow {
    /// Tasks taken from the inbox.
    drained: u32,
    /// A task bears an order.
    ordered: bool,
}

/// Tasks of one rank that has any.
#[derive(Debug, Clone, Copy)]
struct Occupied {
    rank: Rank,
    bucket: u32,
}

/// The worker's side of a [`Queue`] with the same `RANKS` and `TASKS`. One driver per queue; it is not shared.
#[derive(Debug)]
pub struct Driver<const RANKS: usize, const TASKS: usize> {
    /// Per rank place, the active tasks in order of arrival.
    lists: [Vec<Active, TASKS>; RANKS],
    /// The ranks with active tasks, in order of rank.
    occupied: Vec<Occupied, RANKS>,
    /// Number of this tick, from 1; see the [trigger module](crate::trigger). After a wrap a gate may open one tick late.
    pass: u32,
}

impl<const RANKS: usize, const TASKS: usize> Driver<RANKS, TASKS> {
    /// A driver with nothing active.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            lists: [const { Vec::new() }; RANKS],
            occupied: Vec::new(),
            pass: 0,
        }
    }

    /// Number of active tasks.
    #[must_use]
    pub fn active(&self) -> usize {
        self.occupied
            .iter()
            .filter_map(|entry| self.lists.get(index(entry.bucket)))
            .map(|list| list.len())
            .fold(0, usize::saturating_add)
    }

    /// One tick. Bounded: one step per active task, each with a bounded number of port calls.
    pub fn tick<P: Ports, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        ports: &mut P,
    ) -> Tick {
        let Inflow { drained, ordered } = self.drain(queue, ports);
        let aborted = if ordered { self.obey(queue, ports) } else { 0 };
        self.pass = self.pass.wrapping_add(1);
        let pass = self.pass;
        let mut tick = Tick {
            drained,
            stepped: 0,
            moved: 0,
            done: 0,
            aborted,
            next: Next::Sleep,
        };
        self.for_each(queue, |context, active| {
            let from = active.state();
            let gate = gate(context, active).in_pass(pass);
            let step = active.step(&gate, ports);
            tick.stepped = tick.stepped.wrapping_add(1);
            tick.moved = tick.moved.wrapping_add(u32::from(step.moved));
            let done = step.to == RunState::Done;
            tick.done = tick.done.wrapping_add(u32::from(done));
            if step.to != from {
                settle(queue, context, active, from, step, ports);
            }
            !done
        });
        tick.next = if tick.moved > 0 || drained > 0 || aborted > 0 {
            Next::Again
        } else if tick.stepped > 0 {
            Next::Relax
        } else {
            Next::Sleep
        };
        tick
    }

    /// Ends the active tasks whose slots bear an order.
    fn obey<P: Ports, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        ports: &mut P,
    ) -> u32 {
        let mut ended = 0_u32;
        self.for_each(queue, |context, active| {
            let slot = queue.slot(active.task.slot);
            let Some(cause) = slot.and_then(|slot| slot.ordered(active.task.live)) else {
                return true;
            };
            let from = active.state();
            let step = active.abort(&gate(context, active), cause.status(), ports);
            settle(queue, context, active, from, step, ports);
            ended = ended.wrapping_add(1);
            false
        });
        ended
    }

    /// Ends every active and queued task with `status`: the library is told to stop, barrier peers are told. Returns how many.
    pub fn abort_all<P: Ports, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        status: Status,
        ports: &mut P,
    ) -> u32 {
        self.drain(queue, ports);
        let mut ended = 0_u32;
        self.for_each(queue, |context, active| {
            let from = active.state();
            let step = active.abort(&gate(context, active), status, ports);
            settle(queue, context, active, from, step, ports);
            ended = ended.wrapping_add(1);
            false
        });
        ended
    }

    /// Makes every task's status final without calling the library or a barrier, for a worker that died inside a port.
    pub fn fail_all<O: Observer, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        status: Status,
        observer: &mut O,
    ) -> u32 {
        self.drain(queue, observer);
        let mut ended = 0_u32;
        self.for_each(queue, |context, active| {
            settle(
                queue,
                context,
                active,
                active.state(),
                Step::done(status),
                observer,
            );
            ended = ended.wrapping_add(1);
            false
        });
        ended
    }

    /// Visits every active task in order; those for which `keep` says no leave their list.
    fn for_each<const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        mut keep: impl FnMut(&ContextSlot, &mut Active) -> bool,
    ) {
        let Self {
            lists, occupied, ..
        } = self;
        occupied.retain(|entry| {
            let Some(list) = lists.get_mut(index(entry.bucket)) else {
                return false;
            };
            list.retain_mut(|active| match queue.context_slot(active.task.key.context) {
                Some(context) => keep(context, active),
                None => false,
            });
            !list.is_empty()
        });
    }

    /// Moves what is queued to the ranks' lists, oldest first.
    fn drain<O: Observer, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        observer: &mut O,
    ) -> Inflow {
        let mut found = Inflow::default();
        let Some(taken) = queue.inbox().take() else {
            return found;
        };
        found.ordered = taken.ordered;
        let mut link = taken.top.map_or(0, |top| reverse(queue, top));
        while let Some(number) = link.checked_sub(1) {
            let Some(slot) = queue.slot(number) else {
                break;
            };
            link = slot.next();
            found.drained = found.drained.wrapping_add(1);
            // A task can be ordered to end between its publication and its push; that order bit was taken earlier.
            found.ordered |= slot.ordered(slot.word()).is_some();
            self.take_in(queue, number, observer);
        }
        found
    }

    /// Puts one drained slot on its rank's list.
    fn take_in<O: Observer, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        number: u32,
        observer: &mut O,
    ) {
        let Some(slot) = queue.slot(number) else {
            return;
        };
        let live = slot.word();
        debug_assert!(live.phase() == Phase::Live(RunState::Init));
        let key = slot.key_unchecked();
        let entry = queue
            .context_slot(key.context)
            .and_then(|context| context.entry_of_task(key.context));
        // Cannot fail: a task that is not finished keeps its context.
        let Some(entry) = entry else {
            debug_assert!(false, "the context of a queued task is gone");
            slot.report(live, RunState::Done, Status::STALE_CONTEXT);
            return;
        };
        observer.drained(Drained {
            context: key.context,
            slot: number,
            appended: slot.appended(),
        });
        let bucket = number.checked_div(narrow(TASKS)).unwrap_or(0);
        let active = Active::new(Task {
            key,
            spec: entry.spec,
            live,
            slot: number,
        });
        let Some(list) = self.lists.get_mut(index(bucket)) else {
            return;
        };
        if list.is_empty() {
            let rank = entry.spec.rank;
            let at = self
                .occupied
                .iter()
                .position(|other| other.rank > rank)
                .unwrap_or(self.occupied.len());
            // Cannot fail: a rank has one place, and there are as many entries as places.
            let _ = self.occupied.insert(at, Occupied { rank, bucket });
        }
        // Cannot fail: the list has one entry per slot of the rank, and this slot is not on it.
        let _ = list.push(active);
    }
}

impl<const RANKS: usize, const TASKS: usize> Default for Driver<RANKS, TASKS> {
    fn default() -> Self {
        Self::new()
    }
}

/// The gate of an active task.
fn gate<'a>(context: &'a ContextSlot, active: &Active) -> Gate<'a> {
    let task = &active.task;
    context.gate(task.key.context, task.live.kind(), &task.spec)
}

/// Turns the taken stack round, so that it starts with the oldest; the slots are the worker's.
fn reverse<const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    top: u32,
) -> u32 {
    let mut link = top.wrapping_add(1);
    let mut above = 0;
    while let Some(slot) = link.checked_sub(1).and_then(|number| queue.slot(number)) {
        let below = slot.next();
        slot.set_next(above);
        above = link;
        link = below;
    }
    above
}

/// Records a state change, then publishes it. After a DONE is published, the slot is not touched again.
fn settle<O: Observer, const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    context: &ContextSlot,
    active: &Active,
    from: RunState,
    step: Step,
    observer: &mut O,
) {
    observer.changed(&active.change(from, step));
    if step.to == RunState::Done {
        // Before the publication: a consumer that sees DONE may retire the context at once.
        context.count_finish(1);
    }
    if let Some(slot) = queue.slot(active.task.slot) {
        slot.report(active.task.live, step.to, step.status);
    }
}
