//! One table of counters by size of value: exact below 64, then 32 buckets per power of two.

use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;

/// Buckets of one power of two, as a power of two.
const FINE: u32 = 5;
/// Values up to here have a bucket each.
const SINGLES: u64 = (1 << (FINE + 1)) - 1;
/// Values from here on share the last bucket: 2^42 ns are 73 minutes.
const LIMIT: u64 = 1 << 42;
/// Two rows of single values, then one row per power of two below the limit, then the last bucket.
const COUNT: usize = ((42 - FINE + 1) << FINE) as usize + 1;

/// One writer; any number of readers.
#[derive(Debug)]
pub(super) struct Buckets([AtomicU64; COUNT]);

impl Buckets {
    /// Counts one value. One thread only: no read-modify-write is needed then.
    pub(super) fn count(&self, value: u64) {
        if let Some(bucket) = self.0.get(place(value)) {
            // Relaxed, both: this thread is the only writer, and a counter orders nothing.
            let count = bucket.load(Ordering::Relaxed).wrapping_add(1);
            bucket.store(count, Ordering::Relaxed);
        }
    }

    /// The values as a histogram with two significant digits; `None` only if hdrhistogram changed what it accepts.
    pub(super) fn read(&self) -> Option<Histogram<u64>> {
        let mut histogram = Histogram::new_with_max(LIMIT, 2).ok()?;
        for (place, bucket) in self.0.iter().enumerate() {
            // Relaxed: a counter orders nothing.
            let count = bucket.load(Ordering::Relaxed);
            if count > 0 {
                histogram.saturating_record_n(middle(place), count);
            }
        }
        Some(histogram)
    }
}

/// The bucket of a value.
fn place(value: u64) -> usize {
    let value = value.min(LIMIT);
    // Row 0 for values below 2^(FINE + 1), row n for those below 2^(FINE + 1 + n). What is set below that makes no difference, and is never 0.
    let row = (value | SINGLES).ilog2() - FINE;
    let within = value >> row;
    // Below 2^11.
    ((u64::from(row) << FINE) + within) as usize
}

/// The middle of a bucket's values.
fn middle(place: usize) -> u64 {
    let place = place as u64;
    let row = (place >> FINE).saturating_sub(1);
    let low = (place - (row << FINE)) << row;
    low + (1_u64 << row) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap_or_overlap() {
        assert_eq!(place(0), 0);
        assert_eq!(place(LIMIT), COUNT - 1);
        assert_eq!(place(u64::MAX), COUNT - 1);
        let mut last = 0;
        for power in 1..42 {
            for value in [1_u64 << power, (1 << power) + 1, (2 << power) - 1] {
                let found = place(value);
                assert!(found >= last, "{value}: {found} after {last}");
                last = found;
            }
        }
        for value in 0..5000 {
            let step = place(value + 1) - place(value);
            assert!(step <= 1, "{value}: no bucket is left out");
        }
    }

    #[test]
    fn a_value_comes_back_within_a_64th() {
        for value in (0..200).chain((1..41).map(|power| (1_u64 << power) * 3 / 2 + 7)) {
            let read = middle(place(value));
            assert!(
                read.abs_diff(value) <= value / 64,
                "{value} came back as {read}"
            );
        }
    }

    #[test]
    fn counts_are_kept_by_value() {
        let buckets = Buckets([const { AtomicU64::new(0) }; COUNT]);
        for _ in 0..99 {
            buckets.count(1000);
        }
        buckets.count(1_000_000);
        let read = buckets.read().unwrap();
        assert_eq!(read.len(), 100);
        assert!(read.value_at_quantile(0.5).abs_diff(1000) <= 20);
        assert!(read.max().abs_diff(1_000_000) <= 20_000);
    }
}
