//! H39, H50: a panic on the worker's thread ends its group's tasks by name, and nothing else.
//!
//! Code of the embedder runs on that thread: its host barriers. (A sink of messages that panics costs its message alone: `log_sink`.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::pace::until;
use proxy_checks::script::{Script, sets};
use proxy_core::port::BarrierPoll;
use proxy_core::{EnqueueError, ExecId, Gid, Status, TaskKind, Ticket};
use proxy_os::report::Cause;
use proxy_os::{
    BuildError, Context, Group, GroupState, Health, HostBarrier, Patience, ProxyQueue, Release,
    Released, Settings,
};

const PATIENCE: Duration = Duration::from_secs(20);
/// What the requirement calls promptly, on a machine with more to run than it has CPUs, whose panic hook may print a backtrace first.
const PROMPT: Duration = Duration::from_secs(5);
/// A task that never moves.
const IDLE: &str = "progress * -> idle=1 done=0";

/// What a test sees and orders of a barrier.
#[derive(Debug, Default)]
struct Strings {
    /// The next call of `arrive` panics.
    cut: AtomicBool,
    /// `cancel` panics, too.
    twice: AtomicBool,
    cancelled: AtomicU32,
    freed: AtomicBool,
}

/// A barrier that meets nobody, and panics when it is told to.
#[derive(Debug)]
struct Puppet(Arc<Strings>);

impl HostBarrier for Puppet {
    fn arrive(&self, _: ExecId) -> BarrierPoll {
        // Acquire pairs with the test's release.
        assert!(!self.0.cut.load(Ordering::Acquire), "cut");
        BarrierPoll::Pending
    }

    fn signal(&self, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Pending
    }

    fn cancel(&self, _: ExecId) {
        // Acquire pairs with the test's release.
        assert!(!self.0.twice.load(Ordering::Acquire), "cut twice");
        // Release pairs with the acquire of who looks.
        self.0.cancelled.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        // Release pairs with the acquire of who looks.
        self.0.freed.store(true, Ordering::Release);
    }
}

fn acquire(gid: u32) -> Group {
    Group::acquire(Gid(gid), &Settings::default(), PATIENCE).expect("a group")
}

/// A context of `rank` whose executions never end, and its barrier's strings.
fn context(queue: &Arc<ProxyQueue>, script: &Script, rank: u32) -> (Context, Arc<Strings>) {
    let strings = Arc::new(Strings::default());
    let puppet = Box::new(Puppet(Arc::clone(&strings)));
    let builder = script.context(rank).block(1, sets(1, 1));
    let builder = builder.barrier(puppet, Vec::new());
    (queue.context(builder).expect("a context"), strings)
}

/// Both tickets of one execution.
fn enqueue(context: &Context, exec: u64) -> [Ticket; 2] {
    let execution = context.enqueue(ExecId(exec)).expect("room");
    [execution.network, execution.barrier.expect("a barrier")]
}

/// Appends, by whatever name, are refused with the reason.
fn refuses_by_name(context: &Context, script: &Script) {
    let died = Err(EnqueueError::WorkerDied);
    assert_eq!(context.enqueue(ExecId(9)), died);
    let append = context.append(TaskKind::Network, ExecId(9));
    assert_eq!(append, Err(EnqueueError::WorkerDied));
    let builder = script.context(3).block(1, sets(1, 1));
    let (queue, gid) = (context.queue(), context.queue().gid());
    let refused = queue.context(builder).map(drop);
    assert_eq!(refused, Err(BuildError::Closed(gid)));
    assert_eq!(queue.health(), Health::Dead);
    assert_eq!(queue.dump().state, GroupState::Dead);
}

