//! One task in flight: which machine it runs and what every machine knows of its task.

pub(crate) mod barrier;
pub(crate) mod network;

use crate::board::Word;
use crate::context::{ContextSlot, Spec};
use crate::id::{ContextId, ExecId, Stream};
use crate::port::{Change, Ports};
use crate::status::{RunState, Status, TaskKind};
use crate::trigger::Gate;

use barrier::BarrierTask;
use network::NetworkTask;
pub(crate) use network::Run;

/// What a step needs besides the machine's own state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) context: ContextId,
    pub(crate) exec: ExecId,
    pub(crate) spec: Spec,
    /// The slot's word as published, for reports.
    pub(crate) live: Word,
    pub(crate) slot: u32,
}

impl Task {
    /// Its gate, which its context keeps.
    #[inline]
    fn gate<'a>(&self, context: &'a ContextSlot) -> Gate<'a> {
        context.gate(self.context, self.live.kind(), &self.spec)
    }

    #[inline]
    pub(crate) fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        (0..self.spec.streams).map(Stream)
    }
}

/// Outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) to: RunState,
    /// Counts with [`RunState::Done`].
    pub(crate) status: Status,
    /// Something moved: the worker must not relax because of this task.
    pub(crate) moved: bool,
}

impl Step {
    pub(crate) const fn moved(to: RunState) -> Self {
        Self {
            to,
            status: Status::SUCCESS,
            moved: true,
        }
    }

    pub(crate) const fn waiting(to: RunState) -> Self {
        Self {
            to,
            status: Status::SUCCESS,
            moved: false,
        }
    }

    pub(crate) const fn done(status: Status) -> Self {
        Self {
            to: RunState::Done,
            status,
            moved: true,
        }
    }
}

/// The machine of either kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Machine {
    Network(NetworkTask),
    Barrier(BarrierTask),
}

/// A task and its machine, owned by the worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Active {
    pub(crate) task: Task,
    machine: Machine,
}

impl Active {
    pub(crate) fn new(task: Task) -> Self {
        let machine = match task.live.kind() {
            TaskKind::Network => Machine::Network(NetworkTask::new()),
            TaskKind::Barrier => Machine::Barrier(BarrierTask::new()),
        };
        Self { task, machine }
    }

    #[inline]
    pub(crate) const fn state(&self) -> RunState {
        match &self.machine {
            Machine::Network(machine) => machine.state(),
            Machine::Barrier(machine) => machine.state(),
        }
    }

    /// The first part of a step: whether the task has been progressed and is IDLE as before, which is most of what ticks find.
    #[inline(always)]
    pub(crate) fn run<P: Ports>(&mut self, ports: &mut P) -> Run {
        match &mut self.machine {
            Machine::Network(machine) => machine.run(&self.task, ports),
            Machine::Barrier(_) => Run::NotUnderWay,
        }
    }

    /// The second part of a step, unless the first said [`Run::Still`]. `older` counts those that wait for the same words and come first.
    #[inline]
    pub(crate) fn finish<P: Ports>(
        &mut self,
        run: Run,
        (context, pass): (&ContextSlot, u32),
        older: &impl Fn(&Task) -> usize,
        ports: &mut P,
    ) -> Step {
        let Self { task, machine } = self;
        // Made only where it is looked at, which is in few steps of a task.
        let gate = || task.gate(context).in_pass(pass);
        let disarm = || task.gate(context).disarm(|| older(task));
        match machine {
            Machine::Network(machine) => machine.finish(run, task, (&gate, &disarm), ports),
            Machine::Barrier(machine) => machine.step(task, &gate, ports),
        }
    }

    /// Ends the task early: the library is told to stop, peers of a barrier are told. `older` as in [`finish`](Self::finish).
    pub(crate) fn abort<P: Ports>(
        &mut self,
        context: &ContextSlot,
        status: Status,
        older: &impl Fn(&Task) -> usize,
        ports: &mut P,
    ) -> Step {
        let Self { task, machine } = self;
        let disarm = || task.gate(context).disarm(|| older(task));
        match machine {
            Machine::Network(machine) => machine.abort(task, &disarm, status, ports),
            Machine::Barrier(machine) => machine.abort(task, &disarm, status, ports),
        }
    }

    #[inline]
    pub(crate) fn change(&self, from: RunState, step: Step) -> Change {
        Change {
            rank: self.task.spec.rank,
            context: self.task.context,
            kind: self.task.live.kind(),
            exec: self.task.exec,
            slot: self.task.slot,
            from,
            to: step.to,
            status: step.status,
        }
    }
}

#[cfg(test)]
mod tests;
