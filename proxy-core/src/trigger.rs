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
//! What words alone cannot tell, and an embedder must see to:
//! - A word holds one fire. Fired again before the first fire was consumed it has fired once, whatever was written: the worker finds the last
//!   value, starts one execution, and the other waits for ever. Words are consumed when all of the gate's have fired, not before. So a
//!   device that runs ahead fires a word again only when it no longer holds what was fired last. A fire that still comes between the
//!   worker's look and its consume is kept if its value is another (an execution's number, say); it is never 0.
//! - Which execution an arm is for. It is the oldest one's that the worker has not ended (an order or a verdict is no end yet) and that has
//!   none, or else the next one's that is appended. So explicit arms are made in the order of appends.
//! - An execution that ends before its gate (abort, failed start) gives up its arm, if it has one. If the device still fires for it, that fire
//!   opens the gate of the next execution if one is armed by then, and makes its arming fail if not: stop the device, or let it come
//!   to rest, then give the words a fresh start with [`Queue::reset_words`](crate::Queue::reset_words).
//!
//! Executions of one context and kind share their words, so a fire belongs to the oldest of them that waits: once one has found
//! its gate closed, the gate stays closed for those behind it until the worker's next pass.
//!
//! ```text
//!   armed executions                         word of a stream (specification sense)
//!
//!      1 arm            2 arm                      1                 3 fire
//!   0 -------> 1 ----------------> n        0 -----------> -1 ------------------> v
//!   ^          |                   |        ^               ^                     |
//!   +----------+ <-----------------+        |               +----------- 5 -------+
//!    4 consume       5 consume: re-arm      +--------------------------- 4 -------+
//!    6 disarm        6
//!
//!   7 reset: nothing armed, word 0, from anywhere     8 arm refused: nothing is armed and the word is v
//!   9 not fired, or nothing armed: the gate stays closed
//! ```
//!
//! The device takes edge 3, the worker 4 to 6 and 9 (`Gate::consume`, `Gate::disarm`, `Gate::poll`), whoever appends or arms 1, 2 and 8
//! (`Gate::arm`). Edge 6 is of an armed execution that ends before its gate, and leaves the words as they are.

use core::fmt;

use crate::id::{ContextId, Stream};
use crate::limits::STREAMS;
use crate::port::DeviceWords;
use crate::status::TaskKind;
use crate::sync::{AtomicU32, AtomicUsize, Edge, Ordering, edge, shared_fn};

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

/// The armed executions of one context and kind.
///
/// The count stands in the low half of its word, a version that every arm raises in the high half. Arm and consume decide by
/// the same word, so an arm that took the words to be another execution's finds out if that one consumes them meanwhile.
/// On 32-bit targets that is 65535 arms that no execution has used; more than there are slots to enqueue from.
#[derive(Debug)]
pub(crate) struct Arms {
    count: AtomicUsize,
    /// The worker's last pass in which a task found its gate closed.
    closed_in: AtomicU32,
}

const COUNT_BITS: u32 = usize::BITS / 2;
const COUNT: usize = (1 << COUNT_BITS) - 1;
const ONE_ARM: usize = (1 << COUNT_BITS) + 1;

impl Arms {
    shared_fn! {
        pub(crate) fn new() -> Self {
            Self { count: AtomicUsize::new(0), closed_in: AtomicU32::new(0) }
        }
    }

    /// Back to nothing armed, while the context's place is not live.
    pub(crate) fn reset(&self) {
        // Relaxed, both: published with the word that makes the context live.
        self.count.store(0, Ordering::Relaxed);
        self.closed_in.store(0, Ordering::Relaxed);
    }

    /// The count and its version. Acquire pairs with the release in `add` (the words are as the arm left them) and, for
    /// a count of 0, with that in `take` (the words are consumed).
    #[inline]
    fn load(&self) -> usize {
        self.count.load(edge(Edge::Arm, Ordering::Acquire))
    }

    /// One more, unless anything was armed or consumed since `seen` was loaded.
    #[inline]
    fn add(&self, seen: usize) -> bool {
        // Release pairs with the acquire in `load`: a gate that sees the count sees the words. Relaxed on failure: a
        // new load follows.
        let release = edge(Edge::Arm, Ordering::Release);
        (self.count)
            .compare_exchange(seen, seen.wrapping_add(ONE_ARM), release, Ordering::Relaxed)
            .is_ok()
    }

    /// One less, if more than `kept` are there; returns how many are left.
    #[inline]
    fn take(&self, kept: usize) -> Option<usize> {
        // Relaxed: a guess; the compare-and-swap decides.
        let mut seen = self.count.load(Ordering::Relaxed);
        loop {
            let left = (seen & COUNT).checked_sub(1).filter(|left| *left >= kept)?;
            // Release pairs with the acquire in `load`: whoever sees 0 finds the words consumed. Relaxed on failure: as above.
            let release = edge(Edge::Arm, Ordering::Release);
            match self.count.compare_exchange_weak(
                seen,
                seen.wrapping_sub(1),
                release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(left),
                Err(now) => seen = now,
            }
        }
    }
}

