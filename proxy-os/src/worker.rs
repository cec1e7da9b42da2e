//! The worker thread: tick, wait as the ladder says, sleep on the doorbell (the original's `worker_thread` and `process`).

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proxy_core::ladder::{Budget, Ladder, Wait};
use proxy_core::port::{Change, Observer};
use proxy_core::{RunState, Shut, Status};

use crate::completion::Places;
use crate::config::Settings;
use crate::dedicated::Dedicated;
use crate::diagnosis;
use crate::log;
use crate::pass::Pass;
use crate::queue::{Shared, StartError};
use crate::sys::clock;
use crate::sys::cpuset::CpuSet;
use crate::sys::thread::{self, Thread, ThreadName};
use crate::trace::What;
use crate::watchdog;
use crate::words;

thread_local! {
    /// On a worker's thread: where the state of its queue is, to be compared only.
    static OWN: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
}

/// Whether the calling thread is the worker of this queue.
pub(crate) fn is_current(shared: &Shared) -> bool {
    std::ptr::eq(OWN.get(), shared)
}

/// Whether the calling thread is a worker, of whatever queue: inside a function that the collective library has called. What waits for
/// other ranks or for a queue must not be done there, as the worker's own tasks wait meanwhile. Any thread; a thread-local load.
pub fn is_worker_thread() -> bool {
    !OWN.get().is_null()
}

/// The ladder's budgets from the settings.
pub(crate) fn budget(settings: &Settings) -> Budget {
    Budget {
        dedicated: *settings.one_thread_per_core(),
        pause_ticks: *settings.spin_ticks(),
        spin: u64::try_from(settings.spin_before_sleep().as_nanos()).unwrap_or(u64::MAX),
    }
}

/// The name of a worker's thread.
fn name(tid: u32) -> ThreadName {
    ThreadName::new(&format!("proxy-{tid}"))
}

/// Spawns the worker of a queue on the CPUs of `mask`.
///
/// # Errors
/// There is no memory or no thread for it; nothing is left of it then.
pub(crate) fn spawn(
    shared: Arc<Shared>,
    settings: &Settings,
    mask: Option<&CpuSet>,
) -> Result<Thread, StartError> {
    let budget = budget(settings);
    let dedicated = budget.dedicated.then(Dedicated::count);
    // Made here, where there is somebody to tell that its memory is not there; its pages come where the thread first touches them.
    let pass = Pass::new(&shared, budget)?;
    let body = move || {
        let _dedicated = dedicated;
        run(&shared, pass);
    };
    thread::spawn(name, mask, Box::new(body)).map_err(StartError::Thread)
}

/// The thread's body. However it ends, every task's status is final afterwards.
fn run(shared: &Arc<Shared>, pass: Pass) {
    OWN.set(Arc::as_ptr(shared));
    shared.trace.adopt();
    let _ending = Ending(shared);
    // Bound again, to be dropped before the ending.
    let mut pass = pass;
    let served = catch_unwind(AssertUnwindSafe(|| serve(&mut pass, shared)));
    if let Err(payload) = served {
        let ended = die(pass, shared);
        lament(shared, payload, ended);
    }
    write_chart(shared);
}

/// What has to happen at the end of the thread, however it comes.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.left.end();
    }
}

/// After a panic: no append is taken any more, and every task ends. The library is told to stop what it was told to start, and barrier
/// peers are told, as whoever sees a task's end may take back what they were lent. Returns how many tasks ended.
///
/// A port that panics once more is not called again. What was lent to the library is then kept for ever.
fn die(pass: Pass, shared: &Shared) -> usize {
    let Pass {
        mut driver,
        mut ports,
        ..
    } = pass;
    // The bell is our own: this thread is awake, and it is the last one to look.
    let _ = shared.core.shut(Shut::Dead);
    let tasks = shared.core.tasks();
    let unfinished = tasks.filter(|task| task.state != RunState::Done).count();
    let orderly = catch_unwind(AssertUnwindSafe(|| {
        driver.abort_all(&shared.core, Status::WORKER_DIED, &mut ports);
        ports.forget_retired();
    }));
    if let Err(payload) = orderly {
        thread::forget(payload);
        std::mem::forget(ports);
        driver.fail_all(&shared.core, Status::WORKER_DIED, &mut Recording(shared));
    }
    shared.completion.announce(Places::ALL);
    unfinished
}

/// Says what the worker died of.
fn lament(shared: &Shared, payload: Box<dyn Any + Send>, ended: usize) {
    diagnosis::leave_behind(format_args!("{}: the worker died", shared.gid));
    // The panic hook calls this thread unnamed: only threads of the standard library have a name there.
    log::error(format_args!(
        "{}: the worker {} died: {}; {} ended with it",
        shared.gid,
        name(thread::gettid()),
        text(&*payload),
        words::counted(ended, "task")
    ));
    thread::forget(payload);
}

/// Writes the chart that the histogram setting asks for.
fn write_chart(shared: &Shared) {
    let Some(chart) = &shared.chart else { return };
    match chart.write(shared.gid) {
        Ok(path) => log::info(format_args!(
            "{}: network times are in {}",
            shared.gid,
            path.display()
        )),
        Err((path, error)) => log::warn(format_args!(
            "{}: network times could not be written to {}: {error}",
            shared.gid,
            path.display()
        )),
    }
}

/// What a panic said.
fn text(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    literal
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}

/// Drives the queue until it is shut and empty.
fn serve(pass: &mut Pass, shared: &Shared) {
    let mut sleepless = false;
    while let Some(wait) = pass.run(shared) {
        match wait {
            Wait::Run => {}
            Wait::Pause => thread::pause(),
            Wait::Yield => thread::sched_yield(),
            Wait::Sleep => sleep(shared, &mut pass.ladder, &mut sleepless),
        }
    }
}

/// Sleeps on the doorbell, if there is nothing to see first. Whether the sleep failed is kept, so that a run of failures is one message.
fn sleep(shared: &Shared, ladder: &mut Ladder, sleepless: &mut bool) {
    if !shared.core.arm_bell() {
        return;
    }
    shared.watch.asleep(true, clock::monotonic_ns());
    shared.trace.note(|| What::Sleep);
    let slept = shared.bell.wait(None);
    if let Err(error) = &slept {
        // Out of kernel memory, say: the worker keeps looking by itself instead of losing a wake-up.
        if !*sleepless {
            log::error(format_args!(
                "{}: the worker cannot sleep, so it yields until it can: {error}",
                shared.gid
            ));
        }
        thread::sched_yield();
    }
    *sleepless = slept.is_err();
    shared.watch.asleep(false, clock::monotonic_ns());
    shared.trace.note(|| What::Wake);
    ladder.woke();
}

/// Records what a dead worker's clean-up changes; its ports are not trusted any more.
struct Recording<'a>(&'a Shared);

impl Observer for Recording<'_> {
    fn changed(&mut self, change: &Change) {
        let ticks = self.0.watch.ticks();
        self.0.recorder.record(clock::monotonic_ns(), ticks, change);
        self.0.watch.count_failure(change.status);
        self.0.failed(change);
        watchdog::nudge();
    }
}
