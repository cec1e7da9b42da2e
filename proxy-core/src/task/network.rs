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
//! All edges are in [`NetworkTask::run`] and [`NetworkTask::finish`], the two parts of a step, but 11, which is [`NetworkTask::abort`]. Edges 2, 9, 10 and 11 stop every started stream
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
    #[inline]
    const fn with(self, stream: Stream) -> Self {
        Self(self.0 | 1 << (stream.0 & 7))
    }

    #[inline]
    const fn without(self, stream: Stream) -> Self {
        Self(self.0 & !(1 << (stream.0 & 7)))
    }

    /// The first `count` streams.
    #[inline]
    const fn first(count: u8) -> Self {
        Self((1_u8 << (count & 7)).wrapping_sub(1))
    }

    #[inline]
    const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Takes the first stream out. A set bit at a time, as the set is gone through in every tick.
    #[inline]
    fn take_first(&mut self) -> Option<Stream> {
        let rest = self.0.checked_sub(1)?;
        let first = u8::try_from(self.0.trailing_zeros()).unwrap_or(0);
        self.0 &= rest;
        Some(Stream(first))
    }
}

/// What the first part of a step has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// IDLE as before: the step is over, and there is nothing to tell anybody.
    Still,
    /// All calls were made; whether every stream was idle.
    Called { idle: bool },
    /// A call failed; none was made after it.
    Failed(Status),
    /// The task has not begun, waits for its device, or is done.
    NotUnderWay,
}

/// What a progress call has said.
#[derive(Debug, Clone, Copy)]
struct Answer {
    status: Status,
    flags: Flags,
}

impl Answer {
    /// Nothing moved, nothing drained, nothing failed.
    #[inline(always)]
    const fn is_still(&self) -> bool {
        self.status.is_success() & self.flags.idle & !self.flags.done
    }
}

/// One progress call.
#[inline(always)]
fn call<P: Ports>(task: &Task, stream: Stream, block: BlockIndex, ports: &mut P) -> Answer {
    let mut flags = Flags::SEED;
    let status = ports.progress(task.context, task.slot, stream, block, &mut flags);
    Answer { status, flags }
}

