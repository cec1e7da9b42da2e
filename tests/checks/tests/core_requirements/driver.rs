//! Driver: full queues, yielding, errors, aborts.
//!
//! Requirements: H01, H02, H04, H05, H09.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proxy_core::driver::Next;
use proxy_core::ladder::{Budget, Ladder, Wait};
use proxy_core::{
    ContextId, Driver, EnqueueError, ExecId, Poll, PollError, Queue, Rank, RunState, Spec, Status,
    Stream, TaskKind,
};
use proxy_kit::oracle::Call;

use crate::desk::{Desk, ENDS, IDLE, MOVES, fails};

type Shared = Queue<2, 4, 4>;
type Worker = Driver<2, 4>;

fn two_streams(rank: u32) -> Spec {
    Spec {
        streams: 2,
        ..Spec::new(Rank(rank))
    }
}

#[test]
fn h01_a_full_queue_says_so_at_once_and_recovers() {
    let queue = Shared::new();
    let context = queue.register(&Spec::new(Rank(3))).unwrap();
    let other = queue.register(&Spec::new(Rank(4))).unwrap();
    let mut ends = false;
    let mut tickets = Vec::new();
    let mut desk = Desk::new(|_| IDLE);
    for exec in 0..4 {
        let appended = queue.enqueue(context, ExecId(exec), &desk).unwrap();
        tickets.push(appended.network.unwrap());
    }
    let full = EnqueueError::Full {
        rank: Rank(3),
        capacity: 4,
    };
    assert_eq!(queue.enqueue(context, ExecId(4), &desk), Err(full));
    let other = queue.enqueue(other, ExecId(9), &desk);
    assert!(other.is_ok(), "a full rank harms no other");
    let mut worker = Worker::new();
    for _ in 0..1000 {
        let tick = worker.tick(&queue, &mut desk);
        assert_ne!(tick.next, Next::Sleep, "asleep on unfinished tasks");
    }
    let mut desk = Desk::new(|call| {
        let first = matches!(call, Call::Progress(..)) && !std::mem::replace(&mut ends, true);
        if first { ENDS } else { IDLE }
    });
    let _ = worker.tick(&queue, &mut desk);
    let still_full = queue.enqueue(context, ExecId(4), &desk);
    assert_eq!(
        still_full,
        Err(full),
        "a place is free once its end was taken"
    );
    assert_eq!(queue.poll(tickets[0]), Ok(Poll::Done(Status::SUCCESS)));
    assert!(queue.enqueue(context, ExecId(4), &desk).is_ok());
}

#[test]
fn h02_no_yield_while_any_task_moves() {
    let queue = Shared::new();
    let idle = queue.register(&Spec::new(Rank(1))).unwrap();
    let busy = queue.register(&Spec::new(Rank(2))).unwrap();
    let mut calls = 0;
    let mut desk = Desk::new(|call| match call {
        Call::Progress(context, ..) if context == busy => {
            calls += 1;
            if calls == 1000 { ENDS } else { MOVES }
        }
        _ => IDLE,
    });
    for (exec, context) in [idle, busy].into_iter().enumerate() {
        let exec = ExecId(u64::try_from(exec).unwrap());
        assert!(queue.enqueue(context, exec, &desk).is_ok());
    }
    let mut worker = Worker::new();
    let mut ladder = Ladder::new(Budget {
        dedicated: false,
        pause_ticks: 0,
        spin: 0,
    });
    loop {
        let tick = worker.tick(&queue, &mut desk);
        assert_eq!(tick.next, Next::Again);
        assert_eq!(ladder.answer(tick.next, || 0), Wait::Run);
        if tick.done == 1 {
            break;
        }
    }
    assert_eq!(ladder.levels().yields, 0);
    for _ in 0..10 {
        let tick = worker.tick(&queue, &mut desk);
        assert_eq!(ladder.answer(tick.next, || 0), Wait::Yield);
    }
    assert_eq!(ladder.levels().yields, 10);
}

/// Two tasks; the library fails the first of them by `failure`. It ends with that code, stops what it started, is not
/// called again, and the other one completes.
fn one_fails(failure: impl Fn(Call, usize) -> bool, expected: &[Call]) {
    let queue = Shared::new();
    let bad = queue.register(&two_streams(1)).unwrap();
    let good = queue.register(&two_streams(1)).unwrap();
    let mut calls = 0;
    let mut desk = Desk::new(|call| match call {
        Call::Progress(of, ..) | Call::Start(of, ..) | Call::Stop(of, _) if of == bad => {
            calls += 1;
            if failure(call, calls) {
                fails(Status(7))
            } else {
                ENDS
            }
        }
        _ => ENDS,
    });
    let first = queue
        .enqueue(bad, ExecId(1), &desk)
        .unwrap()
        .network
        .unwrap();
    let second = queue
        .enqueue(good, ExecId(2), &desk)
        .unwrap()
        .network
        .unwrap();
    let mut worker = Worker::new();
    for _ in 0..100 {
        let _ = worker.tick(&queue, &mut desk);
    }
    assert_eq!(queue.poll(first), Ok(Poll::Done(Status(7))));
    assert_eq!(queue.poll(second), Ok(Poll::Done(Status::SUCCESS)));
    assert_eq!(desk.calls_of(bad), expected);
    let ends = desk.entered(RunState::Done);
    assert_eq!(
        ends.iter().filter(|exec| **exec == 1).count(),
        1,
        "one record"
    );
}

