//! F18: every error of a task is told once, in order and soon, also those that come up while another is being told; what there is no room for is
//! counted, and the count is told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proxy_checks::messages;
use proxy_checks::pace::{at_most, until};
use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Status};
use proxy_os::log::Level;
use proxy_os::{Context, Patience, ProxyQueue, Release, Settings, watchdog};

const PATIENCE: Duration = Duration::from_secs(20);
const FAILS: &str = "progress * -> ret=7";

/// A process has one handler, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());
static TOLD: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Keeps the watchdog inside the handler.
static HELD: AtomicBool = AtomicBool::new(false);

fn told() -> MutexGuard<'static, Vec<u64>> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    messages::collect();
    told().clear();
    watchdog::set_handler(Some(|record| {
        told().push(record.exec.0);
        // Acquire pairs with the release of the test.
        while HELD.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }));
    turn
}

/// A context whose executions fail, in a group whose watchdog looks once a second if nobody nudges it.
fn failing(gid: u32, script: &Script) -> Context {
    let queue = ProxyQueue::start(Gid(gid), &Settings::default()).unwrap();
    let builder = script.context(0).block(1, sets(1, 1));
    queue.context(builder).unwrap()
}

fn fail(context: &Context, exec: u64) {
    let ticket = context.enqueue(ExecId(exec)).unwrap().network;
    let code = context.queue().consume(ticket, Patience::until(PATIENCE));
    assert_eq!(code, Ok(Status(7)));
}

/// Fails executions `first` and, while the watchdog tells of it, the others up to `end`; then lets the watchdog go on.
fn fail_beside(context: &Context, first: u64, end: u64) {
    let before = told().len();
    HELD.store(true, Ordering::Release); // the handler's acquire
    fail(context, first);
    until("the first is being told", || told().len() == before + 1);
    (first + 1..end).for_each(|exec| fail(context, exec));
    HELD.store(false, Ordering::Release); // the handler's acquire
}

/// 63 executions in flight, the reference runtime's limit, have 126 tasks.
#[test]
fn f18_errors_that_come_up_while_one_is_told_are_all_told_the_first_one_first() {
    let _turn = turn();
    let script = Script::with(&[FAILS]);
    let context = failing(1800, &script);
    fail_beside(&context, 0, 126);
    until("all are told", || told().len() == 126);
    assert!(told().iter().copied().eq(0..126), "{:?}", told());
    assert!(context.queue().release(Release::Drain, PATIENCE).is_ok());
}

#[test]
fn f18_errors_without_room_are_the_last_ones_and_counted() {
    const ROOM: u64 = 8192;
    let _turn = turn();
    let script = Script::with(&[FAILS]);
    let context = failing(1801, &script);
    fail_beside(&context, 0, 1 + ROOM + 10);
    let lost = || messages::with("gid 1801: 10 more errors");
    until("the others are counted", || !lost().is_empty());
    until("those that had room are told", || {
        told().len() > ROOM as usize
    });
    assert!(told().iter().copied().eq(0..=ROOM), "{}", told().len());
    let text = "gid 1801: 10 more errors of tasks, told to nobody: 8192 wait at most";
    assert_eq!(lost(), [(Level::Warn, text.to_owned())]);
    assert_eq!(context.queue().counters().failures, 1 + ROOM + 10);
    assert!(context.queue().release(Release::Drain, PATIENCE).is_ok());
}

/// Eight times what may be late by a second: the test is not about how fast the machine is.
#[test]
fn f18_an_error_that_comes_up_while_another_is_told_is_told_next_and_not_at_the_next_look() {
    let _turn = turn();
    let script = Script::with(&[FAILS]);
    let context = failing(1802, &script);
    let since = Instant::now();
    for round in 0..8 {
        fail_beside(&context, 2 * round, 2 * round + 2);
        let both = usize::try_from(2 * round + 2).unwrap();
        until("the second is told", || told().len() == both);
    }
    let took = since.elapsed();
    assert!(took < at_most(Duration::from_secs(4)), "{took:?}");
    assert!(context.queue().release(Release::Drain, PATIENCE).is_ok());
}
