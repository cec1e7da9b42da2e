//! One pass of a worker: a tick of its queue, what is told of it, and what has to be done once tasks have ended.
//!
//! # What a pass records, and what that costs
//!
//! By itself, of every worker, always: counters, latencies, and which call of the library it is in (`watch`, `latency`, `context::note`). `cargo
//! xtask guard` counts the instructions of passes as they are shipped, finds those that belong to that by their lines, also where they are inlined, and
//! fails if they are more than 2 % of the others, for passes over none, over 8 and over 64 active tasks whose library answers at once, in seven
//! instructions, that nothing has moved: the dearest case there is, as a library that does anything takes longer. (The same passes compiled without
//! differ by more than that from how the compiler inlines alone.)
//!
//! Two are held to 3 %, as such a library leaves them little else: a pass over a single task, 7 instructions of 284, and the life of 8 tasks from drain to
//! end over as many passes as the shortest collective takes, for the latencies at its end. The black box is no part of this: it is written at
//! changes of state alone, and reports live on it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proxy_core::ladder::{Budget, Ladder, Wait};
use proxy_core::{Driver, Gid, Next, Status, Tick};

use crate::config::Settings;
use crate::memory::NoMemory;
use crate::nccom::seam::WorkerPorts;
use crate::queue::{ProxyQueue, RANKS, Shared, StartError, TASKS};
use crate::sys::clock;
use crate::sys::zeroed::{self, Zeroed};
use crate::worker;

pub(crate) type WorkerDriver = Driver<RANKS, TASKS>;

/// What a worker has to itself.
pub(crate) struct Pass {
    pub(crate) driver: Zeroed<WorkerDriver>,
    pub(crate) ports: WorkerPorts,
    pub(crate) ladder: Ladder,
    /// Contexts were dropped that are still busy.
    dropped: bool,
}

impl Pass {
    pub(crate) fn new(shared: &Arc<Shared>, budget: Budget) -> Result<Self, NoMemory> {
        Ok(Self {
            driver: zeroed::driver()?,
            ports: WorkerPorts::new(Arc::clone(shared))?,
            ladder: Ladder::new(budget),
            dropped: false,
        })
    }

    /// Makes one pass, and answers how to wait before the next; `None` if there is none, as the queue is shut and empty.
    #[inline]
    pub(crate) fn run(&mut self, shared: &Shared) -> Option<Wait> {
        self.ports.tick();
        let tick = self.driver.tick(&shared.core, &mut self.ports);
        let mut ended = 0;
        match tick.next {
            Next::Again => ended = self.tell(shared, &tick),
            Next::Relax => shared.watch.stepped(&tick),
            Next::Sleep => {}
        }
        // Acquire pairs with the release in `ProxyQueue::close`.
        if shared.abort.load(Ordering::Acquire) {
            ended += self.abort(shared);
        }
        // Dropped contexts are busy until a task ends.
        if has_retired(shared) || (self.dropped && ended > 0) {
            self.dropped = self.ports.forget_retired();
        }
        if tick.next == Next::Sleep
            && shared.core.shut_by().is_some()
            && shared.core.is_inbox_empty()
        {
            return None;
        }
        let wait = self.ladder.answer(tick.next, clock::monotonic_ns);
        shared.watch.waits(wait);
        Some(wait)
    }

    /// Tells of a tick that has moved something; returns how many tasks have ended in it.
    fn tell(&mut self, shared: &Shared, tick: &Tick) -> u32 {
        shared.watch.moved(tick);
        let ended = tick.done.wrapping_add(tick.aborted);
        if ended > 0 {
            shared.completion.announce(self.ports.take_ended());
        }
        ended
    }

    #[cold]
    fn abort(&mut self, shared: &Shared) -> u32 {
        let aborted = (self.driver).abort_all(&shared.core, Status::ABORTED, &mut self.ports);
        if aborted > 0 {
            shared.completion.announce(self.ports.take_ended());
        }
        shared.watch.ended(aborted);
        aborted
    }
}

/// Whether contexts were retired or dropped since the last look. A sleeping worker is rung for it.
fn has_retired(shared: &Shared) -> bool {
    // Relaxed: a look that costs nothing; the swap orders.
    shared.retired.load(Ordering::Relaxed)
        // Acquire pairs with the release in `Shared::tell_retired`.
        && shared.retired.swap(false, Ordering::Acquire)
}

/// A queue whose passes are made by its owner instead of a worker, to measure them.
#[doc(hidden)]
pub struct ByHand {
    queue: Arc<ProxyQueue>,
    pass: Pass,
}

impl fmt::Debug for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByHand")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

impl ByHand {
    /// A queue without a worker.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn new(gid: Gid, settings: &Settings) -> Result<Self, StartError> {
        let queue = ProxyQueue::without_worker(gid, settings)?;
        let pass = Pass::new(queue.shared_arc(), worker::budget(settings))?;
        Ok(Self { queue, pass })
    }

    /// The queue.
    pub fn queue(&self) -> &Arc<ProxyQueue> {
        &self.queue
    }

    /// One pass of its worker, who does not wait.
    #[inline(never)]
    pub fn pass(&mut self) {
        let _ = self.pass.run(self.queue.shared());
    }
}
