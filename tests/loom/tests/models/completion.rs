//! Completion: a worker that announces against two consumers that fall asleep, compiled from the shell's file with this engine's
//! words. Nobody sleeps for ever over a task that is done.

use std::time::Duration;

use proxy_loom::rt::{self, Arc, AtomicU32, Ordering};

use shell::Completion;

#[path = "../../../../proxy-os/src/completion.rs"]
mod shell;

/// Loom's words, and a fence that a twin can take away.
#[cfg(loom)]
mod words {
    use std::cell::Cell;
    use std::sync::atomic::Ordering;

    pub(super) use loom::sync::atomic::AtomicU32;
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};

    std::thread_local! {
        // Loom runs all threads of a model on the thread that called it.
        pub(super) static WITHOUT: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn fence(order: Ordering) {
        if !WITHOUT.get() {
            // The caller's ordering, which names its partner there.
            loom::sync::atomic::fence(order);
        }
    }
}

/// Two tasks end, each of which somebody waits for without a limit: in loom, to sleep for ever is a failure.
fn body() {
    let shared = Arc::new((
        Completion::default(),
        [AtomicU32::new(0), AtomicU32::new(0)],
    ));
    let consumers = [0, 1].map(|task| {
        let shared = Arc::clone(&shared);
        rt::spawn(move || {
            let (completion, statuses) = &*shared;
            // Acquire pairs with the worker's release.
            let look = || Some(statuses[task].load(Ordering::Acquire)).filter(|status| *status > 0);
            completion.wait(Duration::MAX, look)
        })
    });
    let worker = rt::spawn(move || {
        let (completion, statuses) = &*shared;
        for (task, status) in statuses.iter().zip(1..) {
            // Release pairs with the consumer's acquire.
            task.store(status, Ordering::Release);
            completion.announce();
        }
    });
    rt::join(worker);
    assert_eq!(consumers.map(rt::join), [Some(1), Some(2)]);
}

#[test]
fn a_consumer_that_falls_asleep_hears_of_the_end_or_has_seen_it() {
    rt::model("completion", 1000, body);
}

#[cfg(loom)]
#[test]
fn twins() {
    rt::must_fail("completion without its fences", || {
        words::WITHOUT.set(true);
        loom::model(body);
    });
    words::WITHOUT.set(false);
}
