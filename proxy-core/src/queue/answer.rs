//! What a queue answers: tickets, states, refusals.

use core::fmt;

use crate::doorbell::{Bell, Shut};
use crate::id::{ContextId, ExecId, Rank, Ticket};
use crate::status::{RunState, Status, TaskKind};
use crate::trigger::FiredBeforeArm;

/// Why an append was refused. Nothing has been appended then, and no word has been armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum EnqueueError {
    /// The rank's tasks fill its places; other ranks are not affected.
    Full {
        /// The rank.
        rank: Rank,
        /// Places per rank.
        capacity: u32,
    },
    /// The queue is being released.
    Closed,
    /// The queue's worker died.
    WorkerDied,
    /// The context is not registered.
    UnknownContext,
    /// The context has no tasks of this kind.
    NoSuchKind(TaskKind),
    /// The caller is a forked child: the worker is its parent's. Said by shells; the core knows no processes.
    Forked,
    /// Arming found that the device had been started already.
    FiredBeforeArm(FiredBeforeArm),
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { rank, capacity } => {
                write!(
                    f,
                    "{rank} has {capacity} tasks whose status has not been consumed, its limit"
                )
            }
            Self::Closed => f.write_str("the queue is being released"),
            Self::WorkerDied => f.write_str("the queue's worker died"),
            Self::UnknownContext => f.write_str("no such context is registered"),
            Self::Forked => f.write_str(crate::FORKED),
            Self::NoSuchKind(kind) => write!(f, "the context has no {kind} tasks"),
            Self::FiredBeforeArm(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for EnqueueError {}

impl From<Shut> for EnqueueError {
    fn from(shut: Shut) -> Self {
        match shut {
            Shut::Closed => Self::Closed,
            Shut::Dead => Self::WorkerDied,
        }
    }
}

/// State of a task as a consumer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Poll {
    /// Not done; in this state.
    Pending(RunState),
    /// Done with this code. The status is consumed: the ticket is spent.
    Done(Status),
}

/// Why there is no state to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PollError {
    /// The task's end was reported already.
    AlreadyConsumed,
    /// No such task was ever appended.
    Unknown,
    /// The caller is a forked child: the worker is its parent's. Said by shells; the core knows no processes.
    Forked,
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyConsumed => "the task's end has been reported already",
            Self::Unknown => "no such task was appended",
            Self::Forked => crate::FORKED,
        })
    }
}

impl core::error::Error for PollError {}

/// What an append returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Appended {
    /// Ticket of the network task, if one was appended.
    pub network: Option<Ticket>,
    /// Ticket of the barrier task, if one was appended.
    pub barrier: Option<Ticket>,
    /// Position of the first of them among the appends of the context; strictly growing.
    pub sequence: usize,
    /// Whether the worker must be woken.
    pub bell: Bell,
}

/// An unconsumed task, for dumps and for naming what a release left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TaskView {
    /// Its ticket.
    pub ticket: Ticket,
    /// Its context.
    pub context: ContextId,
    /// The execution it belongs to.
    pub exec: ExecId,
    /// Its kind.
    pub kind: TaskKind,
    /// Position among the appends of its context.
    pub sequence: usize,
    /// Its state as of now.
    pub state: RunState,
    /// What [`DeviceWords::append_time`](crate::port::DeviceWords::append_time) said when it was appended; 0 = nobody wanted to know.
    pub appended: u64,
}

/// How far a context has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Accounts {
    /// Sequence numbers that were given out: the next append gets this one.
    pub appends: usize,
    /// How many of them are not finished.
    pub unfinished: usize,
}
