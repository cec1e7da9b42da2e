//! What a group's leaders' thread shares with the worker: channels, a bell, and how the exchange itself stands.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::channel::Channel;
use crate::sys::eventfd::EventFd;

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

#[cfg(test)]
mod tests {
    use proxy_core::phone::barrier::Elsewhere;

    use super::super::channel::{Ballot, Channel, Vote};

    #[test]
    fn votes_and_verdicts_come_back_as_they_were() {
        let channel = Channel::default();
        assert_eq!(channel.vote(), Ballot::NONE);
        for generation in [1, 2, u32::MAX] {
            channel.cast(generation, Vote::Arrived(u64::MAX));
            let arrived = Vote::Arrived(u64::MAX);
            let seen = channel.vote();
            assert_eq!((seen.generation, seen.vote), (generation, arrived));
            assert_eq!(channel.outcome(generation), None);
            let outcomes = Elsewhere::ALL.map(|why| Err((255, why)));
            for outcome in outcomes.into_iter().chain([Ok(())]) {
                channel.decide(generation, outcome);
                assert_eq!(channel.outcome(generation), Some(outcome));
                assert_eq!(channel.outcome(generation.wrapping_add(2)), None);
            }
            channel.cast(generation, Vote::Failed(Elsewhere::TimedOut));
            let failed = Vote::Failed(Elsewhere::TimedOut);
            let seen = channel.vote();
            assert_eq!((seen.generation, seen.vote), (generation, failed));
        }
        channel.decide(u32::MAX - 1, Err((0, Elsewhere::Gone)));
        assert_eq!(channel.outcome(u32::MAX), Some(Ok(())), "two at a time");
    }

    #[test]
    fn a_vote_keeps_why_the_generation_before_failed() {
        let channel = Channel::default();
        let (late, gone) = (Elsewhere::TimedOut, Elsewhere::Gone);
        channel.cast(1, Vote::Arrived(1));
        channel.cast(1, Vote::Failed(late));
        assert_eq!(channel.vote().before, None);
        channel.cast(2, Vote::Arrived(2));
        assert_eq!(channel.vote().before, Some(late));
        channel.cast(2, Vote::Failed(gone));
        assert_eq!(channel.vote().before, Some(late));
        channel.cast(3, Vote::Arrived(3));
        assert_eq!(channel.vote().before, Some(gone));
        channel.cast(4, Vote::Arrived(4));
        assert_eq!(channel.vote().before, None);
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
