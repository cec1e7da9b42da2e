//! The barrier machine over its port: phases that never wait, failure, abort, its own gate.

use proxy_core::port::BarrierPoll;
use proxy_core::{ContextId, ExecId, Next, Poll, Rank, RunState, Spec, Status, TaskKind, Ticket};

use crate::desk::{Answer, Call, Desk, ENDS, IDLE, Small, Worker, fails};
use crate::{Failure, Outcome, cases, ensure, take};

cases![
    all_phases_that_are_ready_pass_in_one_step,
    a_phase_that_is_not_ready_holds_up_nobody,
    a_failed_phase_cancels_and_ends_with_its_code,
    an_abort_tells_the_peers,
    the_barriers_own_words_hold_it,
];

/// A queue with one execution's barrier task alone.
fn one(spec: &Spec) -> Result<(Small, ContextId, Ticket), Failure> {
    let (queue, desk) = (Small::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(spec), "registered");
    let appended = queue.append(context, TaskKind::Barrier, ExecId(6), &desk);
    let ticket = take!(take!(appended, "appended").barrier, "a barrier task");
    Ok((queue, context, ticket))
}

const fn plain() -> Spec {
    Spec {
        barrier: true,
        ..Spec::new(Rank(0))
    }
}

const PHASES: [Call; 3] = [Call::Arrive(6), Call::Signal(6), Call::Release(6)];

fn all_phases_that_are_ready_pass_in_one_step() -> Outcome {
    let (queue, _, ticket) = one(&plain())?;
    let (mut worker, mut desk) = (Worker::new(), Desk::new(|_| ENDS));
    ensure!(worker.tick(&queue, &mut desk).done == 1, "one tick");
    ensure!(desk.called(&PHASES), "arrive, signal, release");
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "done"
    );
    Ok(())
}

fn a_phase_that_is_not_ready_holds_up_nobody() -> Outcome {
    let (queue, context, ticket) = one(&plain())?;
    let mut worker = Worker::new();
    let mut desk = Desk::new(|call| match call {
        Call::Release(6) => IDLE,
        _ => ENDS,
    });
    let other = queue.append(context, TaskKind::Barrier, ExecId(7), &desk);
    let other = take!(take!(other, "appended").barrier, "a barrier task");
    for _ in 0..4 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let idle = Ok(Poll::Pending(RunState::Idle));
    ensure!(queue.poll(ticket) == idle, "the first is not released");
    ensure!(
        queue.poll(other) == Ok(Poll::Done(Status::SUCCESS)),
        "the other"
    );
    let arrivals = |call: &&Call| matches!(call, Call::Arrive(6) | Call::Signal(6));
    ensure!(desk.calls.iter().filter(arrivals).count() == 2, "each once");
    Ok(())
}

fn a_failed_phase_cancels_and_ends_with_its_code() -> Outcome {
    for (failing, calls) in [(0, 1), (1, 2), (2, 3)] {
        let (queue, _, ticket) = one(&plain())?;
        let mut worker = Worker::new();
        let wrong = PHASES.get(failing).copied();
        let mut desk = Desk::new(|call| match Some(call) == wrong {
            true => fails(Status(11)),
            false => ENDS,
        });
        let _ = worker.tick(&queue, &mut desk);
        ensure!(queue.poll(ticket) == Ok(Poll::Done(Status(11))), "the code");
        ensure!(desk.calls.len() == calls + 1, "nothing after it");
        ensure!(
            desk.calls.last() == Some(&Call::Cancel(6)),
            "but the cancel"
        );
    }
    Ok(())
}

fn an_abort_tells_the_peers() -> Outcome {
    let (queue, _, ticket) = one(&plain())?;
    let pending = Answer {
        poll: BarrierPoll::Pending,
        ..ENDS
    };
    let (mut worker, mut desk) = (Worker::new(), Desk::new(move |_| pending));
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(
        worker.abort_all(&queue, Status::ABORTED, &mut desk) == 1,
        "one"
    );
    ensure!(desk.calls.last() == Some(&Call::Cancel(6)), "cancelled");
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::ABORTED)),
        "done"
    );
    Ok(())
}

fn the_barriers_own_words_hold_it() -> Outcome {
    let spec = Spec {
        barrier_triggers: 2,
        ..plain()
    };
    let (mut worker, mut desk) = (Worker::new(), Desk::new(|_| ENDS));
    let queue = Small::new();
    let context = take!(queue.register(&spec), "registered");
    let kind = TaskKind::Barrier;
    let appended = queue.append(context, kind, ExecId(6), &desk);
    let ticket = take!(take!(appended, "appended").barrier, "a barrier task");
    desk.fire(context, TaskKind::Network, 0, 5);
    desk.fire(context, kind, 0, 5);
    let drained = worker.tick(&queue, &mut desk).next;
    ensure!(drained == Next::Again, "a tick that drained is no rest");
    for _ in 0..2 {
        let next = worker.tick(&queue, &mut desk).next;
        ensure!(next == Next::Relax, "one that only waited is");
    }
    ensure!(desk.called(&[]), "one word of two opens nothing");
    desk.fire(context, kind, 1, 5);
    let _ = worker.tick(&queue, &mut desk);
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "through"
    );
    Ok(())
}
