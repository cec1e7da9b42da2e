//! Copies of a queue with its driver, its words and the prediction of all three, and what two of them are told apart by.
//!
//! Neither queue nor driver can be cloned: a product has one of each. Exploration needs them as they were before each of the answers
//! that it tries, and making them again by every step that led there would be most of its time. So they are copied as what they
//! are: words in memory that point nowhere.
#![allow(unsafe_code, reason = "queues and drivers are copied bit by bit")]

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::hash::Hasher;
use std::mem::needs_drop;
use std::rc::Rc;

use crate::pair::{Pair, SimDriver, SimQueue};

fn copy_of_queue(queue: &SimQueue) -> SimQueue {
    // Nothing that it owns could be freed twice.
    const { assert!(!needs_drop::<SimQueue>()) };
    // SAFETY: a queue is atomic words and nothing else: it owns nothing, and none of them is an address, so the copy is a queue of its own.
    // Nobody else writes: it is reached by one `Rc` only, and so by this thread alone, which is not inside.
    unsafe { std::ptr::read(queue) }
}

fn copy_of_driver(driver: &SimDriver) -> SimDriver {
    // SAFETY: a driver is numbers and lists of plain values (`Copy`) that are kept in it: it owns nothing, and none of them is an
    // address. To drop such a list does nothing, so both copies may be dropped. Nobody else has it, as it is borrowed here.
    unsafe { std::ptr::read(driver) }
}

impl Pair {
    /// The same again, apart from this one. How often laws were looked at begins anew. The worker is not inside.
    pub(crate) fn copy(&self) -> Self {
        Self {
            queue: Rc::new(copy_of_queue(&self.queue)),
            driver: (self.driver.as_deref()).map(|driver| Box::new(copy_of_driver(driver))),
            words: Rc::new(RefCell::clone(&self.words)),
            oracle: self.oracle.clone(),
            tape: None,
            tasks: self.tasks.clone(),
            laws: self.laws.copy(),
            wrong: self.wrong.clone(),
        }
    }

    /// Hashes all that is written of the queue, the driver and the words, without the numbers that only count ticks.
    pub(crate) fn hash_state(&self, hasher: &mut impl Hasher) {
        let mut text = Uncounted { hasher, skip: 0 };
        let words = self.words.borrow().written();
        let written = write!(text, "{:?}{:?}{words:?}", self.queue, self.driver);
        debug_assert!(written.is_ok(), "a hasher takes all");
    }
}

/// Text on its way into a hash, without the numbers that only count ticks. A field is written as its name, a colon and its value, one
/// after the other.
struct Uncounted<'a, H> {
    hasher: &'a mut H,
    /// The piece so many from here on is such a number.
    skip: u8,
}

impl<H: Hasher> Write for Uncounted<'_, H> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.skip = match (self.skip, piece) {
            (1, number) if number.starts_with(|c: char| c.is_ascii_digit()) => {
                self.skip = 0;
                return Ok(());
            }
            (_, "pass" | "closed_in") => 2,
            (skip, _) => skip.saturating_sub(1),
        };
        self.hasher.write(piece.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proxy_core::{ExecId, Poll, Rank, RunState, Spec, Status, Ticket};
    use proxy_kit::oracle::{Answer, Call, Stepped};
    use rustc_hash::FxHasher;

    use super::*;
    use crate::pair::{Host, Work, Worked, work};

    /// A library that never comes to an end.
    struct Busy(Pair);

    impl Host for Busy {
        fn pair(&mut self, _: usize) -> &mut Pair {
            &mut self.0
        }

        fn answer(&mut self, _: usize, _: Call) -> Option<Answer> {
            Some(Answer {
                status: Status::SUCCESS,
                idle: false,
                done: false,
                poll: proxy_core::port::BarrierPoll::Pending,
            })
        }

        fn touch(&mut self, _: usize) {}

        fn stepped(&mut self, _: usize, _: Work, _: Stepped, _: &[(Call, Answer)]) {}
    }

    fn state(pair: &Pair) -> u64 {
        let mut hasher = FxHasher::default();
        pair.hash_state(&mut hasher);
        hasher.finish()
    }

    fn begun() -> (Busy, Ticket) {
        let mut pair = Pair::default();
        let context = pair.register(Spec::new(Rank(1))).expect("room");
        let (tickets, _) = pair.enqueue(context, None, ExecId(1)).expect("room");
        let mut host = Busy(pair);
        work(&mut host, 0, Work::Tick);
        (host, tickets[0].1)
    }

    #[test]
    fn a_copy_goes_its_own_way_and_the_first_one_stays_as_it_was() {
        let (mut first, ticket) = begun();
        let before = state(&first.0);
        let mut second = Busy(first.0.copy());
        assert_eq!(state(&second.0), before);
        let aborted = work(&mut second, 0, Work::Abort(Status::ABORTED));
        assert_eq!(aborted, Worked::Aborted(1));
        assert_eq!(second.0.poll(ticket), Ok(Poll::Done(Status::ABORTED)));
        assert_eq!((second.0.wrong(), state(&first.0)), (None, before));
        drop(second);
        let pending = Ok(Poll::Pending(RunState::Progressing));
        assert_eq!((first.0.poll(ticket), first.0.wrong()), (pending, None));
    }

    #[test]
    fn states_differ_by_what_happened_and_not_by_how_many_ticks_it_took() {
        let (mut host, ticket) = begun();
        work(&mut host, 0, Work::Tick);
        let before = state(&host.0);
        work(&mut host, 0, Work::Tick);
        assert_eq!(state(&host.0), before);
        let _ = host.0.order(ticket, proxy_core::Cause::Aborted);
        assert_ne!(state(&host.0), before);
    }
}
