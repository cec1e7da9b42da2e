//! The worker's side: what a tick, and the ends of everything, must do.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use proxy_core::{Next, Rank, RunState, Status, TaskKind, Tick};

use super::machine::{Active, Outcome};
use super::{Oracle, Outside, TaskId, key};

/// Steps between two looks at the inbox within a tick, as the driver has them.
const LOOK_EVERY: u32 = 4;
/// Tasks that one tick starts early, as the driver has them.
const EARLY: usize = 16;

/// What was taken from the inbox within a tick.
#[derive(Debug, Default)]
struct Early {
    started: Vec<Active>,
    rest: Vec<TaskId>,
}

impl Oracle {
    fn drain(&mut self) -> u32 {
        self.armed_bell = false;
        let drained = std::mem::take(&mut self.inbox);
        self.admit(&drained);
        u32::try_from(drained.len()).unwrap()
    }

    /// Puts drained tasks on their lists.
    fn admit(&mut self, drained: &[TaskId]) {
        for id in drained {
            let active = self.make_active(*id);
            let rank = self.tasks[*id].rank;
            self.active.entry(rank).or_default().push(active);
        }
    }

    fn make_active(&self, id: TaskId) -> Active {
        let task = &self.tasks[id];
        let spec = self.contexts[&key(task.context)];
        Active::new(id, task.context, task.kind, task.exec, spec)
    }

    /// One tick: drain, step each active task once, forget those that are done. The inbox is looked at between steps, too.
    pub fn tick<O: Outside>(&mut self, outside: &mut O) -> Tick {
        let drained = self.drain();
        let aborted = self.obey(outside);
        let mut tick = Tick {
            drained,
            stepped: 0,
            moved: 0,
            done: 0,
            aborted,
            next: Next::Sleep,
        };
        self.words.begin_tick();
        let mut early = Early::default();
        let stepped = self.each_active(|oracle, task| {
            oracle.step(task, &mut tick, outside);
            if tick.stepped.is_multiple_of(LOOK_EVERY) {
                oracle.start_early(&mut early, &mut tick, outside);
            }
        });
        for task in early.started {
            let rank = self.tasks[task.id].rank;
            self.active.entry(rank).or_default().push(task);
        }
        self.admit(&early.rest);
        stepped.unwrap_or_else(|death| resume_unwind(death));
        tick.next = if tick.moved > 0 || tick.drained > 0 || aborted > 0 {
            Next::Again
        } else if tick.stepped > 0 {
            Next::Relax
        } else {
            Next::Sleep
        };
        tick
    }

    fn step<O: Outside>(&mut self, task: &mut Active, tick: &mut Tick, outside: &mut O) {
        let outcome = task.step(self, outside);
        tick.stepped += 1;
        tick.moved += u32::from(outcome.moved);
        tick.done += u32::from(outcome.to == RunState::Done);
        self.settle(task.id, outcome, outside);
    }

    /// Takes what has come within the tick, unless a rest of that is waiting already, and gives its first network tasks their first
    /// step.
    fn start_early<O: Outside>(&mut self, early: &mut Early, tick: &mut Tick, outside: &mut O) {
        if self.inbox.is_empty() || !early.rest.is_empty() || early.started.len() == EARLY {
            return;
        }
        self.armed_bell = false;
        early.rest = std::mem::take(&mut self.inbox);
        tick.drained += u32::try_from(early.rest.len()).unwrap();
        while let Some(id) = early.rest.first().copied() {
            if early.started.len() == EARLY || self.tasks[id].kind != TaskKind::Network {
                break;
            }
            early.rest.remove(0);
            // There before its step, from which the worker may not come back.
            early.started.push(self.make_active(id));
            if let Some(task) = early.started.last_mut() {
                self.step(task, tick, outside);
            }
            early
                .started
                .pop_if(|_| self.tasks[id].state == RunState::Done);
        }
    }

    /// Goes over the active tasks in order. If the worker dies in a call, what has not ended is where it was, and the rest is told.
    pub(super) fn each_active(
        &mut self,
        mut act: impl FnMut(&mut Self, &mut Active),
    ) -> thread::Result<()> {
        let mut active = std::mem::take(&mut self.active);
        let tasks = active.values_mut().flatten();
        let went = catch_unwind(AssertUnwindSafe(|| {
            tasks.for_each(|task| act(self, task));
        }));
        self.keep(active);
        went
    }

    /// Ends everything.
    pub fn abort_all<O: Outside>(&mut self, status: Status, outside: &mut O) -> u32 {
        self.drain();
        self.ordered = false;
        let mut ended = 0;
        let went = self.each_active(|oracle, task| {
            let outcome = task.abort(status, oracle, outside);
            oracle.settle(task.id, outcome, outside);
            ended += 1;
        });
        went.unwrap_or_else(|death| resume_unwind(death));
        ended
    }

    /// The worker has died, perhaps in the middle of a tick: every task that is not done ends, without any call.
    pub fn fail_all<O: Outside>(&mut self, status: Status, outside: &mut O) -> u32 {
        self.drain();
        self.active.clear();
        let done = |id: &TaskId| self.tasks[*id].state == RunState::Done;
        let mut ended: Vec<TaskId> = (0..self.tasks.len()).filter(|id| !done(id)).collect();
        ended.sort_by_key(|id| (self.tasks[*id].rank, *id));
        for id in &ended {
            self.settle(*id, Outcome::failed(status), outside);
        }
        u32::try_from(ended.len()).unwrap()
    }

    fn keep(&mut self, active: BTreeMap<Rank, Vec<Active>>) {
        for (rank, mut tasks) in active {
            tasks.retain(|task| self.tasks[task.id].state != RunState::Done);
            if !tasks.is_empty() {
                self.active.insert(rank, tasks);
            }
        }
    }
}
