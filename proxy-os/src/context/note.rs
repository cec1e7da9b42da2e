//! What the worker does with the library for a context: the call that it is inside of, how many there were, what they return.

use std::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering};

use proxy_core::Status;

use crate::watch::SeamCall;

/// The calls of a context, for reports. Written by the worker alone, and around a progress call that changes nothing by two additions.
///
/// Relaxed throughout: every word is a message by itself and orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Note {
    /// Progress calls, each counted when it begins and when it returns: odd = inside of one.
    progress: AtomicU64,
    /// Start and stop calls, counted in the same way.
    others: AtomicU32,
    /// Which of the two the last one is.
    other: AtomicU32,
    place: AtomicU16,
    last_return: AtomicI32,
}

/// A call that has begun and not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) call: SeamCall,
    /// Calls so far, which tell two of them apart.
    number: (u64, u32),
}

impl Note {
    /// Notes that a progress call begins, or returns.
    #[inline]
    pub(crate) fn progress(&self) {
        // Relaxed, both: see the type. The worker is the only writer, so that no read-modify-write is needed.
        let marks = self.progress.load(Ordering::Relaxed).wrapping_add(1);
        self.progress.store(marks, Ordering::Relaxed);
    }

    /// Notes that a start or stop call begins.
    pub(crate) fn enter(&self, call: SeamCall) {
        // Relaxed: see the type.
        self.other.store(call as u32, Ordering::Relaxed);
        self.leave();
    }

    /// Notes that a start or stop call returns.
    pub(crate) fn leave(&self) {
        // Relaxed, both: see the type.
        let marks = self.others.load(Ordering::Relaxed).wrapping_add(1);
        self.others.store(marks, Ordering::Relaxed);
    }

    /// The call that the worker is inside of.
    pub(crate) fn entered(&self) -> Option<Entered> {
        // Relaxed, all: see the type.
        let others = self.others.load(Ordering::Relaxed);
        let progress = self.progress.load(Ordering::Relaxed);
        let stop = self.other.load(Ordering::Relaxed) == SeamCall::Stop as u32;
        let call = match (progress % 2, others % 2) {
            (1, _) => SeamCall::Progress,
            (_, 1) if stop => SeamCall::Stop,
            (_, 1) => SeamCall::Start,
            _ => return None,
        };
        let number = (progress, others);
        Some(Entered { call, number })
    }

    /// Notes that the block at `place` is called from now on.
    pub(crate) fn selected(&self, place: u16) {
        // Relaxed: see the type.
        self.place.store(place, Ordering::Relaxed);
    }

    /// Notes what the calls return from now on.
    pub(crate) fn returned(&self, returned: Status) {
        // Relaxed: see the type.
        self.last_return.store(returned.0, Ordering::Relaxed);
    }

    /// Place of the block, progress calls so far, what the last one returned.
    pub(crate) fn read(&self) -> (u16, u64, i32) {
        // Relaxed, all: see the type.
        let place = self.place.load(Ordering::Relaxed);
        let calls = self.progress.load(Ordering::Relaxed).div_ceil(2);
        (place, calls, self.last_return.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_seen_from_its_beginning_to_its_return_and_told_from_the_next() {
        let note = Note::default();
        assert_eq!(note.entered(), None);
        for call in [SeamCall::Start, SeamCall::Stop] {
            note.enter(call);
            assert_eq!(note.entered().map(|entered| entered.call), Some(call));
            note.leave();
            assert_eq!(note.entered(), None);
        }
        note.progress();
        let first = note.entered();
        assert_eq!(first.map(|entered| entered.call), Some(SeamCall::Progress));
        assert_eq!(note.read().1, 1, "the one that is under way counts");
        note.progress();
        assert_eq!(note.entered(), None);
        note.progress();
        assert!(note.entered().is_some() && note.entered() != first);
        assert_eq!(note.read().1, 2);
    }
}
