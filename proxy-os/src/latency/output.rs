//! The chart of network times that the histogram setting asks for, and the file it is written to.
//!
//! The reference runtime's file format is not known; this one is text, one bucket per line, made to be read by a script:
//!
//! ```text
//! # proxy network time histogram, version 1
//! # gid 0, bucket_usecs 10, num_buckets 3, per_neff_warmup 0, warmup 2, left out 2, counted 7
//! from_usecs to_usecs count
//! 0 10 4
//! 10 20 2
//! 20 30 0
//! 30 inf 1
//! ```
//!
//! The group's file is the path of the setting with `.gid<n>` appended; it replaces an older one, whole or not at all.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use proxy_core::{ContextId, Gid};

use super::HistogramConfig;
use crate::memory::{self, NoMemory};
use crate::queue::CONTEXTS;
use crate::sys::mute;

/// Network times of one group by linear buckets. The worker counts, anybody writes it out.
#[derive(Debug)]
pub(crate) struct Chart {
    config: HistogramConfig,
    buckets: Box<[AtomicU64]>,
    left_out: AtomicU64,
    /// Per context place, what has been left out of the context in it, and that context's generation.
    warmed: Box<[(AtomicU64, AtomicU64)]>,
}

impl Chart {
    pub(crate) fn new(config: HistogramConfig) -> Result<Self, NoMemory> {
        // At most 65536 by the setting's bounds.
        let buckets = usize::try_from(config.num_buckets).unwrap_or(usize::MAX);
        let all = buckets.saturating_add(1);
        Ok(Self {
            config,
            buckets: memory::side_by_side("the histogram", all, Default::default)?,
            left_out: AtomicU64::new(0),
            warmed: memory::side_by_side("the histogram's contexts", CONTEXTS, Default::default)?,
        })
    }

    /// Counts the network time of one execution. The worker only, so that no read-modify-write is needed.
    pub(super) fn count(&self, context: ContextId, nanos: u64) {
        // Evaluated both: an execution of a context's warm-up is one of the group's, too.
        let cold = self.is_context_cold(context) | self.is_group_cold();
        let width = self.config.bucket_usecs.saturating_mul(1000);
        let overflow = self.buckets.len().saturating_sub(1);
        let place = nanos
            .checked_div(width)
            .and_then(|place| usize::try_from(place).ok());
        let place = place.unwrap_or(overflow).min(overflow);
        let counter = if cold {
            Some(&self.left_out)
        } else {
            self.buckets.get(place)
        };
        counter.into_iter().for_each(increment);
    }

    fn is_context_cold(&self, context: ContextId) -> bool {
        let Some((generation, seen)) = self.warmed.get(context.index() as usize) else {
            return false;
        };
        let current = u64::from(context.generation());
        // Relaxed, all: the worker is the only reader and writer.
        if generation.load(Ordering::Relaxed) != current {
            generation.store(current, Ordering::Relaxed);
            seen.store(0, Ordering::Relaxed);
        }
        // Relaxed, as above.
        let cold = seen.load(Ordering::Relaxed) < self.config.per_neff_warmup;
        if cold {
            increment(seen);
        }
        cold
    }

    fn is_group_cold(&self) -> bool {
        // Relaxed: the worker is the only writer.
        self.left_out.load(Ordering::Relaxed) < self.config.warmup
    }

    /// Where the group's chart goes.
    fn path(&self, gid: Gid) -> PathBuf {
        let mut path = self.config.output_path.clone().into_os_string();
        path.push(format!(".gid{}", gid.0));
        path.into()
    }

    fn text(&self, gid: Gid) -> String {
        let config = &self.config;
        // Relaxed, all: counters order nothing.
        let counts: Vec<u64> = self
            .buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .collect();
        let mut text = String::from("# proxy network time histogram, version 1\n");
        let _ = writeln!(
            text,
            "# gid {}, bucket_usecs {}, num_buckets {}, per_neff_warmup {}, warmup {}, left out {}, counted {}",
            gid.0,
            config.bucket_usecs,
            config.num_buckets,
            config.per_neff_warmup,
            config.warmup,
            self.left_out.load(Ordering::Relaxed), // as above
            counts.iter().sum::<u64>(),
        );
        text.push_str("from_usecs to_usecs count\n");
        let mut from = 0_u64;
        for (place, count) in counts.iter().enumerate() {
            let to = from.saturating_add(config.bucket_usecs);
            let last = place + 1 == counts.len();
            let _ = match last {
                true => writeln!(text, "{from} inf {count}"),
                false => writeln!(text, "{from} {to} {count}"),
            };
            from = to;
        }
        text
    }

    /// Writes the chart and answers where it is. Any thread.
    ///
    /// # Errors
    /// The path, and what the system said; a chart that was there before is still there.
    pub(crate) fn write(&self, gid: Gid) -> Result<PathBuf, (PathBuf, io::Error)> {
        let path = self.path(gid);
        let mut partial: OsString = path.clone().into_os_string();
        partial.push(".partial");
        let written = mute::while_writing(|| fs::write(&partial, self.text(gid)))
            .and_then(|()| fs::rename(&partial, &path));
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                let _ = fs::remove_file(&partial);
                Err((path, error))
            }
        }
    }
}

fn increment(counter: &AtomicU64) {
    // Relaxed, both: one writer, and a counter orders nothing.
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(text: &str) -> Chart {
        Chart::new(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn times_fall_into_their_bucket_and_the_last_takes_the_rest() {
        let chart = chart("10 3 0 0 unused");
        for micros in [0, 9, 10, 19, 29, 30, 1_000_000] {
            chart.count(ContextId::from_parts(0, 1), micros * 1000 + 999);
        }
        let expected = "# proxy network time histogram, version 1\n\
             # gid 5, bucket_usecs 10, num_buckets 3, per_neff_warmup 0, warmup 0, left out 0, counted 7\n\
             from_usecs to_usecs count\n0 10 2\n10 20 2\n20 30 1\n30 inf 2\n";
        assert_eq!(chart.text(Gid(5)), expected);
    }

    #[test]
    fn both_warm_ups_are_left_out() {
        let chart = chart("10 1 2 5 unused");
        // Two contexts, four executions each: the first two of each, and then one more until five are left out.
        for _ in 0..4 {
            for index in [0, 1] {
                chart.count(ContextId::from_parts(index, 1), 1);
            }
        }
        let text = chart.text(Gid(0));
        assert!(text.contains("left out 5, counted 3\n"), "{text}");
        // A new context in the place of an old one warms up again.
        for _ in 0..3 {
            chart.count(ContextId::from_parts(1, 2), 1);
        }
        let text = chart.text(Gid(0));
        assert!(text.contains("left out 7, counted 4\n"), "{text}");
    }

    #[test]
    fn a_chart_is_written_whole_and_a_bad_path_is_an_error_that_names_it() {
        let folder = std::env::temp_dir().join(format!("proxy-chart-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let chart = chart(&format!("10 1 0 0 {}/chart", folder.display()));
        let path = chart.write(Gid(3)).unwrap();
        assert_eq!(path, folder.join("chart.gid3"));
        assert_eq!(fs::read_to_string(&path).unwrap(), chart.text(Gid(3)));
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            1,
            "nothing else is left"
        );
        fs::remove_dir_all(&folder).unwrap();
        let (path, error) = chart.write(Gid(3)).unwrap_err();
        assert_eq!(
            (path, error.kind()),
            (folder.join("chart.gid3"), io::ErrorKind::NotFound)
        );
    }
}
