//! What comes in the middle of a tick: tasks that are started in it, and orders to end them, which the next tick obeys.
//!
//! Requirements: H06, H09, H36.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proxy_core::driver::Next;
use proxy_core::{
    Cause, Driver, ExecId, Poll, PollError, Queue, Rank, RunState, Spec, Status, TaskKind, Ticket,
};
use proxy_kit::oracle::Call;

use crate::desk::{Desk, ENDS, IDLE};

type Shared = Queue<2, 4, 4>;
type Worker = Driver<2, 4>;

/// A queue with four idle tasks of one rank, and its worker.
fn four_idle() -> (Shared, Worker, Vec<Ticket>) {
    let queue = Shared::new();
    let context = queue.register(&Spec::new(Rank(3))).unwrap();
    let mut desk = Desk::new(|_| IDLE);
    let append = |exec| queue.enqueue(context, ExecId(exec), &desk).unwrap();
    let tickets = (0..4).map(|exec| append(exec).network.unwrap()).collect();
    let mut worker = Worker::new();
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    (queue, worker, tickets)
}

#[test]
fn h06_a_task_that_comes_behind_slow_ones_starts_in_the_same_tick() {
    let (queue, mut worker, _) = four_idle();
    let context = queue.register(&Spec::new(Rank(4))).unwrap();
    let mut calls = 0;
    let mut desk = Desk::new(|call| {
        if matches!(call, Call::Progress(..)) {
            calls += 1;
        }
        if calls == 1 {
            calls += 1;
            assert!(
                queue
                    .enqueue(context, ExecId(9), &Desk::new(|_| IDLE))
                    .is_ok()
            );
        }
        IDLE
    });
    let tick = worker.tick(&queue, &mut desk);
    assert_eq!((tick.drained, tick.stepped, tick.moved), (1, 5, 1));
    assert_eq!(tick.next, Next::Again);
    assert!(matches!(desk.calls_of(context)[..], [Call::Start(..)]));
    let tick = worker.tick(&queue, &mut desk);
    assert_eq!((tick.drained, tick.stepped), (0, 5));
    assert_eq!(worker.active(), 5);
}

#[test]
fn h36_an_order_that_comes_with_a_task_within_a_tick_is_obeyed_by_the_next() {
    let (queue, mut worker, tickets) = four_idle();
    let context = queue.register(&Spec::new(Rank(4))).unwrap();
    let mut came = None;
    let mut desk = Desk::new(|_| {
        if came.is_none() {
            let appended = queue.enqueue(context, ExecId(9), &Desk::new(|_| IDLE));
            let ticket = appended.unwrap().network.unwrap();
            for ticket in [ticket, tickets[1]] {
                let _ = queue.order(ticket, Cause::Aborted).unwrap();
            }
            came = Some(ticket);
        }
        IDLE
    });
    let tick = worker.tick(&queue, &mut desk);
    assert_eq!((tick.drained, tick.stepped, tick.aborted), (1, 5, 0));
    assert!(!queue.arm_bell(), "the order is not obeyed yet");
    let tick = worker.tick(&queue, &mut desk);
    assert_eq!((tick.stepped, tick.aborted, tick.next), (3, 2, Next::Again));
    assert!(matches!(
        desk.calls_of(context)[..],
        [Call::Start(..), Call::Stop(..)]
    ));
    let aborted = Ok(Poll::Done(Status::ABORTED));
    assert_eq!(queue.poll(came.unwrap()), aborted);
    assert_eq!(queue.poll(tickets[1]), aborted);
    assert_eq!(queue.poll(tickets[0]), Ok(Poll::Pending(RunState::Idle)));
}

