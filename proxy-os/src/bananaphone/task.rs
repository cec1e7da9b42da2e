//! The host barrier of the driver's barrier task: the bus's barrier in steps that never wait.
//!
//! ```text
//!   arrive    every rank announces itself; the leader is ready when all have arrived, and between machines when
//!             the leaders have exchanged that they have everywhere
//!   signal    the leader raises the done semaphores
//!   release   the leader lets everybody pass; the others see it
//! ```
//!
//! The order is the specification's (section 3): the device is told before the ranks are let go. As all have arrived by then, a
//! verdict that fails in between costs the execution and not the device.
//!
//! Every execution is one generation of the bus's barrier, on all ranks, and a rank that skipped one would be a generation behind for
//! ever. So a task that ends before it has come to the barrier (aborted at its gate, say) makes its generation fail instead: the
//! others fail at once, and all are in step afterwards ([`Barrier::forgo`]).
//! Who aborts the later of two executions that both wait at their gates ends the earlier one's generation with it: the later one then
//! meets the wrong execution ([`Status::MPMD`]), so both fail on all ranks, and those after them are in step again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use proxy_core::phone::barrier::{Elsewhere, Verdict};
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Status};

use super::barrier::{Barrier, Progress};
use super::error::{BusError, WaitError, Within};
use super::leaders::Seat;
use crate::DeviceWord;
use crate::context::{Attendance, HostBarrier};
use crate::diagnosis;
use crate::log;
use crate::trace;

/// Done semaphores of a leader at most: the device has so many TOP_SPs to tell (specification section 3).
pub const SEMAPHORES: usize = 4;

/// One rank's execution barrier over the bus. One execution at a time, those behind it wait for their turn; each has its own deadline, from
/// its turn on.
#[derive(Debug)]
pub struct TaskBarrier {
    /// Only the worker takes it, so it is always free.
    state: Mutex<Inner>,
    semaphores: Vec<DeviceWord>,
}

#[derive(Debug)]
struct Inner {
    barrier: Barrier,
    within: Within,
    /// The leader's place among those of other machines.
    seat: Option<Seat>,
    /// The execution that has arrived and is not over.
    current: Option<ExecId>,
    /// The execution that has failed last, until its task, which was told so, cancels it.
    failed: Option<ExecId>,
    /// Executions that were given up before they had arrived, while another was at the barrier: their turn is after it.
    given_up: VecDeque<ExecId>,
    /// All ranks of this machine have arrived for it, and the other leaders were told.
    told: bool,
    /// Why the last execution that failed did.
    failure: Option<WaitError>,
}

/// More semaphores than a leader has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManySemaphores {
    /// How many were given.
    pub found: usize,
}

impl std::fmt::Display for TooManySemaphores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} done semaphores, accepted: up to {SEMAPHORES}",
            self.found
        )
    }
}

impl std::error::Error for TooManySemaphores {}

impl TaskBarrier {
    /// A barrier task's side of `barrier`. `semaphores` = the done semaphores, which only the leader raises, each by one;
    /// `within` = how long an execution may be at the barrier.
    ///
    /// # Errors
    /// More than [`SEMAPHORES`] semaphores.
    pub fn new(
        barrier: Barrier,
        semaphores: Vec<DeviceWord>,
        within: impl Into<Within>,
    ) -> Result<Self, TooManySemaphores> {
        if semaphores.len() > SEMAPHORES {
            let found = semaphores.len();
            return Err(TooManySemaphores { found });
        }
        let inner = Inner {
            barrier,
            within: within.into(),
            seat: None,
            current: None,
            failed: None,
            given_up: VecDeque::new(),
            told: false,
            failure: None,
        };
        Ok(Self {
            state: Mutex::new(inner),
            semaphores,
        })
    }

    /// Spans machines: the leader of this machine's ranks passes only when those of all machines that share the seat's channel have arrived for
    /// the same execution. On other ranks than the leader a seat has no effect, and none is needed.
    #[must_use]
    pub fn between_machines(mut self, seat: Seat) -> Self {
        let inner = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.seat = inner.barrier.is_leader().then_some(seat);
        self
    }

