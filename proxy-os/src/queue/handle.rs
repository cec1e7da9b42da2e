//! A registered context, as an embedder holds it: append, arm, look up, retire.

use std::sync::Arc;

use proxy_core::{
    ContextError, ContextId, EnqueueError, ExecId, Poll, PollError, Rank, TaskKind, Ticket,
};

use super::ProxyQueue;
use crate::context::ContextData;
use crate::log;
use crate::sys::fork;

/// Tickets of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    /// Ticket of the network task.
    pub network: Ticket,
    /// Ticket of the barrier task, if the context has a barrier.
    pub barrier: Option<Ticket>,
    /// Position of the network task among the appends of the context; strictly growing.
    pub sequence: usize,
}

/// A registered context. Dropping it retires it; if tasks are unfinished then, the worker does so when the last one has ended.
#[derive(Debug)]
pub struct Context {
    pub(super) queue: Arc<ProxyQueue>,
    pub(super) data: Arc<ContextData>,
    pub(super) id: ContextId,
}

impl Context {
    /// Appends one execution, both tasks or none, and wakes the worker if it sleeps. Allocates nothing; makes no system
    /// call if the worker is awake. Further executions may be appended before this one has ended: the network tasks of a
    /// [`ProxyComm`](crate::nccom::ProxyComm), of all its contexts, have the library one after the other, in the order of their appends.
    ///
    /// # Errors
    /// See [`EnqueueError`]; nothing has been appended then.
    pub fn enqueue(&self, exec: ExecId) -> Result<Execution, EnqueueError> {
        if fork::is_child() {
            return Err(EnqueueError::Forked);
        }
        let shared = &self.queue.shared;
        let appended = shared.core.enqueue(self.id, exec, &*self.data);
        let appended = appended.inspect_err(|error| shared.watch.refused(error))?;
        shared.obey(appended.bell);
        // An execution always has a network task.
        let network = appended
            .network
            .ok_or(EnqueueError::NoSuchKind(TaskKind::Network))?;
        Ok(Execution {
            network,
            barrier: appended.barrier,
            sequence: appended.sequence,
        })
    }

    /// Appends a single task.
    ///
    /// # Errors
    /// See [`EnqueueError`].
    pub fn append(&self, kind: TaskKind, exec: ExecId) -> Result<Ticket, EnqueueError> {
        if fork::is_child() {
            return Err(EnqueueError::Forked);
        }
        let shared = &self.queue.shared;
        let appended = shared.core.append(self.id, kind, exec, &*self.data);
        let appended = appended.inspect_err(|error| shared.watch.refused(error))?;
        shared.obey(appended.bell);
        appended
            .network
            .or(appended.barrier)
            .ok_or(EnqueueError::NoSuchKind(kind))
    }

    /// Arms the start words of one kind for one more execution, for contexts with explicit arming.
    ///
    /// # Errors
    /// The device had fired before, or the context is gone.
    pub fn arm(&self, kind: TaskKind) -> Result<(), EnqueueError> {
        if fork::is_child() {
            return Err(EnqueueError::Forked);
        }
        self.queue.shared.core.arm(self.id, kind, &*self.data)
    }

    /// Gives the start words a fresh start after an execution that ended before its device fired (aborted, timed out, a failed start):
    /// every word is consumed and nothing is armed, so that the next [`enqueue`](Self::enqueue) arms anew.
    ///
    /// Without it a fire that comes late starts the next execution before its time, or has every enqueue refused with
    /// [`EnqueueError::FiredBeforeArm`]. Stop the device or let it come to rest first: a fire that comes after this call is taken
    /// for the next execution's. Any thread but beside an enqueue, which may be refused as if the context were unknown.
    /// Costs a load and a compare-and-swap per word.
    ///
    /// # Errors
    /// [`ContextError::Busy`] while a task of the context is unfinished; nothing is changed then.
    pub fn reset(&self) -> Result<(), ContextError> {
        if fork::is_child() {
            return Err(ContextError::Forked);
        }
        self.queue.shared.core.reset_words(self.id, &*self.data)
    }

    /// State of the context's oldest unconsumed task of a kind; consumes it when it is done.
    ///
    /// # Errors
    /// [`PollError::Unknown`] if there is none.
    pub fn check(&self, kind: TaskKind) -> Result<Poll, PollError> {
        self.queue.check(self.id, kind)
    }

    /// The queue it is registered with.
    pub fn queue(&self) -> &Arc<ProxyQueue> {
        &self.queue
    }

    /// Its id.
    pub fn id(&self) -> ContextId {
        self.id
    }

    /// Its rank.
    pub fn rank(&self) -> Rank {
        self.data.rank
    }

    /// Retires the context: the library gets no further call for it, and its FIFO arrays are freed.
    ///
    /// # Errors
    /// The context itself and the number of unfinished tasks.
    pub fn retire(self) -> Result<(), (Self, ContextError)> {
        match self.try_retire() {
            // The drop that follows finds it unknown and does nothing.
            Ok(()) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    /// As [`Self::retire`], by reference: appends are refused from here on, and dropping it does nothing more.
    ///
    /// # Errors
    /// [`ContextError::Busy`] with the number of unfinished tasks; [`ContextError::Unknown`] if it was retired before.
    pub fn try_retire(&self) -> Result<(), ContextError> {
        if fork::is_child() {
            return Err(ContextError::Forked);
        }
        let shared = &self.queue.shared;
        shared.core.retire(self.id)?;
        shared.contexts.remove(self.id);
        shared.tell_retired();
        Ok(())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Err(error @ ContextError::Busy { .. }) = self.try_retire() {
            log::info(format_args!(
                "{} dropped: {error}; it is retired when they have ended",
                self.id
            ));
            let shared = &self.queue.shared;
            shared.contexts.abandon(self.id);
            // The last task may have ended before the line above: the worker looks once in any case.
            shared.tell_retired();
        }
    }
}
