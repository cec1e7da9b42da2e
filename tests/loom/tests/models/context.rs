//! Contexts: registered and retired beside enqueues that use them.
//!
//! Requirements: H10.

use proxy_core::{
    ContextError, ContextId, Driver, EnqueueError, ExecId, Poll, Queue, Rank, Spec, Status,
    TaskKind,
};
use proxy_loom::host::{Host, NoWords, Word, plain};
use proxy_loom::rt::{self, Arc, AtomicU32, Ordering};

type Shared = Queue<2, 2, 2>;

fn skipping(rank: u32) -> Spec {
    Spec {
        skip: true,
        ..Spec::new(Rank(rank))
    }
}

/// A producer that has been told the id by another way than a synchronising one sees nothing or the whole context.
fn publication() {
    let queue = Arc::new(Shared::new());
    let other = queue.register(&skipping(3)).unwrap();
    let register = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let id = queue.register(&skipping(7)).unwrap();
            assert_eq!((id.index(), id.generation()), (1, 1));
        })
    };
    let producer = rt::spawn(move || {
        let guessed = ContextId::from_parts(1, 1);
        assert_ne!(guessed, other);
        match queue.enqueue(guessed, ExecId(1), &NoWords) {
            Err(EnqueueError::UnknownContext) => {}
            Ok(appended) => {
                let slot = appended.network.unwrap().slot();
                assert!(slot >= 2, "a slot of another rank: {slot}");
            }
            Err(error) => panic!("{error}"),
        }
    });
    rt::join(register);
    rt::join(producer);
}

#[test]
fn a_context_is_seen_whole_or_not_at_all() {
    rt::model("context publication", 20, publication);
}

/// An enqueue beside a retire: it is refused, or its task runs to its end. The retire may say busy in either case, and the next
/// context of the place starts with clean accounts.
fn enqueue_against_retire() {
    let queue = Arc::new(Queue::<1, 2, 1>::new());
    let context = queue.register(&skipping(0)).unwrap();
    let producer = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || queue.enqueue(context, ExecId(1), &NoWords))
    };
    let retirer = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let retired = queue.retire(context);
            let next = retired
                .is_ok()
                .then(|| queue.register(&skipping(0)).unwrap());
            (retired, next)
        })
    };
    let worker = rt::spawn(move || {
        let mut driver = Driver::<1, 2>::new();
        let mut host = plain();
        let _ = driver.tick(&queue, &mut host);
        let appended = rt::join(producer);
        let (retired, next) = rt::join(retirer);
        let _ = driver.tick(&queue, &mut host);
        match (&appended, retired) {
            (Ok(appended), _) => {
                let poll = queue.poll(appended.network.unwrap());
                assert_eq!(
                    poll,
                    Ok(Poll::Done(Status::SUCCESS)),
                    "accepted and not run"
                );
            }
            (Err(EnqueueError::UnknownContext), _) => assert!(host.ended.is_empty()),
            other => panic!("{other:?}"),
        }
        if let Err(error) = retired {
            assert_eq!(
                error,
                ContextError::Busy { unfinished: 1 },
                "busy with the one task"
            );
        }
        let last = next.unwrap_or(context);
        assert_eq!(queue.retire(last), Ok(()), "the accounts are clean");
    });
    rt::join(worker);
}

#[test]
fn an_enqueue_beside_a_retire_is_refused_or_runs() {
    rt::model("context retire", 1000, enqueue_against_retire);
}

/// A retire that succeeds finds the library's last access to the context's memory behind it.
fn last_access() {
    let queue = Arc::new(Queue::<1, 2, 1>::new());
    let context = queue.register(&Spec::new(Rank(0))).unwrap();
    let memory = Arc::new(AtomicU32::new(0));
    assert!(
        queue
            .append(context, TaskKind::Network, ExecId(1), &NoWords)
            .is_ok()
    );
    let worker = {
        let (queue, memory) = (Arc::clone(&queue), Arc::clone(&memory));
        rt::spawn(move || {
            let library = |_| {
                // Relaxed: published by the count of finished tasks.
                memory.fetch_add(1, Ordering::Relaxed);
                Status::FAILURE
            };
            let mut host = Host::new(Word::new(0), library);
            assert_eq!(Driver::<1, 2>::new().tick(&queue, &mut host).done, 1);
        })
    };
    let retirer = rt::spawn(move || {
        if queue.retire(context).is_ok() {
            // Relaxed: acquired by the retire.
            let calls = memory.load(Ordering::Relaxed);
            assert_eq!(calls, 1, "retired while the library was inside");
        }
    });
    rt::join(worker);
    rt::join(retirer);
}

#[test]
fn h10_a_retired_context_is_not_touched_any_more() {
    rt::model("context last access", 10, last_access);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::ContextPublish, "context publication", publication);
    rt::must_fail_without(Edge::ContextRead, "context publication", publication);
    rt::must_fail_without(Edge::ContextFinish, "context last access", last_access);
}
