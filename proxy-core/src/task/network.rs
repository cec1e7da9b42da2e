//! The network task: the producing side of the seam (specification section 4).
//!
//! ```text
//!                        1 skip
//!   INIT ------------------------------------------------> DONE
//!    |  \------------------ 2 a start failed ------------->  ^
//!    | 3 all started, device wait                            |
//!    v                                                       |
//!   WAITING_DEVICE_TRIGGER  <-+ 4 not fired                  |
//!    |        \--------------/                               |
//!    | 5 every stream fired: consume                         |
//!    v                                                       |
//!   PROGRESSING <---- 7 moved, or next block -----+          |
//!    |  ^  |                                      |          |
//!    |  +--+ 7                                    |          |
//!    | 8 every stream idle                        |          |
//!    +-----------------------------------------> IDLE <-+ 8  |
//!    |                                            | \---/    |
//!    +-------------- 9 last block drained --------+--------->|
//!    +-------------- 10 progress failed ----------+--------->|
//!   INIT -- 6 all started, no device wait --> PROGRESSING    |
//!   any but DONE ----------- 11 abort ---------------------->+
//! ```
//!
//! All edges are in [`NetworkTask::step`], but 11, which is [`NetworkTask::abort`]. Edges 2, 9, 10 and 11 stop every started stream
//! once, so no call follows DONE. The first error of a task is the one it ends with.
//!
//! A stream that has drained the selected block is not progressed again before the next block: the library would
//! load the same block a second time.

use crate::context::{Spec, StopAt};
use crate::id::{BlockIndex, Stream};
use crate::port::{Flags, NextBlock, Ports};
use crate::status::{RunState, Status};
use crate::task::{Step, Task};
use crate::trigger::Gate;

/// A set of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Streams(u8);

impl Streams {
    const fn with(self, stream: Stream) -> Self {
        Self(self.0 | 1 << (stream.0 & 7))
    }

    const fn has(self, stream: Stream) -> bool {
        self.0 >> (stream.0 & 7) & 1 == 1
    }
}

/// State of one network task, the worker's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NetworkTask {
    state: RunState,
    block: BlockIndex,
    /// Streams with a start that no stop has followed.
    started: Streams,
    /// Streams that have drained the selected block.
    drained: Streams,
    /// The block was selected by a switch and not progressed yet.
    switched: bool,
    /// The gate has been passed (or there is none left to pass).
    passed: bool,
}

impl NetworkTask {
    pub(crate) const fn new() -> Self {
        Self {
            state: RunState::Init,
            block: Spec::first_block(),
            started: Streams(0),
            drained: Streams(0),
            switched: false,
            passed: false,
        }
    }

    pub(crate) const fn state(&self) -> RunState {
        self.state
    }

    /// One step. In DONE it does nothing: the driver drops a done task, so this is never reached from a tick.
    pub(crate) fn step<P: Ports>(&mut self, task: &Task, gate: &Gate<'_>, ports: &mut P) -> Step {
        let step = match self.state {
            RunState::Init => self.init(task, gate, ports),
            RunState::WaitingDeviceTrigger => match gate.poll(ports) {
                Some(seen) => {
                    gate.consume(ports, seen);
                    self.passed = true;
                    Step::moved(RunState::Progressing)
                }
                None => Step::waiting(RunState::WaitingDeviceTrigger),
            },
            RunState::Progressing | RunState::Idle => self.progress(task, gate, ports),
            RunState::Done => Step::waiting(RunState::Done),
        };
        self.state = step.to;
        step
    }

    /// Edge 11.
    pub(crate) fn abort<P: Ports>(
        &mut self,
        task: &Task,
        gate: &Gate<'_>,
        status: Status,
        ports: &mut P,
    ) -> Step {
        let step = self.end(task, gate, status, ports);
        self.state = step.to;
        step
    }

    /// Edges 1, 2, 3 and 6.
    fn init<P: Ports>(&mut self, task: &Task, gate: &Gate<'_>, ports: &mut P) -> Step {
        if task.spec.skip {
            return Step::done(Status::SUCCESS);
        }
        for stream in task.streams() {
            for block in (0..task.spec.blocks).map(BlockIndex) {
                let status = ports.start(task.key.context, stream, block);
                if !status.is_success() {
                    return self.end(task, gate, status, ports);
                }
                self.started = self.started.with(stream);
            }
        }
        Step::moved(if task.spec.device_wait {
            RunState::WaitingDeviceTrigger
        } else {
            RunState::Progressing
        })
    }

    /// Edges 7, 8, 9 and 10.
    fn progress<P: Ports>(&mut self, task: &Task, gate: &Gate<'_>, ports: &mut P) -> Step {
        let mut idle = true;
        let mut all_drained = true;
        for stream in task.streams() {
            if self.drained.has(stream) {
                continue;
            }
            let mut flags = Flags::SEED;
            let status = ports.progress(task.key.context, stream, self.block, &mut flags);
            if !status.is_success() {
                return self.end(task, gate, status, ports);
            }
            if flags.done {
                self.drained = self.drained.with(stream);
            }
            idle &= flags.idle && !flags.done;
            all_drained &= flags.done;
        }
        if self.switched && task.spec.stop_at == StopAt::Switch {
            // The letter: every switch stops every stream, also one that an earlier switch has stopped.
            self.started = task.streams().fold(Streams(0), Streams::with);
            let status = self.stop(task, ports);
            if !status.is_success() {
                return Step::done(status);
            }
        }
        self.switched = false;
        if all_drained {
            return self.next_block(task, gate, ports);
        }
        if idle {
            Step::waiting(RunState::Idle)
        } else {
            Step::moved(RunState::Progressing)
        }
    }

    fn next_block<P: Ports>(&mut self, task: &Task, gate: &Gate<'_>, ports: &mut P) -> Step {
        match ports.next(task.key.context, self.block, task.spec.blocks) {
            NextBlock::Block(block) if block.0 < task.spec.blocks => {
                self.block = block;
                self.drained = Streams(0);
                self.switched = true;
                Step::moved(RunState::Progressing)
            }
            NextBlock::Block(_) => self.end(task, gate, Status::INVALID, ports),
            NextBlock::End => self.end(task, gate, Status::SUCCESS, ports),
        }
    }

    /// Stops what is started and ends with `status`, or with a stop's error if `status` is none.
    fn end<P: Ports>(
        &mut self,
        task: &Task,
        gate: &Gate<'_>,
        status: Status,
        ports: &mut P,
    ) -> Step {
        if !self.passed {
            gate.disarm();
            self.passed = true;
        }
        let stopped = self.stop(task, ports);
        Step::done(status.or(stopped))
    }

    /// Stops every started stream once; the first error counts.
    fn stop<P: Ports>(&mut self, task: &Task, ports: &mut P) -> Status {
        let started = core::mem::take(&mut self.started);
        task.streams()
            .filter(|stream| started.has(*stream))
            .fold(Status::SUCCESS, |first, stream| {
                first.or(ports.stop(task.key.context, stream))
            })
    }
}

#[cfg(test)]
mod tests;
