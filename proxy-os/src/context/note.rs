//! How far the library is with a context, as its last progress call left it.

use std::sync::atomic::{AtomicI32, AtomicU16, AtomicU64, Ordering};

use proxy_core::Status;

/// The last progress call of a context, for reports. Written by the worker alone.
///
/// Relaxed throughout: every word is a message by itself and orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Note {
    calls: AtomicU64,
    place: AtomicU16,
    last_return: AtomicI32,
}

impl Note {
    /// Notes a call on the block at `place` and what it returned. The worker only, so that no read-modify-write is needed.
    pub(crate) fn write(&self, place: u16, returned: Status) {
        // Relaxed, all: see the type.
        let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(calls, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
        self.last_return.store(returned.0, Ordering::Relaxed);
    }

    /// Place of the block, calls so far, what the last one returned.
    pub(crate) fn read(&self) -> (u16, u64, i32) {
        // Relaxed, all: see the type.
        let place = self.place.load(Ordering::Relaxed);
        let calls = self.calls.load(Ordering::Relaxed);
        (place, calls, self.last_return.load(Ordering::Relaxed))
    }
}
