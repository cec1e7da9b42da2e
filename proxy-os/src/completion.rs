//! How the worker wakes consumers that sleep: each rank has a place where its consumers do, so that an end wakes nobody else's; the worker
//! looks at one word for each rank that had ends, and locks only if somebody sleeps there.

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

/// Which places had ends, one bit each.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Places(u64);

impl Places {
    /// Every place.
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// Adds one, below 64.
    #[inline]
    pub(crate) const fn add(&mut self, place: u32) {
        self.0 |= 1_u64.wrapping_shl(place);
    }

    /// Takes the lowest out.
    const fn pop(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(place)
    }
}

/// On lines of its own: the worker reads it for every batch of ends, and consumers write it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Completion<const PLACES: usize> {
    places: [Place; PLACES],
}

/// Where the consumers of one rank sleep.
#[derive(Debug, Default)]
struct Place {
    sleepers: AtomicU32,
    lock: Mutex<()>,
    done: Condvar,
}

impl<const PLACES: usize> Default for Completion<PLACES> {
    fn default() -> Self {
        const { assert!(PLACES <= 64, "a place has a bit") };
        Self {
            places: std::array::from_fn(|_| Place::default()),
        }
    }
}

impl<const PLACES: usize> Completion<PLACES> {
    /// Says that at least one task is done in each of `ended`, after the statuses were published. Any thread; the worker once for all that one
    /// tick has ended.
    pub(crate) fn announce(&self, mut ended: Places) {
        // Pairs with the fence in `Place::wait`: either we see the sleeper, or its look sees the published status.
        fence(Ordering::SeqCst);
        while let Some(place) = ended.pop() {
            if let Some(place) = self.places.get(place) {
                place.wake();
            }
        }
    }

    /// Sleeps in a place until `look` answers, looking again after every announcement for it; `None` when `timeout` passes first. Where there
    /// is no such place, no task can be, and nothing is waited for.
    pub(crate) fn wait<T>(
        &self,
        place: u32,
        timeout: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        match self.places.get(place as usize) {
            Some(place) => place.wait(timeout, look),
            None => look(),
        }
    }
}

impl Place {
    fn wake(&self) {
        // Relaxed: ordered by the fence.
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            // Taken so that a sleeper between its look and its sleep is not missed.
            drop(self.guard());
            self.done.notify_all();
        }
    }

    fn wait<T>(&self, timeout: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let deadline = std::time::Instant::now().checked_add(timeout);
        let mut guard = self.guard();
        // Relaxed: ordered by the fence below.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `Completion::announce`.
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
