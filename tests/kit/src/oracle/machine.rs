//! The oracle's task: what one step of either kind does, in the words of the specification.

use proxy_core::port::BarrierPoll;
use proxy_core::{BlockIndex, ContextId, ExecId, RunState, Spec, Status, StopAt, Stream, TaskKind};

use super::TaskId;
use super::library::Call;
use super::{Oracle, Outside};

/// What a step came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) to: RunState,
    pub(super) code: Status,
    pub(super) moved: bool,
}

/// One step of one task, for who counts which edges of its machine were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stepped {
    /// The machine.
    pub kind: TaskKind,
    /// State before.
    pub from: RunState,
    /// State after.
    pub to: RunState,
    /// Whether the worker must not relax because of it.
    pub moved: bool,
    /// Whether the task had been ordered to end early.
    pub ordered: bool,
}

impl Outcome {
    /// The end by somebody else's fault.
    pub(super) const fn failed(status: Status) -> Self {
        done(status)
    }
}

const fn moved(to: RunState) -> Outcome {
    Outcome {
        to,
        code: Status::SUCCESS,
        moved: true,
    }
}

const fn still(to: RunState) -> Outcome {
    Outcome {
        to,
        code: Status::SUCCESS,
        moved: false,
    }
}

const fn done(code: Status) -> Outcome {
    Outcome {
        to: RunState::Done,
        code,
        moved: true,
    }
}

/// A task that the worker steps.
#[derive(Debug, Clone)]
pub(super) struct Active {
    pub(super) id: TaskId,
    context: ContextId,
    kind: TaskKind,
    exec: ExecId,
    spec: Spec,
    begun: bool,
    through_gate: bool,
    arrived: bool,
    started: Vec<u8>,
    drained: Vec<u8>,
    block: u16,
    first_tick_of_block: bool,
}

impl Active {
    pub(super) const fn new(
        id: TaskId,
        context: ContextId,
        kind: TaskKind,
        exec: ExecId,
        spec: Spec,
    ) -> Self {
        Self {
            id,
            context,
            kind,
            exec,
            spec,
            begun: false,
            through_gate: false,
            arrived: false,
            started: Vec::new(),
            drained: Vec::new(),
            block: 0,
            first_tick_of_block: false,
        }
    }

    pub(super) fn step<O: Outside>(&mut self, oracle: &mut Oracle, outside: &mut O) -> Outcome {
        match self.kind {
            TaskKind::Network if !self.begun => self.begin(oracle, outside),
            TaskKind::Network if self.spec.device_wait && !self.through_gate => {
                self.wait(oracle, outside)
            }
            TaskKind::Network => self.progress(oracle, outside),
            TaskKind::Barrier => self.barrier(oracle, outside),
        }
    }

    pub(super) fn abort<O: Outside>(
        &mut self,
        status: Status,
        oracle: &mut Oracle,
        outside: &mut O,
    ) -> Outcome {
        self.give_up_gate(oracle);
        match self.kind {
            TaskKind::Network => self.end(status, oracle, outside),
            TaskKind::Barrier => self.give_up(status, oracle, outside),
        }
    }

    /// The task ends, and another's fire must not be waited for in its name.
    fn give_up_gate(&mut self, oracle: &mut Oracle) {
        if !self.through_gate {
            oracle.give_up_arm(self.id, &self.spec);
            self.through_gate = true;
        }
    }

    /// INIT: start every block of every stream.
    fn begin<O: Outside>(&mut self, oracle: &mut Oracle, outside: &mut O) -> Outcome {
        self.begun = true;
        if self.spec.skip {
            return done(Status::SUCCESS);
        }
        for stream in 0..self.spec.streams {
            for block in 0..self.spec.blocks {
                let call = Call::Start(self.context, Stream(stream), BlockIndex(block));
                let status = outside.call(oracle, call).status;
                if !status.is_success() {
                    self.give_up_gate(oracle);
                    return self.end(status, oracle, outside);
                }
                if !self.started.contains(&stream) {
                    self.started.push(stream);
                }
            }
        }
        moved(if self.spec.device_wait {
            RunState::WaitingDeviceTrigger
        } else {
            RunState::Progressing
        })
    }

