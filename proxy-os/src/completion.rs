//! How the worker wakes consumers that sleep: it looks at one word when a task is done, and locks only if somebody sleeps.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, fence};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

// A model of tests/loom compiles this file with words of its own.
#[cfg(loom)]
use super::words::{AtomicU32, Condvar, Mutex, MutexGuard, fence};

/// On lines of its own: the worker reads it for every batch of ends, and consumers write it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Completion {
    sleepers: AtomicU32,
    lock: Mutex<()>,
    done: Condvar,
}

impl Completion {
    /// Says that at least one task is done. Worker only, after the status was published.
    pub(crate) fn announce(&self) {
        // Pairs with the fence in `wait`: either we see the sleeper, or its look sees the published status.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            // Taken so that a sleeper between its look and its sleep is not missed.
            drop(self.guard());
            self.done.notify_all();
        }
    }

    /// Sleeps until `look` answers, looking again after every announcement; `None` when `timeout` passes first.
    pub(crate) fn wait<T>(
        &self,
        timeout: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let deadline = std::time::Instant::now().checked_add(timeout);
        let mut guard = self.guard();
        // Relaxed: ordered by the fence below.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
        let answer = loop {
            if let Some(answer) = look() {
                break Some(answer);
            }
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(std::time::Instant::now())
            });
            if left.is_zero() {
                break None;
            }
            let waited = self.done.wait_timeout(guard, left);
            (guard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        };
        // Relaxed: a worker that still sees us notifies for nothing.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        drop(guard);
        answer
    }

    fn guard(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