    /// Why the last execution that failed did, in all words that its status has not: who is missing, which machine, elapsed. Any thread; not
    /// while the worker should not wait.
    #[must_use]
    pub fn last_failure(&self) -> Option<WaitError> {
        self.inner().failure.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostBarrier for TaskBarrier {
    fn arrive(&self, exec: ExecId) -> BarrierPoll {
        let mut inner = self.inner();
        match inner.current {
            None => inner.begin(exec),
            Some(current) if current == exec => {}
            // Its turn comes: tasks are stepped in order of arrival.
            Some(_) => return BarrierPoll::Pending,
        }
        if !inner.barrier.is_leader() {
            return BarrierPoll::Ready;
        }
        match inner.barrier.poll() {
            Ok(Progress::Pending) => BarrierPoll::Pending,
            Ok(Progress::Complete) => inner.exchange(exec),
            // The leader passes nobody but in `release`.
            Ok(Progress::Over(verdict)) => inner.over(exec, verdict),
            Err(error) => inner.broken(exec, &error),
        }
    }

    fn signal(&self, _: ExecId) -> Status {
        if self.inner().barrier.is_leader() {
            for semaphore in &self.semaphores {
                semaphore.add(1);
                trace::semaphore(semaphore.address(), 1);
            }
        }
        Status::SUCCESS
    }

    fn release(&self, exec: ExecId) -> BarrierPoll {
        let mut inner = self.inner();
        if inner.current != Some(exec) {
            return BarrierPoll::Failed(Status::BARRIER_MISUSE);
        }
        let progress = if inner.barrier.is_leader() {
            inner.barrier.pass().map(Progress::Over)
        } else {
            inner.barrier.poll()
        };
        match progress {
            Ok(Progress::Over(verdict)) => inner.over(exec, verdict),
            Ok(Progress::Pending | Progress::Complete) => BarrierPoll::Pending,
            Err(error) => inner.broken(exec, &error),
        }
    }

    fn attendance(&self) -> Option<Attendance> {
        let inner = diagnosis::lock(&self.state)?;
        inner.current?;
        let (all, missing) = (inner.barrier.participants(), inner.barrier.missing());
        let arrived = all.iter().filter(|rank| !missing.has(*rank)).collect();
        let dead = inner.barrier.failure(Verdict::Passed).dead;
        let dead = missing.iter().filter(|rank| dead.has(*rank)).collect();
        let (slot, generation, machine) = inner.barrier.place();
        Some(Attendance {
            slot,
            generation,
            arrived,
            missing,
            dead,
            machine,
        })
    }

    fn cancel(&self, exec: ExecId) {
        let mut inner = self.inner();
        if inner.failed.take_if(|failed| *failed == exec).is_some() {
            // Over already, for this rank and so for all.
            return;
        }
        match inner.current {
            None => inner.forgo(exec),
            Some(current) if current == exec => inner.give_up(),
            Some(_) => inner.given_up.push_back(exec),
        }
    }
}

impl Inner {
    /// Arrives for an execution.
    fn begin(&mut self, exec: ExecId) {
        self.begin_elsewhere();
        self.barrier.arrive(exec.0, self.within);
        self.current = Some(exec);
    }

    fn begin_elsewhere(&mut self) {
        self.failed = None;
        self.told = false;
        if let Some(seat) = &mut self.seat {
            seat.begin();
            // However the execution before ended, and before anybody can see all ranks arrived.
            self.barrier.await_machine(None);
        }
    }

    /// Makes the generation of the current execution fail for everybody.
    fn give_up(&mut self) {
        self.tell(Elsewhere::Cancelled);
        report(self.barrier.cancel());
        self.end();
    }

    /// Makes the generation of an execution that has not arrived, the next one, fail for everybody.
    fn forgo(&mut self, exec: ExecId) {
        self.begin_elsewhere();
        self.tell(Elsewhere::Cancelled);
        report(self.barrier.forgo(exec.0));
    }

    /// The current execution is over; so are those after it that were given up meanwhile.
    fn end(&mut self) {
        self.current = None;
        while let Some(exec) = self.given_up.pop_front() {
            self.forgo(exec);
        }
    }

    /// Leader, when all ranks of this machine have arrived: what the other machines say.
    fn exchange(&mut self, exec: ExecId) -> BarrierPoll {
        let Some(seat) = &self.seat else {
            return BarrierPoll::Ready;
        };
        if !std::mem::replace(&mut self.told, true) {
            seat.arrive(exec.0);
        }
        let opinion = match seat.outcome() {
            Some(Ok(())) => {
                self.barrier.await_machine(None);
                return BarrierPoll::Ready;
            }
            Some(Err((machine, why))) => Verdict::Elsewhere(machine, why),
            None => {
                let awaited = seat.awaited();
                match (self.barrier.await_machine(awaited), awaited) {
                    (true, Some(machine)) => Verdict::Elsewhere(machine, Elsewhere::Missing),
                    _ => return BarrierPoll::Pending,
                }
            }
        };
        match self.barrier.decide(opinion) {
            Ok(standing) => self.over(exec, standing),
            Err(error) => self.broken(exec, &error),
        }
    }

    /// Tells the other machines that this one's part has failed, unless it is decided.
    fn tell(&self, why: Elsewhere) {
        if let Some(seat) = self.seat.as_ref().filter(|seat| seat.outcome().is_none()) {
            seat.fail(why);
        }
    }

    fn over(&mut self, exec: ExecId, verdict: Verdict) -> BarrierPoll {
        let (status, why) = match verdict {
            Verdict::Passed => {
                self.end();
                return BarrierPoll::Ready;
            }
            Verdict::TimedOut(_) => (Status::BARRIER_TIMEOUT, Elsewhere::TimedOut),
            Verdict::Gone(_) => (Status::PEER_DEAD, Elsewhere::Cancelled),
            Verdict::OtherExecution(_) => (Status::MPMD, Elsewhere::OtherExecution),
            Verdict::Cancelled(_) => (Status::PEER_CANCELLED, Elsewhere::Cancelled),
            // Said as it is, so that machine 0 does not blame the one that has waited.
            Verdict::Elsewhere(_, why @ Elsewhere::Missing) => (status_of(why), why),
            Verdict::Elsewhere(_, why) => (status_of(why), Elsewhere::TimedOut),
        };
        let failure = self.barrier.failure(verdict);
        match &self.seat {
            Some(seat) => log::error(format_args!("bananaphone: {failure}; {}", seat.account())),
            None => log::error(format_args!("bananaphone: {failure}")),
        }
        self.failure = Some(failure);
        self.tell(why);
        self.barrier.await_machine(None);
        self.failed(exec, status)
    }

    fn broken(&mut self, exec: ExecId, error: &BusError) -> BarrierPoll {
        self.tell(Elsewhere::Cancelled);
        log::error(format_args!("bananaphone: {error}"));
        self.failed(exec, Status::BUS_CORRUPT)
    }

    fn failed(&mut self, exec: ExecId, status: Status) -> BarrierPoll {
        self.end();
        self.failed = Some(exec);
        BarrierPoll::Failed(status)
    }
}

/// Nobody is there to be told of a failure to give up but the log.
fn report(outcome: Result<Verdict, BusError>) {
    if let Err(error) = outcome {
        log::error(format_args!("bananaphone: {error}"));
    }
}

/// What it means for this machine's ranks that another machine has failed.
const fn status_of(why: Elsewhere) -> Status {
    match why {
        Elsewhere::Missing | Elsewhere::TimedOut => Status::BARRIER_TIMEOUT,
        Elsewhere::Gone => Status::PEER_DEAD,
        Elsewhere::OtherExecution => Status::MPMD,
        Elsewhere::Cancelled => Status::PEER_CANCELLED,
    }
}
