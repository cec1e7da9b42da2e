//! The idle ladder: how a worker waits when a tick moved nothing.
//!
//! ```text
//!   tick says    on the rung                          the worker     and is then on the rung
//!   Again        any                                  1 runs         foot
//!   Relax        any, ticks of pausing are left       2 pauses       pausing, a tick more
//!                any, they are used up                3 yields       yielding
//!   Sleep        any, the spin budget is not used     4 pauses       spinning, since its first tick there
//!                any, it is used up                   5 sleeps       sleeping
//!   (woken)      any                                  6 looks        foot
//! ```
//!
//! On a dedicated core ticks of pausing are never used up. A tick that says something else ends what the one before began: pausing and spinning
//! are counted from their first tick in a row.
//!
//! Waking an idle core costs 5 to 30 microseconds, a spin hand-off less than one, so a worker spins a little before it sleeps.

use crate::driver::Next;

/// Budgets of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Budget {
    /// The worker has a core of its own (`one_thread_per_core`): never yield.
    pub dedicated: bool,
    /// Ticks of pausing before the first yield, on a shared core.
    pub pause_ticks: u32,
    /// Time of pausing before a sleep, in the unit of the clock.
    pub spin: u64,
}

/// What the worker does before its next tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Wait {
    /// Tick at once.
    Run,
    /// One pause instruction.
    Pause,
    /// Give the core away once.
    Yield,
    /// Arm the bell and sleep if that succeeds.
    Sleep,
}

/// How often each level was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Levels {
    /// Pauses.
    pub pauses: u64,
    /// Yields.
    pub yields: u64,
    /// Sleeps advised.
    pub sleeps: u64,
}

/// The ladder's state, the worker's own.
#[derive(Debug)]
pub struct Ladder {
    budget: Budget,
    relaxed: u32,
    quiet_since: Option<u64>,
    levels: Levels,
}

impl Ladder {
    /// A ladder at its foot.
    #[must_use]
    pub const fn new(budget: Budget) -> Self {
        let levels = Levels {
            pauses: 0,
            yields: 0,
            sleeps: 0,
        };
        Self {
            budget,
            relaxed: 0,
            quiet_since: None,
            levels,
        }
    }

    /// Answers a tick. `now` is asked only when the worker is quiescent, so a busy worker never reads a clock.
    pub fn answer(&mut self, next: Next, now: impl FnOnce() -> u64) -> Wait {
        match next {
            Next::Again => {
                self.relaxed = 0;
                self.quiet_since = None;
                return Wait::Run;
            }
            Next::Relax => {
                self.quiet_since = None;
                self.relaxed = self.relaxed.saturating_add(1);
                if !self.budget.dedicated && self.relaxed > self.budget.pause_ticks {
                    self.levels.yields = self.levels.yields.wrapping_add(1);
                    return Wait::Yield;
                }
            }
            Next::Sleep => {
                self.relaxed = 0;
                let now = now();
                let since = *self.quiet_since.get_or_insert(now);
                if now.saturating_sub(since) >= self.budget.spin {
                    self.levels.sleeps = self.levels.sleeps.wrapping_add(1);
                    return Wait::Sleep;
                }
            }
        }
        self.levels.pauses = self.levels.pauses.wrapping_add(1);
        Wait::Pause
    }

    /// The worker has slept: a new quiescence begins with a new spin.
    pub const fn woke(&mut self) {
        self.quiet_since = None;
    }

    /// The counters.
    #[must_use]
    pub const fn levels(&self) -> Levels {
        self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(dedicated: bool) -> Ladder {
        Ladder::new(Budget {
            dedicated,
            pause_ticks: 2,
            spin: 10,
        })
    }

    #[test]
    fn h02_no_yield_while_something_moves() {
        let mut shared = ladder(false);
        for _ in 0..1000 {
            assert_eq!(shared.answer(Next::Again, || unreachable!()), Wait::Run);
        }
        assert_eq!(shared.levels().yields, 0);
        let waits: [Wait; 4] =
            core::array::from_fn(|_| shared.answer(Next::Relax, || unreachable!()));
        assert_eq!(waits, [Wait::Pause, Wait::Pause, Wait::Yield, Wait::Yield]);
        assert_eq!(
            shared.levels(),
            Levels {
                pauses: 2,
                yields: 2,
                sleeps: 0
            }
        );
        assert_eq!(shared.answer(Next::Again, || unreachable!()), Wait::Run);
        assert_eq!(
            shared.answer(Next::Relax, || unreachable!()),
            Wait::Pause,
            "a move resets the ladder"
        );
    }

    #[test]
    fn a_dedicated_core_never_yields() {
        let mut dedicated = ladder(true);
        for _ in 0..1000 {
            assert_eq!(
                dedicated.answer(Next::Relax, || unreachable!()),
                Wait::Pause
            );
        }
    }

    #[test]
    fn a_quiescent_worker_spins_its_budget_and_then_sleeps() {
        let mut shared = ladder(false);
        let waits: [Wait; 4] = [5, 10, 14, 15].map(|now| shared.answer(Next::Sleep, || now));
        assert_eq!(waits, [Wait::Pause, Wait::Pause, Wait::Pause, Wait::Sleep]);
        shared.woke();
        assert_eq!(
            shared.answer(Next::Sleep, || 20),
            Wait::Pause,
            "each quiescence spins anew"
        );
        assert_eq!(shared.answer(Next::Sleep, || 30), Wait::Sleep);
    }
}
