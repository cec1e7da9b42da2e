//! Early ends: an order against append, sleep and the task's own end. No order is lost, every accepted task ends once, and a
//! verdict and the worker's own end are told to exactly one consumer.
//!
//! Requirements: H38.

use proxy_core::driver::Next;
use proxy_core::{
    Bell, Cause, Driver, EnqueueError, ExecId, OrderError, Poll, PollError, Queue, Rank, Spec,
    Status, TaskView,
};
use proxy_loom::host::{Host, NoWords, Word};
use proxy_loom::rt::{self, Arc, Event};

type Shared = Queue<1, 2, 1>;

/// A task that waits for a device that never comes: only an order ends it.
const WAITING: Spec = Spec {
    streams: 1,
    device_wait: true,
    ..Spec::new(Rank(0))
};

/// The worker's loop until a task has ended. It sleeps between two ticks that move nothing, as one that polled would see every
/// order sooner or later. Returns the code of the task.
fn work(queue: &Shared, event: &Event) -> Status {
    let mut driver = Driver::<1, 2>::new();
    let mut host = Host::new(Word::new(u32::MAX), |_| Status::SUCCESS);
    loop {
        let next = driver.tick(queue, &mut host).next;
        if let Some((_, code)) = host.ended.first() {
            return *code;
        }
        // A bell that cannot be armed means that there is something to see.
        if next != Next::Again && queue.arm_bell() {
            event.wait();
        }
    }
}

/// An order meets the worker at every point of its way to sleep.
fn order_and_sleep(obedient: bool) {
    let queue = Arc::new(Shared::new());
    let event = Arc::new(Event::new());
    let context = queue.register(&WAITING).unwrap();
    let appended = queue.enqueue(context, ExecId(1), &NoWords).unwrap();
    let ticket = appended.network.unwrap();
    let worker = {
        let (queue, event) = (Arc::clone(&queue), Arc::clone(&event));
        rt::spawn(move || work(&queue, &event))
    };
    let bell = queue.order(ticket, Cause::Aborted).unwrap();
    if bell == Bell::Ring && obedient {
        event.ring();
    }
    assert_eq!(rt::join(worker), Status::ABORTED);
    assert_eq!(queue.order(ticket, Cause::Aborted), Err(OrderError::Done));
    assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::ABORTED)));
    let again = queue.order(ticket, Cause::Aborted);
    assert_eq!(again, Err(OrderError::AlreadyConsumed));
}

fn asleep() {
    order_and_sleep(true);
}

#[test]
fn h38_no_order_is_lost_between_a_look_and_a_sleep() {
    rt::model("abort asleep", 20, asleep);
}

/// An order of everything beside an append: the task is not found, or it is found and ends by the worker's very next tick.
fn beside_append() {
    let queue = Arc::new(Shared::new());
    let context = queue.register(&WAITING).unwrap();
    let producer = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || queue.enqueue(context, ExecId(1), &NoWords).unwrap().network)
    };
    let owner = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let order = |task: TaskView| queue.order(task.ticket, Cause::Aborted).is_ok();
            queue.tasks().filter(|task| order(*task)).count()
        })
    };
    let worker = rt::spawn(move || {
        let mut driver = Driver::<1, 2>::new();
        let mut host = Host::new(Word::new(u32::MAX), |_| Status::SUCCESS);
        let _ = driver.tick(&queue, &mut host);
        let (ticket, found) = (rt::join(producer).unwrap(), rt::join(owner));
        let _ = driver.tick(&queue, &mut host);
        let poll = queue.poll(ticket);
        match found {
            0 => assert!(matches!(poll, Ok(Poll::Pending(_))), "{poll:?}"),
            _ => assert_eq!(poll, Ok(Poll::Done(Status::ABORTED)), "the order was lost"),
        }
    });
    rt::join(worker);
}

#[test]
fn an_order_beside_an_append_finds_the_task_or_not_but_is_not_lost() {
    rt::model("abort", 100, beside_append);
}