#[test]
fn h36_a_look_up_goes_on_to_the_next_task_when_a_verdict_was_taken() {
    let (queue, mut worker, tickets) = four_idle();
    let context = queue.tasks().next().unwrap().context;
    let check = || queue.check(context, TaskKind::Network);
    let idle = Ok(Poll::Pending(RunState::Idle));
    assert_eq!(check(), idle, "the first task is remembered");
    let _ = queue.order(tickets[0], Cause::TimedOut).unwrap();
    assert_eq!(check(), idle, "an order is no verdict");
    assert!(queue.conclude(tickets[0]));
    assert_eq!(check(), Ok(Poll::Done(Status::TIMEOUT)));
    assert_eq!(check(), idle, "the second task");
    assert_eq!(queue.poll(tickets[0]), Err(PollError::AlreadyConsumed));
    let mut desk = Desk::new(|_| IDLE);
    assert_eq!(worker.tick(&queue, &mut desk).aborted, 1);
    for ticket in &tickets[1..] {
        let _ = queue.order(*ticket, Cause::Aborted).unwrap();
    }
    assert_eq!(worker.tick(&queue, &mut desk).aborted, 3);
    for _ in &tickets[1..] {
        assert_eq!(check(), Ok(Poll::Done(Status::ABORTED)));
    }
    for _ in 0..2 {
        assert_eq!(check(), Err(PollError::Unknown), "the second time by heart");
    }
}

/// The library unwinds out of a start in the middle of a tick: by then one task has ended, its slot has another rank's task in it, and
/// that task, its rank's first, was started early. Each of those that are left ends once.
#[test]
fn h09_a_tick_that_unwound_leaves_no_task_and_no_slot_behind() {
    for orderly in [true, false] {
        let (queue, mut worker, tickets) = four_idle();
        let context = queue.register(&Spec::new(Rank(4))).unwrap();
        let mut came = Vec::new();
        let library = |call| match call {
            Call::Progress(..) if came.is_empty() => {
                for exec in [8, 9] {
                    let appended = queue.enqueue(context, ExecId(exec), &Desk::new(|_| IDLE));
                    came.push(appended.unwrap().network.unwrap());
                }
                ENDS
            }
            Call::Start(of, ..) if of == context => std::panic::resume_unwind(Box::new("library")),
            _ => IDLE,
        };
        let tick = catch_unwind(AssertUnwindSafe(|| {
            worker.tick(&queue, &mut Desk::new(library))
        }));
        assert!(tick.is_err());
        assert_eq!(queue.poll(tickets[0]), Ok(Poll::Done(Status::SUCCESS)));
        let busy = queue.tasks().next().unwrap().context;
        let again = queue
            .enqueue(busy, ExecId(10), &Desk::new(|_| IDLE))
            .unwrap();
        let again = again.network.unwrap();
        assert_eq!(again.slot(), tickets[0].slot(), "the slot has another task");
        let mut desk = Desk::new(|_| IDLE);
        let died = Status::WORKER_DIED;
        let ended = match orderly {
            true => worker.abort_all(&queue, died, &mut desk),
            false => worker.fail_all(&queue, died, &mut desk),
        };
        assert_eq!(
            ended, 6,
            "three that were idle, two that came, the last one"
        );
        let stops = desk
            .calls
            .iter()
            .filter(|call| matches!(call, Call::Stop(..)));
        assert_eq!(stops.count(), if orderly { 3 } else { 0 });
        for ticket in tickets[1..].iter().chain(&came).chain([&again]) {
            assert_eq!(queue.poll(*ticket), Ok(Poll::Done(died)));
        }
        assert_eq!(queue.retire(context), Ok(()));
        assert_eq!(queue.retire(busy), Ok(()), "the accounts are clean");
        assert_eq!(worker.active(), 0);
    }
}

/// An observer unwinds when it is told of an end: the end is not lost.
#[test]
fn h09_an_end_whose_report_unwound_is_reported() {
    let (queue, mut worker, tickets) = four_idle();
    let busy = queue.tasks().next().unwrap().context;
    let mut desk = Desk::new(|_| ENDS);
    desk.unwinds_at = Some(RunState::Done);
    let tick = catch_unwind(AssertUnwindSafe(|| worker.tick(&queue, &mut desk)));
    assert!(tick.is_err());
    assert_eq!(
        worker.fail_all(&queue, Status::WORKER_DIED, &mut Desk::new(|_| IDLE)),
        4
    );
    for ticket in tickets {
        assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::WORKER_DIED)));
    }
    assert_eq!(queue.retire(busy), Ok(()), "the accounts are clean");
}
