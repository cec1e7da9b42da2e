//! Contexts that are refused, contexts that are freed, and a barrier that keeps its queue but not the library.
//!
//! Requirements: H36, H45.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proxy_checks::pace::until;
use proxy_checks::script::{Script, sets};
use proxy_core::port::BarrierPoll;
use proxy_core::{ContextError, ExecId, Gid, Poll, Rank, Status, TaskKind};
use proxy_os::{BuildError, HostBarrier, Patience, ProxyQueue, Release, ReleaseError, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

fn queue(gid: u32) -> Arc<ProxyQueue> {
    ProxyQueue::start(Gid(gid), &Settings::default()).expect("a worker")
}

/// A barrier that nobody else comes to. Says when it is freed.
#[derive(Debug, Default)]
struct Alone(Arc<AtomicBool>);

impl HostBarrier for Alone {
    fn arrive(&self, _: ExecId) -> BarrierPoll {
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

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn h36_a_worker_that_has_left_the_library_is_not_called_stuck() {
    let script = Script::open();
    let queue = queue(1);
    let builder = script.context(0).block(1, sets(1, 1));
    let builder = builder.barrier(Box::new(Alone::default()), Vec::new());
    let context = queue.context(builder).unwrap();
    // The library's last call returns before the release begins, and the barrier makes none.
    let execution = context.enqueue(ExecId(1)).unwrap();
    assert_eq!(
        queue.consume(execution.network, Patience::until(PATIENCE)),
        Ok(Status::SUCCESS)
    );
    match queue.release(Release::Drain, Duration::from_millis(50)) {
        Err(ReleaseError::Timeout { unfinished, .. }) => {
            let kinds: Vec<_> = unfinished.iter().map(|task| task.kind).collect();
            assert_eq!(kinds, [TaskKind::Barrier]);
        }
        other => panic!("{other:?}"),
    }
}

/// Retires a context that the worker has seen, and waits for its memory to be freed.
fn retire_and_watch(queue: &Arc<ProxyQueue>, script: &Script) {
    let freed = Arc::new(AtomicBool::new(false));
    let builder = script.context(0).block(1, sets(1, 1));
    let barrier = Box::new(Alone(Arc::clone(&freed)));
    let context = queue.context(builder.barrier(barrier, Vec::new())).unwrap();
    // The network task alone: the barrier's would never end.
    let ticket = context.append(TaskKind::Network, ExecId(1)).unwrap();
    assert_eq!(
        queue.consume(ticket, Patience::until(PATIENCE)),
        Ok(Status::SUCCESS)
    );
    assert!(!freed.load(Ordering::Acquire));
    assert!(context.retire().is_ok());
    until("the context is freed", || freed.load(Ordering::Acquire));
}

#[test]
fn a_retired_contexts_memory_is_freed_by_a_worker_without_tasks() {
    retire_and_watch(&queue(1), &Script::open());
}

#[test]
fn a_retired_contexts_memory_is_freed_by_a_worker_that_is_busy_with_another_task() {
    let busy = Script::with(&["progress * -> idle=1 done=0"]);
    let queue = queue(1);
    let other = queue.context(busy.context(0).block(1, sets(1, 1))).unwrap();
    let held = other.enqueue(ExecId(1)).unwrap();
    retire_and_watch(&queue, &Script::open());
    assert!(matches!(queue.poll(held.network), Ok(Poll::Pending(_))));
}

#[test]
fn h45_two_hundred_ranks_are_served_one_after_the_other() {
    let (script, queue) = (Script::open(), queue(1));
    for rank in 0..200 {
        let builder = script.context_among(rank, 200).block(1, sets(1, 1));
        let context = queue.context(builder).unwrap();
        let ticket = context.append(TaskKind::Network, ExecId(1)).unwrap();
        // Every other status is left behind, and stands in nobody's way.
        if rank % 2 == 0 {
            let status = queue.consume(ticket, Patience::until(PATIENCE));
            assert_eq!(status, Ok(Status::SUCCESS));
        }
        drop(context);
        until("the context is retired", || queue.unfinished().is_empty());
    }
}

/// Drops busy contexts until the table has been filled several times over.
#[test]
fn h45_a_context_dropped_while_busy_gives_its_place_back() {
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let queue = queue(1);
    let freed = Arc::new(AtomicBool::new(false));
    let builder = script.context(0).block(1, sets(1, 1));
    let barrier = Box::new(Alone(Arc::clone(&freed)));
    let context = queue.context(builder.barrier(barrier, Vec::new())).unwrap();
    // The network task alone: the barrier's would never end.
    let ticket = context.append(TaskKind::Network, ExecId(1)).unwrap();
    drop(context);
    assert!(matches!(queue.poll(ticket), Ok(Poll::Pending(_))));
    assert!(!freed.load(Ordering::Acquire), "freed under its task");
    script.rule("progress * -> done=1");
    let status = queue.consume(ticket, Patience::until(PATIENCE));
    assert_eq!(status, Ok(Status::SUCCESS), "its status is kept");
    until("the context is freed", || freed.load(Ordering::Acquire));

    for exec in 0..1000 {
        let context = queue
            .context(script.context(0).block(1, sets(1, 1)))
            .unwrap();
        let execution = context.enqueue(ExecId(exec)).unwrap();
        drop(context);
        let status = queue.consume(execution.network, Patience::until(PATIENCE));
        assert_eq!(status, Ok(Status::SUCCESS));
    }
}

#[test]
fn a_context_outside_its_communicator_or_its_queues_life_is_refused() {
    let script = Script::open();
    let queue = queue(8);
    let refused = |builder| queue.context(builder).unwrap_err();
    let outside = refused(script.context(8).block(1, sets(1, 1)));
    assert_eq!(
        outside,
        BuildError::Rank {
            rank: Rank(8),
            ranks: 8
        }
    );
    let many = (0..70_000).fold(script.context(0), |builder, id| {
        builder.block(id, Vec::new())
    });
    let too_many = ContextError::OutOfRange {
        field: "blocks",
        found: 70_000,
        accepted: "1 to 1024",
    };
    assert_eq!(refused(many), BuildError::Context(too_many));
    assert_eq!(queue.release(Release::Drain, PATIENCE), Ok(()));
    assert_eq!(
        refused(script.context(0).block(1, sets(1, 1))),
        BuildError::Closed(Gid(8))
    );
}
