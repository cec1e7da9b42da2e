//! Several network tasks of one communicator in flight: each has the library to itself, in order of arrival.

use std::sync::Arc;
use std::time::Duration;

use proxy_checks::pace::until;
use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Poll, Rank, RunState, Status, Ticket};
use proxy_os::diagnosis::Report;
use proxy_os::{Context, ContextBuilder, Patience, ProxyQueue, Release, Settings};

const PATIENCE: Duration = Duration::from_secs(20);
/// Nothing moves until the next rule. Slow, as the first 4096 calls alone are recorded.
const IDLE: &str = "progress * -> idle=1 done=0 sleep_us=1000";
const DONE: &str = "progress * -> idle=0 done=1";

fn queue(gid: u32) -> Arc<ProxyQueue> {
    ProxyQueue::start(Gid(gid), &Settings::default()).expect("a worker")
}

/// Contexts of these blocks on one communicator.
fn contexts<const N: usize>(
    queue: &Arc<ProxyQueue>,
    script: &Script,
    blocks: [u32; N],
) -> [Context; N] {
    let comm = script.comm(8);
    blocks.map(|block| {
        let builder = ContextBuilder::new(Arc::clone(&comm), Rank(0));
        let context = queue.context(builder.block(block, sets(block, 2)));
        context.expect("a context")
    })
}

fn enqueue(context: &Context, exec: u64) -> Ticket {
    context.enqueue(ExecId(exec)).expect("room").network
}

/// Waits until all of these have come as far as an idle library lets them.
fn idle(queue: &ProxyQueue, tickets: &[Ticket]) {
    until("all are idle", || {
        let is_idle = |ticket| queue.poll(ticket) == Ok(Poll::Pending(RunState::Idle));
        tickets.iter().copied().all(is_idle)
    });
}

fn end(queue: &ProxyQueue, ticket: Ticket) -> Status {
    let status = queue.consume(ticket, Patience::until(PATIENCE));
    status.expect("an end")
}

/// Of each task of a group, in order: whether a report says that others are before it.
fn behind(gid: u32) -> Vec<bool> {
    let report = Report::collect("a test");
    let groups = report.groups.iter().filter(|group| group.gid == gid);
    let mut tasks: Vec<_> = groups.flat_map(|group| &group.tasks).collect();
    tasks.sort_by_key(|task| task.sequence);
    tasks.iter().map(|task| task.behind).collect()
}

/// All calls of a task's life, on two streams.
fn life(block: u32) -> Vec<String> {
    let called = |call: &str| [0, 1].map(|stream| format!("{call} {stream} {block}"));
    let stopped = [0, 1].map(|stream| format!("stop {stream}"));
    [called("start"), called("progress"), stopped].concat()
}

/// The same calls, with those of a task that was asked more than once told once.
fn order(script: &Script) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for call in script.order() {
        let again = call.starts_with("progress") && told.iter().rev().take(2).any(|it| *it == call);
        if !again {
            told.push(call);
        }
    }
    told
}

#[test]
fn executions_of_a_context_have_the_library_one_after_the_other() {
    let script = Script::with(&[IDLE]);
    let queue = queue(1);
    let [context] = contexts(&queue, &script, [7]);
    let tickets = [1, 2, 3].map(|exec| enqueue(&context, exec));
    idle(&queue, &tickets);
    assert_eq!((script.count(0), script.count(2)), (2, 0));
    assert_eq!(behind(1), [false, true, true], "a report tells them apart");
    script.rule(DONE);
    for ticket in tickets {
        assert_eq!(end(&queue, ticket), Status::SUCCESS);
    }
    assert_eq!(order(&script), [life(7), life(7), life(7)].concat());
}

#[test]
fn who_waits_for_its_turn_is_not_told_as_stalled() {
    let script = Script::with(&[IDLE]);
    let settings = Settings::builder().stall_threshold(Duration::from_millis(100));
    let settings = settings.from_lookup(|_| None).expect("good settings");
    let queue = ProxyQueue::start(Gid(6), &settings).expect("a worker");
    let [context] = contexts(&queue, &script, [7]);
    let tickets = [1, 2, 3].map(|exec| enqueue(&context, exec));
    idle(&queue, &tickets);
    let told = || -> Vec<u64> { queue.reports().iter().map(|record| record.exec.0).collect() };
    until("the first is told", || !told().is_empty());
    // The next is told as long after its own turn has begun.
    assert_eq!(queue.abort(tickets[0], PATIENCE), Ok(()));
    until("the second is told", || told().contains(&2));
    assert!(!told().contains(&3), "{:?}", told());
    assert_eq!(queue.release(Release::Abort, PATIENCE), Ok(()));
}

#[test]
fn so_have_contexts_of_a_communicator() {
    let script = Script::with(&[IDLE]);
    let queue = queue(2);
    let [first, second] = contexts(&queue, &script, [7, 9]);
    let tickets = [enqueue(&second, 1), enqueue(&first, 1), enqueue(&second, 2)];
    idle(&queue, &tickets);
    script.rule(DONE);
    for ticket in tickets {
        assert_eq!(end(&queue, ticket), Status::SUCCESS);
    }
    assert_eq!(order(&script), [life(9), life(7), life(9)].concat());
}

#[test]
fn one_that_is_aborted_before_its_turn_makes_no_call_and_harms_none() {
    let script = Script::with(&[IDLE]);
    let queue = queue(3);
    let [context] = contexts(&queue, &script, [7]);
    let tickets = [1, 2, 3].map(|exec| enqueue(&context, exec));
    idle(&queue, &tickets);
    assert_eq!(queue.abort(tickets[1], PATIENCE), Ok(()));
    assert_eq!((script.count(0), script.count(2)), (2, 0));
    script.rule(DONE);
    assert_eq!(end(&queue, tickets[0]), Status::SUCCESS);
    assert_eq!(end(&queue, tickets[2]), Status::SUCCESS);
    assert_eq!(order(&script), [life(7), life(7)].concat());
}

#[test]
fn the_next_goes_on_where_one_is_aborted_in_its_turn() {
    let script = Script::with(&[IDLE]);
    let queue = queue(4);
    let [context] = contexts(&queue, &script, [7]);
    let tickets = [1, 2].map(|exec| enqueue(&context, exec));
    idle(&queue, &tickets);
    assert_eq!(queue.abort(tickets[0], PATIENCE), Ok(()));
    script.rule(DONE);
    assert_eq!(end(&queue, tickets[1]), Status::SUCCESS);
    assert_eq!(order(&script), [life(7), life(7)].concat());
}

#[test]
fn an_error_of_a_start_that_had_to_wait_is_its_own_tasks_and_what_was_started_is_stopped() {
    let script = Script::with(&[IDLE, "start 4 -> ret=9"]);
    let queue = queue(5);
    let [context] = contexts(&queue, &script, [7]);
    let tickets = [1, 2, 3].map(|exec| enqueue(&context, exec));
    idle(&queue, &tickets);
    script.rule(DONE);
    let ends = tickets.map(|ticket| end(&queue, ticket));
    assert_eq!(ends, [Status::SUCCESS, Status(9), Status::SUCCESS]);
    let failed = ["start 0 7", "start 1 7", "stop 0"].map(str::to_owned);
    assert_eq!(order(&script), [life(7), failed.to_vec(), life(7)].concat());
}
