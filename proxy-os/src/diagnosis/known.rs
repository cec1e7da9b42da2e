//! The queues of this process, so that a report shows all of them and not the last one made.
//!
//! Only weak references: a report never keeps a queue alive, and never ends one by dropping the last reference to it.

use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use crate::config::{Effective, Settings};
use crate::queue::Shared;

/// How long a report waits for one lock before it goes on without.
const PATIENCE: Duration = Duration::from_millis(20);

/// One queue.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) shared: Weak<Shared>,
    pub(crate) tid: u32,
    /// CPUs that were asked for.
    pub(crate) cpus_wanted: String,
    pub(crate) settings: Arc<[Effective]>,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// Makes a queue known.
pub(crate) fn remember(shared: &Arc<Shared>, tid: u32, settings: &Settings) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|known| known.shared.strong_count() > 0);
    known.push(Known {
        shared: Arc::downgrade(shared),
        tid,
        cpus_wanted: settings.placement().to_string(),
        settings: settings.effective().into(),
    });
}

/// All queues; `None` if the list is locked for longer than a report waits.
pub(super) fn all() -> Option<Vec<Known>> {
    lock(&KNOWN).map(|known| known.clone())
}

/// A lock for the length of a report's patience. Nobody holds one for long, unless it is stuck, which is what a report is about.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    let since = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) if since.elapsed() >= PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}
