//! Ending tasks early: one task, one context's, one group's, or all of the process.
//!
//! Each call orders the worker to end the tasks, waits until it has, and is bounded by its deadline. When the deadline passes first,
//! because the worker is inside the library, every ticket gets its final code all the same; the tasks' contexts and all memory that
//! the library works on stay in use until the worker itself ends the tasks, and a context cannot be retired before.

use std::fmt;
use std::time::{Duration, Instant};

use proxy_core::{Cause, Gid, OrderError, RunState, TaskView, Ticket};

use crate::completion::Places;
use crate::queue::{Context, ProxyQueue, place_of};
use crate::registry::Group;
use crate::sys::fork;
use crate::watch::InCall;
use crate::words;

/// Why an abort did not end with the worker having ended all tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbortError {
    /// There is nothing to end: the task is done, consumed or unknown.
    Task(OrderError),
    /// The deadline passed before the worker came to it. Every ticket has a final code, but the library may still use what the tasks
    /// work on.
    Overruled {
        /// The library call that the worker is inside of, if it is.
        inside: Option<InCall>,
        /// How long was waited.
        waited: Duration,
        /// Tasks that the worker has not ended yet.
        held: Vec<TaskView>,
    },
    /// The caller is a forked child: the worker is its parent's.
    Forked,
}

impl fmt::Display for AbortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(error) => error.fmt(f),
            Self::Overruled {
                inside,
                waited,
                held,
            } => {
                let tasks = words::counted(held.len(), "task");
                write!(f, "the worker has not ended {tasks} within {waited:?}")?;
                match inside {
                    Some(inside) => write!(f, "; it is inside {inside}"),
                    None => Ok(()),
                }
            }
            Self::Forked => f.write_str(proxy_core::FORKED),
        }
    }
}

impl std::error::Error for AbortError {}

impl ProxyQueue {
    /// Ends one task with [`ABORTED`](proxy_core::Status::ABORTED), within `timeout`: its started streams are stopped, barrier peers
    /// are told. The code is left for the ticket's consumer. Any thread; on the worker's own, in a callback of the library say,
    /// nothing is waited for, and the task ends in the worker's next tick.
    ///
    /// # Errors
    /// See [`AbortError`]. After all but [`AbortError::Forked`] the ticket has a final code, or never had a task.
    pub fn abort(&self, ticket: Ticket, timeout: Duration) -> Result<(), AbortError> {
        if fork::is_child() {
            return Err(AbortError::Forked);
        }
        self.order(ticket, Cause::Aborted)
            .map_err(AbortError::Task)?;
        self.await_ends(vec![ticket], Instant::now(), timeout)
    }

    /// Ends every task of the group that is unfinished at this moment, as [`Self::abort`] ends one; later appends are not
    /// concerned. Returns how many. Tasks that had their code before the worker came to them, by an earlier abort or the watchdog, are
    /// waited for, too: after `Ok` the library uses nothing of any of them.
    ///
    /// # Errors
    /// See [`AbortError`].
    pub fn abort_tasks(&self, timeout: Duration) -> Result<usize, AbortError> {
        self.abort_chosen(timeout, |_| true)
    }

    fn abort_chosen(
        &self,
        timeout: Duration,
        chosen: impl Fn(&TaskView) -> bool,
    ) -> Result<usize, AbortError> {
        if fork::is_child() {
            return Err(AbortError::Forked);
        }
        let since = Instant::now();
        let Ordered { tickets, count } = self.order_chosen(chosen);
        self.await_ends(tickets, since, timeout).map(|()| count)
    }

    fn order(&self, ticket: Ticket, cause: Cause) -> Result<(), OrderError> {
        let shared = self.shared();
        shared
            .core
            .order(ticket, cause)
            .map(|bell| shared.obey(bell))
    }

    fn order_chosen(&self, chosen: impl Fn(&TaskView) -> bool) -> Ordered {
        let tasks = self.shared().core.tasks();
        let tasks = tasks.filter(|task| chosen(task) && task.state != RunState::Done);
        let tickets: Vec<Ticket> = tasks.map(|task| task.ticket).collect();
        let is_ordered = |ticket: &&Ticket| self.order(**ticket, Cause::Aborted).is_ok();
        let count = tickets.iter().filter(is_ordered).count();
        Ordered { tickets, count }
    }