/// State of one network task, the worker's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NetworkTask {
    state: RunState,
    block: BlockIndex,
    /// Streams with a start that no stop has followed.
    started: Streams,
    /// Streams that have not drained the selected block.
    left: Streams,
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
            left: Streams(0),
            switched: false,
            passed: false,
        }
    }

    #[inline]
    pub(crate) const fn state(&self) -> RunState {
        self.state
    }

    /// The first part of a step: the progress calls of a task that is under way. In most ticks of its life it is IDLE and stays so: that
    /// alone is done in line, and touches no more than it must.
    #[inline(always)]
    pub(crate) fn run<P: Ports>(&mut self, task: &Task, ports: &mut P) -> Run {
        let mut streams = self.left;
        match self.state {
            RunState::Idle => {}
            RunState::Progressing => return self.run_on(task, None, streams, ports),
            _ => return Run::NotUnderWay,
        }
        // In IDLE there are streams left, and the block was not selected in the last tick.
        while let Some(stream) = streams.take_first() {
            let answer = call(task, stream, self.block, ports);
            if !answer.is_still() {
                return self.run_on(task, Some((stream, answer)), streams, ports);
            }
        }
        Run::Still
    }

    /// The same from an answer on that changes something, or from the first call on. What was called before was idle.
    #[inline(never)]
    fn run_on<P: Ports>(
        &mut self,
        task: &Task,
        mut answered: Option<(Stream, Answer)>,
        mut streams: Streams,
        ports: &mut P,
    ) -> Run {
        let mut idle = true;
        loop {
            let (stream, answer) = match answered.take() {
                Some(answered) => answered,
                None => match streams.take_first() {
                    Some(stream) => (stream, call(task, stream, self.block, ports)),
                    None => return Run::Called { idle },
                },
            };
            if !answer.status.is_success() {
                return Run::Failed(answer.status);
            }
            if answer.flags.done {
                self.left = self.left.without(stream);
            }
            idle &= answer.is_still();
        }
    }

    /// The second part of a step, after what the first has found. In DONE it does nothing: the driver drops a done task, so this is
    /// never reached from a tick.
    #[inline]
    pub(crate) fn finish<'a, P: Ports>(
        &mut self,
        run: Run,
        task: &Task,
        (gate, disarm): (&impl Fn() -> Gate<'a>, &impl Fn()),
        ports: &mut P,
    ) -> Step {
        let step = match (run, self.state) {
            (Run::Still, _) => Step::waiting(RunState::Idle),
            (Run::Called { idle }, _) => self.called(idle, task, ports),
            (Run::Failed(status), _) => self.end(task, status, ports),
            (Run::NotUnderWay, RunState::Init) => self.init(task, disarm, ports),
            (Run::NotUnderWay, RunState::WaitingDeviceTrigger) => match gate().poll(ports) {
                Some(seen) => {
                    gate().consume(ports, seen);
                    self.passed = true;
                    Step::moved(RunState::Progressing)
                }
                None => Step::waiting(RunState::WaitingDeviceTrigger),
            },
            (Run::NotUnderWay, state) => Step::waiting(state),
        };
        self.state = step.to;
        step
    }

    /// Edge 11.
    pub(crate) fn abort<P: Ports>(
        &mut self,
        task: &Task,
        disarm: &impl Fn(),
        status: Status,
        ports: &mut P,
    ) -> Step {
        self.give_up_gate(disarm);
        let step = self.end(task, status, ports);
        self.state = step.to;
        step
    }

    /// Edges 1, 2, 3 and 6.
    fn init<P: Ports>(&mut self, task: &Task, disarm: &impl Fn(), ports: &mut P) -> Step {
        if task.spec.skip {
            return Step::done(Status::SUCCESS);
        }
        for stream in task.streams() {
            for block in (0..task.spec.blocks).map(BlockIndex) {
                let status = ports.start(task.context, task.slot, stream, block);
                if !status.is_success() {
                    self.give_up_gate(disarm);
                    return self.end(task, status, ports);
                }
                self.started = self.started.with(stream);
            }
        }
        self.left = Streams::first(task.spec.streams);
        self.passed = !task.spec.device_wait;
        Step::moved(if task.spec.device_wait {
            RunState::WaitingDeviceTrigger
        } else {
            RunState::Progressing
        })
    }

    /// Edges 7, 8 and 9; every progress call of this tick has succeeded.
    fn called<P: Ports>(&mut self, idle: bool, task: &Task, ports: &mut P) -> Step {
        if self.switched {
            let status = self.stop_at_switch(task, ports);
            if !status.is_success() {
                return Step::done(status);
            }
        }
        if self.left.is_empty() {
            return self.next_block(task, ports);
        }
        if idle {
            Step::waiting(RunState::Idle)
        } else {
            Step::moved(RunState::Progressing)
        }
    }

    fn next_block<P: Ports>(&mut self, task: &Task, ports: &mut P) -> Step {
        match ports.next(task.context, self.block, task.spec.blocks) {
            NextBlock::Block(block) if block.0 < task.spec.blocks => {
                self.block = block;
                self.left = Streams::first(task.spec.streams);
                self.switched = true;
                Step::moved(RunState::Progressing)
            }
            NextBlock::Block(_) => self.end(task, Status::INVALID, ports),
            NextBlock::End => self.end(task, Status::SUCCESS, ports),
        }
    }

    /// The first tick of a block after a switch is over.
    fn stop_at_switch<P: Ports>(&mut self, task: &Task, ports: &mut P) -> Status {
        self.switched = false;
        if task.spec.stop_at != StopAt::Switch {
            return Status::SUCCESS;
        }
        // The letter: every switch stops every stream, also one that an earlier switch has stopped.
        self.started = Streams::first(task.spec.streams);
        self.stop(task, ports)
    }

    /// A task that ends before its gate gives up its arm: once, also if a call that follows is not survived.
    fn give_up_gate(&mut self, disarm: &impl Fn()) {
        if !self.passed {
            disarm();
            self.passed = true;
        }
    }

    /// Stops what is started and ends with `status`, or with a stop's error if `status` is none.
    fn end<P: Ports>(&mut self, task: &Task, status: Status, ports: &mut P) -> Step {
        let stopped = self.stop(task, ports);
        Step::done(status.or(stopped))
    }

    /// Stops every started stream once; the first error counts.
    fn stop<P: Ports>(&mut self, task: &Task, ports: &mut P) -> Status {
        let mut status = Status::SUCCESS;
        while let Some(stream) = self.started.take_first() {
            status = status.or(ports.stop(task.context, task.slot, stream));
        }
        status
    }
}

#[cfg(test)]
mod tests;
