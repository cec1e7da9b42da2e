//! A group's queue and its worker, as an embedder holds them (the original's `enc_proxy_queue`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proxy_core::recorder::{Record, Recorder};
use proxy_core::{
    Bell, ContextError, ContextId, Gid, Poll, PollError, Queue, Shut, TaskKind, TaskView, Ticket,
};

use crate::affinity;
use crate::completion::Completion;
use crate::config::Settings;
use crate::context::{BuildError, ContextBuilder, ContextTable};
use crate::diagnosis;
use crate::latency::{Chart, Latencies, Latency};
use crate::leave;
use crate::left::{self, Left};
use crate::log;
use crate::report::Reports;
use crate::sys::eventfd::EventFd;
use crate::sys::fault::{self, Call};
use crate::sys::fork;
use crate::sys::thread::Thread;
use crate::sys::zeroed::{self, Zeroed};
use crate::trace::{self, Trace, TraceError};
use crate::watch::{Counters, InCall, Watch};
use crate::watchdog::{self, Limits, Tracks};
use crate::worker;

mod error;
mod handle;

pub use error::{Release, ReleaseError, StartError};
pub use handle::{Context, Execution};

/// Ranks of one queue: more than one machine has devices for.
pub const RANKS: usize = 64;
/// Unconsumed tasks of one rank: 63 executions in flight, the reference runtime's limit, have 126 tasks.
pub const TASKS: usize = 128;
/// Contexts of one queue: loaded collectives of all its ranks.
pub const CONTEXTS: usize = 256;
/// State changes that the black box keeps.
pub const RECORDS: usize = 1024;

pub(crate) type Core = Queue<RANKS, TASKS, CONTEXTS>;

/// The place of the rank whose slot this is.
pub(crate) const fn place_of(slot: u32) -> u32 {
    slot / TASKS as u32
}

/// What producers, consumers and the worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) gid: Gid,
    pub(crate) core: Zeroed<Core>,
    pub(crate) bell: EventFd,
    pub(crate) contexts: ContextTable,
    pub(crate) recorder: Zeroed<Recorder<RECORDS>>,
    pub(crate) watch: Watch,
    pub(crate) latencies: Zeroed<Latencies>,
    pub(crate) trace: trace::Slot,
    /// Network times as the histogram setting asks for them.
    pub(crate) chart: Option<Chart>,
    /// Producers note the time of an append.
    pub(crate) times_appends: bool,
    pub(crate) completion: Completion<RANKS>,
    /// Looks of a consumer before it sleeps.
    pub(crate) wait_spins: u32,
    /// Every task is to end with `ABORTED`.
    pub(crate) abort: AtomicBool,
    /// A context was retired, or dropped while busy, since the worker last looked for those that were.
    pub(crate) retired: AtomicBool,
    /// Whether the worker is counted as left behind.
    pub(crate) left: Left,
    pub(crate) limits: Limits,
    pub(crate) tracks: Mutex<Tracks>,
    pub(crate) reports: Reports,
}

impl Shared {
    fn new(gid: Gid, settings: &Settings) -> Result<Arc<Self>, StartError> {
        Ok(Arc::new(Self {
            gid,
            core: zeroed::queue()?,
            bell: EventFd::new().map_err(StartError::Doorbell)?,
            contexts: ContextTable::default(),
            recorder: zeroed::recorder()?,
            watch: Watch::default(),
            latencies: zeroed::latencies()?,
            trace: trace::Slot::default(),
            chart: (settings.proxy_histogram().clone().map(Chart::new)).transpose()?,
            times_appends: *settings.latency_from_append(),
            completion: Completion::default(),
            wait_spins: *settings.wait_spins(),
            abort: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            left: Left::default(),
            limits: Limits::new(settings),
            tracks: Mutex::default(),
            reports: Reports::default(),
        }))
    }

    pub(crate) fn obey(&self, bell: Bell) {
        if bell == Bell::Ring {
            self.watch.count_ring();
            if fault::point(Call::BellRing).is_ok() {
                self.bell.ring();
            }
        }
    }

    /// Has the worker look for contexts that are retired or dropped.
    fn tell_retired(&self) {
        // Release pairs with the worker's swap; the table itself is locked.
        self.retired.store(true, Ordering::Release);
        // A sleeping worker would keep a context's memory until its next task.
        self.bell.ring();
    }
}

