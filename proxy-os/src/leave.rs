//! Ends the workers when the process ends without having released them.
//!
//! A program may return from `main` with everything alive. `exit` then runs the exit hooks of the collective library while
//! the other threads go on, and a worker that still ticked would call into a library that has shut down. So every library
//! that gets a communicator also gets a hook in front of its own, which aborts the queues and waits for their workers.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::log;
use crate::queue::{ProxyQueue, Release};
use crate::sys::{exit, fork};

/// How long the end of the process waits for one worker, which may be inside a call of the library.
const PATIENCE: Duration = Duration::from_secs(1);

/// The queues that have workers.
static ALIVE: Mutex<Vec<Weak<ProxyQueue>>> = Mutex::new(Vec::new());

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
    for queue in queues.iter().filter_map(Weak::upgrade) {
        if let Err(error) = queue.release(Release::Abort, PATIENCE) {
            log::error(format_args!(
                "{}: the process ends with its worker: {error}",
                queue.gid()
            ));
        }
    }
}
