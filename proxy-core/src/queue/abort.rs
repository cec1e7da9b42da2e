//! Ending tasks early, from any thread: an order, a look whether it was obeyed, and a verdict if the worker cannot come.
//!
//! An order is a mark in the task's slot and one bit of the inbox word, which the worker reads in every tick anyway and which
//! rings its bell when it sleeps. So an order costs a tick nothing, waits for nothing, and cannot be lost between the worker's
//! look and its sleep. A worker that is inside the library obeys when it comes back; until then a *verdict* makes the
//! task's code final for its consumer, while the slot and the context stay in use.

use core::fmt;

use super::{PollError, Queue};
use crate::board::{Cause, Phase, Slot, TaskKey, Verdict, Word};
use crate::context::is_older;
use crate::doorbell::Bell;
use crate::id::Ticket;
use crate::limits::{index, narrow};
use crate::status::RunState::{self, Init, WaitingDeviceTrigger};
use crate::task::Task;

/// Why a task cannot be ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum OrderError {
    /// It has a final code already, which is not consumed yet.
    Done,
    /// Its end was reported already.
    AlreadyConsumed,
    /// No such task was ever appended.
    Unknown,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("the task is done"),
            Self::AlreadyConsumed => PollError::AlreadyConsumed.fmt(f),
            Self::Unknown => PollError::Unknown.fmt(f),
        }
    }
}

impl core::error::Error for OrderError {}

impl<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize> Queue<RANKS, TASKS, CONTEXTS> {
    /// Orders the worker to end one task with the cause's code; it does so in its next tick. Of several orders for one task
    /// the first one stands. Lock-free; any thread. The bell must be obeyed.
    ///
    /// # Errors
    /// The task is over or was never appended; nothing has been ordered then.
    pub fn order(&self, ticket: Ticket, cause: Cause) -> Result<Bell, OrderError> {
        let (slot, word) = self.unfinished(ticket)?;
        if !slot.order(word, cause) {
            return Err(OrderError::Done);
        }
        Ok(self.inbox.order())
    }

    /// Gives an ordered task its final code before the worker has obeyed: the next poll gets it. The slot, the context and all that
    /// the library works on stay in use until the worker itself ends the task. Any thread.
    ///
    /// `false`: the task is over, or nothing has been ordered.
    pub fn conclude(&self, ticket: Ticket) -> bool {
        self.unfinished(ticket)
            .is_ok_and(|(slot, word)| slot.conclude(word))
    }

    /// State of a task, [`RunState::Done`] from a final code on; consumes nothing. Wait-free: two loads.
    ///
    /// # Errors
    /// The ticket is spent, or was never given out.
    pub fn peek(&self, ticket: Ticket) -> Result<RunState, PollError> {
        let (slot, word, state) = self.live(ticket)?;
        match slot.verdict(word) {
            _ if state == RunState::Done => Ok(state),
            Verdict::None => Ok(state),
            Verdict::Given => Ok(RunState::Done),
            Verdict::Taken => Err(PollError::AlreadyConsumed),
        }
    }

    /// How many tasks wait for the same start words as this one and were appended before it. The worker asks, who has taken all of those and
    /// has made their states. Cold, O(slots of the rank).
    pub(crate) fn waits_before(&self, task: &Task) -> usize {
        let own = self.slot(task.slot).map(Slot::key_unchecked);
        let is_before = |key: TaskKey| {
            own.is_some_and(|own| {
                key.context == own.context && is_older(key.sequence, own.sequence)
            })
        };
        let waits = |slot: &&Slot| {
            let word = slot.word();
            word.kind() == task.live.kind()
                && matches!(word.unfinished(), Some(Init | WaitingDeviceTrigger))
                && !slot.is_ended(word)
                && slot.key(word).is_some_and(is_before)
        };
        let row = task.slot.checked_div(narrow(TASKS)).map(index);
        let row = row.and_then(|row| self.slots.get(row));
        row.into_iter().flatten().filter(waits).count()
    }

    /// The slot of a task that is not over.
    fn unfinished(&self, ticket: Ticket) -> Result<(&Slot, Word), OrderError> {
        let (slot, word, state) = self.live(ticket).map_err(|error| match error {
            PollError::Unknown => OrderError::Unknown,
            _ => OrderError::AlreadyConsumed,
        })?;
        match slot.verdict(word) {
            _ if state == RunState::Done => Err(OrderError::Done),
            Verdict::None => Ok((slot, word)),
            Verdict::Given => Err(OrderError::Done),
            Verdict::Taken => Err(OrderError::AlreadyConsumed),
        }
    }

    /// The slot of a task whose end has not been consumed through the slot's word, with its word and state.
    pub(super) fn live(&self, ticket: Ticket) -> Result<(&Slot, Word, RunState), PollError> {
        let slot = self.slot(ticket.slot).ok_or(PollError::Unknown)?;
        let word = slot.word();
        if word.generation() != ticket.generation {
            // A slot only moves forward, so a generation that is behind it was handed out and is over.
            let over = ticket.generation != 0 && ticket.generation < word.generation();
            return Err(if over {
                PollError::AlreadyConsumed
            } else {
                PollError::Unknown
            });
        }
        match word.phase() {
            Phase::Live(state) => Ok((slot, word, state)),
            Phase::Free if ticket.generation != 0 => Err(PollError::AlreadyConsumed),
            Phase::Free | Phase::Claimed => Err(PollError::Unknown),
        }
    }
}
