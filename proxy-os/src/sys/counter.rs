//! The monotonic clock for a thread that asks for it at every event: by the CPU's counter for a while after each reading of the clock itself.
//!
//! A reading of the clock waits for all that was begun before it; a reading of the counter alone does not. How fast the counter runs is
//! measured as the clock is read, and is believed for [`FAR`] at a time. Where the kernel itself keeps time by another clock, the counter is not used.
#![allow(unsafe_code, reason = "the time stamp counter")]

use std::fs;

use super::clock;

/// Nanoseconds after a reading of the clock in which the counter is believed. A counter that jumps, or differs from CPU to CPU, puts a time
/// wrong by no more than that.
const FAR: u64 = 50_000;
/// Nanoseconds over which the counter is measured at least; each end is out by some 10.
const MEASURED: u64 = 1_000_000;
/// Ticks from one reading of the counter to the next, with one of the clock between them, if nothing has interrupted them.
const UNDISTURBED: u64 = 1 << 11;
/// A rate is the nanoseconds of 2^32 ticks.
const RATE_BITS: u32 = 32;

/// One moment by both.
#[derive(Debug, Clone, Copy, Default)]
struct Moment {
    ticks: u64,
    ns: u64,
}

/// The clock of one thread.
#[derive(Debug)]
pub(crate) struct Counter {
    /// The kernel keeps time by the counter.
    used: bool,
    /// The last reading of the clock.
    last: Moment,
    /// The reading that the rate is measured from.
    first: Option<Moment>,
    /// The rate that was measured last.
    measured: u64,
    /// The rate that is believed: one that was measured twice in a row, or 0. Of two, at most one spans a jump or a time in which
    /// only one of the two has run, as while the machine was suspended.
    rate: u64,
    /// Ticks after the last reading in which the rate is believed; 0 = not at all.
    reach: u64,
    /// What was told last: times do not go back.
    told: u64,
}

impl Counter {
    /// A clock that has measured nothing yet. Reads a file of the kernel's.
    pub(crate) fn new() -> Self {
        const KEPT_BY: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = fs::read_to_string(KEPT_BY).unwrap_or_default();
        Self::over(cfg!(target_arch = "x86_64") && source.trim() == "tsc")
    }

    fn over(used: bool) -> Self {
        Self {
            used,
            last: Moment::default(),
            first: None,
            measured: 0,
            rate: 0,
            reach: 0,
            told: 0,
        }
    }

    /// Nanoseconds of the monotonic clock, as [`clock::monotonic_ns`]. One reading of the counter; without it, and once in [`FAR`], one of the clock.
    #[inline]
    pub(crate) fn now(&mut self) -> u64 {
        if !self.used {
            return clock::monotonic_ns();
        }
        self.at(ticks(), || (clock::monotonic_ns(), ticks()))
    }

    /// The time at a reading of the counter; with a way to read the clock and then the counter again.
    #[inline]
    fn at(&mut self, ticks: u64, read: impl FnOnce() -> (u64, u64)) -> u64 {
        let since = ticks.wrapping_sub(self.last.ticks);
        let now = if since < self.reach {
            // The product is `FAR` in so many bits at most.
            (self.last.ns).wrapping_add(since.wrapping_mul(self.rate) >> RATE_BITS)
        } else {
            self.anchor(ticks, read)
        };
        self.told = self.told.max(now);
        self.told
    }

    /// Reads the clock, with a reading of the counter before it and one after. Comes by time, so `cargo xtask guard` leaves it out, by this name.
    #[cold]
    #[inline(never)]
    fn anchor(&mut self, ticks: u64, read: impl FnOnce() -> (u64, u64)) -> u64 {
        let (ns, again) = read();
        self.take(Moment { ticks, ns }, again);
        ns
    }

    /// Takes a reading of the clock, with one of the counter before and one after it.
    fn take(&mut self, Moment { ticks, ns }: Moment, again: u64) {
        self.reach = 0;
        let took = again.wrapping_sub(ticks);
        if took > UNDISTURBED {
            return;
        }
        let ticks = ticks.wrapping_add(took / 2);
        self.last = Moment { ticks, ns };
        let first = *self.first.get_or_insert(self.last);
        let passed = ns.saturating_sub(first.ns);
        if passed >= MEASURED {
            let rate = u128::from(passed) << RATE_BITS;
            let rate = rate.checked_div(ticks.wrapping_sub(first.ticks).into());
            let rate: u64 = rate.and_then(|rate| rate.try_into().ok()).unwrap_or(0);
            let is_alike = rate.abs_diff(self.measured) <= self.measured / 8;
            self.rate = if is_alike { rate } else { 0 };
            self.measured = rate;
            self.first = Some(self.last);
        }
        self.reach = (FAR << RATE_BITS).checked_div(self.rate).unwrap_or(0);
    }
}

