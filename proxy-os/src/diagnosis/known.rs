//! The queues of this process, so that a report shows all of them and not the last one made.
//!
//! Only weak references: a report never keeps a queue alive, and never ends one by dropping the last reference to it.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use crate::config::{Effective, Settings};
use crate::queue::Shared;

/// How long a report waits for one lock before it goes on without.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long it waits for all of them together: with many groups whose locks are held it would be late otherwise.
const BUDGET: Duration = Duration::from_millis(80);

thread_local! {
    /// When the waits of the report that this thread makes have to end.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes a report, all of whose waits together are bounded.
pub(super) fn bounded<T>(make: impl FnOnce() -> T) -> T {
    let outer = UNTIL.replace(Instant::now().checked_add(BUDGET));
    let made = make();
    UNTIL.set(outer);
    made
}

/// How long the calling thread may still wait, `most` at most.
pub(super) fn patience(most: Duration) -> Duration {
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    UNTIL.get().map_or(most, |until| left(until).min(most))
}

/// One queue.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) shared: Weak<Shared>,
    pub(crate) tid: u32,
    /// CPUs that were asked for.
    pub(crate) cpus_wanted: String,
    pub(crate) settings: Arc<[Effective]>,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// Makes a queue known.
pub(crate) fn remember(shared: &Arc<Shared>, tid: u32, settings: &Settings) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|known| known.shared.strong_count() > 0);
    known.push(Known {
        shared: Arc::downgrade(shared),
        tid,
        cpus_wanted: settings.placement().to_string(),
        settings: settings.effective().into(),
    });
}

/// All queues; `None` if the list is locked for longer than a report waits.
pub(super) fn all() -> Option<Vec<Known>> {
    lock(&KNOWN).map(|known| known.clone())
}

/// A lock for the length of a report's patience. Nobody holds one for long, unless it is stuck, which is what a report is about.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    let (since, patience) = (Instant::now(), patience(PATIENCE));
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) if since.elapsed() >= patience => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proxy_core::Gid;

    use super::super::Report;
    use super::*;
    use crate::ProxyQueue;

    /// A report may take so long, whatever is locked.
    const PROMPT: Duration = Duration::from_millis(200);
    /// Each of whose locks alone may be waited for; together they may not.
    const QUEUES: u32 = 20;

    /// A report and how long it took.
    fn timed() -> (Report, Duration) {
        let since = Instant::now();
        let report = Report::collect("a test");
        (report, since.elapsed())
    }

    /// The verdict on a group does not say that nothing is stuck, as something was not seen.
    fn assert_unseen(report: &Report, gid: u32, what: &str) {
        let mut report = report.clone();
        // Other tests of this program have buses.
        report.buses.clear();
        let report = report.only(gid);
        assert_eq!(report.stall, None, "{report}");
        let (seen, unseen) = report
            .verdict
            .split_once("; could not be read, as locked: ")
            .expect("what could not be seen");
        assert!(seen.starts_with("nothing seen is stuck: "), "{seen}");
        assert!(unseen.contains(what), "{unseen}");
    }

    #[test]
    fn h48_locks_that_are_held_make_a_report_partial_and_not_late() {
        let gids = 4800..4800 + QUEUES;
        let start = |gid| ProxyQueue::start(Gid(gid), &Settings::default()).unwrap();
        let queues: Vec<_> = gids.clone().map(start).collect();
        let held: Vec<_> = (queues.iter())
            .map(|queue| queue.shared().contexts.lock())
            .collect();
        let (report, took) = timed();
        drop(held);
        assert!(took < PROMPT, "{took:?}");
        for gid in gids.clone() {
            let lock = format!("the contexts of {}", Gid(gid));
            assert!(report.partial.contains(&lock), "{:?}", report.partial);
            assert!(report.groups.iter().any(|group| group.gid == gid), "{gid}");
        }
        let text = report.to_string();
        assert!(text.contains("PARTIAL: could not read "), "{text}");
        for gid in gids.clone() {
            let lock = format!("the contexts of {}", Gid(gid));
            assert_unseen(&report, gid, &lock);
        }

        let held = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let (report, took) = timed();
        drop(held);
        assert!(took < PROMPT, "{took:?}");
        assert!(report.partial.contains(&"the list of queues".to_owned()));
        assert_unseen(&report, 0, "the list of queues");

        let (report, _) = timed();
        let ours = |text: &&String| {
            gids.clone()
                .any(|gid| text.ends_with(&Gid(gid).to_string()))
        };
        assert_eq!(
            report.partial.iter().find(ours),
            None,
            "nothing is held any more"
        );
    }
}
