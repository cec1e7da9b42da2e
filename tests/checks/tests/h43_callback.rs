//! H43: a library whose stop calls back into this driver while the last release of the group is joining its worker.
#![allow(
    unsafe_code,
    reason = "the stub follows its communicator to a function"
)]

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use proxy_checks::pace::until;
use proxy_checks::script::sets;
use proxy_checks::stub::Scratch;
use proxy_core::{ExecId, Gid, Poll, PollError, Rank, Status, TaskKind, Ticket};
use proxy_os::diagnosis::Report;
use proxy_os::nccom::{Comm, Library, ProxyComm};
use proxy_os::{
    AbortError, ConsumeError, ContextBuilder, Group, GroupState, Patience, ProxyQueue, Release,
    ReleaseError, Released, Settings,
};

const PATIENCE: Duration = Duration::from_secs(20);
const GID: Gid = Gid(4300);
const OTHER: Gid = Gid(4301);

/// What the callback asks about, set before the release.
static ASKED: OnceLock<(std::sync::Weak<ProxyQueue>, Ticket)> = OnceLock::new();
/// What it found wrong, and how often it was called.
static FOUND: Mutex<(Vec<String>, u32)> = Mutex::new((Vec::new(), 0));

fn acquire(gid: Gid) -> Group {
    Group::acquire(gid, &Settings::default(), PATIENCE).expect("a group")
}

/// Everything that a callback may want of the driver. Runs on the worker, inside the library's stop.
extern "C" fn back() {
    let mut wrong = Vec::new();
    let mut check = |what: &str, right: bool| {
        if !right {
            wrong.push(what.to_owned());
        }
    };
    let (queue, ticket) = ASKED.get().expect("set before the release");
    let queue = queue.upgrade().expect("it is being released");
    until("the release is joining", || {
        queue.dump().state == GroupState::Stopping
    });
    check("list of groups", Group::count() >= 1);
    let _ = Group::sharers(GID);
    let pending = matches!(queue.poll(*ticket), Ok(Poll::Pending(_)));
    check("poll of a status", pending);
    check("unfinished tasks", queue.unfinished().len() == 1);
    check("a report", !Report::collect("callback").groups.is_empty());
    let own = queue.release(Release::Abort, PATIENCE);
    check("its own release", own == Err(ReleaseError::FromWorker));
    let patience = Patience::until(PATIENCE);
    let own = queue.consume(*ticket, patience);
    check("its own consume", own == Err(ConsumeError::FromWorker));
    let unknown = queue.check(proxy_core::ContextId::from_parts(77, 1), TaskKind::Network);
    check("a look-up", unknown == Err(PollError::Unknown));
    let mut other = acquire(OTHER);
    let released = other.release(Release::Drain, PATIENCE);
    check(
        "another group's whole life",
        released == Ok(Released::Ended),
    );
    let aborted = queue.abort(*ticket, PATIENCE);
    check(
        "an abort, which is obeyed later",
        matches!(aborted, Ok(()) | Err(AbortError::Task(_))),
    );
    let mut found = FOUND.lock().expect("no panic");
    found.0.extend(wrong);
    found.1 += 1;
}

#[test]
fn h43_stop_calls_back_into_the_driver_while_the_last_release_joins() {
    static BACK: extern "C" fn() = back;
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &["CALL_BACK"]);
    let library = Library::load(stub.path.as_os_str()).expect("the stub loads");
    let comm = Comm::new((&raw const BACK).cast_mut().cast()).expect("an address");
    // SAFETY: the stub follows the communicator to the function, which is never freed, and looks at no other argument.
    let comm = unsafe { ProxyComm::new(library, comm, 2) };
    let mut group = acquire(GID);
    let queue = std::sync::Arc::clone(group.queue());
    let builder = ContextBuilder::new(comm, Rank(0)).block(1, sets(1, 1));
    let context = queue.context(builder).expect("a context");
    let ticket = context.enqueue(ExecId(1)).expect("room").network;
    ASKED
        .set((std::sync::Arc::downgrade(&queue), ticket))
        .expect("set once");
    let since = Instant::now();
    // The stub's task never ends by itself, so its stop is called when the release aborts it.
    let released = group.release(Release::Abort, PATIENCE);
    assert_eq!(released, Ok(Released::Ended));
    assert!(since.elapsed() < PATIENCE / 4, "{:?}", since.elapsed());
    let found = FOUND.lock().expect("no panic");
    assert_eq!(*found, (Vec::new(), 1));
    assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::ABORTED)));
    assert_eq!(stub.count("call StopNetworkProxy"), 1);
}