#[test]
fn h39_h50_a_panic_on_the_worker_ends_every_task_of_its_group_and_no_other() {
    let (script, other) = (Script::with(&[IDLE]), Script::open());
    let (mut group, mut bystander) = (acquire(390), acquire(391));
    let queue = Arc::clone(group.queue());
    let (first, strings) = context(&queue, &script, 0);
    let (second, peers) = context(&queue, &script, 1);
    let tickets: Vec<Ticket> = [enqueue(&first, 1), enqueue(&first, 2), enqueue(&second, 1)]
        .into_iter()
        .flatten()
        .collect();
    until("each context's first network task is started", || {
        script.count(0) == 2
    });
    let patience = Patience::until(PATIENCE);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| queue.consume(tickets[0], patience));
        let since = Instant::now();
        // Release pairs with the worker's acquire.
        strings.cut.store(true, Ordering::Release);
        assert_eq!(waiting.join().unwrap(), Ok(Status::WORKER_DIED));
        assert!(since.elapsed() < PROMPT, "{:?}", since.elapsed());
    });
    for ticket in &tickets[1..] {
        assert_eq!(queue.consume(*ticket, patience), Ok(Status::WORKER_DIED));
    }
    assert_eq!(script.count(2), 2, "each started stream was stopped once");
    assert_eq!(peers.cancelled.load(Ordering::Acquire), 1, "peers are told");
    refuses_by_name(&first, &script);
    until("each task has left its record", || {
        queue.reports().len() == tickets.len()
    });
    let causes = queue.reports();
    let died = |record: &proxy_os::Record| record.cause == Cause::WorkerDied;
    assert!(causes.iter().all(died), "{causes:?}");

    let builder = other.context(0).block(1, sets(1, 1));
    let alive = bystander.queue().context(builder).expect("a context");
    let ticket = alive.enqueue(ExecId(1)).expect("room").network;
    assert_eq!(alive.queue().consume(ticket, patience), Ok(Status::SUCCESS));
    let since = Instant::now();
    assert_eq!(group.release(Release::Drain, PATIENCE), Ok(Released::Ended));
    assert!(since.elapsed() < PROMPT, "{:?}", since.elapsed());
    assert!(first.retire().is_ok() && second.retire().is_ok());
    until("what the contexts had is freed", || {
        strings.freed.load(Ordering::Acquire) && peers.freed.load(Ordering::Acquire)
    });
    let mut next = acquire(390);
    assert_eq!(next.queue().health(), Health::Ok, "a worker of its own");
    assert_eq!(next.release(Release::Drain, PATIENCE), Ok(Released::Ended));
    assert_eq!(
        bystander.release(Release::Drain, PATIENCE),
        Ok(Released::Ended)
    );
}

/// The way to end a task in order panics as well: every ticket still has its code, and what the library may work on is never freed.
#[test]
fn h37_h39_a_port_that_panics_twice_costs_memory_but_no_ticket() {
    let script = Script::with(&[IDLE]);
    let mut group = acquire(392);
    let queue = Arc::clone(group.queue());
    let (first, strings) = context(&queue, &script, 0);
    let (second, lent) = context(&queue, &script, 1);
    let tickets = [enqueue(&first, 1), enqueue(&second, 1)];
    until("both streams are started", || script.count(0) == 2);
    strings.twice.store(true, Ordering::Release); // the worker's acquire
    strings.cut.store(true, Ordering::Release); // the worker's acquire
    let patience = Patience::until(PATIENCE);
    for ticket in tickets.into_iter().flatten() {
        assert_eq!(queue.consume(ticket, patience), Ok(Status::WORKER_DIED));
    }
    refuses_by_name(&second, &script);
    let since = Instant::now();
    assert_eq!(group.release(Release::Abort, PATIENCE), Ok(Released::Ended));
    assert!(since.elapsed() < PROMPT, "{:?}", since.elapsed());
    assert!(first.retire().is_ok() && second.retire().is_ok());
    drop((group, queue));
    assert!(
        !lent.freed.load(Ordering::Acquire),
        "a started stream was not stopped, so the library may still read its records"
    );
}
