//! What a consumer holds and has ordered, and which ends the law of orders leaves open.

use proxy_core::{Cause, Status, Ticket};

/// A ticket in the hands of a consumer, and how its task has to end if it was ordered to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) ticket: Ticket,
    pub(super) told: Option<Status>,
    pub(super) order: Option<Order>,
    /// An explicit arm was made for it.
    pub(super) armed: bool,
}

impl Held {
    pub(super) const fn new(ticket: Ticket) -> Self {
        Self {
            ticket,
            told: None,
            order: None,
            armed: false,
        }
    }

    /// Whether the task may end with this code.
    pub(super) fn allows(&self, status: Status) -> bool {
        match self.order {
            Some(order) => order.allows(status),
            // Only an order says so: the library never does here.
            None => status != Status::TIMEOUT,
        }
    }
}

/// What an accepted order leads to.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Order {
    cause: Cause,
    /// A verdict was given: the code is final.
    pub(super) verdict: bool,
    /// The worker has come by: nothing can change the end any more.
    pub(super) obeyed: bool,
    /// The other end that came before the worker did.
    pub(super) overtaken: Option<Status>,
}

impl Order {
    pub(super) const fn new(cause: Cause) -> Self {
        Self {
            cause,
            verdict: false,
            obeyed: false,
            overtaken: None,
        }
    }

    /// Whether the task may end with this code.
    fn allows(&self, status: Status) -> bool {
        match self.overtaken {
            None => status == self.cause.status(),
            // A worker may die in the middle of obeying.
            Some(Status::WORKER_DIED) => {
                [self.cause.status(), Status::WORKER_DIED].contains(&status)
            }
            Some(other) => status == other,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        !self.verdict && !self.obeyed
    }
}