/// A verdict, the worker's own end and two consumers: one of them gets a code, and the slot can be used again.
fn verdict_beside_the_end() {
    let queue = Arc::new(Shared::new());
    let spec = Spec {
        skip: true,
        ..Spec::new(Rank(0))
    };
    let context = queue.register(&spec).unwrap();
    let appended = queue.enqueue(context, ExecId(1), &NoWords).unwrap();
    let ticket = appended.network.unwrap();
    let watchdog = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let ordered = queue.order(ticket, Cause::TimedOut).is_ok();
            let concluded = queue.conclude(ticket);
            (ordered, concluded, queue.poll(ticket))
        })
    };
    let worker = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let mut host = Host::new(Word::new(0), |_| Status::SUCCESS);
            let tick = Driver::<1, 2>::new().tick(&queue, &mut host);
            assert_eq!(tick.done + tick.aborted, 1);
        })
    };
    let (ordered, concluded, told) = rt::join(watchdog);
    rt::join(worker);
    let last = queue.poll(ticket);
    match told {
        Ok(Poll::Done(code)) => {
            assert_eq!(last, Err(PollError::AlreadyConsumed), "told twice");
            assert!(!concluded || code == Status::TIMEOUT, "a verdict stands");
        }
        Ok(Poll::Pending(_)) => assert!(!concluded && matches!(last, Ok(Poll::Done(_)))),
        Err(error) => panic!("{error}"),
    }
    assert!(ordered || !concluded);
    let again = queue.enqueue(context, ExecId(2), &NoWords);
    assert!(!matches!(again, Err(EnqueueError::Full { .. })));
    assert_eq!(queue.tasks().count(), 1, "the first slot is free");
}

#[test]
fn a_verdict_and_the_end_of_a_task_are_told_once() {
    rt::model("abort verdict", 10, verdict_beside_the_end);
}

/// A verdict of a task that the worker moves once more before it leaves the slot to the consumer: who frees it does so last.
fn verdict_beside_a_state() {
    let queue = Arc::new(Shared::new());
    let context = queue.register(&WAITING).unwrap();
    let appended = queue.enqueue(context, ExecId(1), &NoWords).unwrap();
    let ticket = appended.network.unwrap();
    let watchdog = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let _ = queue.order(ticket, Cause::TimedOut).unwrap();
            // The worker may have obeyed already.
            let concluded = queue.conclude(ticket);
            let told = queue.poll(ticket);
            assert!(!concluded || matches!(told, Ok(Poll::Done(_))), "{told:?}");
            told
        })
    };
    let worker = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let mut driver = Driver::<1, 2>::new();
            let mut host = Host::new(Word::new(u32::MAX), |_| Status::SUCCESS);
            for _ in 0..2 {
                let _ = driver.tick(&queue, &mut host);
            }
            (driver, host)
        })
    };
    let last = rt::spawn(move || {
        let told = rt::join(watchdog);
        let (mut driver, mut host) = rt::join(worker);
        let _ = driver.tick(&queue, &mut host);
        let told = match told {
            Ok(Poll::Pending(_)) => queue.poll(ticket),
            told => told,
        };
        assert_eq!(told, Ok(Poll::Done(Status::TIMEOUT)));
        assert_eq!(queue.poll(ticket), Err(PollError::AlreadyConsumed));
        assert_eq!(queue.tasks().count(), 0, "the slot is free");
    });
    rt::join(last);
}

#[test]
fn a_slot_that_is_left_to_a_consumer_is_freed_last() {
    rt::model("abort left", 20, verdict_beside_a_state);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail("abort asleep, bell ignored", || {
        rt::model("", 0, || order_and_sleep(false))
    });
    rt::must_fail_without(Edge::AbortOrder, "abort", beside_append);
    rt::must_fail_without(Edge::Mark, "abort left", verdict_beside_a_state);
}
