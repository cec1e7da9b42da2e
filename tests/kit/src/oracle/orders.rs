//! The oracle's early ends: tasks that others order the worker to end, and verdicts that run ahead of it.

use std::panic::resume_unwind;

use proxy_core::{Bell, Cause, ContextId, OrderError, Poll, PollError, RunState, TaskKind};

use super::{Oracle, Outside, Task, TaskId};

impl Oracle {
    /// Orders the end of one task.
    pub fn order(&mut self, task: TaskId, cause: Cause) -> Result<Bell, OrderError> {
        let task = self.tasks.get_mut(task).ok_or(OrderError::Unknown)?;
        if task.consumed {
            return Err(OrderError::AlreadyConsumed);
        }
        if task.state == RunState::Done || task.verdict {
            return Err(OrderError::Done);
        }
        task.order.get_or_insert(cause);
        self.ordered = true;
        Ok(self.bell())
    }

    /// Orders the end of every unfinished task of a context; one bell for each.
    pub fn order_context(&mut self, context: ContextId, cause: Cause) -> Vec<Bell> {
        let of_context = |task: &TaskId| self.tasks[*task].context == context;
        let tasks: Vec<TaskId> = (0..self.tasks.len()).filter(of_context).collect();
        let ordered = tasks.into_iter().map(|task| self.order(task, cause));
        ordered.filter_map(Result::ok).collect()
    }

    /// Gives an ordered task its code before the worker has obeyed.
    pub fn conclude(&mut self, task: TaskId) -> bool {
        let open = |task: &&mut Task| {
            task.order.is_some() && task.state != RunState::Done && !task.verdict
        };
        let task = self.tasks.get_mut(task).filter(open);
        task.is_some_and(|task| {
            task.verdict = true;
            true
        })
    }

    /// State of a task, without consuming its end.
    pub fn peek(&self, task: TaskId) -> Result<RunState, PollError> {
        let task = self.tasks.get(task).ok_or(PollError::Unknown)?;
        match (task.consumed, task.verdict) {
            (true, _) => Err(PollError::AlreadyConsumed),
            (false, true) => Ok(RunState::Done),
            (false, false) => Ok(task.state),
        }
    }

    /// Whether a task of this kind may be looked up: its end has not been told.
    pub(super) fn is_told(task: &Task, context: ContextId, kind: TaskKind) -> bool {
        task.context == context && task.kind == kind && !task.consumed
    }

    /// The worker ends what it has been ordered to end.
    pub(super) fn obey<O: Outside>(&mut self, outside: &mut O) -> u32 {
        if !std::mem::take(&mut self.ordered) {
            return 0;
        }
        let mut ended = 0;
        let went = self.each_active(|oracle, task| {
            if let Some(cause) = oracle.tasks[task.id].order {
                let outcome = task.abort(cause.status(), oracle, outside);
                oracle.settle(task.id, outcome, outside);
                ended += 1;
            }
        });
        went.unwrap_or_else(|death| resume_unwind(death));
        ended
    }
}

/// What a consumer is told of a task; an end is told once.
pub(super) fn answer(task: &mut Task) -> Poll {
    let verdict = task.order.filter(|_| task.verdict);
    if task.state == RunState::Done {
        task.consumed = true;
        Poll::Done(task.code)
    } else if let Some(cause) = verdict {
        task.consumed = true;
        Poll::Done(cause.status())
    } else {
        Poll::Pending(task.state)
    }
}
