//! Waiting without sleeping, and bounds in time that hold for a build as it is shipped: one with a sanitizer in it is several times slower, and says so.

use std::time::{Duration, Instant};

/// By how much a build is slower than a usual one; the verbs of the sanitizers set it.
const SLOWDOWN: &str = "PROXY_SLOWDOWN";

/// How long what takes `limit` at most may take in this run.
///
/// # Panics
///
/// If the variable is set to what is no number.
#[must_use]
pub fn at_most(limit: Duration) -> Duration {
    let times = std::env::var(SLOWDOWN).map_or(1, |text| {
        text.parse()
            .unwrap_or_else(|error| panic!("{SLOWDOWN}={text}: {error}"))
    });
    limit * times
}

/// Whether this run says that there is a sanitizer in it. One has taken most of the address space, and its allocator keeps what is freed.
#[must_use]
pub fn has_sanitizer() -> bool {
    std::env::var_os(SLOWDOWN).is_some()
}

/// How long [`until`] looks.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns when `met`; looks again and again, as what is waited for happens on another thread.
///
/// # Panics
///
/// If that takes longer than a minute; `what` says what did not happen.
pub fn until(what: &str, mut met: impl FnMut() -> bool) {
    let (since, patience) = (Instant::now(), at_most(PATIENCE));
    while !met() {
        assert!(
            since.elapsed() < patience,
            "not within {patience:?}: {what}"
        );
        std::thread::yield_now();
    }
}
