//! Completion: a worker that announces against two consumers that fall asleep, compiled from the shell's file with this engine's
//! words. Nobody sleeps for ever over a task that is done.

use std::time::Duration;

use proxy_loom::rt::{self, Arc, AtomicU32, Ordering};

use shell::{Completion, Places};

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

/// Where the two tasks are, and whether the worker tells of both at once, or all places of each.
#[derive(Clone, Copy)]
struct Case {
    places: [u32; 2],
    at_once: bool,
}

/// Two of one rank that end one after the other, and two of two ranks that end in one tick.
const ONE_RANK: Case = Case {
    places: [1, 1],
    at_once: false,
};
const TWO_RANKS: Case = Case {
    places: [0, 1],
    at_once: true,
};

/// Two tasks end, each of which somebody waits for without a limit: in loom, to sleep for ever is a failure.
fn body(case: Case) {
    let shared = Arc::new((
        Completion::<2>::default(),
        [AtomicU32::new(0), AtomicU32::new(0)],
    ));
    let consumers = [0, 1].map(|task| {
        let (shared, place) = (Arc::clone(&shared), case.places[task]);
        rt::spawn(move || {
            let (completion, statuses) = &*shared;
            // Acquire pairs with the worker's release.
            let look = || Some(statuses[task].load(Ordering::Acquire)).filter(|status| *status > 0);
            completion.wait(place, Duration::MAX, look)
        })
    });
    let worker = rt::spawn(move || {
        let (completion, statuses) = &*shared;
        let mut ended = Places::default();
        for (task, status) in (0..).zip(1..=2) {
            // Release pairs with the consumer's acquire.
            statuses[task].store(status, Ordering::Release);
            ended.add(case.places[task]);
            if !case.at_once {
                completion.announce(Places::ALL);
            }
        }
        if case.at_once {
            completion.announce(ended);
        }
    });
    rt::join(worker);
    assert_eq!(consumers.map(rt::join), [Some(1), Some(2)]);
}

#[test]
fn a_consumer_that_falls_asleep_hears_of_the_end_or_has_seen_it() {
    rt::model("completion", 1000, || body(ONE_RANK));
}

#[test]
fn an_end_wakes_the_consumer_of_its_own_rank() {
    rt::model("completion of two ranks", 1000, || body(TWO_RANKS));
}

#[cfg(loom)]
#[test]
fn twins() {
    rt::must_fail("completion without its fences", || {
        words::WITHOUT.set(true);
        loom::model(|| body(ONE_RANK));
    });
    words::WITHOUT.set(false);
}
