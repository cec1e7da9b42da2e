//! The barrier task: the host's execution barrier in phases that never wait (specification section 3, considerations).
//!
//! ```text
//!                 1 not fired
//!   INIT -----------------------> WAITING_DEVICE_TRIGGER <-+ 1
//!    | 2 fired: consume            | 2             \------/
//!    v                             v
//!   [arrive] <---------------------+    <----------------------- next step ---+
//!    |  \---- 3 pending ---> PROGRESSING after 2 in this step, else IDLE -----+
//!    | 4 arrived: signal
//!    v
//!   [release]                           <----------------------- next step ---+
//!    |  \---- 5 pending, after 4 in this step ---> PROGRESSING ---------------+
//!    |  \---- 6 pending -------------------------> IDLE ----------------------+
//!    | 7 released
//!    v
//!   DONE <---- 8 failed, 9 abort: cancel ---- any phase
//! ```
//!
//! One step goes through as many phases as are ready, at most one answer each, and returns at once when one is not. So one worker
//! drives the barriers of many ranks; the original blocks inside its step, and two ranks on one worker starve each other.

use crate::port::{BarrierPoll, Ports};
use crate::status::{RunState, Status};
use crate::task::{Step, Task};
use crate::trigger::Gate;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Gate,
    Arrive,
    Release,
}

/// State of one barrier task, the worker's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BarrierTask {
    state: RunState,
    phase: Phase,
}

impl BarrierTask {
    pub(crate) const fn new() -> Self {
        Self {
            state: RunState::Init,
            phase: Phase::Gate,
        }
    }

    #[inline]
    pub(crate) const fn state(&self) -> RunState {
        self.state
    }

    /// One step. In DONE it does nothing, as for the network task.
    pub(crate) fn step<'a, P: Ports>(
        &mut self,
        task: &Task,
        gate: &impl Fn() -> Gate<'a>,
        ports: &mut P,
    ) -> Step {
        if self.state == RunState::Done {
            return Step::waiting(RunState::Done);
        }
        let before = self.phase;
        let step = self.advance(task, gate, ports);
        let step = match step.to {
            // Edges 3 and 5: a phase was passed in this step, so the worker must not relax on it.
            RunState::Idle if self.phase != before => Step::moved(RunState::Progressing),
            _ => step,
        };
        self.state = step.to;
        step
    }

    /// Edge 9.
    pub(crate) fn abort<P: Ports>(
        &mut self,
        task: &Task,
        disarm: &impl Fn(),
        status: Status,
        ports: &mut P,
    ) -> Step {
        if self.phase == Phase::Gate {
            disarm();
            // Once, also if the call below is not survived.
            self.phase = Phase::Arrive;
        }
        // The state follows the call: a worker that dies in it reports the task as what others know of it.
        let step = self.fail(task, status, ports);
        self.state = step.to;
        step
    }

    fn advance<'a, P: Ports>(
        &mut self,
        task: &Task,
        gate: &impl Fn() -> Gate<'a>,
        ports: &mut P,
    ) -> Step {
        let (context, exec) = (task.context, task.exec);
        if self.phase == Phase::Gate {
            let Some(seen) = gate().poll(ports) else {
                return Step::waiting(RunState::WaitingDeviceTrigger);
            };
            gate().consume(ports, seen);
            self.phase = Phase::Arrive;
        }
        if self.phase == Phase::Arrive {
            match ports.arrive(context, exec) {
                BarrierPoll::Pending => return Step::waiting(RunState::Idle),
                BarrierPoll::Failed(status) => return self.fail(task, status, ports),
                BarrierPoll::Ready => self.phase = Phase::Release,
            }
            let status = ports.signal(context, exec);
            if !status.is_success() {
                return self.fail(task, status, ports);
            }
        }
        match ports.release(context, exec) {
            BarrierPoll::Pending => Step::waiting(RunState::Idle),
            BarrierPoll::Failed(status) => self.fail(task, status, ports),
            BarrierPoll::Ready => Step::done(Status::SUCCESS),
        }
    }

    /// Edges 8 and 9.
    fn fail<P: Ports>(&mut self, task: &Task, status: Status, ports: &mut P) -> Step {
        ports.cancel(task.context, task.exec);
        Step::done(status)
    }
}

#[cfg(test)]
mod tests;
