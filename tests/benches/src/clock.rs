//! Time of single events, and what becomes of many of them.
#![allow(unsafe_code, reason = "the time stamp counter")]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A moment, in ticks of the time stamp counter where there is one, else in nanoseconds. Ordered behind what was loaded before.
#[inline(always)]
pub fn stamp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut core = 0;
        // SAFETY: every x86-64 machine that this project supports has the instruction; `core` is valid for it to write.
        let now = unsafe { core::arch::x86_64::__rdtscp(&raw mut core) };
        // SAFETY: SSE2 is part of x86-64.
        unsafe { core::arch::x86_64::_mm_lfence() };
        now
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Nanoseconds of so many ticks. Measured once, over 20 ms.
pub fn ns(ticks: u64) -> f64 {
    static PER_TICK: OnceLock<f64> = OnceLock::new();
    let per_tick = PER_TICK.get_or_init(|| {
        let (start, first) = (Instant::now(), stamp());
        while start.elapsed() < Duration::from_millis(20) {}
        start.elapsed().as_nanos() as f64 / (stamp() - first) as f64
    });
    ticks as f64 * per_tick
}

/// Spins for so long.
pub fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// One figure: the middle and the tail of many events, or one number twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Half of the events were at most this.
    pub p50: f64,
    /// 99 of 100 were.
    pub p99: f64,
}

impl Figure {
    /// Of events in ticks of [`stamp`].
    pub fn of(mut events: Vec<u64>) -> Self {
        events.sort_unstable();
        let at = |share: f64| {
            let place = (events.len() as f64 * share) as usize;
            events
                .get(place.min(events.len().saturating_sub(1)))
                .map_or(0.0, |event| ns(*event))
        };
        Self {
            p50: at(0.5),
            p99: at(0.99),
        }
    }

    /// Of a few numbers, such as medians of rows or times of processes: the tail is the worst. None at all are 0.
    pub fn of_few(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self {
            p50: values.get(values.len() / 2).copied().unwrap_or(0.0),
            p99: values.last().copied().unwrap_or(0.0),
        }
    }

    /// A single number.
    pub const fn single(value: f64) -> Self {
        Self {
            p50: value,
            p99: value,
        }
    }

    /// Of one of so many that were timed together.
    #[must_use]
    pub fn each_of(self, count: usize) -> Self {
        Self {
            p50: self.p50 / count as f64,
            p99: self.p99 / count as f64,
        }
    }

    /// Says it on a line of its own, for the program that has started this one.
    pub fn tell(&self, key: &str) {
        println!("figure {key} {} {}", self.p50, self.p99);
    }
}

/// Times `count` runs of `event`.
pub fn events(count: usize, mut event: impl FnMut(usize)) -> Figure {
    let stamps = (0..count).map(|number| {
        let start = stamp();
        event(number);
        stamp() - start
    });
    Figure::of(stamps.collect())
}

/// Time of one of `count` runs in a row, which are too short to be timed singly: the median of 15 such rows.
pub fn each(count: usize, mut event: impl FnMut(usize)) -> Figure {
    let row = |_| {
        let start = stamp();
        (0..count).for_each(&mut event);
        ns(stamp() - start) / count as f64
    };
    Figure::of_few((0..15).map(row).collect())
}
