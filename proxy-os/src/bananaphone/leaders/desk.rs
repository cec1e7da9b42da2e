//! What a group's leaders' thread shares with the worker: a few words per channel, so that neither ever waits for the other.
//!
//! ```text
//!   worker -- vote: generation, arrived or why not; execution id --> thread
//!   worker <-- verdict on a generation; for which machine it waits -- thread
//! ```
//!
//! The worker writes votes and reads verdicts, the thread the other way round. Generations of a channel come one after another, and the
//! thread decides none before the worker has voted on the one before it (see `round`), so two verdicts are room enough.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use proxy_core::phone::barrier::Elsewhere;

use crate::sys::eventfd::EventFd;

/// How a generation ended for all machines.
pub(super) type Outcome = Result<(), (u8, Elsewhere)>;

/// What this machine says about a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vote {
    /// All its ranks have arrived, for this execution.
    Arrived(u64),
    /// It has failed.
    Failed(Elsewhere),
}

/// The words of one channel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// Somebody has its seat.
    taken: AtomicBool,
    /// Generation, and 0 or the number of the failure.
    vote: AtomicU64,
    /// Execution ids, of even and of odd generations.
    exec: [AtomicU64; 2],
    /// Generation and outcome, of even and of odd generations.
    verdict: [AtomicU64; 2],
    /// The machine that is waited for, from 1; 0 = none is known.
    awaits: AtomicU32,
}

/// All that is shared.
#[derive(Debug)]
pub(super) struct Desk {
    /// Rung by the worker after a vote, and by who stops the thread.
    pub(super) bell: EventFd,
    pub(super) stop: AtomicBool,
    pub(super) channels: Vec<Channel>,
    /// The machine whose end has ended the exchange, from 1; 0 = it goes on.
    over: AtomicU32,
    /// The machine that the thread is receiving from, from 1; 0 = none.
    asked: AtomicU32,
    /// Since when, on the monotonic clock.
    asked_ns: AtomicU64,
}

const PASSED: u32 = 1;
const FAILED: u32 = 0x100;

fn place(generation: u32) -> usize {
    (generation & 1) as usize
}

fn packed(generation: u32, low: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(low)
}

