//! Counts workers that were promised a core of their own, and warns once when there are more of them than CPUs.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::log;
use crate::sys::affinity;
use crate::words;

static WORKERS: AtomicUsize = AtomicUsize::new(0);
static WARNED: Once = Once::new();

/// One such worker, as long as its thread runs.
#[derive(Debug)]
pub(crate) struct Dedicated(());

impl Dedicated {
    /// Counts a worker. Logs, the first time, that the process's CPUs are not enough for all of them.
    pub(crate) fn count() -> Self {
        // Relaxed, here and below: a number that orders nothing.
        let workers = WORKERS.fetch_add(1, Ordering::Relaxed) + 1;
        // A machine that does not tell its CPUs gets no advice.
        let cpus = affinity::allowed().map_or(usize::MAX, |cpus| cpus.len());
        if workers > cpus {
            WARNED.call_once(|| {
                log::warn(format_args!(
                    "NEURON_RT_ONE_THREAD_PER_CORE: {workers} workers spin on {} and take them from each other; \
                     give the process more CPUs or set it to 0",
                    words::counted(cpus, "CPU")
                ));
            });
        }
        Self(())
    }
}

impl Drop for Dedicated {
    fn drop(&mut self) {
        // Relaxed: see `count`.
        WORKERS.fetch_sub(1, Ordering::Relaxed);
    }
}