/// A queue with its worker. Share it by [`Arc`]; any method may be called from any thread.
///
/// Dropping the last reference aborts what is unfinished and waits for the worker, [`DROP_PATIENCE`] at most. On the
/// worker's own thread, in a callback of the library say, nothing is waited for: the worker ends after that call.
#[derive(Debug)]
pub struct ProxyQueue {
    /// What the settings ask for lasts as long as a queue does. The first to go, so that its last reports still know the group.
    _reports: Option<Arc<diagnosis::Service>>,
    shared: Arc<Shared>,
    life: Mutex<Life>,
    /// A release has handed the thread back, or the worker has ended.
    settled: Condvar,
    /// A drop has waited for the worker, which is enough.
    waited: AtomicBool,
    tid: u32,
}

/// Where the worker's thread is.
#[derive(Debug)]
enum Life {
    Running(Thread),
    /// A release is joining it, outside of the lock.
    Joining,
    Ended,
}

/// How long a dropped queue waits for its worker.
pub const DROP_PATIENCE: Duration = Duration::from_secs(5);

impl ProxyQueue {
    /// Starts a queue and its worker, which is named `proxy-<tid>`. The caller's own CPUs are not changed.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(gid: Gid, settings: &Settings) -> Result<Arc<Self>, StartError> {
        fork::settle();
        if fork::is_child() {
            return Err(StartError::Forked);
        }
        let mask = affinity::place(&settings.placement()).map_err(StartError::Place)?;
        let shared = Shared::new(gid, settings)?;
        let thread = worker::spawn(Arc::clone(&shared), settings, mask.as_ref())?;
        // Only now, so that a start that fails has begun no thread.
        watchdog::watch(&shared);
        let tid = thread.tid();
        let queue = Self::with(shared, Life::Running(thread), tid, settings);
        leave::remember(&queue);
        diagnosis::remember(&queue.shared, tid, settings);
        Ok(queue)
    }

    /// A queue whose passes somebody else makes.
    pub(crate) fn without_worker(gid: Gid, settings: &Settings) -> Result<Arc<Self>, StartError> {
        let shared = Shared::new(gid, settings)?;
        Ok(Self::with(shared, Life::Ended, 0, settings))
    }

    fn with(shared: Arc<Shared>, life: Life, tid: u32, settings: &Settings) -> Arc<Self> {
        Arc::new(Self {
            shared,
            life: Mutex::new(life),
            settled: Condvar::new(),
            waited: AtomicBool::new(false),
            tid,
            _reports: diagnosis::for_queue(settings),
        })
    }

    /// Registers a context.
    ///
    /// # Errors
    /// The first thing found wrong; see [`BuildError`].
    pub fn context(self: &Arc<Self>, builder: ContextBuilder) -> Result<Context, BuildError> {
        if fork::is_child() {
            return Err(BuildError::Context(ContextError::Forked));
        }
        // A release right after the look is no harm: appends are refused then.
        if self.shared.core.shut_by().is_some() {
            return Err(BuildError::Closed(self.shared.gid));
        }
        let (spec, mut data) = builder.finish()?;
        data.times_appends = self.shared.times_appends;
        let data = Arc::new(data);
        let shared = &self.shared;
        let id = (shared.contexts)
            .register(&shared.core, &spec, &data)
            .map_err(BuildError::Context)?;
        Ok(Context {
            queue: Arc::clone(self),
            data,
            id,
        })
    }

    /// State of a task; consumes it when it is done. One load, and one compare-and-swap when done.
    ///
    /// # Errors
    /// The ticket is spent, or was never given out.
    pub fn poll(&self, ticket: Ticket) -> Result<Poll, PollError> {
        if fork::is_child() {
            return Err(PollError::Forked);
        }
        self.shared.core.poll(ticket)
    }

    /// State of the oldest unconsumed task of a context and kind; consumes it when it is done.
    ///
    /// # Errors
    /// [`PollError::Unknown`] if there is none.
    pub fn check(&self, context: ContextId, kind: TaskKind) -> Result<Poll, PollError> {
        if fork::is_child() {
            return Err(PollError::Forked);
        }
        self.shared.core.check(context, kind)
    }

    /// Ends the worker, within `timeout`. Appends are refused from here on. After an error it can be called again,
    /// also with another way.
    ///
    /// # Errors
    /// See [`ReleaseError`]; nothing that the worker may touch is freed.
    pub fn release(&self, way: Release, timeout: Duration) -> Result<(), ReleaseError> {
        if fork::is_child() {
            return Err(ReleaseError::Forked);
        }
        if self.is_worker() {
            return Err(ReleaseError::FromWorker);
        }
        let entered = self.shared.observe();
        self.close(way);
        let since = Instant::now();
        let ended = match self.take_thread(timeout) {
            Life::Ended => true,
            Life::Joining => false,
            Life::Running(mut worker) => {
                let ended = worker.join_timeout(timeout.saturating_sub(since.elapsed()));
                *self.life() = if ended {
                    Life::Ended
                } else {
                    Life::Running(worker)
                };
                self.settled.notify_all();
                ended
            }
        };
        // Told here, too: the watchdog may not come to it any more.
        self.shared.tell_failures();
        if ended {
            return Ok(());
        }
        Err(self.overdue(way, entered, since.elapsed()))
    }

    /// What a release in vain leaves: final codes if it was to abort, a count of the worker if the library has it.
    fn overdue(&self, way: Release, entered: Option<InCall>, waited: Duration) -> ReleaseError {
        let unfinished = self.unfinished();
        if way == Release::Abort {
            self.overrule(&unfinished);
        }
        let inside = self.shared.observe();
        match inside.filter(|inside| entered.is_some_and(|entered| entered.is(inside))) {
            Some(inside) => {
                self.shared.left.leave();
                ReleaseError::Stuck {
                    inside,
                    waited,
                    unfinished,
                }
            }
            None => ReleaseError::Timeout { waited, unfinished },
        }
    }

    /// Tells the worker to end and waits for nothing. Any thread.
    pub(crate) fn close(&self, way: Release) {
        if way == Release::Abort {
            // Release pairs with the worker's acquire, so that it sees the order before or with the close.
            self.shared.abort.store(true, Ordering::Release);
        }
        self.shared.obey(self.shared.core.shut(Shut::Closed));
    }

    /// What a drop does: aborts, and waits for the worker once, however many owners come to it.
    pub(crate) fn end(&self) {
        // In a forked child there is no worker to wait for, and a lock may be held by a thread that is not there.
        if fork::is_child() {
            return;
        }
        self.close(Release::Abort);
        // Relaxed: the flag guards no data.
        if self.is_worker() || self.waited.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.release(Release::Abort, DROP_PATIENCE) {
            // The worker holds everything it needs and exits by itself when the library returns.
            self.shared.left.leave();
            log::error(format_args!(
                "{}: leaving the worker behind, with which there are {}: {error}",
                self.shared.gid,
                left::count()
            ));
        }
    }

    /// Whether the caller is the worker's own thread. The kernel's id would not tell: it is reused once the worker has ended.
    pub(crate) fn is_worker(&self) -> bool {
        worker::is_current(&self.shared)
    }

    /// Takes the thread to join it; waits up to `timeout` for another release that has it.
    fn take_thread(&self, timeout: Duration) -> Life {
        let waiting = |life: &mut Life| matches!(life, Life::Joining);
        let waited = self
            .settled
            .wait_timeout_while(self.life(), timeout, waiting);
        let (mut life, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *life {
            Life::Ended => Life::Ended,
            _ => std::mem::replace(&mut *life, Life::Joining),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        // A panic inside a section leaves one of the three states.
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tasks that are not done.
    pub fn unfinished(&self) -> Vec<TaskView> {
        let done = |task: &TaskView| task.state == proxy_core::RunState::Done;
        self.shared
            .core
            .tasks()
            .filter(|task| !done(task))
            .collect()
    }

    /// Counters of the worker.
    pub fn counters(&self) -> Counters {
        self.shared.watch.counters()
    }

    /// Starts this queue's trace, with room for `events` events of 48 bytes each. Any thread; from the next event on.
    ///
    /// # Errors
    /// There is one already, or no memory for so many events.
    pub fn start_trace(&self, events: usize) -> Result<(), TraceError> {
        self.shared.trace.start(events)
    }

    /// The trace, if it was started.
    pub fn trace(&self) -> Option<&Trace> {
        self.shared.trace.get()
    }

    /// How long tasks waited and ran, per kind and span. Works while the worker is stuck. Costs about 100 us; any thread.
    pub fn latencies(&self) -> Vec<Latency> {
        self.shared.latencies.read()
    }

    /// The last state changes, oldest first. Works while the worker is stuck.
    pub fn history(&self) -> Vec<Record> {
        self.shared.recorder.iter().collect()
    }

    /// Kernel id of the worker's thread.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The group.
    pub fn gid(&self) -> Gid {
        self.shared.gid
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// For who works on the queue as its worker.
    pub(crate) const fn shared_arc(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for ProxyQueue {
    fn drop(&mut self) {
        self.end();
    }
}