fn unpacked(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Desk {
    pub(super) fn new(channels: u16) -> std::io::Result<Self> {
        Ok(Self {
            bell: EventFd::new()?,
            stop: AtomicBool::new(false),
            channels: (0..channels).map(|_| Channel::default()).collect(),
            over: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            asked_ns: AtomicU64::new(0),
        })
    }

    /// Thread: it begins to receive from a machine.
    pub(super) fn ask(&self, machine: u8, now_ns: u64) {
        // Relaxed: for messages.
        self.asked_ns.store(now_ns, Ordering::Relaxed);
        // Release pairs with the acquire in `asked`.
        self.asked.store(u32::from(machine) + 1, Ordering::Release);
    }

    /// Thread: it has received.
    pub(super) fn hear(&self) {
        // Relaxed: for messages.
        self.asked.store(0, Ordering::Relaxed);
    }

    /// The machine that the thread is receiving from, and for how long.
    pub(super) fn asked(&self, now_ns: u64) -> Option<(u8, Duration)> {
        // Acquire pairs with the release in `ask`; a time that does not belong to it is a wrong word in a message.
        let machine = self.asked.load(Ordering::Acquire).checked_sub(1)?;
        // Relaxed: as above.
        let since = self.asked_ns.load(Ordering::Relaxed);
        let machine = u8::try_from(machine).ok()?;
        Some((machine, Duration::from_nanos(now_ns.saturating_sub(since))))
    }

    /// Thread: the exchange has ended because of this machine, and every generation that is not decided fails with it.
    pub(super) fn end(&self, machine: u8) {
        // Release pairs with the acquire in `ended`: who sees the end sees all verdicts before it.
        self.over.store(u32::from(machine) + 1, Ordering::Release);
    }

    /// The machine because of which the exchange has ended.
    pub(super) fn ended(&self) -> Option<u8> {
        // Acquire pairs with the release in `end`.
        let over = self.over.load(Ordering::Acquire).checked_sub(1)?;
        u8::try_from(over).ok()
    }
}

impl Channel {
    /// Takes the only seat; false = it is taken.
    pub(super) fn take(&self) -> bool {
        // Acquire pairs with the release in `leave`: the next worker sees the votes of the last.
        !self.taken.swap(true, Ordering::Acquire)
    }

    /// Gives the seat back.
    pub(super) fn leave(&self) {
        // Release pairs with the acquire in `take`.
        self.taken.store(false, Ordering::Release);
    }

    /// The generation that was voted on last, for a worker that takes over.
    pub(super) fn generation(&self) -> u32 {
        // Relaxed: the taking of the seat has made it visible.
        unpacked(self.vote.load(Ordering::Relaxed)).0
    }

    /// Worker: votes on a generation, the next one or the same once more.
    pub(super) fn cast(&self, generation: u32, vote: Vote) {
        let low = match vote {
            Vote::Arrived(exec) => {
                // Release pairs with the acquire in `vote`: who reads an id of a later generation sees the vote that came before it.
                self.exec[place(generation)].store(exec, Ordering::Release);
                0
            }
            Vote::Failed(why) => why.number(),
        };
        // Release pairs with the acquire in `vote`: who sees it sees the execution id.
        self.vote.store(packed(generation, low), Ordering::Release);
    }

    /// Thread: the last vote and its generation; generation 0 = there was none.
    pub(super) fn vote(&self) -> (u32, Vote) {
        loop {
            // Acquire pairs with the release in `cast`, here and below.
            let word = self.vote.load(Ordering::Acquire);
            let (generation, low) = unpacked(word);
            if let Some(why) = Elsewhere::from_number(low) {
                return (generation, Vote::Failed(why));
            }
            // Acquire pairs with the release of the id in `cast`.
            let exec = self.exec[place(generation)].load(Ordering::Acquire);
            // Acquire as above. An id of two generations later was stored after a vote that is seen now.
            if self.vote.load(Ordering::Acquire) == word {
                return (generation, Vote::Arrived(exec));
            }
        }
    }

    /// Thread: tells the worker how a generation ended.
    pub(super) fn decide(&self, generation: u32, outcome: Outcome) {
        let low = match outcome {
            Ok(()) => PASSED,
            Err((machine, why)) => FAILED | why.number() << 16 | u32::from(machine),
        };
        // Release pairs with the acquire in `outcome`.
        self.verdict[place(generation)].store(packed(generation, low), Ordering::Release);
    }

    /// Worker: how a generation ended, if it is decided.
    pub(super) fn outcome(&self, generation: u32) -> Option<Outcome> {
        // Acquire pairs with the release in `decide`: what the other machines did before is visible.
        let word = self.verdict[place(generation)].load(Ordering::Acquire);
        let (decided, low) = unpacked(word);
        if decided != generation || low == 0 {
            return None;
        }
        let [machine, ..] = low.to_le_bytes();
        match Elsewhere::from_number(low >> 16) {
            Some(why) => Some(Err((machine, why))),
            None => Some(Ok(())),
        }
    }

    /// Thread: notes which machine is waited for.
    pub(super) fn set_awaited(&self, machine: Option<u8>) {
        let word = machine.map_or(0, |machine| u32::from(machine) + 1);
        // Relaxed: a word for messages.
        self.awaits.store(word, Ordering::Relaxed);
    }

    /// Worker: which machine is waited for.
    pub(super) fn awaited(&self) -> Option<u8> {
        // Relaxed: a word for messages.
        let word = self.awaits.load(Ordering::Relaxed);
        u8::try_from(word.checked_sub(1)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_and_verdicts_come_back_as_they_were() {
        let channel = Channel::default();
        assert_eq!(channel.vote(), (0, Vote::Arrived(0)));
        for generation in [1, 2, u32::MAX] {
            channel.cast(generation, Vote::Arrived(u64::MAX));
            assert_eq!(channel.vote(), (generation, Vote::Arrived(u64::MAX)));
            assert_eq!(channel.outcome(generation), None);
            let outcomes = Elsewhere::ALL.map(|why| Err((255, why)));
            for outcome in outcomes.into_iter().chain([Ok(())]) {
                channel.decide(generation, outcome);
                assert_eq!(channel.outcome(generation), Some(outcome));
                assert_eq!(channel.outcome(generation.wrapping_add(2)), None);
            }
            channel.cast(generation, Vote::Failed(Elsewhere::TimedOut));
            assert_eq!(
                channel.vote(),
                (generation, Vote::Failed(Elsewhere::TimedOut))
            );
        }
        channel.decide(u32::MAX - 1, Err((0, Elsewhere::Gone)));
        assert_eq!(channel.outcome(u32::MAX), Some(Ok(())), "two at a time");
    }

    #[test]
    fn a_seat_is_given_once_and_goes_on_where_it_was() {
        let channel = Channel::default();
        assert!(channel.take() && !channel.take());
        channel.cast(7, Vote::Arrived(1));
        channel.leave();
        assert!(channel.take());
        assert_eq!(channel.generation(), 7);
    }
}