    /// Waits until the worker has ended the tasks, and gives them their codes when the time is over.
    fn await_ends(
        &self,
        tickets: Vec<Ticket>,
        since: Instant,
        timeout: Duration,
    ) -> Result<(), AbortError> {
        if self.is_worker() {
            return Ok(());
        }
        let shared = self.shared();
        let entered = shared.observe();
        // One after the other, as each has its place; one tick ends most of them.
        let mut held = self.held(&tickets);
        while let Some(first) = held.first().map(|task| task.ticket) {
            let look = || self.held(&[first]).is_empty().then_some(());
            let left = timeout.saturating_sub(since.elapsed());
            let place = place_of(first.slot());
            if shared.completion.wait(place, left, look).is_none() {
                break;
            }
            held = self.held(&tickets);
        }
        if held.is_empty() {
            return Ok(());
        }
        self.conclude(&tickets);
        let held = self.held(&tickets);
        if held.is_empty() {
            return Ok(());
        }
        let inside = shared.observe();
        Err(AbortError::Overruled {
            inside: inside.filter(|inside| entered.is_some_and(|entered| entered.is(inside))),
            waited: since.elapsed(),
            held,
        })
    }

    /// Has tasks end with [`ABORTED`](proxy_core::Status::ABORTED) at once for their consumers, whether or not the worker comes to it.
    pub(crate) fn overrule(&self, tasks: &[TaskView]) {
        let ordered = tasks.iter().map(|task| task.ticket);
        let ordered = ordered.filter(|ticket| self.order(*ticket, Cause::Aborted).is_ok());
        self.conclude(&ordered.collect::<Vec<_>>());
    }

    /// Gives the final code of their order to tasks that the worker has not ended yet.
    pub(crate) fn conclude(&self, tickets: &[Ticket]) {
        let shared = self.shared();
        let concluded = tickets
            .iter()
            .filter(|ticket| shared.core.conclude(**ticket));
        if concluded.count() > 0 {
            shared.completion.announce(Places::ALL);
        }
    }

    /// Those of the tasks that the worker has not ended, whether or not they have their code.
    fn held(&self, tickets: &[Ticket]) -> Vec<TaskView> {
        let tasks = self.unfinished().into_iter();
        tasks
            .filter(|task| tickets.contains(&task.ticket))
            .collect()
    }
}

/// Tasks that an abort is about.
struct Ordered {
    /// All that the worker has not ended.
    tickets: Vec<Ticket>,
    /// How many of them had no code yet, and were ordered to end.
    count: usize,
}

impl Context {
    /// Ends every task of this context that is unfinished at this moment, as [`ProxyQueue::abort`] ends one. Returns how many.
    ///
    /// # Errors
    /// See [`AbortError`].
    pub fn abort(&self, timeout: Duration) -> Result<usize, AbortError> {
        self.queue()
            .abort_chosen(timeout, |task| task.context == self.id())
    }
}

impl Group {
    /// Ends every task of every group of this process that is unfinished at this moment, as [`ProxyQueue::abort`] ends one. The
    /// groups stay. All are ordered first and share the one `timeout`. Returns each group's answer, in order of gid.
    pub fn abort_all(timeout: Duration) -> Vec<(Gid, Result<usize, AbortError>)> {
        if fork::is_child() {
            return Vec::new();
        }
        let since = Instant::now();
        let queues = Self::queues();
        let ordered = queues
            .iter()
            .map(|queue| (queue, queue.order_chosen(|_| true)));
        // Collected, so that no group's wait delays another one's order.
        let ordered: Vec<_> = ordered.collect();
        let ended = ordered.into_iter().map(|(queue, ordered)| {
            let Ordered { tickets, count } = ordered;
            let ended = queue.await_ends(tickets, since, timeout);
            (queue.gid(), ended.map(|()| count))
        });
        ended.collect()
    }
}
