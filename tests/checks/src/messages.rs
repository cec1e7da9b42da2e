//! Collects what the driver logs, for tests that look at messages.
//!
//! The sink belongs to the process and tests run side by side, so ask for messages by a part that only the test's own
//! messages have, such as its scratch path.

use std::sync::{Mutex, Once, PoisonError};

use proxy_os::log::{self, Level};

static SEEN: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

/// Starts to collect messages of every level.
pub fn collect() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_level(Level::Info);
        log::set_sink(|level, text| {
            let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push((level, text.to_owned()));
        });
    });
}

/// The messages with `part` in them, so far.
pub fn with(part: &str) -> Vec<(Level, String)> {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.iter()
        .filter(|(_, text)| text.contains(part))
        .cloned()
        .collect()
}
