//! Ending tasks early: one task, a context's, a group's, all of the process; with a worker that comes and one that cannot.

use std::time::{Duration, Instant};

use proxy_checks::pace::{at_most, until};
use proxy_checks::script::{Script, sets};
use proxy_core::{ContextError, ExecId, Gid, OrderError, Poll, PollError, Status, Ticket};
use proxy_os::{AbortError, Context, Group, Patience, ProxyQueue, Release, Settings};

const PATIENCE: Duration = Duration::from_secs(20);
const ABORTED: Result<Poll, PollError> = Ok(Poll::Done(Status::ABORTED));
/// A task that never moves.
const IDLE: &str = "progress * -> idle=1 done=0";

fn context(queue: &std::sync::Arc<ProxyQueue>, script: &Script, rank: u32) -> Context {
    queue
        .context(script.context(rank).block(1, sets(1, 1)))
        .expect("a context")
}

fn enqueue(context: &Context, exec: u64) -> Ticket {
    context.enqueue(ExecId(exec)).expect("room").network
}

fn pending(context: &Context, ticket: Ticket) -> bool {
    matches!(context.queue().poll(ticket), Ok(Poll::Pending(_)))
}

#[test]
fn f7_one_task_is_aborted_and_its_neighbours_go_on() {
    let script = Script::with(&[IDLE]);
    let queue = ProxyQueue::start(Gid(1), &Settings::default()).unwrap();
    let context = context(&queue, &script, 0);
    let tickets = [1, 2, 3].map(|exec| enqueue(&context, exec));
    until("the first is started", || script.count(0) == 1);
    assert_eq!(queue.abort(tickets[0], PATIENCE), Ok(()));
    assert_eq!(script.count(2), 1, "its stream is stopped");
    let again = Err(AbortError::Task(OrderError::Done));
    assert_eq!(queue.abort(tickets[0], PATIENCE), again);
    assert_eq!(queue.poll(tickets[0]), ABORTED);
    let again = Err(AbortError::Task(OrderError::AlreadyConsumed));
    assert_eq!(queue.abort(tickets[0], PATIENCE), again);
    let unknown = Ticket::from_parts(4_000_000, 7);
    let none = Err(AbortError::Task(OrderError::Unknown));
    assert_eq!(queue.abort(unknown, PATIENCE), none);
    assert!(pending(&context, tickets[1]) && pending(&context, tickets[2]));
    assert_eq!(queue.release(Release::Abort, PATIENCE), Ok(()));
}

#[test]
fn f7_a_contexts_tasks_are_aborted_and_other_contexts_go_on() {
    let script = Script::with(&[IDLE]);
    let queue = ProxyQueue::start(Gid(2), &Settings::default()).unwrap();
    let (ours, other) = (context(&queue, &script, 0), context(&queue, &script, 0));
    let tickets = [1, 2].map(|exec| enqueue(&ours, exec));
    let bystander = enqueue(&other, 3);
    assert_eq!(ours.abort(PATIENCE), Ok(2));
    assert!(tickets.iter().all(|ticket| queue.poll(*ticket) == ABORTED));
    assert!(pending(&other, bystander));
    assert_eq!(ours.abort(PATIENCE), Ok(0), "nothing is left to abort");
    let again = enqueue(&ours, 4);
    assert!(pending(&ours, again), "the context is as good as before");
    assert_eq!(queue.release(Release::Abort, PATIENCE), Ok(()));
}

