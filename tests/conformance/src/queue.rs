//! The shared side: append, poll, check, full, closed, contexts.

use proxy_core::{
    Bell, Cause, ContextError, ContextId, EnqueueError, ExecId, Next, OrderError, Poll, PollError,
    Rank, RunState, Shut, Spec, Status, TaskKind, Ticket,
};

use crate::desk::{Desk, ENDS, IDLE, Small, Worker};
use crate::{Outcome, cases, ensure, take};

cases![
    an_execution_is_appended_run_and_consumed_once,
    a_full_rank_says_so_and_harms_no_other,
    the_oldest_execution_of_a_context_is_checked_first,
    a_closed_queue_refuses_and_keeps_what_it_has,
    a_context_is_retired_when_nothing_of_it_is_unfinished,
    tables_that_are_full_say_their_capacity,
    the_bell_rings_for_a_worker_that_sleeps,
    an_ordered_task_has_its_verdict_before_the_worker_comes,
    a_verdict_that_nobody_took_outlives_its_task,
    a_rank_without_contexts_gives_its_place_up,
    every_unconsumed_task_is_listed,
    the_last_value_of_a_range_is_in_it,
    a_worker_that_wakes_by_itself_is_not_rung,
    ids_come_back_from_their_parts,
];

fn an_execution_is_appended_run_and_consumed_once() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&Spec::new(Rank(7))), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let ticket = take!(appended.network, "a network task");
    ensure!(appended.barrier.is_none(), "no barrier was asked for");
    ensure!(queue.rank_of(ticket) == Some(Rank(7)), "rank of the ticket");
    let pending = Ok(Poll::Pending(RunState::Init));
    ensure!(queue.poll(ticket) == pending, "visible before it runs");
    let first = worker.tick(&queue, &mut desk);
    ensure!((first.drained, first.stepped) == (1, 1), "drained, stepped");
    let second = worker.tick(&queue, &mut desk);
    ensure!(second.done == 1, "done in the second tick");
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "done"
    );
    let again = queue.poll(ticket);
    ensure!(again == Err(PollError::AlreadyConsumed), "consumed once");
    let never = queue.poll(Ticket::from_parts(ticket.slot(), 1 << 20));
    ensure!(never == Err(PollError::Unknown), "a ticket nobody got");
    ensure!(worker.tick(&queue, &mut desk).next == Next::Sleep, "rest");
    Ok(())
}

fn a_full_rank_says_so_and_harms_no_other() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&Spec::new(Rank(3))), "registered");
    let other = take!(queue.register(&Spec::new(Rank(4))), "another rank");
    let first = take!(queue.enqueue(context, ExecId(0), &desk), "appended");
    for exec in 1..4 {
        let _ = take!(queue.enqueue(context, ExecId(exec), &desk), "places");
    }
    let full = Err(EnqueueError::Full {
        rank: Rank(3),
        capacity: 4,
    });
    ensure!(queue.enqueue(context, ExecId(4), &desk) == full, "full");
    let harmed = queue.enqueue(other, ExecId(9), &desk).is_err();
    ensure!(!harmed, "the other rank has places");
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let kept = queue.enqueue(context, ExecId(4), &desk);
    ensure!(kept == full, "done but unconsumed tasks keep their places");
    let ticket = take!(first.network, "a network task");
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "done"
    );
    let freed = queue.enqueue(context, ExecId(4), &desk).is_ok();
    ensure!(freed, "a consumed task gives its place back");
    Ok(())
}

fn the_oldest_execution_of_a_context_is_checked_first() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&Spec::new(Rank(0))), "registered");
    let kind = TaskKind::Network;
    ensure!(
        queue.check(context, kind) == Err(PollError::Unknown),
        "none"
    );
    let first = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let second = take!(queue.enqueue(context, ExecId(2), &desk), "appended");
    ensure!(first.sequence < second.sequence, "sequence grows");
    let pending = Ok(Poll::Pending(RunState::Init));
    ensure!(
        queue.check(context, kind) == pending,
        "the first is pending"
    );
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(queue.check(context, kind).is_ok(), "the first is done");
    let spent = queue.poll(take!(first.network, "ticket"));
    ensure!(
        spent == Err(PollError::AlreadyConsumed),
        "the first was taken"
    );
    let left = queue.poll(take!(second.network, "ticket"));
    ensure!(
        left == Ok(Poll::Done(Status::SUCCESS)),
        "the second was not"
    );
    Ok(())
}

fn a_closed_queue_refuses_and_keeps_what_it_has() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&Spec::new(Rank(0))), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let _ = queue.shut(Shut::Closed);
    ensure!(queue.shut_by() == Some(Shut::Closed), "closed");
    let refused = queue.enqueue(context, ExecId(2), &desk);
    ensure!(refused == Err(EnqueueError::Closed), "refused");
    ensure!(!queue.arm_bell(), "nobody sleeps on a closed queue");
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let ticket = take!(appended.network, "ticket");
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "kept"
    );
    let _ = queue.shut(Shut::Dead);
    let refused = queue.enqueue(context, ExecId(3), &desk);
    ensure!(refused.is_err(), "a dead worker's queue refuses too");
    Ok(())
}

