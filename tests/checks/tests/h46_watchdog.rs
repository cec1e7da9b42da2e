//! H46-H51, H54: deadlines, early records, stalls and dumps, with workers that are idle, stuck, dead, and about to end.
//!
//! Requirements: H46, H47, H49, H50, H51, H54.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use proxy_checks::messages;
use proxy_checks::pace::{at_most, until};
use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Poll, Rank, RunState, Status, TaskKind};
use proxy_os::diagnosis::Report;
use proxy_os::report::{Cause, WaitingOn};
use proxy_os::{
    Context, GroupState, Health, Patience, ProxyQueue, Record, Release, Settings, watchdog,
};

const PATIENCE: Duration = Duration::from_secs(20);
const IDLE: &str = "progress * -> idle=1 done=0";

static TOLD: Mutex<Vec<Record>> = Mutex::new(Vec::new());

/// What the handler was told of a group.
fn told(gid: u32) -> Vec<Record> {
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    told.iter()
        .filter(|record| record.gid == Gid(gid))
        .cloned()
        .collect()
}

fn causes(gid: u32) -> Vec<Cause> {
    told(gid).iter().map(|record| record.cause).collect()
}

/// Has every record and message kept.
fn hear() {
    messages::collect();
    watchdog::set_handler(Some(|record| {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(record.clone());
    }));
}

/// The time that records have.
fn clock() -> u64 {
    Report::collect("its time").process.monotonic_ns
}

/// A queue with a deadline and a stall threshold, in milliseconds, and a context of rank 3.
fn queue(gid: u32, deadline: u64, stall: u64, script: &Script) -> Context {
    hear();
    let settings = Settings::builder()
        .task_deadline(Duration::from_millis(deadline))
        .stall_threshold(Duration::from_millis(stall))
        .from_lookup(|_| None)
        .unwrap();
    let queue = ProxyQueue::start(Gid(gid), &settings).unwrap();
    let builder = script.context(3).block(1, sets(1, 1));
    queue.context(builder).unwrap()
}

#[test]
fn h47_a_consumer_gets_the_timeout_at_the_deadline() {
    let script = Script::with(&[IDLE]);
    let context = queue(470, 200, 0, &script);
    let since = Instant::now();
    let ticket = context.enqueue(ExecId(1)).unwrap().network;
    let code = context.queue().consume(ticket, Patience::until(PATIENCE));
    let took = since.elapsed();
    assert_eq!(code, Ok(Status::TIMEOUT));
    assert!(took >= Duration::from_millis(200), "{took:?}");
    // The upper end of the requirement is 400 ms; a machine with more to run than it has CPUs gets a second.
    assert!(took < Duration::from_millis(1400), "{took:?}");
    until("the stream is stopped", || script.count(2) == 1);
}

#[test]
fn h46_h47_h51_without_a_consumer_each_part_of_the_deadline_is_told_once() {
    let script = Script::with(&[IDLE]);
    let context = queue(471, 2000, 0, &script);
    let ticket = context.enqueue(ExecId(812)).unwrap().network;
    until("the timeout is told", || {
        causes(471).contains(&Cause::Timeout)
    });
    let all = [Cause::Early(25), Cause::Early(75), Cause::Timeout];
    assert_eq!(causes(471), all, "each once, in order");
    for record in told(471) {
        assert_eq!((record.rank, record.kind), (Rank(3), TaskKind::Network));
        assert_eq!((record.exec, record.sequence), (ExecId(812), 0));
        assert_eq!(record.state, RunState::Idle);
        assert_eq!(record.waiting_on, WaitingOn::Library);
        assert!(record.in_state.is_some() && !record.partial, "{record}");
    }
    // Words come last.
    until("both are said", || {
        messages::with("[nec_dev 3 gid 471]").len() >= 2
    });
    let lines = messages::with("[nec_dev 3 gid 471]");
    let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
    let verbatim = [
        "[nec_dev 3 gid 471] Timeout exceeded: Waiting on proxy task type 1: 2 sec",
        "[nec_dev 3 gid 471] Proxy failed to execute task, status = 5",
    ];
    assert_eq!(texts, verbatim);
    let patience = Patience::until(PATIENCE);
    assert_eq!(
        context.queue().consume(ticket, patience),
        Ok(Status::TIMEOUT)
    );
    assert_eq!(context.queue().release(Release::Drain, PATIENCE), Ok(()));
    assert_eq!(causes(471), all, "the end adds nothing");
    assert_eq!(context.queue().reports(), told(471));
}

#[test]
fn h51_the_parts_of_the_deadline_that_are_set_are_told_instead_of_a_quarter_and_three_quarters() {
    let script = Script::with(&[IDLE]);
    hear();
    let settings = Settings::builder()
        .task_deadline(Duration::from_millis(2000))
        .first_record_percent(40)
        .second_record_percent(60)
        .from_lookup(|_| None)
        .unwrap();
    let queue = ProxyQueue::start(Gid(510), &settings).unwrap();
    let builder = script.context(3).block(1, sets(1, 1));
    let context = queue.context(builder).unwrap();
    let begun = clock();
    let ticket = context.enqueue(ExecId(1)).unwrap().network;
    let patience = Patience::until(PATIENCE);
    assert_eq!(queue.consume(ticket, patience), Ok(Status::TIMEOUT));
    assert_eq!(queue.release(Release::Drain, PATIENCE), Ok(()));
    let all = [Cause::Early(40), Cause::Early(60), Cause::Timeout];
    until("the timeout is told", || causes(510).len() >= all.len());
    assert_eq!(causes(510), all, "each once, in order, and no other");
    for (record, least) in told(510).iter().zip([800, 1200, 2000]) {
        let after = Duration::from_nanos(record.time.saturating_sub(begun));
        assert!(after >= Duration::from_millis(least), "{record}: {after:?}");
    }
}

