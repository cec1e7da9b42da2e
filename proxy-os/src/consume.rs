//! The blocking consumer (the original's `enc_consume_proxy_task_status`): spins, then sleeps until the worker announces.

use std::fmt;
use std::time::{Duration, Instant};

use proxy_core::{Poll, PollError, RunState, Status, TaskKind, TaskView, Ticket};

use crate::log;
use crate::queue::{Context, ProxyQueue, place_of};
use crate::sys::{line, thread};

/// How patient a consumer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// First warning after this long; each further one after twice the time of the one before. Zero: no warnings.
    pub warn_after: Duration,
    /// Gives up after this long. `None`: never, as the original.
    pub deadline: Option<Duration>,
}

impl Default for Patience {
    /// The reference runtime's first warning at 120 seconds, and no deadline.
    fn default() -> Self {
        Self {
            warn_after: Duration::from_secs(120),
            deadline: None,
        }
    }
}

impl Patience {
    /// Gives up after `deadline`; warns as by default.
    #[must_use]
    pub fn until(deadline: Duration) -> Self {
        Self {
            deadline: Some(deadline),
            ..Self::default()
        }
    }
}

/// Why a consumer has no code to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumeError {
    /// The deadline passed. The ticket is still good.
    Timeout {
        /// How long was waited.
        waited: Duration,
        /// The task's state.
        state: RunState,
    },
    /// The ticket is spent or unknown.
    Poll(PollError),
    /// Called on the worker's own thread, which cannot wait for itself. The ticket is still good.
    FromWorker,
}

impl fmt::Display for ConsumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { waited, state } => {
                write!(f, "the task is still {state} after {waited:?}")
            }
            Self::Poll(error) => error.fmt(f),
            Self::FromWorker => f.write_str("a worker cannot wait for a task of its own queue"),
        }
    }
}

impl std::error::Error for ConsumeError {}

/// Looks between two of the clock.
const CLOCK_EVERY: u32 = 16;

impl Context {
    /// Waits until the context's oldest unconsumed task of a kind is done and consumes its status, as
    /// [`ProxyQueue::consume`] does by ticket. Cold: looks at every slot first.
    ///
    /// # Errors
    /// As there; [`PollError::Unknown`] if there is no such task.
    pub fn consume(&self, kind: TaskKind, patience: Patience) -> Result<Status, ConsumeError> {
        let is_ours = |task: &TaskView| task.context == self.id() && task.kind == kind;
        let core = &self.queue().shared().core;
        // A stuck worker holds tasks whose verdict was consumed already.
        let tasks = core.tasks().filter(is_ours);
        let tasks = tasks.filter(|task| core.peek(task.ticket).is_ok());
        let oldest = tasks.min_by_key(|task| task.sequence);
        let unknown = ConsumeError::Poll(PollError::Unknown);
        self.queue()
            .consume(oldest.ok_or(unknown)?.ticket, patience)
    }
}

impl ProxyQueue {
    /// Waits until a task is done and consumes its status.
    ///
    /// Any thread but the worker's. Logs the specification's texts: a warning when the time to warn has come, an error
    /// when the task ended with one.
    ///
    /// # Errors
    /// The deadline passed, the ticket is no good, or this is the worker's thread.
    pub fn consume(&self, ticket: Ticket, patience: Patience) -> Result<Status, ConsumeError> {
        if self.is_worker() {
            return Err(ConsumeError::FromWorker);
        }
        let mut last = RunState::Init;
        let written = self.shared().core.slot_address(ticket);
        let mut look = || {
            written.into_iter().for_each(line::fetch);
            match self.poll(ticket).map_err(ConsumeError::Poll) {
                Ok(Poll::Done(status)) => return Some(Ok(status)),
                Ok(Poll::Pending(state)) => last = state,
                Err(error) => return Some(Err(error)),
            }
            None
        };
        if let Some(answer) = look() {
            return self.answered(ticket, answer);
        }
        let since = Instant::now();
        let first_warning = match patience.warn_after {
            Duration::ZERO => Duration::MAX,
            first => first,
        };
        let due = first_warning.min(patience.deadline.unwrap_or(Duration::MAX));
        for spin in 0..self.shared().wait_spins {
            thread::pause_between_looks();
            if let Some(answer) = look() {
                return self.answered(ticket, answer);
            }
            // A budget of many looks must not outlast what the caller allows.
            if spin.is_multiple_of(CLOCK_EVERY) && since.elapsed() >= due {
                break;
            }
        }
        let (completion, place) = (&self.shared().completion, place_of(ticket.slot()));
        let mut warn_at = first_warning;
        loop {
            let waited = since.elapsed();
            let left = patience
                .deadline
                .map(|deadline| deadline.saturating_sub(waited));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ConsumeError::Timeout {
                    waited,
                    state: last,
                });
            }
            let slice = warn_at
                .saturating_sub(waited)
                .min(left.unwrap_or(Duration::MAX));
            if let Some(answer) = completion.wait(place, slice, &mut look) {
                return self.answered(ticket, answer);
            }
            if since.elapsed() >= warn_at {
                self.warn(ticket, warn_at);
                warn_at = warn_at.saturating_mul(2);
            }
        }
    }

    fn answered(
        &self,
        ticket: Ticket,
        answer: Result<Status, ConsumeError>,
    ) -> Result<Status, ConsumeError> {
        if let Ok(status) = answer
            && !status.is_success()
            // The watchdog has said so.
            && !(status == Status::TIMEOUT && self.shared().limits.has_deadline())
        {
            let (dev, gid) = (self.rank_of(ticket), self.gid().0);
            log::error(format_args!(
                "[nec_dev {dev} gid {gid}] Proxy failed to execute task, status = {}: {status}",
                status.0
            ));
        }
        answer
    }

    fn warn(&self, ticket: Ticket, waited: Duration) {
        let (dev, gid) = (self.rank_of(ticket), self.gid().0);
        let kind = self
            .shared()
            .core
            .tasks()
            .find(|task| task.ticket == ticket)
            .map_or(0, |task| task.kind as u8);
        log::warn(format_args!(
            "[nec_dev {dev} gid {gid}] Timeout exceeded: Waiting on proxy task type {kind}: {} sec",
            waited.as_secs()
        ));
    }

    /// The rank of a ticket, which the reference runtime's messages call the device.
    fn rank_of(&self, ticket: Ticket) -> i64 {
        self.shared()
            .core
            .rank_of(ticket)
            .map_or(-1, |rank| rank.0.into())
    }
}
