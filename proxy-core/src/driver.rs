//! The driver: the worker's own side of a queue, and its tick (specification section 3, `process`).
//!
//! A tick drains the inbox into per-rank lists, ends what others have ordered to end, steps every active task exactly once, ranks
//! in order and tasks in order of arrival, recycles those that are DONE, and says what the worker should do next. No lock is
//! held, and none exists. IDLE is not terminal: only DONE takes a task off its list.
//!
//! The library may take its time in each step, so the inbox is also looked at between the steps of a tick: network tasks found
//! there have their first step, which starts them, at once (`early.rs`), and come to their lists when the tick is over.

mod early;
mod inflow;

use heapless::Vec;

use crate::context::ContextSlot;
use crate::doorbell::Head;
use crate::id::Rank;
use crate::inbox::Taken;
use crate::limits::{index, narrow};
use crate::port::{Observer, Ports};
use crate::queue::Queue;
use crate::status::{RunState, Status};
use crate::task::{Active, Run, Step};

use early::Early;
use inflow::{Inflow, announce, reverse, take_in};

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

impl Tick {
    const fn new() -> Self {
        Self {
            drained: 0,
            stepped: 0,
            moved: 0,
            done: 0,
            aborted: 0,
            next: Next::Sleep,
        }
    }

    /// The same, after so many steps. Field by field: what has just been stored in pieces is slow to be copied as a whole.
    #[inline(always)]
    const fn ended(self, stepped: u32) -> Self {
        let Self {
            drained,
            moved,
            done,
            aborted,
            ..
        } = self;
        let next = if moved > 0 || drained > 0 || aborted > 0 {
            Next::Again
        } else if stepped > 0 {
            Next::Relax
        } else {
            Next::Sleep
        };
        Self {
            drained,
            stepped,
            moved,
            done,
            aborted,
            next,
        }
    }
}

/// Tasks of one rank that has any.
#[derive(Debug, Clone, Copy)]
struct Occupied {
    rank: Rank,
    bucket: u32,
}

/// Steps between two looks at the inbox within a tick. Few, so that what is appended behind slow tasks starts soon; not one, as
/// each look that finds something moves the inbox's line, and a batch costs no more than a task.
const LOOK_EVERY: u32 = 4;

