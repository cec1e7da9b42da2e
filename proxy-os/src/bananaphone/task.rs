//! The host barrier of the driver's barrier task: the bus's barrier in steps that never wait.
//!
//! ```text
//!   arrive    every rank announces itself; the leader is ready when all have arrived
//!   signal    the leader raises the done semaphores
//!   release   the leader lets everybody pass; the others see it
//! ```
//!
//! The order is the specification's (section 3): the device is told before the ranks are let go. As all have arrived by then, a
//! verdict that fails in between costs the execution and not the device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use proxy_core::phone::barrier::Verdict;
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Status};

use super::barrier::{Barrier, Progress};
use super::error::{BusError, Within};
use crate::DeviceWord;
use crate::context::HostBarrier;
use crate::log;
use crate::trace;

/// Done semaphores of a leader at most: the device has so many TOP_SPs to tell (specification section 3).
pub const SEMAPHORES: usize = 4;

/// One rank's execution barrier over the bus. One execution at a time; each has its own deadline.
#[derive(Debug)]
pub struct TaskBarrier {
    /// Only the worker takes it, so it is always free.
    state: Mutex<Inner>,
    semaphores: Vec<DeviceWord>,
    within: Within,
}

#[derive(Debug)]
struct Inner {
    barrier: Barrier,
    /// The execution that has arrived and is not over.
    current: Option<ExecId>,
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
            current: None,
        };
        Ok(Self {
            state: Mutex::new(inner),
            semaphores,
            within: within.into(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostBarrier for TaskBarrier {
    fn arrive(&self, exec: ExecId) -> BarrierPoll {
        let mut inner = self.inner();
        match inner.current {
            None => {
                inner.barrier.arrive(exec.0, self.within);
                inner.current = Some(exec);
            }
            Some(current) if current == exec => {}
            Some(_) => return BarrierPoll::Failed(Status::BARRIER_MISUSE),
        }
        if !inner.barrier.is_leader() {
            return BarrierPoll::Ready;
        }
        match inner.barrier.poll() {
            Ok(Progress::Pending) => BarrierPoll::Pending,
            Ok(Progress::Complete) => BarrierPoll::Ready,
            // The leader passes nobody but in `release`.
            Ok(Progress::Over(verdict)) => inner.over(verdict),
            Err(error) => inner.broken(&error),
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
            Ok(Progress::Over(verdict)) => inner.over(verdict),
            Ok(Progress::Pending | Progress::Complete) => BarrierPoll::Pending,
            Err(error) => inner.broken(&error),
        }
    }

    fn cancel(&self, exec: ExecId) {
        let mut inner = self.inner();
        match inner.current {
            Some(current) if current == exec => inner.current = None,
            // Over already, for this and so for all.
            Some(_) => return,
            None => return,
        }
        if let Err(error) = inner.barrier.cancel() {
            log::error(format_args!("bananaphone: {error}"));
        }
    }
}

impl Inner {
    fn over(&mut self, verdict: Verdict) -> BarrierPoll {
        self.current = None;
        let status = match verdict {
            Verdict::Passed => return BarrierPoll::Ready,
            Verdict::TimedOut(_) => Status::BARRIER_TIMEOUT,
            Verdict::Gone(_) => Status::PEER_DEAD,
            Verdict::OtherExecution(_) => Status::MPMD,
            Verdict::Cancelled(_) => Status::PEER_CANCELLED,
        };
        log::error(format_args!(
            "bananaphone: {}",
            self.barrier.failure(verdict)
        ));
        BarrierPoll::Failed(status)
    }

    fn broken(&mut self, error: &BusError) -> BarrierPoll {
        self.current = None;
        log::error(format_args!("bananaphone: {error}"));
        BarrierPoll::Failed(Status::BUS_CORRUPT)
    }
}
