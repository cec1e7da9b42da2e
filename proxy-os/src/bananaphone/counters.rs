//! What a bus counts: strangers at its door, and every way in which it works otherwise than it was meant to.
//!
//! A fallback is announced once per bus by a warning, counted by name, and readable through the API: a bus that has become slower or
//! less safe because of the system it runs on says so.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::sight::Sight;
use super::wait::Crowd;
use crate::log;

/// One way to do without something that the system refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Fallback {
    /// `memfd_create` is refused: the segment is an unnamed file.
    UnnamedFile,
    /// The segment's size cannot be sealed: a faulty peer can cut it.
    Unsealed,
    /// The segment's memory cannot be reserved: its first touch can fail.
    Unreserved,
    /// A peer's process cannot be had as a descriptor: its death is noticed by the hang-up of its socket.
    HangUp,
    /// This process could not take all descriptors of its peers: some deaths are noticed by other processes only,
    /// that of the hub's process by the hang-up of its socket.
    Unwatched,
    /// The kernel refuses to let threads sleep on a word: waits poll.
    Polling,
}

impl Fallback {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::UnnamedFile,
        Self::Unsealed,
        Self::Unreserved,
        Self::HangUp,
        Self::Unwatched,
        Self::Polling,
    ];

    /// Its name in dumps.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnnamedFile => "unnamed_file",
            Self::Unsealed => "unsealed",
            Self::Unreserved => "unreserved",
            Self::HangUp => "hang_up",
            Self::Unwatched => "unwatched",
            Self::Polling => "polling",
        }
    }

    const fn consequence(self) -> &'static str {
        match self {
            Self::UnnamedFile => "the segment is an unnamed file instead of a memory descriptor",
            Self::Unsealed => "the segment is not sealed, so a faulty peer can cut it",
            Self::Unreserved => "memory is not reserved, so its first touch can fail",
            Self::HangUp => "the death of a peer is noticed by the hang-up of its socket",
            Self::Unwatched => "the death of some peers is noticed by other processes only",
            Self::Polling => "waits poll every millisecond",
        }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The counters of a bus, as one rank sees it. What the hub counts is on the rank that is the hub.
#[derive(Debug, Default)]
pub(super) struct Counters {
    // Relaxed everywhere below: numbers by themselves that order nothing.
    strangers: AtomicU64,
    fallbacks: [AtomicU64; Fallback::ALL.len()],
    /// What a report sees of the rank besides.
    pub(super) sight: Sight,
    /// How the rank waits.
    pub(super) crowd: Crowd,
}

impl Counters {
    /// Counts a connection that was none of ours.
    pub(super) fn stranger(&self) {
        // Relaxed: see the fields.
        self.strangers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a fallback and announces the first of its kind.
    pub(super) fn fallback(&self, fallback: Fallback, reason: fmt::Arguments<'_>) {
        // Relaxed: see the fields.
        let before = self.fallbacks[fallback as usize].fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            let consequence = fallback.consequence();
            log::warn(format_args!(
                "bananaphone: {reason}; {consequence} (counter {fallback})"
            ));
        }
    }

    /// The numbers now.
    pub(super) fn snapshot(&self) -> Snapshot {
        // Relaxed: see the fields.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            strangers: read(&self.strangers),
            fallbacks: Fallback::ALL.map(|fallback| read(&self.fallbacks[fallback as usize])),
        }
    }
}

/// Counters of a bus at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Connections that were closed because they were none of ours, or said nothing.
    pub strangers: u64,
    fallbacks: [u64; Fallback::ALL.len()],
}

impl Snapshot {
    /// How often a fallback was taken.
    #[must_use]
    pub const fn of(&self, fallback: Fallback) -> u64 {
        self.fallbacks[fallback as usize]
    }

    /// All counters by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let fallbacks = Fallback::ALL.map(|fallback| (fallback.name(), self.of(fallback)));
        std::iter::once(("strangers", self.strangers)).chain(fallbacks)
    }
}
