//! Status: which task, which answer, which text.
//!
//! Requirements: H11, H12, H13.

use std::collections::BTreeSet;

use proxy_core::{
    Accounts, ContextId, Driver, ExecId, Poll, PollError, Queue, Rank, RunState, Spec, Status,
    TaskKind, Ticket,
};
use proxy_kit::oracle::Call;

use crate::desk::{Desk, ENDS, IDLE};

type Shared = Queue<1, 4, 2>;

#[test]
fn h11_two_executions_of_a_context_are_told_apart() {
    let queue = Shared::new();
    let context = queue.register(&Spec::new(Rank(0))).unwrap();
    let mut progressed = 0;
    let mut desk = Desk::new(|call| match call {
        Call::Progress(..) => {
            progressed += 1;
            if progressed == 1 { ENDS } else { IDLE }
        }
        _ => IDLE,
    });
    let first = queue.enqueue(context, ExecId(1), &desk).unwrap();
    let second = queue.enqueue(context, ExecId(2), &desk).unwrap();
    assert!(
        first.sequence < second.sequence,
        "one rank alone counts, too"
    );
    let accounts = |unfinished| {
        Some(Accounts {
            appends: 2,
            unfinished,
        })
    };
    assert_eq!(queue.accounts(context), accounts(2));
    let mut worker = Driver::<1, 4>::new();
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    assert_eq!(queue.accounts(context), accounts(1));
    assert_eq!(Shared::new().accounts(context), None, "not one of its own");
    let (first, second) = (first.network.unwrap(), second.network.unwrap());
    let pending = Ok(Poll::Pending(RunState::Idle));
    assert_eq!(queue.poll(second), pending, "not the state of execution 1");
    let oldest = queue.check(context, TaskKind::Network);
    assert_eq!(oldest, Ok(Poll::Done(Status::SUCCESS)));
    assert_eq!(queue.poll(first), Err(PollError::AlreadyConsumed));
    assert_eq!(queue.check(context, TaskKind::Network), pending);
}

#[test]
fn h12_consumed_unknown_and_failed_are_three_answers() {
    let queue = Shared::new();
    let context = queue.register(&Spec::new(Rank(0))).unwrap();
    let mut desk = Desk::new(|_| crate::desk::fails(Status::HW_ERROR));
    let ticket = queue.enqueue(context, ExecId(1), &desk).unwrap();
    let ticket = ticket.network.unwrap();
    let _ = Driver::<1, 4>::new().tick(&queue, &mut desk);
    assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::HW_ERROR)));
    for _ in 0..2 {
        assert_eq!(queue.poll(ticket), Err(PollError::AlreadyConsumed));
    }
    let never = [
        Ticket::from_parts(3, 1),
        Ticket::from_parts(0, 0),
        Ticket::from_parts(ticket.slot(), ticket.generation() + 1),
        Ticket::from_parts(4, 1),
        Ticket::from_parts(u32::MAX, usize::MAX),
    ];
    for ticket in never {
        assert_eq!(queue.poll(ticket), Err(PollError::Unknown), "{ticket}");
    }
    let nobody = ContextId::from_parts(1, 1);
    for context in [context, nobody] {
        let found = queue.check(context, TaskKind::Network);
        assert_eq!(found, Err(PollError::Unknown));
    }
}

#[test]
fn h13_every_status_has_a_text_of_its_own() {
    let mut texts = BTreeSet::new();
    let mut codes = BTreeSet::new();
    for status in Status::KNOWN {
        let text = status.text().unwrap();
        assert!(!text.is_empty() && texts.insert(text), "{status:?}: {text}");
        assert!(codes.insert(status.0), "{status:?}");
        assert!(status.to_string().contains(text));
    }
    assert_eq!(
        Status::KNOWN.iter().filter(|status| status.0 >= 0).count(),
        28
    );
}

#[test]
fn h13_a_code_that_nobody_knows_is_carried_through() {
    let queue = Shared::new();
    let context = queue.register(&Spec::new(Rank(0))).unwrap();
    let mut worker = Driver::<1, 4>::new();
    for code in [4242, i32::MAX, i32::MIN] {
        let mut desk = Desk::new(|_| crate::desk::fails(Status(code)));
        let appended = queue.enqueue(context, ExecId(1), &desk).unwrap();
        let _ = worker.tick(&queue, &mut desk);
        let poll = queue.poll(appended.network.unwrap());
        assert_eq!(poll, Ok(Poll::Done(Status(code))));
    }
    assert_eq!(Status(4242).to_string(), "unknown library code 4242");
}
