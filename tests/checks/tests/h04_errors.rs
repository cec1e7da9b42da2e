//! The chain from enqueue to consumer over the scripted library: order of seam calls, errors, statuses, release.
//!
//! Requirements: H04, H05, H09, H11, H12, H13, H36.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy_checks::messages;
use proxy_checks::pace::{at_most, until};
use proxy_checks::script::{Script, library, sets};
use proxy_core::{
    ContextError, EnqueueError, ExecId, Gid, Poll, PollError, RunState, Status, StopAt, TaskKind,
};
use proxy_os::{
    ConsumeError, Context, ContextBuilder, Patience, ProxyQueue, Release, ReleaseError, Settings,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn queue(gid: u32) -> Arc<ProxyQueue> {
    ProxyQueue::start(Gid(gid), &Settings::default()).expect("a worker")
}

fn run(queue: &ProxyQueue, context: &Context, exec: u64) -> Status {
    let execution = context.enqueue(ExecId(exec)).expect("room");
    queue
        .consume(execution.network, Patience::until(PATIENCE))
        .expect("an end")
}

fn blocks(builder: ContextBuilder, ids: &[u32], streams: usize) -> ContextBuilder {
    ids.iter().fold(builder, |builder, id| {
        builder.block(*id, sets(*id, streams))
    })
}

#[test]
fn an_execution_starts_all_blocks_progresses_them_in_order_and_stops_each_stream_once() {
    let script = Script::open();
    let queue = queue(1);
    let context = queue
        .context(blocks(script.context(0), &[70, 7], 2))
        .unwrap();
    let once = [
        "start 0 70",
        "start 0 7",
        "start 1 70",
        "start 1 7",
        "progress 0 70",
        "progress 1 70",
        "progress 0 7",
        "progress 1 7",
        "stop 0",
        "stop 1",
    ];
    for exec in 1..=3 {
        assert_eq!(run(&queue, &context, exec), Status::SUCCESS);
        let all: Vec<&str> = once
            .iter()
            .copied()
            .cycle()
            .take(once.len() * exec as usize)
            .collect();
        assert_eq!(script.order(), all);
    }
    let tids: Vec<u32> = script.calls().iter().map(|call| call.tid).collect();
    assert!(
        tids.iter().all(|tid| *tid == queue.tid()),
        "every seam call is the worker's"
    );
    let start = &script.calls()[0];
    assert_eq!((start.n_ops, start.n_src, start.n_dst), (1, 1, 1));
}

#[test]
fn the_specifications_stop_at_each_switch_is_an_option() {
    let script = Script::open();
    let queue = queue(1);
    let builder = blocks(script.context(0), &[1, 2], 1).stop_at(StopAt::Switch);
    let context = queue.context(builder).unwrap();
    assert_eq!(run(&queue, &context, 1), Status::SUCCESS);
    assert_eq!(
        script.order(),
        [
            "start 0 1",
            "start 0 2",
            "progress 0 1",
            "progress 0 2",
            "stop 0"
        ]
    );
}

#[test]
fn a_skipped_network_stage_makes_no_call() {
    let script = Script::open();
    let queue = queue(1);
    let context = queue
        .context(blocks(script.context(0), &[1], 4).skip(true))
        .unwrap();
    assert_eq!(run(&queue, &context, 1), Status::SUCCESS);
    assert_eq!(script.order(), [""; 0]);
}

#[test]
fn h04_an_error_of_progress_ends_its_task_alone() {
    let bad = Script::with(&["progress * -> ret=0 idle=1 done=0", "progress 3 -> ret=7"]);
    let good = Script::with(&["progress 1..100 -> idle=0 done=0"]);
    let queue = queue(1);
    let failing = queue.context(blocks(bad.context(0), &[1], 1)).unwrap();
    let working = queue.context(blocks(good.context(0), &[1], 1)).unwrap();
    let second = working.enqueue(ExecId(1)).unwrap();
    assert_eq!(run(&queue, &failing, 1), Status(7));
    assert_eq!(
        queue.consume(second.network, Patience::until(PATIENCE)),
        Ok(Status::SUCCESS)
    );
    assert_eq!(bad.count(1), 3, "no further progress call after the error");
    assert_eq!(bad.order(), ["start 0 1", "progress 0 1", "stop 0"]);
}

#[test]
fn h04_an_error_of_start_stops_what_was_started_and_is_told_in_the_specifications_words() {
    messages::collect();
    let script = Script::with(&["start 2 -> ret=1206"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(7), &[1], 3)).unwrap();
    assert_eq!(run(&queue, &context, 1), Status::NETWORK_PROXY_FAILURE);
    assert_eq!(script.order(), ["start 0 1", "start 1 1", "stop 0"]);
    let lines = messages::with("[nec_dev 7] failed to start network proxy ret:1206: ");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn h04_an_error_of_stop_is_the_tasks_error_and_the_first_error_counts() {
    let script = Script::with(&["stop 1 -> ret=9"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 2)).unwrap();
    assert_eq!(run(&queue, &context, 1), Status(9));
    assert_eq!(script.count(2), 2, "the second stream is stopped, too");
    script.rule("progress * -> ret=5");
    script.rule("stop * -> ret=9");
    assert_eq!(run(&queue, &context, 2), Status(5));
}

#[test]
fn h05_a_library_that_always_fails_is_called_and_logged_once() {
    messages::collect();
    let script = Script::with(&["progress * -> ret=77001"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let execution = context.enqueue(ExecId(1)).unwrap();
    let mut end = None;
    until("the task ends", || {
        end = queue
            .poll(execution.network)
            .ok()
            .filter(|poll| matches!(poll, Poll::Done(_)));
        end.is_some()
    });
    assert_eq!(end, Some(Poll::Done(Status(77001))));
    // The worker goes on ticking: another task's whole life is many ticks.
    let other = Script::with(&["progress 1..1000 -> idle=0 done=0"]);
    let context = queue.context(blocks(other.context(0), &[1], 1)).unwrap();
    assert_eq!(run(&queue, &context, 1), Status::SUCCESS);
    assert_eq!(script.count(1), 1);
    assert_eq!(
        messages::with("77001").len(),
        1,
        "{:?}",
        messages::with("77001")
    );
    assert_eq!(queue.counters().failures, 1, "repeats would count here");
}

#[test]
fn h11_executions_of_one_context_are_told_apart() {
    let script = Script::with(&["progress 1 -> ret=11", "progress 2 -> ret=12"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let first = context.enqueue(ExecId(1)).unwrap();
    let second = context.enqueue(ExecId(2)).unwrap();
    assert!(second.sequence > first.sequence);
    assert_eq!(
        queue.consume(second.network, Patience::until(PATIENCE)),
        Ok(Status(12))
    );
    assert_eq!(
        queue.consume(first.network, Patience::until(PATIENCE)),
        Ok(Status(11))
    );
}

#[test]
fn h12_spent_unknown_and_failed_are_three_answers() {
    let script = Script::with(&["progress * -> ret=3"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let execution = context.enqueue(ExecId(1)).unwrap();
    assert_eq!(
        queue.consume(execution.network, Patience::until(PATIENCE)),
        Ok(Status(3))
    );
    assert_eq!(
        queue.poll(execution.network),
        Err(PollError::AlreadyConsumed)
    );
    let spent = Err(ConsumeError::Poll(PollError::AlreadyConsumed));
    assert_eq!(
        queue.consume(execution.network, Patience::until(PATIENCE)),
        spent
    );
    let unknown = proxy_core::Ticket::from_parts(execution.network.slot() + 1, 1);
    assert_eq!(queue.poll(unknown), Err(PollError::Unknown));
    let beyond = proxy_core::Ticket::from_parts(u32::MAX, 1);
    assert_eq!(queue.poll(beyond), Err(PollError::Unknown));
    assert_eq!(context.check(TaskKind::Network), Err(PollError::Unknown));
    assert_eq!(context.check(TaskKind::Barrier), Err(PollError::Unknown));
    assert_eq!(
        context.append(TaskKind::Barrier, ExecId(1)),
        Err(EnqueueError::NoSuchKind(TaskKind::Barrier))
    );
}

#[test]
fn h13_an_unknown_code_passes_through_and_is_shown_with_the_librarys_path() {
    messages::collect();
    let script = Script::with(&["progress * -> ret=4242"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let status = run(&queue, &context, 1);
    assert_eq!(status, Status(4242));
    assert_eq!(status.to_string(), "unknown library code 4242");
    let path = library().path().display().to_string();
    let lines = messages::with("unknown library code 4242");
    assert!(
        lines.iter().any(|(_, line)| line.contains(&path)),
        "{lines:?}"
    );
}

#[test]
fn h09_drain_names_what_is_left_and_abort_ends_it() {
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let tickets: Vec<_> = (1..=3)
        .map(|exec| context.enqueue(ExecId(exec)).unwrap().network)
        .collect();
    let since = Instant::now();
    let left = match queue.release(Release::Drain, Duration::from_millis(300)) {
        Err(ReleaseError::Timeout { unfinished, .. }) => unfinished,
        other => panic!("{other:?}"),
    };
    assert!(since.elapsed() >= Duration::from_millis(300));
    let named: Vec<_> = left.iter().map(|task| task.ticket).collect();
    assert_eq!(named, tickets);
    assert_eq!(context.enqueue(ExecId(4)), Err(EnqueueError::Closed));
    let since = Instant::now();
    assert_eq!(queue.release(Release::Abort, PATIENCE), Ok(()));
    assert!(
        since.elapsed() < at_most(Duration::from_millis(200)),
        "{:?}",
        since.elapsed()
    );
    for ticket in tickets {
        assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::ABORTED)));
    }
    assert_eq!(
        (script.count(0), script.count(2)),
        (1, 1),
        "the others' turn never came"
    );
    assert_eq!(
        queue.release(Release::Abort, PATIENCE),
        Ok(()),
        "nothing is left to end"
    );
}

#[test]
fn a_drained_queue_has_driven_every_task_to_its_end() {
    let script = Script::with(&["progress 1..500 -> idle=0 done=0"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let tickets: Vec<_> = (0..100)
        .map(|exec| context.enqueue(ExecId(exec)).unwrap().network)
        .collect();
    assert_eq!(queue.release(Release::Drain, PATIENCE), Ok(()));
    for ticket in tickets {
        assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::SUCCESS)));
    }
}

#[test]
fn h36_a_worker_inside_the_library_is_named_stuck_and_leaves_by_itself_later() {
    let script = Script::with(&["progress 1 -> block"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let _ = context.enqueue(ExecId(1)).unwrap();
    until("the worker is inside progress", || script.count(1) > 0);
    match queue.release(Release::Abort, Duration::from_millis(100)) {
        Err(ReleaseError::Stuck {
            inside, unfinished, ..
        }) => {
            assert_eq!(inside.call.to_string(), "neuronNetworkProxyProgress");
            assert_eq!(unfinished.len(), 1);
        }
        other => panic!("{other:?}"),
    }
    // A release beside one that is still waiting keeps its own deadline.
    std::thread::scope(|scope| {
        let patient = scope.spawn(|| queue.release(Release::Abort, PATIENCE));
        let since = Instant::now();
        let hasty = queue.release(Release::Abort, Duration::from_millis(50));
        assert!(
            matches!(hasty, Err(ReleaseError::Stuck { .. })),
            "{hasty:?}"
        );
        assert!(since.elapsed() < Duration::from_secs(5));
        script.release();
        assert_eq!(patient.join().unwrap(), Ok(()));
    });
    assert_eq!(queue.release(Release::Abort, PATIENCE), Ok(()));
}

#[test]
fn a_consumers_deadline_leaves_the_ticket_good_and_its_warnings_use_the_specifications_text() {
    messages::collect();
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let queue = queue(31_337);
    let context = queue.context(blocks(script.context(6), &[1], 1)).unwrap();
    let execution = context.enqueue(ExecId(1)).unwrap();
    let patience = Patience {
        warn_after: Duration::from_millis(20),
        deadline: Some(Duration::from_millis(200)),
    };
    let since = Instant::now();
    match queue.consume(execution.network, patience) {
        Err(ConsumeError::Timeout { waited, state }) => {
            assert!(
                waited >= Duration::from_millis(200) && since.elapsed() < Duration::from_secs(5)
            );
            assert_eq!(state, RunState::Idle);
        }
        other => panic!("{other:?}"),
    }
    let warnings = messages::with(
        "[nec_dev 6 gid 31337] Timeout exceeded: Waiting on proxy task type 1: 0 sec",
    );
    // After 20, 40, 80 and 160 ms; the last two may have fallen behind the deadline on a slow machine.
    assert!((2..=4).contains(&warnings.len()), "{warnings:?}");
    script.rule("progress * -> ret=1206");
    assert_eq!(
        queue.consume(execution.network, patience),
        Ok(Status::NETWORK_PROXY_FAILURE)
    );
    let text = "[nec_dev 6 gid 31337] Proxy failed to execute task, status = 1206";
    assert_eq!(messages::with(text).len(), 1);
}

#[test]
fn a_consumer_without_a_time_to_warn_never_warns() {
    messages::collect();
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let queue = queue(31_338);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let execution = context.enqueue(ExecId(1)).unwrap();
    let patience = Patience {
        warn_after: Duration::ZERO,
        deadline: Some(Duration::from_millis(100)),
    };
    let answer = queue.consume(execution.network, patience);
    assert!(
        matches!(answer, Err(ConsumeError::Timeout { .. })),
        "{answer:?}"
    );
    let warnings = messages::with("gid 31338] Timeout exceeded");
    assert_eq!(warnings.len(), 0, "{:?}", warnings.first());
}

#[test]
fn a_retired_context_is_gone_for_appends_and_frees_its_place() {
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let queue = queue(1);
    let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
    let execution = context.enqueue(ExecId(1)).unwrap();
    let (context, error) = context.retire().unwrap_err();
    assert_eq!(error, ContextError::Busy { unfinished: 1 });
    script.rule("progress * -> done=1");
    assert_eq!(
        queue.consume(execution.network, Patience::until(PATIENCE)),
        Ok(Status::SUCCESS)
    );
    assert!(context.retire().is_ok());
    for _ in 0..1000 {
        let context = queue.context(blocks(script.context(0), &[1], 1)).unwrap();
        assert_eq!(run(&queue, &context, 1), Status::SUCCESS);
    }
}
