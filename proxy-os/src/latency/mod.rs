//! Latency of a worker's tasks: how long they wait to start, wait for the device, run, and take in all, per kind.
//!
//! One writer, the worker, on a state change only; any number of readers at any time, without a lock, also while the worker is
//! stuck. A table has 32 buckets per power of two, so a value that is read is at most 1/64 beside the one that was written.
//!
//! ```text
//!   append ── START ──> first step ── TRIGGER ──> gate passed ── RUN ──> DONE
//!   append ───────────────────────── TOTAL ──────────────────────────> DONE
//! ```
//!
//! START and TOTAL need the time of the append, which the producer reads only when the setting
//! [`latency_from_append`](crate::Settings::latency_from_append) says so; without it both count from when the worker takes the task, by the
//! time of the pass in which it does.

mod buckets;
mod config;
mod output;
mod stopwatch;

use std::fmt;

use hdrhistogram::Histogram;
use proxy_core::TaskKind;

use buckets::Buckets;
pub(crate) use config::HISTOGRAM_GRAMMAR;
pub use config::{BadHistogramConfig, HistogramConfig};
pub(crate) use output::Chart;
pub(crate) use stopwatch::Stopwatch;

/// A stretch of a task's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Span {
    /// Append to first step.
    Start,
    /// First step to the gate, for tasks that wait for the device.
    Trigger,
    /// Gate to DONE: the network time of a network task, the barrier wait of a barrier task.
    Run,
    /// Append to DONE.
    Total,
}

impl Span {
    /// All of them, in order of a task's life.
    pub const ALL: [Self; 4] = [Self::Start, Self::Trigger, Self::Run, Self::Total];

    /// Its name in dumps and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "enqueue_to_start",
            Self::Trigger => "trigger_wait",
            Self::Run => "run",
            Self::Total => "total",
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The latencies of one kind and span so far, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latency {
    /// The kind of the tasks.
    pub kind: TaskKind,
    /// The stretch of their life.
    pub span: Span,
    /// The values; two significant digits.
    pub values: Histogram<u64>,
}

/// The tables of one worker. Tasks that ended with an error are not in them. Atomic counters only, all zero when new; in pages of their own,
/// see [`zeroed`](crate::sys::zeroed), as half of them are usually not used.
#[derive(Debug)]
pub(crate) struct Latencies {
    network: [Buckets; 4],
    barrier: [Buckets; 4],
}

impl Latencies {
    fn table(&self, kind: TaskKind, span: Span) -> &Buckets {
        let [start, trigger, run, total] = match kind {
            TaskKind::Network => &self.network,
            TaskKind::Barrier => &self.barrier,
        };
        match span {
            Span::Start => start,
            Span::Trigger => trigger,
            Span::Run => run,
            Span::Total => total,
        }
    }

    /// Counts one value in nanoseconds. The worker only.
    fn count(&self, kind: TaskKind, span: Span, nanos: u64) {
        self.table(kind, span).count(nanos);
    }

    /// What has been counted, in order of kind and span; each table is exact by itself, together they are not one instant.
    pub(crate) fn read(&self) -> Vec<Latency> {
        [TaskKind::Network, TaskKind::Barrier]
            .into_iter()
            .flat_map(|kind| Span::ALL.map(|span| (kind, span)))
            .filter_map(|(kind, span)| {
                let values = self.table(kind, span).read()?;
                Some(Latency { kind, span, values })
            })
            .collect()
    }
}
