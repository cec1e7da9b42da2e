//! The device trigger: the words that gate a task's start, one per stream (specification section 5).
//!
//! Two published descriptions of these words contradict each other, so the sense is chosen per context, see [`Polarity`].
//! Three faults of the literal protocol are closed here:
//! - Consuming writes 0, and 0 reads as *fired*: an execution starts only if it has been armed, and arms are counted
//!   (requirement H15). Where nobody arms, 0 is never taken for a fire.
//! - A plain store as consume can erase the device's fire for the next execution: a word is consumed by compare-and-swap
//!   on the value that opened the gate (requirement H14).
//! - The load is an acquire, in the port that reads the word (requirement H16): a volatile load orders nothing.
//!
//! ```text
//!   count of armed executions      words of the streams (specification sense)
//!
//!   0 --arm--> 1 --arm--> 2        0 --arm--> -1 --device--> v --consume--> 0, or -1 again if more are armed
//!     <consume--  <consume--       fired: v != -1 for every stream, and the count is not 0
//! ```

use core::fmt;

use crate::id::{ContextId, Stream};
use crate::limits::STREAMS;
use crate::port::DeviceWords;
use crate::status::TaskKind;
use crate::sync::{AtomicU32, Edge, Ordering, edge, shared_fn};

/// All ones: *not fired* in the specification's sense, *fired* in the header's.
pub const SENTINEL: u32 = 0xFFFF_FFFF;
/// What consuming leaves, in both senses.
pub const CONSUMED: u32 = 0;

/// Which value of a start word means that the device has reached the network stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Polarity {
    /// The specification: `0xFFFFFFFF` = not fired, any other value = fired.
    #[default]
    Specification,
    /// The published vendor header: `0xFFFFFFFF` = fired, any other value = not.
    Header,
}

impl Polarity {
    /// Whether `word` opens the gate, given that the execution is armed.
    #[must_use]
    pub const fn is_fired(self, word: u32) -> bool {
        match self {
            Self::Specification => word != SENTINEL,
            Self::Header => word == SENTINEL,
        }
    }

    /// The value of a word that is armed and has not fired.
    #[must_use]
    pub const fn armed_value(self) -> u32 {
        match self {
            Self::Specification => SENTINEL,
            Self::Header => CONSUMED,
        }
    }
}

/// Who makes a word ready for the next execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Arming {
    /// Enqueue arms. The device's doorbell must be rung after enqueue has returned.
    #[default]
    OnEnqueue,
    /// The embedder calls `arm` itself, before the device's doorbell.
    Explicit,
    /// The device writes the armed value itself ("written at device-side init"). A word of 0 is then what the last
    /// consume left and never opens the gate, so such a device must fire with another value.
    ByDevice,
}

/// Arming found a word that had fired although nothing was armed: the device was started before its execution was
/// enqueued, and which execution it meant cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FiredBeforeArm {
    /// The first such stream.
    pub stream: Stream,
    /// Its word.
    pub word: u32,
}

impl fmt::Display for FiredBeforeArm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the start word of {} is {:#010x} before it was armed: arm (or enqueue) first, then start the device",
            self.stream, self.word
        )
    }
}

impl core::error::Error for FiredBeforeArm {}

/// The count of armed executions of one context and kind.
#[derive(Debug)]
pub(crate) struct Arms(AtomicU32);

impl Arms {
    shared_fn! {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Back to nothing armed, when the context's place is given to another.
    pub(crate) fn reset(&self) {
        // Relaxed: published with the context itself.
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The words that opened a gate, as they were seen; only these values are consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen([u32; STREAMS]);

/// The gate of one task over its first `streams` words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate<'a> {
    pub(crate) arms: &'a Arms,
    pub(crate) context: ContextId,
    pub(crate) kind: TaskKind,
    pub(crate) streams: u8,
    pub(crate) polarity: Polarity,
    pub(crate) arming: Arming,
}

impl Gate<'_> {
    fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        (0..self.streams).map(Stream)
    }

    /// Counts one more armed execution and, if it is the only one, writes the armed value to words that are consumed.
    ///
    /// With an execution armed already, the words belong to it: consuming re-arms them for the next.
    pub(crate) fn arm<W: DeviceWords + ?Sized>(&self, words: &W) -> Result<(), FiredBeforeArm> {
        let armed = self.polarity.armed_value();
        // Acquire pairs with the release in `consume`: a count of 0 means that the words are consumed, too.
        if self.arms.0.load(edge(Edge::Arm, Ordering::Acquire)) == 0 {
            for stream in self.streams() {
                let word = words.load(self.context, self.kind, stream);
                if word != CONSUMED && self.polarity.is_fired(word) {
                    return Err(FiredBeforeArm { stream, word });
                }
            }
            for stream in self.streams() {
                // A failure means that another arm or the device came in between; either is seen by the gate.
                words.compare_exchange(self.context, self.kind, stream, CONSUMED, armed);
            }
        }
        // Release pairs with the acquire in `poll`: a gate that sees the count sees the words as we left them.
        self.arms.0.fetch_add(1, edge(Edge::Arm, Ordering::Release));
        Ok(())
    }

    /// Takes one arm back, for an execution that ends (or fails to be appended) before its gate. Words stay armed; if the
    /// device fires them later, the next arm finds that out.
    pub(crate) fn disarm(&self) {
        if !self.counts() {
            return;
        }
        // Relaxed: gives up a claim, publishes nothing.
        let mut count = self.arms.0.load(Ordering::Relaxed);
        while let Some(fewer) = count.checked_sub(1) {
            // Relaxed: as above.
            match self.arms.0.compare_exchange_weak(
                count,
                fewer,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => count = now,
            }
        }
    }

    /// The words, if every one of them has fired for an armed execution. No streams: open at once.
    pub(crate) fn poll<W: DeviceWords + ?Sized>(&self, words: &W) -> Option<Seen> {
        // Acquire pairs with the release in `arm`.
        if self.counts() && self.arms.0.load(edge(Edge::Arm, Ordering::Acquire)) == 0 {
            return None;
        }
        let mut seen = [CONSUMED; STREAMS];
        for (stream, place) in self.streams().zip(&mut seen) {
            let word = words.load(self.context, self.kind, stream);
            let stale = self.arming == Arming::ByDevice && word == CONSUMED;
            if stale || !self.polarity.is_fired(word) {
                return None;
            }
            *place = word;
        }
        Some(Seen(seen))
    }

    /// Consumes what `poll` saw, and re-arms the words if more executions are armed.
    pub(crate) fn consume<W: DeviceWords + ?Sized>(&self, words: &W, seen: Seen) {
        for (stream, word) in self.streams().zip(seen.0) {
            // A failure means that the device has fired again: that value belongs to the next execution.
            words.compare_exchange(self.context, self.kind, stream, word, CONSUMED);
        }
        if !self.counts() {
            return;
        }
        // Release pairs with the acquire in `arm`: whoever sees 0 finds the words consumed.
        let before = self.arms.0.fetch_sub(1, edge(Edge::Arm, Ordering::AcqRel));
        if before > 1 {
            for stream in self.streams() {
                words.compare_exchange(
                    self.context,
                    self.kind,
                    stream,
                    CONSUMED,
                    self.polarity.armed_value(),
                );
            }
        }
    }

    /// Whether executions of this gate are counted.
    fn counts(&self) -> bool {
        self.streams > 0 && self.arming != Arming::ByDevice
    }
}
