//! Workers that are left behind: their release gave up while they were inside the library.
//!
//! Nothing that such a worker may touch is freed, so it is a leak until the library returns; the worker then ends by itself. The
//! process counts them.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Relaxed throughout: a number by itself, which orders nothing.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Workers of this process that are left behind at this moment. Any thread; one load.
pub fn count() -> u32 {
    // Relaxed: see `COUNT`.
    COUNT.load(Ordering::Relaxed)
}

/// Whether one worker is among them: each is counted once, and no more when it has ended.
#[derive(Debug, Default)]
pub(crate) struct Left(AtomicU8);

const HERE: u8 = 0;
const LEFT: u8 = 1;
const ENDED: u8 = 2;

impl Left {
    /// A release has given up.
    pub(crate) fn leave(&self) {
        // Relaxed: the state is the whole message.
        let left = (self.0).compare_exchange(HERE, LEFT, Ordering::Relaxed, Ordering::Relaxed);
        if left.is_ok() {
            // Relaxed: see `COUNT`.
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The worker ends.
    pub(crate) fn end(&self) {
        // Relaxed: the state is the whole message.
        if self.0.swap(ENDED, Ordering::Relaxed) == LEFT {
            // Relaxed: see `COUNT`.
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