fn a_context_is_retired_when_nothing_of_it_is_unfinished() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&Spec::new(Rank(0))), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let busy = Err(ContextError::Busy { unfinished: 1 });
    ensure!(queue.retire(context) == busy, "busy");
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(queue.retire(context) == Ok(()), "retired");
    ensure!(queue.retire(context) == Err(ContextError::Unknown), "once");
    let late = queue.enqueue(context, ExecId(2), &desk);
    ensure!(late == Err(EnqueueError::UnknownContext), "a stale id");
    let ticket = take!(appended.network, "ticket");
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "status"
    );
    let next = take!(queue.register(&Spec::new(Rank(0))), "the place again");
    ensure!(next != context, "another generation");
    Ok(())
}

fn tables_that_are_full_say_their_capacity() -> Outcome {
    let queue = Small::new();
    for rank in 0..2 {
        take!(queue.register(&Spec::new(Rank(rank))), "a place");
    }
    let ranks = queue.register(&Spec::new(Rank(2)));
    ensure!(
        ranks == Err(ContextError::TooManyRanks { capacity: 2 }),
        "ranks"
    );
    take!(queue.register(&Spec::new(Rank(1))), "the third context");
    let contexts = queue.register(&Spec::new(Rank(1)));
    ensure!(
        contexts == Err(ContextError::TableFull { capacity: 3 }),
        "full"
    );
    let streams = Spec {
        streams: 5,
        ..Spec::new(Rank(0))
    };
    let refused = matches!(
        queue.register(&streams),
        Err(ContextError::OutOfRange {
            field: "streams",
            found: 5,
            ..
        })
    );
    ensure!(refused, "the field and its value are named");
    Ok(())
}

fn the_bell_rings_for_a_worker_that_sleeps() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| IDLE));
    let context = take!(queue.register(&Spec::new(Rank(0))), "registered");
    ensure!(queue.arm_bell(), "armed on an empty queue");
    let first = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    ensure!(first.bell == Bell::Ring, "the sleeper is woken");
    let second = take!(queue.enqueue(context, ExecId(2), &desk), "appended");
    ensure!(second.bell == Bell::Quiet, "once");
    ensure!(!queue.arm_bell(), "no sleep with work in the inbox");
    ensure!(!queue.is_inbox_empty(), "two tasks");
    ensure!(worker.tick(&queue, &mut desk).drained == 2, "taken at once");
    ensure!(queue.is_inbox_empty(), "nothing left");
    for _ in 0..8 {
        let tick = worker.tick(&queue, &mut desk);
        ensure!(tick.next == Next::Relax, "relax while tasks do not move");
    }
    Ok(())
}

fn an_ordered_task_has_its_verdict_before_the_worker_comes() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| IDLE));
    let context = take!(queue.register(&Spec::new(Rank(7))), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let ticket = take!(appended.network, "a network task");
    let early = queue.conclude(ticket);
    ensure!(!early, "no verdict without an order");
    let _ = worker.tick(&queue, &mut desk);
    ensure!(queue.order(ticket, Cause::TimedOut).is_ok(), "ordered");
    let later = queue.order(ticket, Cause::Aborted).is_ok();
    ensure!(later, "a second order is no error, and changes nothing");
    let never = Ticket::from_parts(ticket.slot(), 1 << 20);
    let unknown = queue.order(never, Cause::Aborted);
    ensure!(unknown == Err(OrderError::Unknown), "nobody's ticket");
    ensure!(queue.conclude(ticket), "the code is given");
    let told = queue.poll(ticket);
    ensure!(told == Ok(Poll::Done(Status::TIMEOUT)), "the first cause");
    let again = queue.poll(ticket);
    ensure!(again == Err(PollError::AlreadyConsumed), "told once");
    ensure!(worker.tick(&queue, &mut desk).aborted == 1, "ended");
    ensure!(queue.order(ticket, Cause::Aborted).is_err(), "it is over");
    ensure!(worker.tick(&queue, &mut desk).next == Next::Sleep, "rest");
    Ok(())
}

fn a_verdict_that_nobody_took_outlives_its_task() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| IDLE));
    let context = take!(queue.register(&Spec::new(Rank(7))), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let ticket = take!(appended.network, "a network task");
    ensure!(queue.order(ticket, Cause::Aborted).is_ok(), "ordered");
    ensure!(queue.conclude(ticket), "the code is given");
    ensure!(worker.tick(&queue, &mut desk).aborted == 1, "ended");
    ensure!(queue.tasks().count() == 1, "its code is still to be told");
    let told = queue.poll(ticket);
    ensure!(told == Ok(Poll::Done(Status::ABORTED)), "the verdict");
    ensure!(queue.tasks().next().is_none(), "the place is free");
    Ok(())
}