/// The calls of a task of two streams and one block in the only context that comes first in the table.
fn calls(letters: &str) -> Vec<Call> {
    let context = ContextId::from_parts(0, 1);
    let block = proxy_core::BlockIndex(0);
    let call = |word: &str| {
        let stream = Stream(word[1..].parse().unwrap());
        match &word[..1] {
            "S" => Call::Start(context, stream, block),
            "P" => Call::Progress(context, stream, block),
            _ => Call::Stop(context, stream),
        }
    };
    letters.split(' ').map(call).collect()
}

#[test]
fn h04_an_error_of_start_ends_the_task() {
    let failure = |call, _| matches!(call, Call::Start(_, Stream(1), _));
    one_fails(failure, &calls("S0 S1 X0"));
}

#[test]
fn h04_an_error_of_progress_ends_the_task() {
    let failure = |call, _| matches!(call, Call::Progress(_, Stream(0), _));
    one_fails(failure, &calls("S0 S1 P0 X0 X1"));
}

#[test]
fn h04_an_error_of_stop_ends_the_task() {
    let failure = |call, _| matches!(call, Call::Stop(_, Stream(0)));
    one_fails(failure, &calls("S0 S1 P0 P1 X0 X1"));
}

#[test]
fn h05_a_failing_progress_is_called_once() {
    let queue = Shared::new();
    let context = queue.register(&Spec::new(Rank(0))).unwrap();
    let mut desk = Desk::new(|call| match call {
        Call::Progress(..) => fails(Status::FAILURE),
        _ => IDLE,
    });
    assert!(queue.enqueue(context, ExecId(1), &desk).is_ok());
    let mut worker = Worker::new();
    for _ in 0..1000 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let progress = |call: &&Call| matches!(call, Call::Progress(..));
    assert_eq!(desk.calls.iter().filter(progress).count(), 1);
    assert_eq!(desk.entered(RunState::Done), [1]);
}

/// A task in progress, one at its gate, one that is queued, and a barrier that others wait for.
#[test]
fn h09_an_abort_ends_every_task_and_tells_library_and_peers() {
    let queue = Shared::new();
    let plain = queue.register(&Spec::new(Rank(1))).unwrap();
    let spec = Spec {
        device_wait: true,
        barrier: true,
        ..Spec::new(Rank(2))
    };
    let gated = queue.register(&spec).unwrap();
    let mut desk = Desk::new(|_| IDLE);
    let mut tickets = Vec::new();
    let mut worker = Worker::new();
    let appended = queue.enqueue(plain, ExecId(1), &desk).unwrap();
    tickets.extend(appended.network);
    let appended = queue.enqueue(gated, ExecId(2), &desk).unwrap();
    tickets.extend(appended.network.into_iter().chain(appended.barrier));
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let appended = queue.enqueue(plain, ExecId(3), &desk).unwrap();
    tickets.extend(appended.network);
    desk.calls.clear();
    assert_eq!(worker.abort_all(&queue, Status::ABORTED, &mut desk), 4);
    let expected = [
        Call::Stop(plain, Stream(0)),
        Call::Stop(gated, Stream(0)),
        Call::Cancel(gated, ExecId(2)),
    ];
    assert_eq!(desk.calls, expected, "the queued task had started nothing");
    for ticket in tickets {
        assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::ABORTED)));
    }
    assert_eq!(worker.tick(&queue, &mut desk).next, Next::Sleep);
    assert_eq!(queue.retire(gated), Ok(()), "nothing is left of it");
}

/// The library unwinds out of a start. The worker is lost, but no status is.
#[test]
fn h09_tasks_of_a_worker_that_died_inside_the_library_have_an_end() {
    let queue = Shared::new();
    let context = queue.register(&Spec::new(Rank(1))).unwrap();
    let mut desk = Desk::new(|_| std::panic::resume_unwind(Box::new("library")));
    let tickets: Vec<_> = (0..3)
        .map(|exec| queue.enqueue(context, ExecId(exec), &desk).unwrap())
        .map(|appended| appended.network.unwrap())
        .collect();
    let mut worker = Worker::new();
    let tick = catch_unwind(AssertUnwindSafe(|| worker.tick(&queue, &mut desk)));
    assert!(tick.is_err());
    let late = queue.enqueue(context, ExecId(3), &desk).unwrap();
    let calls = desk.calls.len();
    assert_eq!(worker.fail_all(&queue, Status::WORKER_DIED, &mut desk), 4);
    assert_eq!(desk.calls.len(), calls, "the library is not called again");
    for ticket in tickets.into_iter().chain(late.network) {
        assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::WORKER_DIED)));
        assert_eq!(queue.poll(ticket), Err(PollError::AlreadyConsumed));
    }
    assert_eq!(
        queue.check(context, TaskKind::Network),
        Err(PollError::Unknown)
    );
}