/// The words that opened a gate, as they were seen; only these values are consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen([u32; STREAMS]);

/// The gate of one task over its first `streams` words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate<'a> {
    pub(crate) arms: &'a Arms,
    /// The worker's pass over its tasks, for a gate that is polled.
    pub(crate) pass: u32,
    pub(crate) context: ContextId,
    pub(crate) kind: TaskKind,
    pub(crate) streams: u8,
    pub(crate) polarity: Polarity,
    pub(crate) arming: Arming,
}

impl Gate<'_> {
    #[inline]
    fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        (0..self.streams).map(Stream)
    }

    /// The same gate in one of the worker's passes.
    #[inline]
    pub(crate) const fn in_pass(self, pass: u32) -> Self {
        Self { pass, ..self }
    }

    /// Counts one more armed execution and, if it is the only one, writes the armed value to words that are consumed.
    ///
    /// With an execution armed already, the words belong to it: consuming re-arms them for the next. Lock-free: retried
    /// only when another arm or a consume succeeded.
    pub(crate) fn arm<W: DeviceWords + ?Sized>(&self, words: &W) -> Result<(), FiredBeforeArm> {
        if !self.counts() {
            return Ok(());
        }
        loop {
            let seen = self.arms.load();
            if seen & COUNT == 0 {
                if let Some(early) = self.fired(words) {
                    // Another arm may have come in between, and the device after it.
                    if self.arms.load() == seen {
                        return Err(early);
                    }
                    continue;
                }
                let armed = self.polarity.armed_value();
                for stream in self.streams() {
                    // A failure means that another arm or the device came in between; either is seen by the gate.
                    words.compare_exchange(self.context, self.kind, stream, CONSUMED, armed);
                }
            }
            if self.arms.add(seen) {
                return Ok(());
            }
        }
    }

    /// The first word that reads as fired and is not just consumed.
    fn fired<W: DeviceWords + ?Sized>(&self, words: &W) -> Option<FiredBeforeArm> {
        self.streams().find_map(|stream| {
            let word = words.load(self.context, self.kind, stream);
            let fired = word != CONSUMED && self.polarity.is_fired(word);
            fired.then_some(FiredBeforeArm { stream, word })
        })
    }

    /// Takes back the arm of an execution that ends (or fails to be appended) before its gate. Words stay armed; if the
    /// device fires them later, the next arm finds that out.
    ///
    /// What enqueue has armed has its arm. Of explicit arms the first are those of the executions that wait and are older; `older` counts them.
    #[inline]
    pub(crate) fn disarm(&self, older: impl FnOnce() -> usize) {
        if self.counts() {
            let explicit = self.arming == Arming::Explicit;
            self.arms.take(if explicit { older() } else { 0 });
        }
    }

    /// Forgets every arm and consumes every word, whatever stands in it, while the context is kept from being used. Lock-free:
    /// retried only when the device has written in between.
    pub(crate) fn reset<W: DeviceWords + ?Sized>(&self, words: &W) {
        self.arms.reset();
        for stream in self.streams() {
            loop {
                let word = words.load(self.context, self.kind, stream);
                if word == CONSUMED
                    || words.compare_exchange(self.context, self.kind, stream, word, CONSUMED)
                {
                    break;
                }
            }
        }
    }

    /// The words, if every one of them has fired for an armed execution. No streams: open at once. Worker only.
    pub(crate) fn poll<W: DeviceWords + ?Sized>(&self, words: &W) -> Option<Seen> {
        if self.streams == 0 {
            return Some(Seen([CONSUMED; STREAMS]));
        }
        // Relaxed: only the worker reads and writes it. Equal: another task waits in front of this one.
        if self.arms.closed_in.load(Ordering::Relaxed) == self.pass {
            return None;
        }
        let seen = self.look(words);
        if seen.is_none() {
            // Relaxed: as above.
            self.arms.closed_in.store(self.pass, Ordering::Relaxed);
        }
        seen
    }

    fn look<W: DeviceWords + ?Sized>(&self, words: &W) -> Option<Seen> {
        if self.counts() && self.arms.load() & COUNT == 0 {
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
        // An arm that comes after this sees either a count, and leaves the words to the next lines, or none, and does it.
        if self.arms.take(0).is_some_and(|left| left > 0) {
            let armed = self.polarity.armed_value();
            for stream in self.streams() {
                words.compare_exchange(self.context, self.kind, stream, CONSUMED, armed);
            }
        }
    }

    /// Whether executions of this gate are counted.
    #[inline]
    fn counts(&self) -> bool {
        self.streams > 0 && self.arming != Arming::ByDevice
    }
}
