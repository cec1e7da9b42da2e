//! Device trigger: arming, the device and the worker's gate.
//!
//! Requirements: H14, H15, H16.

use proxy_core::trigger::{CONSUMED, SENTINEL};
use proxy_core::{Arming, Driver, EnqueueError, ExecId, Queue, Rank, Spec, Status, TaskKind};
use proxy_loom::host::{Call, Host, Word};
use proxy_loom::rt::{self, Arc, AtomicU32, Ordering};

type Shared = Queue<1, 3, 1>;

fn spec(arming: Arming) -> Spec {
    Spec {
        device_wait: true,
        arming,
        ..Spec::new(Rank(0))
    }
}

/// The device writes its payload, then the word; a progress call must find the payload.
fn payload(word: &Arc<Word>) {
    let word = Arc::clone(word);
    let queue = Arc::new(Shared::new());
    let context = queue.register(&spec(Arming::OnEnqueue)).unwrap();
    let payload = Arc::new(AtomicU32::new(0));
    let appended = queue.enqueue(context, ExecId(1), &*word);
    assert!(appended.is_ok());
    let device = {
        let (word, payload) = (Arc::clone(&word), Arc::clone(&payload));
        rt::spawn(move || {
            // Relaxed: published by the word.
            payload.store(7, Ordering::Relaxed);
            word.fire(1);
        })
    };
    let worker = rt::spawn(move || {
        let library = |call: Call| {
            if call == Call::Progress {
                // Relaxed: the gate's load has acquired it.
                let found = payload.load(Ordering::Relaxed);
                assert_eq!(found, 7, "the payload stands behind the word");
            }
            Status::SUCCESS
        };
        let mut driver = Driver::<1, 3>::new();
        let mut host = Host::new(word, library);
        for _ in 0..4 {
            let _ = driver.tick(&queue, &mut host);
        }
        rt::join(device);
        for _ in 0..2 {
            let _ = driver.tick(&queue, &mut host);
        }
        assert_eq!(host.ended, [(ExecId(1), Status::SUCCESS)]);
    });
    rt::join(worker);
}

#[test]
fn h16_what_the_device_wrote_before_the_word_is_visible() {
    rt::model("trigger payload", 20, || payload(&Word::new(CONSUMED)));
}

/// One execution is armed and fired; a second is armed while the worker consumes the first. The device never fires the
/// second, so it must not start.
fn arm_against_consume() {
    let queue = Arc::new(Shared::new());
    let context = queue.register(&spec(Arming::Explicit)).unwrap();
    let word = Word::new(CONSUMED);
    queue.arm(context, TaskKind::Network, &*word).unwrap();
    for exec in 1..=2 {
        assert!(queue.enqueue(context, ExecId(exec), &*word).is_ok());
    }
    word.fire(1);
    let mut driver = Driver::<1, 3>::new();
    let mut host = Host::new(Arc::clone(&word), |_| Status::SUCCESS);
    let _ = driver.tick(&queue, &mut host);
    let armer = {
        let (queue, word) = (Arc::clone(&queue), Arc::clone(&word));
        rt::spawn(move || queue.arm(context, TaskKind::Network, &*word))
    };
    let worker = rt::spawn(move || {
        for _ in 0..2 {
            let _ = driver.tick(&queue, &mut host);
        }
        let armed = rt::join(armer);
        for _ in 0..3 {
            let _ = driver.tick(&queue, &mut host);
        }
        let first = (ExecId(1), Status::SUCCESS);
        assert_eq!(host.ended, [first], "an execution started without its fire");
        word.fire(2);
        for _ in 0..2 {
            let _ = driver.tick(&queue, &mut host);
        }
        assert_eq!(armed, Ok(()), "nothing has fired before its arm");
        assert_eq!(host.ended, [first, (ExecId(2), Status::SUCCESS)]);
    });
    rt::join(worker);
}

#[test]
fn h15_an_arm_during_a_consume_starts_nothing() {
    rt::model("trigger arm and consume", 40, arm_against_consume);
}

/// A task waits at its gate when its execution is armed, and only then started on the device.
fn arm_against_gate() {
    let queue = Arc::new(Shared::new());
    let context = queue.register(&spec(Arming::Explicit)).unwrap();
    let word = Word::new(CONSUMED);
    let fired = Arc::new(AtomicU32::new(0));
    assert!(queue.enqueue(context, ExecId(1), &*word).is_ok());
    let device = {
        let (queue, word, fired) = (Arc::clone(&queue), Arc::clone(&word), Arc::clone(&fired));
        rt::spawn(move || {
            queue.arm(context, TaskKind::Network, &*word).unwrap();
            // Relaxed: published by the word.
            fired.store(1, Ordering::Relaxed);
            word.fire(SENTINEL - 1);
        })
    };
    let worker = rt::spawn(move || {
        let library = |call: Call| {
            if call == Call::Progress {
                // Relaxed: the gate's load has acquired it.
                assert_eq!(fired.load(Ordering::Relaxed), 1, "started before the fire");
            }
            Status::SUCCESS
        };
        let mut driver = Driver::<1, 3>::new();
        let mut host = Host::new(word, library);
        for _ in 0..3 {
            let _ = driver.tick(&queue, &mut host);
        }
        rt::join(device);
        for _ in 0..2 {
            let _ = driver.tick(&queue, &mut host);
        }
        assert_eq!(host.ended, [(ExecId(1), Status::SUCCESS)]);
    });
    rt::join(worker);
}

