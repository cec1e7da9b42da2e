//! Doorbell: a producer and a closer against a worker that ticks, arms and sleeps. No wake-up is lost, every accepted task is
//! drained, and a closed queue refuses.
//!
//! Requirements: H38.

use proxy_core::driver::Next;
use proxy_core::{Bell, Driver, EnqueueError, ExecId, Queue, Rank, Shut, Spec};
use proxy_loom::host::{NoWords, plain};
use proxy_loom::rt::{self, Arc, Event};

type Shared = Queue<1, 2, 1>;

/// Whether the ringing side does its duty; one that does not is the twin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ringing {
    Faithful,
    Producer,
    Closer,
}

/// The worker's loop, as an embedder writes it: tick, arm, sleep if armed, leave when shut and empty.
fn work(queue: &Shared, event: &Event) -> usize {
    let mut driver = Driver::<1, 2>::new();
    let mut host = plain();
    loop {
        if driver.tick(queue, &mut host).next != Next::Sleep {
            continue;
        }
        if queue.arm_bell() {
            event.wait();
        } else if queue.shut_by().is_some() && queue.is_inbox_empty() {
            return host.ended.len();
        }
    }
}

fn run(forgets: Ringing) {
    let queue = Arc::new(Shared::new());
    let event = Arc::new(Event::new());
    let spec = Spec {
        skip: true,
        ..Spec::new(Rank(0))
    };
    let context = queue.register(&spec).unwrap();
    let obey = {
        let event = Arc::clone(&event);
        move |bell, who| {
            if bell == Bell::Ring && forgets != who {
                event.ring();
            }
        }
    };
    let producer = {
        let (queue, obey) = (Arc::clone(&queue), obey.clone());
        rt::spawn(move || match queue.enqueue(context, ExecId(1), &NoWords) {
            Ok(appended) => {
                obey(appended.bell, Ringing::Producer);
                1
            }
            Err(EnqueueError::Closed) => 0,
            Err(error) => panic!("{error}"),
        })
    };
    let closer = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || obey(queue.shut(Shut::Closed), Ringing::Closer))
    };
    let worker = rt::spawn(move || {
        let drained = work(&queue, &event);
        let refused = queue.enqueue(context, ExecId(9), &NoWords);
        assert_eq!(refused, Err(EnqueueError::Closed));
        drained
    });
    let accepted = rt::join(producer);
    rt::join(closer);
    assert_eq!(rt::join(worker), accepted, "every accepted task is drained");
}

fn body() {
    run(Ringing::Faithful);
}

#[test]
fn h38_no_wake_up_is_lost_between_enqueue_sleep_and_stop() {
    rt::model("doorbell", 1000, body);
}

/// A bell that is not obeyed leaves a worker asleep; loom must call that a deadlock.
#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    for who in [Ringing::Producer, Ringing::Closer] {
        rt::must_fail("doorbell, bell ignored", || {
            rt::model("", 0, move || run(who))
        });
    }
    rt::must_fail_without(Edge::InboxTake, "doorbell", body);
}
