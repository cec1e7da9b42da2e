//! The network machine: starts, blocks, stops, errors, abort.

use proxy_core::{
    ContextError, ContextId, ExecId, Poll, PollError, Rank, RunState, Spec, Status, StopAt,
    TaskKind, Ticket,
};

use crate::desk::{Answer, Call, Desk, ENDS, IDLE, Small, Worker, fails};
use crate::{Failure, Outcome, cases, ensure, take};

cases![
    every_block_is_started_and_drained_in_order,
    a_stream_that_drained_a_block_is_left_alone,
    the_specifications_letter_stops_at_each_switch,
    nothing_that_moves_is_idle_and_idle_is_no_end,
    a_failed_start_ends_the_task_with_its_code,
    a_failed_progress_stops_what_was_started,
    a_skipped_stage_calls_nobody,
    an_abort_ends_what_runs_and_what_waits,
    a_dead_workers_tasks_end_without_a_call,
    ranks_are_stepped_in_order_whoever_came_first,
    a_context_is_busy_until_its_last_change,
];

/// A queue with one context and one execution of it.
fn one(spec: &Spec) -> Result<(Small, ContextId, Ticket), Failure> {
    let (queue, desk) = (Small::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(spec), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let ticket = take!(appended.network, "a network task");
    Ok((queue, context, ticket))
}

/// Ticks until nothing is active, at most 32 times; returns how the task ended.
fn run<F: FnMut(Call) -> Answer>(
    queue: &Small,
    ticket: Ticket,
    desk: &mut Desk<F>,
) -> Result<Poll, PollError> {
    let mut worker = Worker::new();
    for _ in 0..32 {
        let _ = worker.tick(queue, desk);
        if worker.active() == 0 {
            break;
        }
    }
    queue.poll(ticket)
}

const fn two_by_two() -> Spec {
    Spec {
        streams: 2,
        blocks: 2,
        ..Spec::new(Rank(0))
    }
}

const STARTS: [Call; 4] = [
    Call::Start(0, 0),
    Call::Start(0, 1),
    Call::Start(1, 0),
    Call::Start(1, 1),
];

fn every_block_is_started_and_drained_in_order() -> Outcome {
    let (queue, _, ticket) = one(&two_by_two())?;
    let mut desk = Desk::new(|_| ENDS);
    let end = run(&queue, ticket, &mut desk);
    ensure!(end == Ok(Poll::Done(Status::SUCCESS)), "it ends");
    let [a, b, c, d] = STARTS;
    let expected = [
        a,
        b,
        c,
        d,
        Call::Progress(0, 0),
        Call::Progress(1, 0),
        Call::Progress(0, 1),
        Call::Progress(1, 1),
        Call::Stop(0),
        Call::Stop(1),
    ];
    ensure!(
        desk.called(&expected),
        "start all, block by block, stop once"
    );
    Ok(())
}

fn a_stream_that_drained_a_block_is_left_alone() -> Outcome {
    let spec = Spec {
        blocks: 1,
        ..two_by_two()
    };
    let (queue, _, ticket) = one(&spec)?;
    let mut late = 0;
    let mut desk = Desk::new(|call| match call {
        Call::Progress(1, _) => {
            late += 1;
            if late == 3 { ENDS } else { IDLE }
        }
        _ => ENDS,
    });
    let end = run(&queue, ticket, &mut desk);
    ensure!(end == Ok(Poll::Done(Status::SUCCESS)), "it ends");
    let of = |stream| {
        let asked = |call: &&Call| matches!(call, Call::Progress(of, _) if *of == stream);
        desk.calls.iter().filter(asked).count()
    };
    ensure!(
        (of(0), of(1)) == (1, 3),
        "once what drained, thrice the other"
    );
    Ok(())
}

fn the_specifications_letter_stops_at_each_switch() -> Outcome {
    let spec = Spec {
        stop_at: StopAt::Switch,
        ..two_by_two()
    };
    let (queue, _, ticket) = one(&spec)?;
    let mut desk = Desk::new(|_| ENDS);
    let end = run(&queue, ticket, &mut desk);
    ensure!(end == Ok(Poll::Done(Status::SUCCESS)), "it ends");
    let stops = |call: &&Call| matches!(call, Call::Stop(_));
    ensure!(
        desk.calls.iter().filter(stops).count() == 2,
        "at the switch"
    );
    let last = [Call::Progress(1, 1), Call::Stop(0), Call::Stop(1)];
    ensure!(
        desk.calls.ends_with(&last),
        "after the switched block's calls"
    );
    Ok(())
}

fn nothing_that_moves_is_idle_and_idle_is_no_end() -> Outcome {
    let (queue, _, ticket) = one(&Spec::new(Rank(0)))?;
    let mut asked = 0;
    let mut desk = Desk::new(|call| {
        asked += u32::from(matches!(call, Call::Progress(..)));
        match asked {
            1 | 2 => IDLE,
            3 => Answer {
                idle: false,
                ..IDLE
            },
            _ => ENDS,
        }
    });
    let end = run(&queue, ticket, &mut desk);
    ensure!(end == Ok(Poll::Done(Status::SUCCESS)), "it ends");
    let states = [
        RunState::Progressing,
        RunState::Idle,
        RunState::Progressing,
        RunState::Done,
    ];
    ensure!(desk.went(&states), "idle, then moving again, then done");
    Ok(())
}

fn a_failed_start_ends_the_task_with_its_code() -> Outcome {
    let (queue, _, ticket) = one(&two_by_two())?;
    let mut desk = Desk::new(|call| match call {
        Call::Start(1, 0) => fails(Status(7)),
        _ => ENDS,
    });
    let end = run(&queue, ticket, &mut desk);
    ensure!(
        end == Ok(Poll::Done(Status(7))),
        "with the code of the start"
    );
    let [a, b, c, _] = STARTS;
    ensure!(
        desk.called(&[a, b, c, Call::Stop(0)]),
        "what began is stopped"
    );
    Ok(())
}

fn a_failed_progress_stops_what_was_started() -> Outcome {
    let spec = Spec {
        blocks: 1,
        ..two_by_two()
    };
    let (queue, _, ticket) = one(&spec)?;
    let mut desk = Desk::new(|call| match call {
        Call::Progress(..) => fails(Status(9)),
        Call::Stop(_) => fails(Status(5)),
        Call::Start(..) => ENDS,
        _ => IDLE,
    });
    let end = run(&queue, ticket, &mut desk);
    ensure!(end == Ok(Poll::Done(Status(9))), "the first error counts");
    let tail = [Call::Progress(0, 0), Call::Stop(0), Call::Stop(1)];
    ensure!(
        desk.calls.ends_with(&tail),
        "not called again, stopped once"
    );
    Ok(())
}

fn a_skipped_stage_calls_nobody() -> Outcome {
    let spec = Spec {
        skip: true,
        device_wait: true,
        ..two_by_two()
    };
    let (queue, _, ticket) = one(&spec)?;
    let mut desk = Desk::new(|_| fails(Status(1)));
    let end = run(&queue, ticket, &mut desk);
    ensure!(end == Ok(Poll::Done(Status::SUCCESS)), "it ends");
    ensure!(desk.called(&[]) && desk.went(&[RunState::Done]), "at once");
    Ok(())
}

fn an_abort_ends_what_runs_and_what_waits() -> Outcome {
    let (queue, context, running) = one(&Spec::new(Rank(0)))?;
    let (mut worker, mut desk) = (Worker::new(), Desk::new(|_| IDLE));
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let appended = take!(queue.enqueue(context, ExecId(2), &desk), "appended");
    let waiting = take!(appended.network, "ticket");
    let ended = worker.abort_all(&queue, Status::ABORTED, &mut desk);
    ensure!(ended == 2 && worker.active() == 0, "both");
    for ticket in [running, waiting] {
        let end = queue.poll(ticket);
        ensure!(end == Ok(Poll::Done(Status::ABORTED)), "with the code");
    }
    let calls = [Call::Start(0, 0), Call::Progress(0, 0), Call::Stop(0)];
    ensure!(desk.called(&calls), "what had begun is stopped");
    ensure!(queue.retire(context) == Ok(()), "nothing is left");
    Ok(())
}

fn a_dead_workers_tasks_end_without_a_call() -> Outcome {
    let (queue, context, ticket) = one(&Spec::new(Rank(0)))?;
    let (mut worker, mut desk) = (Worker::new(), Desk::new(|_| IDLE));
    let _ = worker.tick(&queue, &mut desk);
    let before = desk.calls.len();
    let ended = worker.fail_all(&queue, Status::WORKER_DIED, &mut desk);
    ensure!(ended == 1 && desk.calls.len() == before, "no call");
    let end = queue.poll(ticket);
    ensure!(end == Ok(Poll::Done(Status::WORKER_DIED)), "with the code");
    let none = queue.check(context, TaskKind::Network);
    ensure!(none == Err(PollError::Unknown), "consumed");
    Ok(())
}

fn ranks_are_stepped_in_order_whoever_came_first() -> Outcome {
    for first in [2, 9] {
        let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
        for rank in [first, 11 - first] {
            let context = take!(queue.register(&Spec::new(Rank(rank))), "registered");
            let _ = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
        }
        let _ = worker.tick(&queue, &mut desk);
        let ranks = desk.changes.iter().map(|change| change.rank.0);
        ensure!(ranks.eq([2, 9]), "in order of rank");
    }
    Ok(())
}

fn a_context_is_busy_until_its_last_change() -> Outcome {
    let (queue, context, _) = one(&Spec::new(Rank(0)))?;
    let (mut worker, mut desk) = (Worker::new(), Desk::new(|_| IDLE));
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
        let busy = Err(ContextError::Busy { unfinished: 1 });
        ensure!(queue.retire(context) == busy, "one task is unfinished");
    }
    let _ = worker.abort_all(&queue, Status::ABORTED, &mut desk);
    ensure!(queue.retire(context) == Ok(()), "now none is");
    Ok(())
}
