//! The execution barrier of one rank: no rank's execution ends before all have begun theirs.
//!
//! The driver's barrier task asks a [`TaskBarrier`], which speaks to those of the other ranks through the bus. The leader, the
//! first rank of a node, raises a done semaphore of its device for each execution; the count shows that every barrier was passed, once.
#![allow(unsafe_code, reason = "the done semaphore is named by address")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Status};
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::context::Attendance;
use proxy_os::{DeviceWord, HostBarrier};

use super::meeting::Meeting;
use crate::wire::Failure;

/// The barrier of a rank for all its contexts, and the done semaphore of its device. Must outlive every context that has it.
#[derive(Debug)]
pub(super) struct ExecutionBarrier {
    /// Boxed, so that its address stays.
    done: Box<AtomicU32>,
    task: Arc<TaskBarrier>,
}

/// The barrier as one context has it. Contexts with one come one after another.
#[derive(Debug)]
struct OfContext(Arc<TaskBarrier>);

impl HostBarrier for OfContext {
    fn arrive(&self, exec: ExecId) -> BarrierPoll {
        self.0.arrive(exec)
    }

    fn signal(&self, exec: ExecId) -> Status {
        self.0.signal(exec)
    }

    fn release(&self, exec: ExecId) -> BarrierPoll {
        self.0.release(exec)
    }

    fn cancel(&self, exec: ExecId) {
        self.0.cancel(exec);
    }

    fn attendance(&self) -> Option<Attendance> {
        self.0.attendance()
    }
}

impl ExecutionBarrier {
    /// Nothing has been passed yet. `spans` = the barrier is one of all nodes, if there are several.
    pub(super) fn new(meeting: &mut Meeting, spans: bool) -> Result<Self, Failure> {
        let done = Box::new(AtomicU32::new(0));
        // SAFETY: `self` owns the word and outlives the contexts (see the type); it is only accessed as an atomic.
        let word = unsafe { DeviceWord::new(done.as_ptr()) };
        let task = meeting.executions(word.into_iter().collect(), spans)?;
        Ok(Self {
            done,
            task: Arc::new(task),
        })
    }

    /// The host barrier for one context.
    pub(super) fn host(&self) -> Box<dyn HostBarrier> {
        Box::new(OfContext(Arc::clone(&self.task)))
    }

    /// After `executions` successful ones, the last of which has been consumed: the leader has told its device each, nobody else any.
    pub(super) fn check(&self, leads: bool, executions: u64) -> Result<(), Failure> {
        // Relaxed: raised before the task was done, which consuming its status has made visible.
        let found = self.done.load(Ordering::Relaxed);
        told(found, leads, executions)
    }
}

fn told(found: u32, leads: bool, executions: u64) -> Result<(), Failure> {
    let wanted = if leads { executions as u32 } else { 0 };
    if found == wanted {
        return Ok(());
    }
    Err(Failure::own(format!(
        "the done semaphore is {found} after {executions} executions, expected {wanted}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_alone_is_expected_to_raise_the_semaphore() {
        assert_eq!(told(0, false, 7), Ok(()));
        assert_eq!(told(7, true, 7), Ok(()));
        let failure = told(7, true, 8).unwrap_err();
        assert_eq!(
            failure.text,
            "the done semaphore is 7 after 8 executions, expected 8"
        );
        assert!(told(7, false, 7).is_err());
    }
}