fn a_rank_without_contexts_gives_its_place_up() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let first = take!(queue.register(&Spec::new(Rank(1))), "registered");
    let second = take!(queue.register(&Spec::new(Rank(2))), "registered");
    let told = take!(queue.enqueue(first, ExecId(1), &desk), "appended");
    let kept = take!(queue.enqueue(second, ExecId(2), &desk), "appended");
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    for context in [first, second] {
        ensure!(queue.retire(context) == Ok(()), "nothing is unfinished");
    }
    let end = Ok(Poll::Done(Status::SUCCESS));
    let (told, kept) = (take!(told.network, "ticket"), take!(kept.network, "ticket"));
    ensure!(queue.poll(told) == end, "consumed after the retire");
    take!(queue.register(&Spec::new(Rank(3))), "the place of rank 1");
    ensure!(queue.poll(kept) == end, "rank 2 has kept its status");
    let back = take!(queue.register(&Spec::new(Rank(2))), "and its place");
    let unread = take!(queue.enqueue(back, ExecId(3), &desk), "appended");
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(queue.retire(back) == Ok(()), "retired");
    take!(queue.register(&Spec::new(Rank(4))), "a place all the same");
    let unread = queue.poll(take!(unread.network, "ticket"));
    let given_up = Err(PollError::AlreadyConsumed);
    ensure!(unread == given_up, "a status is given up for it");
    Ok(())
}

fn every_unconsumed_task_is_listed() -> Outcome {
    let (queue, desk) = (Small::new(), Desk::new(|_| ENDS));
    let spec = Spec {
        barrier: true,
        ..Spec::new(Rank(5))
    };
    let context = take!(queue.register(&spec), "registered");
    let _ = take!(queue.enqueue(context, ExecId(8), &desk), "appended");
    let one = queue.append(context, TaskKind::Network, ExecId(9), &desk);
    let _ = take!(one, "a single task");
    let count = |kind| queue.tasks().filter(|task| task.kind == kind).count();
    let counts = (count(TaskKind::Network), count(TaskKind::Barrier));
    ensure!(counts == (2, 1), "by kind");
    let execs: u64 = queue.tasks().map(|task| task.exec.0).sum();
    ensure!(execs == 8 + 8 + 9, "each with its execution");
    let plain = take!(queue.register(&Spec::new(Rank(5))), "registered");
    let none = queue.append(plain, TaskKind::Barrier, ExecId(1), &desk);
    let kind = TaskKind::Barrier;
    ensure!(none == Err(EnqueueError::NoSuchKind(kind)), "no such kind");
    Ok(())
}

fn the_last_value_of_a_range_is_in_it() -> Outcome {
    let spec = Spec::new(Rank(0));
    for (streams, barrier_triggers, blocks) in [(4, 4, 1024), (0, 0, 1)] {
        let inside = Spec {
            streams,
            barrier_triggers,
            blocks,
            ..spec
        };
        ensure!(inside.validate() == Ok(()), "the ends of the ranges");
    }
    for (streams, barrier_triggers, blocks) in [(5, 0, 1), (1, 5, 1), (1, 0, 1025), (1, 0, 0)] {
        let outside = Spec {
            streams,
            barrier_triggers,
            blocks,
            ..spec
        };
        ensure!(outside.validate().is_err(), "one beyond");
    }
    Ok(())
}

fn a_worker_that_wakes_by_itself_is_not_rung() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&Spec::new(Rank(0))), "registered");
    ensure!(queue.arm_bell(), "armed on an empty queue");
    ensure!(
        worker.tick(&queue, &mut desk).next == Next::Sleep,
        "nothing"
    );
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    ensure!(appended.bell == Bell::Quiet, "the tick has disarmed it");
    ensure!(
        worker.tick(&queue, &mut desk).next == Next::Again,
        "drained"
    );
    ensure!(worker.tick(&queue, &mut desk).next == Next::Again, "moved");
    Ok(())
}

fn ids_come_back_from_their_parts() -> Outcome {
    let context = ContextId::from_parts(5, 9);
    ensure!((context.index(), context.generation()) == (5, 9), "context");
    let ticket = Ticket::from_parts(7, 11);
    ensure!((ticket.slot(), ticket.generation()) == (7, 11), "ticket");
    let queue = Small::new();
    let mut generations = [0; 3];
    for generation in &mut generations {
        let id = take!(queue.register(&Spec::new(Rank(0))), "registered");
        ensure!(id.index() == 0, "the first free place");
        *generation = id.generation();
        ensure!(queue.retire(id) == Ok(()), "retired");
    }
    ensure!(generations == [1, 2, 3], "counted by one, from 1");
    Ok(())
}