#[test]
fn h47_h48_a_stuck_worker_delays_neither_the_timeout_nor_a_dump() {
    let script = Script::with(&["progress 1 -> block"]);
    let context = queue(480, 200, 0, &script);
    let ticket = context.enqueue(ExecId(1)).unwrap().network;
    until("the worker is inside progress", || script.count(1) > 0);
    let since = Instant::now();
    let dump = context.queue().dump();
    assert!(
        since.elapsed() < at_most(Duration::from_millis(200)),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(dump.tasks.len(), 1, "{dump:?}");
    let call = dump.inside.expect("a call");
    assert_eq!(call.call.to_string(), "neuronNetworkProxyProgress");
    let patience = Patience::until(PATIENCE);
    assert_eq!(
        context.queue().consume(ticket, patience),
        Ok(Status::TIMEOUT)
    );
    until("the timeout is told", || {
        causes(480).contains(&Cause::Timeout)
    });
    let last = told(480).pop().unwrap();
    assert!(matches!(last.waiting_on, WaitingOn::Call(_)), "{last}");
    assert_eq!(
        context.queue().unfinished().len(),
        1,
        "the worker still has it"
    );
    script.release();
    until("the worker has ended it", || {
        context.queue().unfinished().is_empty()
    });
    assert_eq!(context.queue().release(Release::Drain, PATIENCE), Ok(()));
}

#[test]
fn h49_a_dump_and_a_report_during_a_release_show_stopping() {
    let script = Script::with(&["stop 1 -> block"]);
    let context = queue(490, 0, 0, &script);
    let ticket = context.enqueue(ExecId(1)).unwrap().network;
    std::thread::scope(|scope| {
        let releasing = scope.spawn(|| context.queue().release(Release::Drain, PATIENCE));
        until("the release has begun", || {
            context.queue().dump().state == GroupState::Stopping
        });
        until("the worker is inside stop", || {
            let inside = context.queue().dump().inside;
            inside.is_some_and(|inside| inside.call.to_string() == "neuronStopNetworkProxy")
        });
        let report = Report::collect("a release takes its time").only(490);
        assert_eq!(report.groups[0].health, "stopping");
        let text = report.to_string();
        assert!(text.contains("\ngroup 490: stopping, "), "{text}");
        assert!(
            text.contains("inside neuronStopNetworkProxy for "),
            "{text}"
        );
        assert!(!releasing.is_finished());
        script.release();
        assert_eq!(releasing.join().unwrap(), Ok(()));
    });
    assert_eq!(
        context.queue().poll(ticket),
        Ok(Poll::Done(Status::SUCCESS))
    );
}

#[test]
fn h50_a_task_error_leaves_one_record_also_when_the_release_follows_at_once() {
    let script = Script::with(&["progress 3 -> ret=7"]);
    script.rule("progress 1..2 -> idle=0 done=0");
    let context = queue(500, 0, 0, &script);
    let ticket = context.enqueue(ExecId(5)).unwrap().network;
    assert_eq!(context.queue().release(Release::Drain, PATIENCE), Ok(()));
    assert_eq!(context.queue().poll(ticket), Ok(Poll::Done(Status(7))));
    until("the record is told", || !told(500).is_empty());
    let [record] = &told(500)[..] else {
        panic!("{:?}", told(500));
    };
    assert_eq!(record.cause, Cause::Failed(Status(7)));
    assert_eq!((record.exec, record.sequence), (ExecId(5), 0));
}

#[test]
fn h54_a_stalled_task_makes_the_group_stalled_until_it_moves() {
    let script = Script::with(&[IDLE]);
    let context = queue(540, 0, 200, &script);
    let health = || context.queue().health();
    assert_eq!(health(), Health::Ok);
    let ticket = context.enqueue(ExecId(1)).unwrap().network;
    until("the stall is noticed", || health() != Health::Ok);
    let Health::Stalled(first) = health() else {
        panic!("{:?}", health());
    };
    assert!(first >= Duration::from_millis(200), "{first:?}");
    until(
        "the age grows",
        || matches!(health(), Health::Stalled(age) if age > first),
    );
    until("the stall is told", || !told(540).is_empty());
    script.rule("progress * -> idle=0 done=0");
    until("it moves", || health() == Health::Ok);
    assert_eq!(causes(540), [Cause::Stalled]);
    script.rule("progress * -> done=1");
    let patience = Patience::until(PATIENCE);
    assert_eq!(
        context.queue().consume(ticket, patience),
        Ok(Status::SUCCESS)
    );
    assert_eq!(health(), Health::Ok);
}
