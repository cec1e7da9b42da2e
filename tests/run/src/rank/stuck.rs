//! The reason of a hang in one look: the task's state, the device's lanes, the last state changes.

use std::fmt::Write;

use proxy_os::Context;

/// State changes that are shown.
const CHANGES: usize = 6;

/// What is unfinished, where the device stands (in its own words), and what the driver did last for this context; one line each.
pub(super) fn explain(context: &Context, device: Option<String>) -> String {
    let (queue, id) = (context.queue(), context.id());
    let mut text = String::new();
    for task in queue.unfinished().iter().filter(|task| task.context == id) {
        let _ = write!(
            text,
            "\n  driver: {} task of execution {} is {}",
            task.kind, task.exec.0, task.state
        );
    }
    if let Some(device) = device {
        let _ = write!(text, "\n  device: {device}");
    }
    let mut history = queue.history();
    history.retain(|record| record.change.context == id);
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
