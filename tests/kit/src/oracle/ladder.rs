//! The oracle's ladder: how a worker waits, by the whole list of what its ticks have said.

use proxy_core::driver::Next;
use proxy_core::ladder::{Budget, Wait};

/// All that a worker has been told, with the time. Nothing is counted on the way: each answer looks back along the list.
#[derive(Debug)]
pub struct Rungs {
    budget: Budget,
    told: Vec<(Next, u64)>,
}

impl Rungs {
    /// A worker that has not ticked yet.
    #[must_use]
    pub const fn new(budget: Budget) -> Self {
        let told = Vec::new();
        Self { budget, told }
    }

    /// What the worker does after a tick that said `next` at `now`, in the unit of the budget.
    pub fn answer(&mut self, next: Next, now: u64) -> Wait {
        self.told.push((next, now));
        // The times of the latest ticks that said the same, this one among them, the newest first.
        let row = self.told.iter().rev().take_while(|(told, _)| *told == next);
        let times: Vec<u64> = row.map(|(_, time)| *time).collect();
        let ticks = u32::try_from(times.len()).unwrap();
        let time = now - times.last().unwrap();
        match next {
            Next::Again => Wait::Run,
            Next::Relax if !self.budget.dedicated && ticks > self.budget.pause_ticks => Wait::Yield,
            Next::Sleep if time >= self.budget.spin => Wait::Sleep,
            Next::Relax | Next::Sleep => Wait::Pause,
        }
    }

    /// The worker armed the bell. If it has been told to sleep it did, and was woken; returns whether.
    pub fn slept(&mut self) -> bool {
        let sleeps = matches!(self.told.last(), Some((Next::Sleep, _)));
        if sleeps {
            self.told.clear();
        }
        sleeps
    }
}
