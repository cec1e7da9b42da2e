//! The look-up by context and kind against the reuse of a slot, and of a context's place: a field of the slot's next task is never taken
//! for the last one's, and nothing that is kept of a context for the next one's.
//!
//! Requirements: H11.

use proxy_core::{Driver, ExecId, Poll, PollError, Queue, Rank, RunState, Spec, Status, TaskKind};
use proxy_loom::host::{NoWords, plain};
use proxy_loom::rt::{self, Arc};

type Shared = Queue<1, 2, 2>;

/// A task of `moving` passes PROGRESSING; one of `skipping`, which takes the same slot later, goes from INIT to DONE. A look-up
/// of `skipping` must never say PROGRESSING.
fn body() {
    let queue = Arc::new(Shared::new());
    let moving = queue.register(&Spec::new(Rank(0))).unwrap();
    let spec = Spec {
        skip: true,
        ..Spec::new(Rank(0))
    };
    let skipping = queue.register(&spec).unwrap();
    let first = queue.enqueue(moving, ExecId(1), &NoWords).unwrap();
    let first = first.network.unwrap();
    let second = queue.enqueue(moving, ExecId(2), &NoWords).unwrap();
    assert_ne!(second.network.unwrap().slot(), first.slot());
    let mut driver = Driver::<1, 2>::new();
    let mut host = plain();
    let _ = driver.tick(&queue, &mut host);
    let state = Ok(Poll::Pending(RunState::Progressing));
    assert_eq!(queue.check(moving, TaskKind::Network), state);
    let everyone_else = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            assert_eq!(driver.tick(&queue, &mut host).done, 2);
            assert_eq!(queue.poll(first), Ok(Poll::Done(Status::SUCCESS)));
            let again = queue.enqueue(skipping, ExecId(3), &NoWords).unwrap();
            assert_eq!(again.network.unwrap().slot(), first.slot());
        })
    };
    let reader = rt::spawn(move || match queue.check(skipping, TaskKind::Network) {
        Err(PollError::Unknown) | Ok(Poll::Pending(RunState::Init)) => {}
        other => panic!("another task's state: {other:?}"),
    });
    rt::join(everyone_else);
    rt::join(reader);
}

/// A look-up beside two appends of one producer keeps nothing that would put the second before the first.
fn order() {
    let queue = Arc::new(Shared::new());
    let spec = Spec {
        skip: true,
        ..Spec::new(Rank(0))
    };
    let context = queue.register(&spec).unwrap();
    let producer = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            [1, 2].map(|exec| {
                let appended = queue.enqueue(context, ExecId(exec), &NoWords).unwrap();
                appended.network.unwrap()
            })
        })
    };
    let reader = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let found = queue.check(context, TaskKind::Network);
            assert!(matches!(
                found,
                Err(PollError::Unknown) | Ok(Poll::Pending(RunState::Init))
            ));
        })
    };
    let last = rt::spawn(move || {
        let [first, second] = rt::join(producer);
        rt::join(reader);
        let mut host = plain();
        assert_eq!(Driver::<1, 2>::new().tick(&queue, &mut host).done, 2);
        let found = queue.check(context, TaskKind::Network);
        assert_eq!(found, Ok(Poll::Done(Status::SUCCESS)));
        assert_eq!(queue.poll(first), Err(PollError::AlreadyConsumed));
        assert_eq!(queue.poll(second), Ok(Poll::Done(Status::SUCCESS)));
        let found = queue.check(context, TaskKind::Network);
        assert_eq!(found, Err(PollError::Unknown));
    });
    rt::join(last);
}

/// A look-up of a context beside its retire and all that its place's next context does: what it does not find is kept for itself only,
/// and the next one's end is found.
fn next_context() {
    let queue = Arc::new(Queue::<1, 2, 1>::new());
    let spec = Spec {
        skip: true,
        ..Spec::new(Rank(0))
    };
    let old = queue.register(&spec).unwrap();
    let reader = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            let found = queue.check(old, TaskKind::Network);
            assert_eq!(found, Err(PollError::Unknown));
        })
    };
    let everyone_else = rt::spawn(move || {
        queue.retire(old).unwrap();
        let next = queue.register(&spec).unwrap();
        assert_eq!(next.index(), old.index());
        assert!(queue.enqueue(next, ExecId(1), &NoWords).is_ok());
        assert_eq!(Driver::<1, 2>::new().tick(&queue, &mut plain()).done, 1);
        rt::join(reader);
        let found = queue.check(next, TaskKind::Network);
        assert_eq!(found, Ok(Poll::Done(Status::SUCCESS)));
    });
    rt::join(everyone_else);
}

#[test]
fn h11_a_lookup_of_a_context_that_goes_hides_nothing_of_the_next() {
    rt::large_model("look-up of the next", 20, next_context);
}

#[test]
fn h11_a_lookup_beside_appends_does_not_change_their_order() {
    rt::model("look-up order", 100, order);
}

#[test]
fn h11_a_lookup_never_mixes_two_tasks_of_one_slot() {
    rt::model("look-up", 1000, body);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::SlotFields, "look-up", body);
}