/// The CPU's counter.
#[inline(always)]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the counter, and the kernel that keeps time by it lets programs read it.
    let ticks = unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    let ticks = 0;
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock, and a counter of so many ticks in 1000 ns.
    struct Machine {
        ns: u64,
        ticks: u64,
        speed: u64,
        /// Nanoseconds that a reading of the clock takes.
        takes: u64,
        readings: u32,
    }

    impl Machine {
        fn new(speed: u64) -> Self {
            Self {
                ns: 5_000,
                ticks: 77_000,
                speed,
                takes: 20,
                readings: 0,
            }
        }

        fn pass(&mut self, ns: u64) {
            self.ns += ns;
            self.ticks = self.ticks.wrapping_add(ns * self.speed / 1000);
        }

        /// Asks, and says how far what is told is from the clock.
        fn ask(&mut self, counter: &mut Counter) -> u64 {
            let ticks = self.ticks;
            let read = || {
                self.pass(self.takes / 2);
                let ns = self.ns;
                self.pass(self.takes / 2);
                self.readings += 1;
                (ns, self.ticks)
            };
            counter.at(ticks, read).abs_diff(self.ns)
        }

        /// A counter that has measured this machine.
        fn measured(&mut self) -> Counter {
            let mut counter = Counter::over(true);
            for _ in 0..3 {
                self.ask(&mut counter);
                self.pass(MEASURED);
            }
            self.ask(&mut counter);
            self.readings = 0;
            counter
        }
    }

    #[test]
    fn times_are_those_of_the_clock_which_is_read_now_and_then() {
        for speed in [100, 1000, 2500, 5000] {
            let mut machine = Machine::new(speed);
            let mut counter = machine.measured();
            for _ in 0..1000 {
                machine.pass(150);
                let wrong = machine.ask(&mut counter);
                assert!(wrong <= 100, "{speed}: {wrong} ns");
            }
            let readings = machine.readings;
            assert!((1..=4).contains(&readings), "{speed}: {readings} in 150 us");
        }
    }

    #[test]
    fn before_it_is_measured_and_after_a_long_time_the_clock_is_read() {
        let mut machine = Machine::new(2500);
        let mut counter = Counter::over(true);
        for readings in 1..10 {
            machine.pass(100);
            assert!(machine.ask(&mut counter) <= 10);
            assert_eq!(machine.readings, readings);
        }
        let mut counter = machine.measured();
        machine.pass(FAR + 1000);
        assert!(machine.ask(&mut counter) <= 10);
        assert_eq!(machine.readings, 1);
    }

    #[test]
    fn a_counter_that_jumps_or_changes_its_rate_puts_times_wrong_by_little_and_none_back() {
        for jump in [0, 1, 100_000, 2_400_000, u64::MAX / 2] {
            for jump in [jump, jump.wrapping_neg()] {
                for speed in [1250, 2500, 100_000] {
                    let mut machine = Machine::new(2500);
                    let mut counter = machine.measured();
                    machine.ticks = machine.ticks.wrapping_add(jump);
                    machine.speed = speed;
                    let mut before = 0;
                    for _ in 0..200 {
                        machine.pass(20_000);
                        let wrong = machine.ask(&mut counter);
                        assert!(wrong <= 2 * FAR, "{jump} {speed}: {wrong} ns");
                        assert!(counter.told >= before, "times go back");
                        before = counter.told;
                    }
                }
            }
        }
    }

    /// A machine that was suspended for hours, whose counter went on or began anew while the clock stood still, or that was idle before.
    #[test]
    fn a_counter_that_went_on_without_the_clock_is_not_believed() {
        for idle in [0, 2 * MEASURED, 10_000_000_000, 60_000_000_000] {
            for jump in [1 << 30, 10_000_000_000, 9_000_000_000_000, 1 << 60] {
                for jump in [jump, u64::wrapping_neg(jump)] {
                    let mut machine = Machine::new(2500);
                    let mut counter = machine.measured();
                    machine.pass(idle);
                    machine.ticks = machine.ticks.wrapping_add(jump);
                    for _ in 0..500 {
                        machine.pass(20_000);
                        let wrong = machine.ask(&mut counter);
                        assert!(wrong <= 2 * FAR, "{idle} {jump}: {wrong} ns");
                    }
                    // Ten milliseconds later it is believed again.
                    machine.readings = 0;
                    (0..10).for_each(|_| {
                        machine.pass(100);
                        machine.ask(&mut counter);
                    });
                    assert!(machine.readings <= 1, "{idle} {jump}");
                }
            }
        }
    }

    #[test]
    fn a_reading_that_was_interrupted_is_told_and_not_built_upon() {
        let mut machine = Machine::new(2500);
        let mut counter = machine.measured();
        machine.pass(FAR + 1000);
        machine.takes = 1000;
        assert!(machine.ask(&mut counter) <= 500);
        machine.takes = 20;
        machine.pass(100);
        assert!(machine.ask(&mut counter) <= 10);
        assert_eq!(machine.readings, 2);
    }

    #[test]
    fn it_agrees_with_the_clock_of_this_machine() {
        let mut counter = Counter::new();
        let until = clock::monotonic_ns() + 20 * MEASURED;
        loop {
            let before = clock::monotonic_ns();
            let told = counter.now();
            let after = clock::monotonic_ns();
            let near = before.saturating_sub(FAR)..after + FAR;
            assert!(near.contains(&told), "{told} is not in {near:?}");
            if after > until {
                break;
            }
        }
    }
}
