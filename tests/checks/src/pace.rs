//! Bounds in time that hold for a build as it is shipped: one with a sanitizer in it is several times slower, and says so.

use std::time::Duration;

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
