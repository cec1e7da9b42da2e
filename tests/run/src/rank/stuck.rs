//! The reason of a hang in one look: the task's state, the device's lanes, the last state changes.

use std::fmt::Write;

use proxy_os::ProxyQueue;

/// State changes that are shown.
const CHANGES: usize = 6;

/// What is unfinished, where the device stands (in its own words), and what the driver did last; one line each.
pub(super) fn explain(queue: &ProxyQueue, device: Option<String>) -> String {
    let mut text = String::new();
    for task in queue.unfinished() {
        let _ = write!(
            text,
            "\n  driver: {} task of execution {} is {}",
            task.kind, task.exec.0, task.state
        );
    }
    if let Some(device) = device {
        let _ = write!(text, "\n  device: {device}");
    }
    let history = queue.history();
    let shown = &history[history.len().saturating_sub(CHANGES)..];
    for record in shown {
        let change = &record.change;
        let since = record
            .time
            .saturating_sub(shown.first().map_or(0, |first| first.time))
            / 1000;
        let _ = write!(
            text,
            "\n  history: +{since} us execution {} {} task {} -> {}",
            change.exec.0, change.kind, change.from, change.to
        );
    }
    text
}