    /// WAITING_DEVICE_TRIGGER.
    fn wait<O: Outside>(&mut self, oracle: &mut Oracle, outside: &mut O) -> Outcome {
        self.through_gate = oracle.pass(self.context, self.kind, &self.spec, outside);
        if self.through_gate {
            moved(RunState::Progressing)
        } else {
            still(RunState::WaitingDeviceTrigger)
        }
    }

    /// PROGRESSING and IDLE: one progress call per stream that has not drained the block.
    fn progress<O: Outside>(&mut self, oracle: &mut Oracle, outside: &mut O) -> Outcome {
        let mut any_moved = false;
        for stream in 0..self.spec.streams {
            if self.drained.contains(&stream) {
                continue;
            }
            let call = Call::Progress(self.context, Stream(stream), BlockIndex(self.block));
            let answer = outside.call(oracle, call);
            if !answer.status.is_success() {
                return self.end(answer.status, oracle, outside);
            }
            if answer.done {
                self.drained.push(stream);
            }
            any_moved |= answer.done || !answer.idle;
        }
        if std::mem::take(&mut self.first_tick_of_block) && self.spec.stop_at == StopAt::Switch {
            self.started = (0..self.spec.streams).collect();
            let status = self.stop(oracle, outside);
            if !status.is_success() {
                return done(status);
            }
        }
        if self.drained.len() == usize::from(self.spec.streams) {
            if self.block + 1 == self.spec.blocks {
                return self.end(Status::SUCCESS, oracle, outside);
            }
            self.block += 1;
            self.drained.clear();
            self.first_tick_of_block = true;
            return moved(RunState::Progressing);
        }
        if any_moved {
            moved(RunState::Progressing)
        } else {
            still(RunState::Idle)
        }
    }

    /// Every started stream is stopped once; the first error of the task is the one that counts.
    fn end<O: Outside>(&mut self, status: Status, oracle: &mut Oracle, outside: &mut O) -> Outcome {
        let stopped = self.stop(oracle, outside);
        done(if status.is_success() { stopped } else { status })
    }

    fn stop<O: Outside>(&mut self, oracle: &mut Oracle, outside: &mut O) -> Status {
        let mut first = Status::SUCCESS;
        while !self.started.is_empty() {
            // Not asked for twice, also if the worker dies in the call.
            let stream = self.started.remove(0);
            let status = outside
                .call(oracle, Call::Stop(self.context, Stream(stream)))
                .status;
            if first.is_success() {
                first = status;
            }
        }
        first
    }

    /// The barrier: as many phases as are ready.
    fn barrier<O: Outside>(&mut self, oracle: &mut Oracle, outside: &mut O) -> Outcome {
        let mut passed_one = false;
        if !self.through_gate {
            if !oracle.pass(self.context, self.kind, &self.spec, outside) {
                return still(RunState::WaitingDeviceTrigger);
            }
            self.through_gate = true;
            passed_one = true;
        }
        let waits = |passed_one| {
            if passed_one {
                moved(RunState::Progressing)
            } else {
                still(RunState::Idle)
            }
        };
        if !self.arrived {
            match outside
                .call(oracle, Call::Arrive(self.context, self.exec))
                .poll
            {
                BarrierPoll::Pending => return waits(passed_one),
                BarrierPoll::Failed(status) => return self.give_up(status, oracle, outside),
                BarrierPoll::Ready => {}
            }
            self.arrived = true;
            passed_one = true;
            let status = outside
                .call(oracle, Call::Signal(self.context, self.exec))
                .status;
            if !status.is_success() {
                return self.give_up(status, oracle, outside);
            }
        }
        match outside
            .call(oracle, Call::Release(self.context, self.exec))
            .poll
        {
            BarrierPoll::Pending => waits(passed_one),
            BarrierPoll::Failed(status) => self.give_up(status, oracle, outside),
            BarrierPoll::Ready => done(Status::SUCCESS),
        }
    }

    fn give_up<O: Outside>(&self, status: Status, oracle: &mut Oracle, outside: &mut O) -> Outcome {
        outside.call(oracle, Call::Cancel(self.context, self.exec));
        done(status)
    }
}
