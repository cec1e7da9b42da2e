//! Ends the workers when the process ends without having released them.
//!
//! A program may return from `main` with everything alive. `exit` then runs the exit hooks of the collective library while
//! the other threads go on, and a worker that still ticked would call into a library that has shut down. So every library
//! that gets a communicator also gets a hook in front of its own, which aborts the queues and waits for their workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::log;
use crate::queue::{ProxyQueue, Release, ReleaseError};
use crate::sys::{exit, fork};

/// How long the end of the process waits for its workers, which may be inside calls of a library.
const PATIENCE: Duration = Duration::from_secs(1);

/// The queues that have workers.
static ALIVE: Mutex<Vec<Weak<ProxyQueue>>> = Mutex::new(Vec::new());

/// The workers had their time: libraries shut down from here on.
static OVER: AtomicBool = AtomicBool::new(false);

/// Remembers a queue that has a worker.
pub(crate) fn remember(queue: &Arc<ProxyQueue>) {
    let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
    alive.retain(|queue| queue.strong_count() > 0);
    alive.push(Arc::downgrade(queue));
}

/// Puts the hook in front of those that a library has registered so far.
pub(crate) fn arm() {
    if let Err(error) = exit::at_exit(leave) {
        log::warn(format_args!(
            "workers that are not released will not end before the library does: {error}"
        ));
    }
}

/// Queues that the end of the process leaves as they are. A static's content is never dropped, and a leak checker finds it.
static KEPT: Mutex<Vec<Arc<ProxyQueue>>> = Mutex::new(Vec::new());

/// To be called before each call of a library by a thread of ours. While the process ends and its libraries have begun to shut down, it does
/// not return: a worker that was inside a call for longer than the end of the process has waited must make no other.
#[inline]
pub(crate) fn bar() {
    // Relaxed: a worker that is awake was waited for, so only one that comes out of a call much later has to see it.
    if OVER.load(Ordering::Relaxed) {
        forever();
    }
}

/// Ends with the process.
#[cold]
fn forever() -> ! {
    loop {
        std::thread::park();
    }
}

/// The hook; does nothing the second time.
extern "C" fn leave() {
    // A forked child has none of the workers, and the lock may be held by a thread that it has not either.
    if fork::is_child() {
        return;
    }
    let queues = {
        let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *alive)
    };
    let queues: Vec<_> = queues.iter().filter_map(Weak::upgrade).collect();
    // All are told first, so that several stuck workers take no longer than one.
    for queue in &queues {
        queue.close(Release::Abort);
    }
    let since = Instant::now();
    for queue in &queues {
        let left = PATIENCE.saturating_sub(since.elapsed());
        match queue.release(Release::Abort, left) {
            // A worker whose library calls `exit` is this thread, and does not come back from it.
            Ok(()) | Err(ReleaseError::FromWorker) => {}
            Err(error) => log::error(format_args!(
                "{}: the process ends with its worker: {error}",
                queue.gid()
            )),
        }
    }
    // Relaxed: see `bar`.
    OVER.store(true, Ordering::Relaxed);
    // Not freed here: a queue whose worker is stuck would be waited for once more.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.extend(queues);
}