/// In a process of its own: other tests have groups, too.
#[test]
fn f7_a_groups_tasks_and_those_of_all_groups_are_aborted() {
    const NAME: &str = "f7_a_groups_tasks_and_those_of_all_groups_are_aborted";
    if !proxy_checks::child::is(NAME) {
        let output = proxy_checks::child::command(NAME).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let scripts = [0, 1, 2].map(|_| Script::with(&[IDLE]));
    let acquire = |gid| Group::acquire(Gid(gid), &Settings::default(), PATIENCE).unwrap();
    let mut groups = [0, 1, 2].map(acquire);
    let contexts: Vec<Context> = groups
        .iter()
        .zip(&scripts)
        .map(|(group, script)| context(group.queue(), script, 0))
        .collect();
    let tickets: Vec<Ticket> = contexts.iter().map(|context| enqueue(context, 1)).collect();
    assert_eq!(groups[0].queue().abort_tasks(PATIENCE), Ok(1));
    assert_eq!(contexts[0].queue().poll(tickets[0]), ABORTED);
    assert!((1..3).all(|at| pending(&contexts[at], tickets[at])));
    let ended = [(Gid(0), Ok(0)), (Gid(1), Ok(1)), (Gid(2), Ok(1))];
    assert_eq!(Group::abort_all(PATIENCE), ended);
    for at in 1..3 {
        assert_eq!(contexts[at].queue().poll(tickets[at]), ABORTED);
        let fresh = enqueue(&contexts[at], 2);
        assert!(pending(&contexts[at], fresh), "the groups stay");
    }
    for group in &mut groups {
        group.release(Release::Abort, PATIENCE).unwrap();
    }
}

/// Two tasks have their codes, but the worker still has both: an abort is not done before it has ended them.
fn waits_for_what_has_its_code(context: &Context, script: &Script) {
    match context.abort(Duration::from_millis(10)) {
        Err(AbortError::Overruled { held, .. }) => assert_eq!(held.len(), 2),
        other => panic!("{other:?}"),
    }
    std::thread::scope(|scope| {
        let aborting = scope.spawn(|| context.abort(PATIENCE));
        script.release();
        assert_eq!(aborting.join().unwrap(), Ok(0), "none was left to order");
    });
    assert_eq!(
        context.queue().unfinished(),
        [],
        "the worker has ended both"
    );
}

#[test]
fn f7_a_ticket_of_a_stuck_worker_is_final_at_the_deadline_and_its_memory_stays() {
    let script = Script::with(&["progress 1 -> block"]);
    let queue = ProxyQueue::start(Gid(3), &Settings::default()).unwrap();
    let context = context(&queue, &script, 0);
    let (inside, behind) = (enqueue(&context, 1), enqueue(&context, 2));
    until("the worker is inside progress", || script.count(1) > 0);
    let since = Instant::now();
    let answer = context.abort(Duration::from_millis(100));
    assert!(
        since.elapsed() < at_most(Duration::from_millis(200)),
        "{:?}",
        since.elapsed()
    );
    let Err(AbortError::Overruled {
        inside: Some(call),
        held,
        ..
    }) = &answer
    else {
        panic!("{answer:?}");
    };
    assert!(
        call.to_string().starts_with("neuronNetworkProxyProgress"),
        "{call}"
    );
    assert_eq!(held.len(), 2);
    assert_eq!(
        queue.poll(inside),
        ABORTED,
        "final although the library has it"
    );
    assert_eq!(queue.poll(inside), Err(PollError::AlreadyConsumed));
    let (context, refused) = context.retire().unwrap_err();
    assert_eq!(
        refused,
        ContextError::Busy { unfinished: 2 },
        "nothing is freed early"
    );
    waits_for_what_has_its_code(&context, &script);
    assert_eq!(queue.poll(behind), ABORTED);
    assert_eq!(queue.poll(inside), Err(PollError::AlreadyConsumed));
    // The second may have come too late to be started before the worker was stuck.
    let started = script.count(0);
    assert!((1..=2).contains(&started), "{started}");
    assert_eq!(script.count(2), started, "what was started is stopped");
    let next = enqueue(&context, 3);
    let patience = Patience::until(PATIENCE);
    assert_eq!(
        queue.consume(next, patience),
        Ok(Status::SUCCESS),
        "a fresh task runs"
    );
    assert!(context.retire().is_ok());
    assert_eq!(queue.release(Release::Drain, PATIENCE), Ok(()));
}
