//! The execution barrier of one rank: no rank's execution ends before all have begun theirs.
//!
//! The driver's barrier task asks a [`TaskBarrier`], which speaks to those of the other ranks through the bus. The leader, the
//! first rank of a node, raises a done semaphore of its device for each execution; the count shows that every barrier was passed, once.
#![allow(unsafe_code, reason = "the done semaphore is named by address")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::bananaphone::{Barrier, Within};
use proxy_os::{DeviceWord, HostBarrier};

use super::meeting::KNOB;
use crate::wire::Failure;

/// The done semaphore of this rank's device. Must outlive every context with a host barrier of it.
#[derive(Debug)]
pub(super) struct ExecutionBarrier {
    /// Boxed, so that its address stays.
    done: Box<AtomicU32>,
    deadline: Duration,
}

impl ExecutionBarrier {
    /// Nothing has been passed yet; each execution may be at the barrier for `deadline`.
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            done: Box::new(AtomicU32::new(0)),
            deadline,
        }
    }

    /// The host barrier for one context over `barrier`. Contexts with one come one after another.
    pub(super) fn host(&self, barrier: Barrier) -> Result<Box<dyn HostBarrier>, Failure> {
        // SAFETY: `self` owns the word and outlives the context (see the type); it is only accessed as an atomic.
        let word = unsafe { DeviceWord::new(self.done.as_ptr()) };
        let within = Within::new(self.deadline, KNOB);
        let task = TaskBarrier::new(barrier, word.into_iter().collect(), within);
        Ok(Box::new(task.map_err(Failure::own)?))
    }

    /// After `executions` successful ones, the last of which has been consumed: the leader has told its device each, nobody else any.
    pub(super) fn check(&self, leads: bool, executions: u64) -> Result<(), Failure> {
        // Relaxed: raised before the task was done, which consuming its status has made visible.
        let found = self.done.load(Ordering::Relaxed);
        let wanted = if leads { executions as u32 } else { 0 };
        if found == wanted {
            return Ok(());
        }
        Err(Failure::own(format!(
            "the done semaphore is {found} after {executions} executions, expected {wanted}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_alone_is_expected_to_raise_the_semaphore() {
        let barrier = ExecutionBarrier::new(Duration::from_secs(1));
        assert_eq!(barrier.check(false, 7), Ok(()));
        // Relaxed: one thread.
        barrier.done.store(7, Ordering::Relaxed);
        assert_eq!(barrier.check(true, 7), Ok(()));
        let failure = barrier.check(true, 8).unwrap_err();
        assert_eq!(
            failure.text,
            "the done semaphore is 7 after 8 executions, expected 8"
        );
        assert!(barrier.check(false, 7).is_err());
    }
}
