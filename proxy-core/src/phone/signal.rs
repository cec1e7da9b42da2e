//! A word that others wait for, and how they sleep until somebody has changed it.

use super::Word;
use crate::sync::{Edge, Ordering, edge, fence_of_exchange, full_fence};

/// Words of a signal: its value, the count of its sleepers, the count of calls to them.
pub(super) const WORDS: usize = 3;

/// What the changer of a signal must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "sleepers that are not woken see the change only when their slice ends"]
pub enum Wake {
    /// Nobody sleeps on the signal.
    Nobody,
    /// Wake everybody who sleeps on the word with this index in the segment.
    Word(usize),
}

/// A value and, beside it on the same line, how many sleep until it changes and how often they were called.
///
/// No wake-up is lost. A sleeper counts itself, notes the calls, looks at everything it waits for once more, and sleeps
/// only while the calls are what it noted (the futex compares). A changer changes, reads the count, and if it is not zero adds a
/// call and wakes. Between the two steps stands a full fence on either side, so either the changer reads the
/// count or the sleeper's second look sees the change. The sleepers' word is the calls and not the value, so that also
/// a change elsewhere, such as a death, can end their sleep ([`nudge`](Self::nudge)), and a value that returns is no trap.
///
/// Where the change is a read-modify-write, it and the reading of the count are `SeqCst`, and there is no fence: in the one order of such
/// accesses and fences the change stands before the reading, and a reading that misses the count stands before the
/// sleeper's fence. So the change does, too, and the second look sees it. On x86 the change is then one locked instruction instead of two.
#[derive(Debug, Clone, Copy)]
pub struct Signal<'a> {
    value: &'a Word,
    sleepers: &'a Word,
    calls: &'a Word,
    /// Of the calls.
    index: usize,
}

impl<'a> Signal<'a> {
    /// The signal whose words begin with word `index` of the segment.
    #[inline]
    pub(super) fn new(words: &'a [Word], index: usize) -> Option<Self> {
        let [value, sleepers, calls] = words.get(index..)?.first_chunk::<WORDS>()?;
        Some(Self {
            value,
            sleepers,
            calls,
            index: index.checked_add(2)?,
        })
    }

    /// The value. What its writer wrote before it is visible after it.
    #[inline]
    #[must_use]
    pub fn load(&self) -> u32 {
        // Acquire pairs with the release in `publish` and `exchange`.
        self.value.load(edge(Edge::PhoneSignal, Ordering::Acquire))
    }

    /// Index in the segment of the word that its sleepers sleep on.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Sets the value; only for words with one writer.
    #[inline]
    pub(super) fn store(&self, value: u32) -> Wake {
        self.publish(value);
        self.nudge()
    }

    /// Sets the value where nobody sleeps until it changes; only for words with one writer.
    #[inline]
    pub(super) fn publish(&self, value: u32) {
        // Release pairs with the acquire in `load`.
        self.value
            .store(value, edge(Edge::PhoneSignal, Ordering::Release));
    }

    /// Replaces `seen` by `new`, or returns the value that is there instead.
    #[inline]
    pub(super) fn exchange(&self, seen: u32, new: u32) -> Result<Wake, u32> {
        self.replace(seen, new)?;
        fence_of_exchange(Edge::PhoneSleep);
        Ok(self.call())
    }

    /// Whether the value is still `seen`. Unlike a load it cannot answer from the past: while it says yes, nothing has been
    /// done that only comes after another value.
    #[inline]
    pub(super) fn is_still(&self, seen: u32) -> bool {
        self.replace(seen, seen).is_ok()
    }

    #[inline]
    fn replace(&self, seen: u32, new: u32) -> Result<u32, u32> {
        // SeqCst pairs with the fence in `sleep`, by way of the load in `call`. Its release pairs with the acquire in `load`, its acquire
        // with the release in `publish` and here.
        let both = edge(Edge::PhoneSignal, Ordering::SeqCst);
        // Acquire pairs with the release in `publish` and here, also when the value is another.
        let acquire = edge(Edge::PhoneSignal, Ordering::Acquire);
        self.value.compare_exchange(seen, new, both, acquire)
    }

    /// Calls the sleepers after a change, of this value or of anything else that they look at.
    #[inline]
    pub fn nudge(&self) -> Wake {
        // SeqCst pairs with the fence in `sleep`: either the count is seen here, or the sleeper's second look sees the change.
        full_fence(Edge::PhoneSleep);
        self.call()
    }

    /// Calls the sleepers, if any are counted. The change stands before it, and a fence or `SeqCst` between.
    #[inline]
    fn call(&self) -> Wake {
        // SeqCst pairs with the fence in `sleep`, where the change was an exchange.
        let after = edge(Edge::PhoneSleep, Ordering::SeqCst);
        if self.sleepers.load(after) == 0 {
            return Wake::Nobody;
        }
        // Release pairs with the acquire in `sleep`: who notes this call sees the change in its second look.
        self.calls
            .fetch_add(1, edge(Edge::PhoneCall, Ordering::Release));
        Wake::Word(self.index)
    }

    /// Counts a sleeper. Then look at everything that is waited for once more, sleep while the word
    /// [`index`](Sleeping::index) has the value [`seen`](Sleeping::seen), and take the guard back by dropping it.
    ///
    /// A sleeper that dies is never taken back; the price is a system call per change, no more.
    #[must_use]
    pub fn sleep(&self) -> Sleeping<'a> {
        // Relaxed: ordered by the fence.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // SeqCst pairs with the fence in `nudge`.
        full_fence(Edge::PhoneSleep);
        Sleeping {
            sleepers: self.sleepers,
            index: self.index,
            // Acquire pairs with the release in `nudge`.
            seen: self.calls.load(edge(Edge::PhoneCall, Ordering::Acquire)),
        }
    }
}

/// One counted sleeper.
#[derive(Debug)]
pub struct Sleeping<'a> {
    sleepers: &'a Word,
    index: usize,
    seen: u32,
}

impl Sleeping<'_> {
    /// Index in the segment of the word to sleep on.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The value that word had before the second look: sleep only while it still has it.
    #[must_use]
    pub const fn seen(&self) -> u32 {
        self.seen
    }
}

impl Drop for Sleeping<'_> {
    fn drop(&mut self) {
        // Relaxed: a changer that still sees us wakes for nothing.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
