//! F13: the budgets of the worker's waiting reach it under the names that an operator sets, seen by its own counters: how often it
//! paused, yielded and slept.
//!
//! An idle task, which a library never ends, and no task at all hold the worker at one rung of the ladder each, so that what it does there
//! is a matter of its budget alone and of no other load.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fs, thread};

use proxy_checks::pace::until;
use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Status};
use proxy_os::consume::ConsumeError;
use proxy_os::watch::Counters;
use proxy_os::{Patience, ProxyQueue, Release, Settings};

const PATIENCE: Duration = Duration::from_secs(20);
const TICKS: &str = "NEURON_RT_PROXY_SPIN_TICKS";
const TIME: &str = "NEURON_RT_PROXY_SPIN_US";
const SPINS: &str = "NEURON_RT_PROXY_WAIT_SPINS";
/// Half an hour: longer than any test.
const LONG: &str = "1800000000";

/// A worker's settings, as an operator gives them.
fn queue(gid: u32, ticks: &str, time: &str) -> Arc<ProxyQueue> {
    let given = |name: &str| match name {
        TICKS => Some(OsString::from(ticks)),
        TIME => Some(OsString::from(time)),
        _ => None,
    };
    let settings = Settings::from_lookup(given).expect("good settings");
    ProxyQueue::start(Gid(gid), &settings).expect("a queue")
}

/// The counters once `enough` holds for them.
fn counted(queue: &ProxyQueue, what: &str, enough: impl Fn(&Counters) -> bool) -> Counters {
    until(what, || enough(&queue.counters()));
    queue.counters()
}

/// What a worker with an idle task has done once `enough` holds; a quiescent one sleeps at once.
fn with_an_idle_task(gid: u32, ticks: &str, enough: impl Fn(&Counters) -> bool) -> Counters {
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let queue = queue(gid, ticks, "0");
    let builder = script.context(1).block(1, sets(1, 1));
    let context = queue.context(builder).expect("a context");
    let _ticket = context.enqueue(ExecId(1)).expect("appended");
    let seen = counted(&queue, "the worker waits for its task", enough);
    queue.release(Release::Abort, PATIENCE).expect("released");
    seen
}

#[test]
fn f13_spin_ticks_reach_the_worker_as_pauses_before_its_first_yield() {
    let many = |counters: &Counters| counters.yields >= 1000;
    for (gid, ticks, pauses) in [(1300, "0", 0), (1301, "7", 7), (1302, "500", 500)] {
        let seen = with_an_idle_task(gid, ticks, many);
        assert_eq!(seen.pauses, pauses, "{TICKS}={ticks}: {seen:?}");
    }
    let paused = |counters: &Counters| counters.pauses >= 1000;
    let seen = with_an_idle_task(1303, "4294967295", paused);
    assert_eq!(seen.yields, 0, "never, with that many ticks: {seen:?}");
}

#[test]
fn f13_spin_time_reaches_the_worker_as_pauses_before_its_sleep() {
    let never = queue(1310, "16", "0");
    let seen = counted(&never, "it sleeps", |counters| counters.sleeps > 0);
    assert_eq!((seen.pauses, seen.yields), (0, 0), "{TIME}=0: {seen:?}");
    never.release(Release::Drain, PATIENCE).expect("released");

    let long = queue(1311, "16", LONG);
    let many = |counters: &Counters| counters.pauses >= 10_000;
    let seen = counted(&long, "it spins", many);
    assert_eq!(
        (seen.sleeps, seen.yields),
        (0, 0),
        "{TIME}={LONG}: {seen:?}"
    );
    long.release(Release::Drain, PATIENCE).expect("released");
}

/// Lets a thread wait for a task that does not end, until `enough` holds for its folder in `/proc`.
fn with_a_consumer(gid: u32, spins: &str, enough: impl Fn(&Path) -> bool) {
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let given = |name: &str| (name == SPINS).then(|| OsString::from(spins));
    let settings = Settings::from_lookup(given).expect("good settings");
    let queue = ProxyQueue::start(Gid(gid), &settings).expect("a queue");
    let builder = script.context(1).block(1, sets(1, 1));
    let context = queue.context(builder).expect("a context");
    let ticket = context.enqueue(ExecId(1)).expect("appended").network;
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let link = fs::read_link("/proc/thread-self").expect("procfs");
            tell.send(link).expect("the test waits for it");
            queue.consume(ticket, Patience::default())
        });
        let folder = Path::new("/proc").join(told.recv().expect("the thread says where it is"));
        until("the consumer waits as it was told", || enough(&folder));
        queue.release(Release::Abort, PATIENCE).expect("released");
        assert_eq!(consumer.join().expect("no panic"), Ok(Status::ABORTED));
    });
}

/// How often a thread has given its CPU up by itself, and its time on one in nanoseconds.
fn spent(thread: &Path) -> (u64, u64) {
    let text = |name| fs::read_to_string(thread.join(name)).expect("the thread lives");
    let (status, times) = (text("status"), text("schedstat"));
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse().ok());
    let spent = number(own).zip(number(times.split(' ').next()));
    spent.expect("two numbers")
}

#[test]
fn f13_wait_spins_reach_the_consumer_as_looks_before_its_sleep() {
    with_a_consumer(1320, "0", |thread| {
        let status = fs::read_to_string(thread.join("status")).expect("the thread lives");
        status.contains("State:\tS (sleeping)")
    });
    let first = Cell::new(None);
    with_a_consumer(1321, "4294967295", |thread| {
        let (switches, time) = spent(thread);
        let (before, since) = first.get().unwrap_or((switches, time));
        first.set(Some((before, since)));
        assert_eq!(switches, before, "it gives its CPU up");
        time - since > 30_000_000
    });
}

#[test]
fn f13_no_number_of_looks_outlasts_the_deadline() {
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let given = |name: &str| (name == SPINS).then(|| OsString::from("4294967295"));
    let settings = Settings::from_lookup(given).expect("good settings");
    let queue = ProxyQueue::start(Gid(1330), &settings).expect("a queue");
    let builder = script.context(1).block(1, sets(1, 1));
    let context = queue.context(builder).expect("a context");
    let ticket = context.enqueue(ExecId(1)).expect("appended").network;
    let limit = Duration::from_millis(20);
    match queue.consume(ticket, Patience::until(limit)) {
        Err(ConsumeError::Timeout { waited, .. }) => {
            assert!(waited >= limit && waited < PATIENCE, "{waited:?}");
        }
        other => panic!("{other:?}"),
    }
    queue.release(Release::Abort, PATIENCE).expect("released");
}