#[test]
fn h15_a_gate_never_opens_between_count_and_word() {
    rt::model("trigger arm and gate", 50, arm_against_gate);
}

/// Two threads arm the same words; the device is started after the first of them. Neither is told that it came too late.
fn two_arms() {
    let queue = Arc::new(Shared::new());
    let context = queue.register(&spec(Arming::Explicit)).unwrap();
    let word = Word::new(CONSUMED);
    let armer = |fires: bool| {
        let (queue, word) = (Arc::clone(&queue), Arc::clone(&word));
        rt::spawn(move || {
            queue.arm(context, TaskKind::Network, &*word).unwrap();
            if fires {
                word.fire(5);
            }
        })
    };
    let armers = [armer(true), armer(false)];
    armers.into_iter().for_each(rt::join);
}

#[test]
fn h15_an_arm_beside_another_is_not_taken_for_a_late_one() {
    rt::model("trigger two arms", 300, two_arms);
}

/// The device fires 1, and 2 as soon as it can know that the host has seen 1. Consuming 1 must not erase 2.
fn late_consume() {
    let queue = Arc::new(Shared::new());
    let context = queue.register(&spec(Arming::OnEnqueue)).unwrap();
    let word = Word::new(CONSUMED);
    let seen = Arc::new(AtomicU32::new(0));
    for exec in 1..=2 {
        assert!(queue.enqueue(context, ExecId(exec), &*word).is_ok());
    }
    let device = {
        let (word, seen) = (Arc::clone(&word), Arc::clone(&seen));
        rt::spawn(move || {
            word.fire_again(1);
            // Relaxed: only the value counts.
            let second = seen.load(Ordering::Relaxed) > 0;
            if second {
                word.fire_again(2);
            }
            second
        })
    };
    let worker = rt::spawn(move || {
        let library = |call: Call| {
            if call == Call::Progress {
                // Relaxed: only the value counts.
                seen.store(1, Ordering::Relaxed);
            }
            Status::SUCCESS
        };
        let mut driver = Driver::<1, 3>::new();
        let mut host = Host::new(word, library);
        for _ in 0..4 {
            let _ = driver.tick(&queue, &mut host);
        }
        let second = rt::join(device);
        for _ in 0..3 {
            let _ = driver.tick(&queue, &mut host);
        }
        let order: Vec<ExecId> = host.ended.iter().map(|(exec, _)| *exec).collect();
        let expected: &[ExecId] = if second {
            &[ExecId(1), ExecId(2)]
        } else {
            &[ExecId(1)]
        };
        assert_eq!(
            order, expected,
            "each fire starts one execution, the oldest first"
        );
    });
    rt::join(worker);
}

#[test]
fn h14_a_late_consume_keeps_the_next_fire() {
    rt::model("trigger late consume", 50, late_consume);
}

/// Words are reset beside an enqueue: the reset says busy and changes nothing, or the execution stays armed, or is refused.
fn reset_against_enqueue() {
    let queue = Arc::new(Shared::new());
    let context = queue.register(&spec(Arming::OnEnqueue)).unwrap();
    // An execution that ended before its gate has left its word armed.
    let word = Word::new(SENTINEL);
    let producer = {
        let (queue, word) = (Arc::clone(&queue), Arc::clone(&word));
        rt::spawn(move || queue.enqueue(context, ExecId(1), &*word))
    };
    let resetter = {
        let (queue, word) = (Arc::clone(&queue), Arc::clone(&word));
        rt::spawn(move || queue.reset_words(context, &*word))
    };
    let worker = rt::spawn(move || {
        let (appended, reset) = (rt::join(producer), rt::join(resetter));
        let mut driver = Driver::<1, 3>::new();
        let mut host = Host::new(Arc::clone(&word), |_| Status::SUCCESS);
        for _ in 0..3 {
            let _ = driver.tick(&queue, &mut host);
        }
        assert!(host.ended.is_empty(), "started without its fire: {reset:?}");
        if let Err(error) = appended {
            assert_eq!(error, EnqueueError::UnknownContext);
            return;
        }
        word.fire_again(1);
        for _ in 0..3 {
            let _ = driver.tick(&queue, &mut host);
        }
        assert_eq!(host.ended, [(ExecId(1), Status::SUCCESS)], "{reset:?}");
    });
    rt::join(worker);
}

#[test]
fn h15_a_reset_beside_an_enqueue_takes_no_arm_away() {
    rt::model("trigger reset", 50, reset_against_enqueue);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::Arm, "trigger arm and gate", arm_against_gate);
    rt::must_fail("trigger payload, word read without acquire", || {
        rt::model("", 0, || payload(&Word::volatile(CONSUMED)));
    });
}