/// The worker's side of a [`Queue`] with the same `RANKS` and `TASKS`. One driver per queue; it is not shared. All-zero is a valid one with
/// nothing active.
#[derive(Debug)]
pub struct Driver<const RANKS: usize, const TASKS: usize> {
    /// Per rank place, the active tasks in order of arrival.
    lists: [Vec<Active, TASKS>; RANKS],
    /// The ranks with active tasks, in order of rank.
    occupied: Vec<Occupied, RANKS>,
    early: Early,
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
            early: Early::new(),
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
        let mut tick = Tick::new();
        if let Some(seen) = queue.inbox().look() {
            self.begin(queue, seen, ports, &mut tick);
        }
        self.pass = self.pass.wrapping_add(1);
        let stepped = self.step_all(queue, ports, &mut tick);
        if tick.done > 0 {
            self.recycle();
        }
        if !self.early.is_empty() {
            self.admit_early(queue, ports);
        }
        tick.ended(stepped)
    }

    /// Drains what was seen in the inbox, and ends what is ordered to end. Out of line, as are the other parts that most ticks do without.
    #[inline(never)]
    fn begin<P: Ports, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        seen: Head,
        ports: &mut P,
        tick: &mut Tick,
    ) {
        // Comes while the exchange is under way.
        announce(queue, seen.link(), ports);
        let taken = queue.inbox().take();
        let Inflow { drained, ordered } = self.drain(queue, taken, ports);
        tick.drained = drained;
        if ordered {
            tick.aborted = self.obey(queue, ports);
        }
    }

    /// One step of every active task, and of those that arrive meanwhile. Returns how many.
    #[inline]
    fn step_all<P: Ports, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        ports: &mut P,
        tick: &mut Tick,
    ) -> u32 {
        let Self {
            lists,
            occupied,
            early,
            pass,
        } = self;
        let pass = *pass;
        // Counted here and not in the tick, which stays out of registers as rarer parts are lent it.
        let mut stepped = 0_u32;
        for entry in &*occupied {
            let Some(list) = lists.get_mut(index(entry.bucket)) else {
                continue;
            };
            for active in list {
                stepped = stepped.wrapping_add(1);
                step(queue, active, pass, ports, tick);
                // Room first: a look takes the line from who appends.
                if stepped.is_multiple_of(LOOK_EVERY)
                    && early.has_room()
                    && !queue.inbox().is_empty()
                {
                    tick.stepped = stepped;
                    early.start(queue, pass, ports, tick);
                    stepped = tick.stepped;
                }
            }
        }
        stepped
    }

    /// Ends the active tasks whose slots bear an order.
    fn obey<P: Ports, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        ports: &mut P,
    ) -> u32 {
        let mut ended = 0_u32;
        for active in self.all_active() {
            let slot = queue.slot(active.task.slot);
            let cause = slot.and_then(|slot| slot.ordered(active.task.live));
            if let Some(cause) = cause {
                end(queue, active, cause.status(), ports);
                ended = ended.wrapping_add(1);
            }
        }
        if ended > 0 {
            self.recycle();
        }
        ended
    }

    /// Ends every active and queued task with `status`: the library is told to stop, barrier peers are told. Returns how many. Also
    /// after a tick that a port unwound out of, but for [`Observer::drained`] and [`Observer::soon`], which must not.
    pub fn abort_all<P: Ports, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        status: Status,
        ports: &mut P,
    ) -> u32 {
        self.gather(queue, ports);
        let mut ended = 0_u32;
        for active in self.all_active() {
            end(queue, active, status, ports);
            ended = ended.wrapping_add(1);
        }
        self.recycle();
        ended
    }

    /// Makes every task's status final without calling the library or a barrier, for a worker that died inside a port. After the same
    /// ticks as [`abort_all`](Self::abort_all).
    pub fn fail_all<O: Observer, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        status: Status,
        observer: &mut O,
    ) -> u32 {
        self.gather(queue, observer);
        let mut ended = 0_u32;
        for active in self.all_active() {
            if let Some(context) = queue.context_slot(active.task.context) {
                let step = Step::done(status);
                settle(queue, context, active, active.state(), step, observer);
                ended = ended.wrapping_add(1);
            }
        }
        self.lists.iter_mut().for_each(Vec::clear);
        self.occupied.clear();
        ended
    }

    /// Puts all tasks that have no end on the lists, and no others, also after a tick that was not finished.
    fn gather<O: Observer, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        observer: &mut O,
    ) {
        // Such a tick has left ended tasks here, whose slots, and so places, may be others' by now; and perhaps one that is DONE and
        // whose end was not reported.
        self.keep(|active| {
            let slot = queue.slot(active.task.slot);
            slot.is_some_and(|slot| !slot.is_over(active.task.live))
        });
        self.admit_early(queue, observer);
        let taken = queue.inbox().take();
        self.drain(queue, taken, observer);
    }

    /// Every active task in order.
    fn all_active(&mut self) -> impl Iterator<Item = &mut Active> {
        let mut lists: [Option<&mut Vec<Active, TASKS>>; RANKS] = self.lists.each_mut().map(Some);
        let lists = (self.occupied.iter())
            .filter_map(move |entry| lists.get_mut(index(entry.bucket))?.take());
        lists.flatten()
    }

    /// Takes the tasks that are done off their lists.
    #[inline(never)]
    fn recycle(&mut self) {
        self.keep(|active| active.state() != RunState::Done);
    }

    fn keep(&mut self, mut wanted: impl FnMut(&Active) -> bool) {
        let Self {
            lists, occupied, ..
        } = self;
        occupied.retain(|entry| {
            let Some(list) = lists.get_mut(index(entry.bucket)) else {
                return false;
            };
            list.retain(&mut wanted);
            !list.is_empty()
        });
    }

    /// Puts what was started early on its lists, and then what was taken with it.
    #[inline(never)]
    fn admit_early<O: Observer, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        observer: &mut O,
    ) {
        let Early { started, link } = core::mem::replace(&mut self.early, Early::new());
        for active in started {
            self.admit(active);
        }
        self.drain_chain(queue, link, observer);
    }

    /// Moves what was taken to the ranks' lists, oldest first.
    fn drain<O: Observer, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        taken: Taken,
        observer: &mut O,
    ) -> Inflow {
        let link = taken.top.map_or(0, |top| reverse(queue, top, observer));
        let mut found = self.drain_chain(queue, link, observer);
        found.ordered |= taken.ordered;
        found
    }

    /// Moves a chain of slots, oldest first, to the ranks' lists.
    fn drain_chain<O: Observer, const CONTEXTS: usize>(
        &mut self,
        queue: &Queue<RANKS, TASKS, CONTEXTS>,
        mut link: u32,
        observer: &mut O,
    ) -> Inflow {
        let mut found = Inflow::default();
        while let Some(number) = link.checked_sub(1) {
            let Some(slot) = queue.slot(number) else {
                break;
            };
            link = slot.next();
            found.drained = found.drained.wrapping_add(1);
            let live = slot.word();
            // A task can be ordered to end between its publication and its push; that order bit was taken earlier.
            found.ordered |= slot.ordered(live).is_some();
            if let Some(active) = take_in(queue, (number, slot, live), observer) {
                self.admit(active);
            }
        }
        found
    }

    /// Puts a task on its rank's list.
    fn admit(&mut self, active: Active) {
        let bucket = (active.task.slot).checked_div(narrow(TASKS)).unwrap_or(0);
        let Some(list) = self.lists.get_mut(index(bucket)) else {
            return;
        };
        if list.is_empty() {
            let rank = active.task.spec.rank;
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

/// One step of one task, which the caller counts.
#[inline(always)]
fn step<P: Ports, const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    active: &mut Active,
    pass: u32,
    ports: &mut P,
    tick: &mut Tick,
) {
    match active.run(ports) {
        Run::Still => {}
        run => finish(queue, active, run, pass, ports, tick),
    }
}

/// The second part of a step. Out of line, so that a tick over idle tasks stays small.
#[inline(never)]
fn finish<P: Ports, const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    active: &mut Active,
    run: Run,
    pass: u32,
    ports: &mut P,
    tick: &mut Tick,
) {
    // Cannot fail: a task that is not finished keeps its context.
    let Some(context) = queue.context_slot(active.task.context) else {
        return;
    };
    let from = active.state();
    let step = active.finish(
        run,
        (context, pass),
        &|task| queue.waits_before(task),
        ports,
    );
    tick.moved = tick.moved.wrapping_add(u32::from(step.moved));
    if step.to != from {
        tick.done = tick.done.wrapping_add(u32::from(step.to == RunState::Done));
        settle(queue, context, active, from, step, ports);
    }
}

/// Ends one active task early.
#[inline(never)]
fn end<P: Ports, const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    active: &mut Active,
    status: Status,
    ports: &mut P,
) {
    // Cannot fail: a task that is not finished keeps its context.
    let Some(context) = queue.context_slot(active.task.context) else {
        return;
    };
    let from = active.state();
    let step = active.abort(context, status, &|task| queue.waits_before(task), ports);
    settle(queue, context, active, from, step, ports);
}

/// Records a state change, then publishes it. After a DONE is published, the slot is not touched again. In line, so that what is
/// recorded goes by registers.
#[inline(always)]
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
        context.count_end();
    }
    if let Some(slot) = queue.slot(active.task.slot) {
        slot.report(active.task.live, step.to, step.status);
    }
}
