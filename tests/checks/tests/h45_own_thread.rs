//! What a callback on the worker's own thread may do to its group, and how long the end of a stuck group takes.
//!
//! Requirements: H45.

use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proxy_checks::pace::until;
use proxy_checks::script::{Script, sets};
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Gid, Poll, Status, TaskKind, Ticket};
use proxy_os::queue::DROP_PATIENCE;
use proxy_os::{
    ConsumeError, Context, Group, HostBarrier, Patience, ProxyQueue, Release, ReleaseError,
    Released, Settings,
};

const PATIENCE: Duration = Duration::from_secs(20);

type Errand = Box<dyn FnOnce() + Send>;

/// A barrier that runs errands on the worker's thread and never meets anybody.
struct Errands(Mutex<Receiver<Errand>>);

impl fmt::Debug for Errands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Errands")
    }
}

impl HostBarrier for Errands {
    fn arrive(&self, _: ExecId) -> BarrierPoll {
        let errand = self.0.lock().unwrap().try_recv();
        if let Ok(errand) = errand {
            errand();
        }
        BarrierPoll::Pending
    }

    fn signal(&self, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Pending
    }

    fn cancel(&self, _: ExecId) {}
}

/// A way to the worker's thread: an execution whose barrier runs what is sent.
struct Way {
    send: Sender<Errand>,
    barrier: Ticket,
    /// Kept so that a test says when it goes: it holds the queue.
    context: Context,
}

impl Way {
    fn open(queue: &Arc<ProxyQueue>, script: &Script) -> Self {
        let (send, receive) = mpsc::channel();
        let errands = Box::new(Errands(Mutex::new(receive)));
        let builder = script.context(0).block(1, sets(1, 1));
        let context = queue.context(builder.barrier(errands, Vec::new())).unwrap();
        let barrier = context.enqueue(ExecId(1)).unwrap().barrier.unwrap();
        Self {
            send,
            barrier,
            context,
        }
    }

    /// Runs `errand` on the worker's thread and returns what it answered.
    fn run<T: Send + 'static>(&self, errand: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, answered) = mpsc::channel();
        let errand: Errand = Box::new(move || answer.send(errand()).unwrap());
        self.send.send(errand).unwrap();
        answered.recv_timeout(PATIENCE).unwrap()
    }
}

fn acquire(gid: u32) -> Group {
    Group::acquire(Gid(gid), &Settings::default(), PATIENCE).expect("a group")
}

fn task(tid: u32) -> PathBuf {
    format!("/proc/self/task/{tid}").into()
}

#[test]
fn h45_a_release_on_the_workers_thread_leaves_the_share_held() {
    let script = Script::open();
    let mut group = acquire(450);
    let way = Way::open(group.queue(), &script);
    let (error, mut group) = way.run(move || (group.release(Release::Abort, PATIENCE), group));
    assert_eq!(error, Err(ReleaseError::FromWorker));
    assert_eq!(Group::sharers(Gid(450)), 1);
    let second = acquire(450);
    assert_eq!(second.queue().tid(), group.queue().tid());
    drop(second);
    let barrier = way.context.check(TaskKind::Barrier);
    assert!(
        matches!(barrier, Ok(Poll::Pending(_))),
        "nothing was aborted: {barrier:?}"
    );
    assert_eq!(group.release(Release::Abort, PATIENCE), Ok(Released::Ended));
}

#[test]
fn h45_a_group_dropped_on_its_workers_thread_ends_that_worker_without_waiting() {
    let script = Script::open();
    let group = acquire(451);
    let tid = group.queue().tid();
    let way = Way::open(group.queue(), &script);
    let since = Instant::now();
    way.run(move || drop(group));
    assert!(since.elapsed() < DROP_PATIENCE / 2, "{:?}", since.elapsed());
    assert_eq!(Group::sharers(Gid(451)), 0);
    until("the old worker is gone", || !task(tid).exists());
    assert_eq!(
        way.context.queue().poll(way.barrier),
        Ok(Poll::Done(Status::ABORTED))
    );
    assert_ne!(acquire(451).queue().tid(), tid);
}

#[test]
fn h45_a_queue_dropped_on_its_workers_thread_ends_that_worker() {
    let script = Script::open();
    let queue = ProxyQueue::start(Gid(452), &Settings::default()).unwrap();
    let tid = queue.tid();
    let Way { send, context, .. } = Way::open(&queue, &script);
    drop(queue);
    send.send(Box::new(move || drop(context))).unwrap();
    until("the worker is gone", || !task(tid).exists());
}

#[test]
fn a_worker_does_not_wait_for_its_own_tasks() {
    let script = Script::open();
    let queue = ProxyQueue::start(Gid(453), &Settings::default()).unwrap();
    let way = Way::open(&queue, &script);
    let (own, ticket) = (Arc::clone(&queue), way.barrier);
    let patience = Patience::until(Duration::from_secs(5));
    let answer = way.run(move || own.consume(ticket, patience));
    assert_eq!(answer, Err(ConsumeError::FromWorker));
    assert_eq!(queue.release(Release::Abort, PATIENCE), Ok(()));
    assert_eq!(queue.consume(ticket, patience), Ok(Status::ABORTED));
}

#[test]
fn a_dropped_group_waits_once_for_a_worker_that_is_stuck() {
    let script = Script::with(&["progress 1 -> block"]);
    let group = acquire(454);
    let tid = group.queue().tid();
    let builder = script.context(0).block(1, sets(1, 1));
    let context = group.queue().context(builder).unwrap();
    context.enqueue(ExecId(1)).unwrap();
    until("the worker is inside progress", || script.count(1) > 0);
    drop(context);
    let since = Instant::now();
    drop(group);
    let took = since.elapsed();
    assert!(
        (DROP_PATIENCE..DROP_PATIENCE * 3 / 2).contains(&took),
        "{took:?}"
    );
    assert_ne!(acquire(454).queue().tid(), tid);
    script.release();
    until("the worker left behind is gone", || !task(tid).exists());
}
