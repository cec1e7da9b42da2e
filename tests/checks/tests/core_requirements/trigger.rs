//! Device trigger: one fire, one start, for the oldest, and nothing else.
//!
//! Requirements: H14, H15, H17, H18.

use proxy_core::trigger::{FiredBeforeArm, SENTINEL};
use proxy_core::{
    Arming, Cause, ContextError, ContextId, Driver, EnqueueError, ExecId, Polarity, Queue, Rank,
    RunState, Spec, Status, Stream, TaskKind, Ticket,
};
use proxy_kit::oracle::{Answer, Call};

use crate::desk::{Desk, ENDS, IDLE, fails};

type Shared = Queue<1, 4, 2>;
type Worker = Driver<1, 4>;

fn gated() -> Spec {
    Spec {
        device_wait: true,
        ..Spec::new(Rank(0))
    }
}

fn ticks<F: FnMut(Call) -> Answer>(queue: &Shared, worker: &mut Worker, desk: &mut Desk<F>) {
    for _ in 0..10 {
        let _ = worker.tick(queue, desk);
    }
}

fn word<F: FnMut(Call) -> Answer>(desk: &Desk<F>, context: ContextId) -> u32 {
    desk.words.borrow().get(context, TaskKind::Network, 0)
}

/// The device raises N+1 after the host has seen N and before it consumes N.
#[test]
fn h14_a_late_consume_does_not_erase_the_next_fire() {
    let queue = Shared::new();
    let context = queue.register(&gated()).unwrap();
    let mut desk = Desk::new(|_| ENDS).with_device(|words, context, stream| {
        if words.get(context, TaskKind::Network, stream) == 1 {
            words.set(context, TaskKind::Network, stream, 2);
        }
    });
    for exec in 1..=2 {
        assert!(queue.enqueue(context, ExecId(exec), &desk).is_ok());
    }
    desk.fire(context, 0, 1);
    ticks(&queue, &mut Worker::new(), &mut desk);
    assert_eq!(desk.entered(RunState::Done), [1, 2]);
}

/// The fire falls between the looks of two executions that wait at the same words.
#[test]
fn h14_a_fire_between_two_looks_starts_the_older_execution() {
    let queue = Shared::new();
    let context = queue.register(&gated()).unwrap();
    let looks = std::cell::Cell::new(0);
    let mut desk = Desk::new(|_| ENDS).with_device(move |words, context, stream| {
        looks.set(looks.get() + 1);
        // The first load is enqueue's; the next is the older execution's.
        if looks.get() == 2 {
            words.set(context, TaskKind::Network, stream, 7);
        }
    });
    for exec in 1..=2 {
        assert!(queue.enqueue(context, ExecId(exec), &desk).is_ok());
    }
    ticks(&queue, &mut Worker::new(), &mut desk);
    assert_eq!(desk.entered(RunState::Progressing), [1]);
    assert_eq!(desk.entered(RunState::Done), [1], "one fire, one start");
}

#[test]
fn h15_a_word_that_is_not_armed_again_starts_nothing() {
    for arming in [Arming::Explicit, Arming::ByDevice] {
        let queue = Shared::new();
        let context = queue.register(&Spec { arming, ..gated() }).unwrap();
        let mut desk = Desk::new(|_| ENDS);
        let mut worker = Worker::new();
        for exec in 1..=2 {
            assert!(queue.enqueue(context, ExecId(exec), &desk).is_ok());
        }
        ticks(&queue, &mut worker, &mut desk);
        assert_eq!(desk.entered(RunState::Done), [0_u64; 0], "{arming:?}");
        if arming == Arming::Explicit {
            queue.arm(context, TaskKind::Network, &desk).unwrap();
            assert_eq!(word(&desk, context), SENTINEL);
        }
        desk.fire(context, 0, 1);
        ticks(&queue, &mut worker, &mut desk);
        assert_eq!(word(&desk, context), 0, "consumed, and 0 reads as fired");
        assert_eq!(desk.entered(RunState::Done), [1], "{arming:?}");
    }
}

#[test]
fn h15_a_fire_before_the_arm_is_detected() {
    for (polarity, early) in [(Polarity::Specification, 5), (Polarity::Header, SENTINEL)] {
        let queue = Shared::new();
        let spec = Spec {
            polarity,
            streams: 2,
            ..gated()
        };
        let context = queue.register(&spec).unwrap();
        let desk = Desk::new(|_| ENDS);
        desk.fire(context, 1, early);
        let error = FiredBeforeArm {
            stream: Stream(1),
            word: early,
        };
        let refused = Err(EnqueueError::FiredBeforeArm(error));
        assert_eq!(queue.enqueue(context, ExecId(1), &desk), refused);
        assert_eq!(queue.retire(context), Ok(()), "nothing was appended");
    }
}

/// What a failed start leaves: a word that is armed for nobody and a device that fires all the same.
fn late_fire(
    polarity: Polarity,
    late: u32,
) -> (Shared, ContextId, Desk<impl FnMut(Call) -> Answer>) {
    let queue = Shared::new();
    let spec = Spec {
        polarity,
        ..gated()
    };
    let context = queue.register(&spec).unwrap();
    let mut starts = 0;
    let mut desk = Desk::new(move |call| {
        starts += u32::from(matches!(call, Call::Start(..)));
        if starts == 1 { fails(Status(9)) } else { ENDS }
    });
    assert!(queue.enqueue(context, ExecId(1), &desk).is_ok());
    assert_eq!(
        queue.reset_words(context, &desk),
        Err(ContextError::Busy { unfinished: 1 })
    );
    assert_eq!(word(&desk, context), polarity.armed_value(), "untouched");
    ticks(&queue, &mut Worker::new(), &mut desk);
    assert_eq!(desk.entered(RunState::Done), [1]);
    desk.fire(context, 0, late);
    (queue, context, desk)
}

#[test]
fn h15_after_a_reset_the_fire_of_an_ended_execution_starts_nothing() {
    for (polarity, late) in [(Polarity::Specification, 5), (Polarity::Header, SENTINEL)] {
        let (queue, context, mut desk) = late_fire(polarity, late);
        let enqueue = |desk: &Desk<_>, exec| queue.enqueue(context, ExecId(exec), desk);
        for _ in 0..2 {
            let refused = enqueue(&desk, 2);
            assert!(matches!(refused, Err(EnqueueError::FiredBeforeArm(_))));
        }
        assert_eq!(queue.reset_words(context, &desk), Ok(()));
        assert_eq!(word(&desk, context), 0);
        let mut worker = Worker::new();
        assert!(enqueue(&desk, 2).is_ok());
        ticks(&queue, &mut worker, &mut desk);
        assert_eq!(desk.entered(RunState::Done), [1], "{polarity:?}");
        desk.fire(context, 0, late);
        ticks(&queue, &mut worker, &mut desk);
        assert_eq!(desk.entered(RunState::Done), [1, 2], "{polarity:?}");
    }
}

#[test]
fn h15_a_reset_takes_unused_arms_back() {
    let queue = Shared::new();
    let spec = Spec {
        arming: Arming::Explicit,
        ..gated()
    };
    let context = queue.register(&spec).unwrap();
    let mut desk = Desk::new(|_| ENDS);
    queue.arm(context, TaskKind::Network, &desk).unwrap();
    assert_eq!(queue.reset_words(context, &desk), Ok(()));
    assert!(queue.enqueue(context, ExecId(1), &desk).is_ok());
    desk.fire(context, 0, 5);
    ticks(&queue, &mut Worker::new(), &mut desk);
    assert_eq!(desk.entered(RunState::Done), [0_u64; 0], "not armed");
    assert_eq!(
        queue.reset_words(ContextId::from_parts(1, 1), &desk),
        Err(ContextError::Unknown)
    );
}

/// Explicit arms, network and barrier tasks of two executions each, whose tickets of this kind are returned.
fn two_waiting(
    kind: TaskKind,
    worker: &mut Worker,
) -> (
    Shared,
    ContextId,
    Desk<impl FnMut(Call) -> Answer + use<>>,
    [Ticket; 2],
) {
    let queue = Shared::new();
    let spec = Spec {
        arming: Arming::Explicit,
        barrier: true,
        barrier_triggers: 1,
        ..gated()
    };
    let context = queue.register(&spec).unwrap();
    let mut desk = Desk::new(|_| ENDS);
    let tickets = [1, 2].map(|exec| {
        let appended = queue.append(context, kind, ExecId(exec), &desk).unwrap();
        appended.network.or(appended.barrier).unwrap()
    });
    ticks(&queue, worker, &mut desk);
    (queue, context, desk, tickets)
}

/// A younger execution ends that nobody has armed; the older one's arm stays.
#[test]
fn h15_an_execution_that_was_not_armed_takes_no_arm_with_it() {
    for kind in [TaskKind::Network, TaskKind::Barrier] {
        let mut worker = Worker::new();
        let (queue, context, mut desk, tickets) = two_waiting(kind, &mut worker);
        queue.arm(context, kind, &desk).unwrap();
        let _ = queue.order(tickets[1], Cause::TimedOut).unwrap();
        ticks(&queue, &mut worker, &mut desk);
        assert_eq!(desk.entered(RunState::Done), [2], "{kind}");
        desk.words.borrow_mut().set(context, kind, 0, 5);
        ticks(&queue, &mut worker, &mut desk);
        assert_eq!(desk.entered(RunState::Done), [2, 1], "{kind}");
    }
}

#[test]
fn h15_an_execution_that_cannot_be_started_takes_no_other_ones_arm_with_it() {
    let queue = Shared::new();
    let spec = Spec {
        arming: Arming::Explicit,
        ..gated()
    };
    let context = queue.register(&spec).unwrap();
    let mut starts = 0;
    let mut desk = Desk::new(move |call| {
        starts += u32::from(matches!(call, Call::Start(..)));
        if starts == 2 { fails(Status(9)) } else { ENDS }
    });
    for exec in 1..=2 {
        assert!(queue.enqueue(context, ExecId(exec), &desk).is_ok());
    }
    queue.arm(context, TaskKind::Network, &desk).unwrap();
    let mut worker = Worker::new();
    ticks(&queue, &mut worker, &mut desk);
    assert_eq!(desk.entered(RunState::Done), [2]);
    desk.fire(context, 0, 5);
    ticks(&queue, &mut worker, &mut desk);
    assert_eq!(desk.entered(RunState::Done), [2, 1]);
}

/// Each takes its own, the younger one also where the older one's end is only a verdict that nobody has taken.
#[test]
fn h15_executions_that_were_armed_take_their_arms_with_them() {
    let mut worker = Worker::new();
    let kind = TaskKind::Network;
    let (queue, context, mut desk, tickets) = two_waiting(kind, &mut worker);
    for ticket in tickets {
        queue.arm(context, kind, &desk).unwrap();
        let _ = queue.order(ticket, Cause::Aborted).unwrap();
        assert!(queue.conclude(ticket));
    }
    ticks(&queue, &mut worker, &mut desk);
    assert_eq!(desk.entered(RunState::Done), [1, 2]);
    let third = queue.append(context, kind, ExecId(3), &desk);
    assert!(third.is_ok());
    desk.fire(context, 0, 5);
    ticks(&queue, &mut worker, &mut desk);
    assert_eq!(desk.entered(RunState::Done), [1, 2], "it was not armed");
    let late = queue.arm(context, kind, &desk);
    assert!(matches!(late, Err(EnqueueError::FiredBeforeArm(_))));
}

/// What the trigger module says of a device that does not wait for the consume.
#[test]
fn h14_a_word_that_is_fired_twice_before_a_look_has_fired_once() {
    let queue = Shared::new();
    let context = queue.register(&gated()).unwrap();
    let mut desk = Desk::new(|_| ENDS);
    let mut worker = Worker::new();
    for exec in 1..=2 {
        assert!(queue.enqueue(context, ExecId(exec), &desk).is_ok());
    }
    desk.fire(context, 0, 1);
    desk.fire(context, 0, 2);
    ticks(&queue, &mut worker, &mut desk);
    assert_eq!(desk.entered(RunState::Done), [1]);
    assert_eq!(word(&desk, context), SENTINEL, "consumed, and armed for 2");
    desk.fire(context, 0, 3);
    ticks(&queue, &mut worker, &mut desk);
    assert_eq!(desk.entered(RunState::Done), [1, 2]);
}

/// The device fires between the reset's load and its swap.
#[test]
fn h15_a_reset_consumes_what_the_device_writes_meanwhile() {
    let queue = Shared::new();
    let context = queue.register(&gated()).unwrap();
    let desk = Desk::new(|_| ENDS).with_device(|words, context, stream| {
        if words.get(context, TaskKind::Network, stream) == 1 {
            words.set(context, TaskKind::Network, stream, 2);
        }
    });
    desk.fire(context, 0, 1);
    assert_eq!(queue.reset_words(context, &desk), Ok(()));
    assert_eq!(word(&desk, context), 0);
}

#[test]
fn h17_only_the_valid_prefix_of_the_words_is_touched() {
    let queue = Shared::new();
    let spec = Spec {
        streams: 2,
        ..gated()
    };
    let context = queue.register(&spec).unwrap();
    let mut desk = Desk::new(|_| ENDS);
    assert!(queue.enqueue(context, ExecId(1), &desk).is_ok());
    let mut worker = Worker::new();
    ticks(&queue, &mut worker, &mut desk);
    desk.fire(context, 0, 1);
    ticks(&queue, &mut worker, &mut desk);
    assert_eq!(
        desk.entered(RunState::Progressing),
        [0_u64; 0],
        "1 of 2 fired"
    );
    desk.fire(context, 1, 1);
    ticks(&queue, &mut worker, &mut desk);
    assert_eq!(desk.entered(RunState::Done), [1]);
    assert!(desk.touched.borrow().iter().all(|stream| *stream < 2));
}

#[test]
fn h17_no_streams_are_ready_at_once_and_five_are_refused() {
    let queue = Shared::new();
    let context = queue
        .register(&Spec {
            streams: 0,
            ..gated()
        })
        .unwrap();
    let mut desk = Desk::new(|_| IDLE);
    assert!(queue.enqueue(context, ExecId(1), &desk).is_ok());
    ticks(&queue, &mut Worker::new(), &mut desk);
    assert_eq!(desk.entered(RunState::Done), [1]);
    assert!(desk.touched.borrow().is_empty());
    let five = Spec {
        streams: 5,
        ..gated()
    };
    let error = ContextError::OutOfRange {
        field: "streams",
        found: 5,
        accepted: "0 to 4",
    };
    assert_eq!(queue.register(&five), Err(error));
}

/// What a dump needs of the core: that a task waits, and which of its words has not fired.
#[test]
fn h18_the_stream_that_is_waited_for_can_be_named() {
    let queue = Shared::new();
    let spec = Spec {
        streams: 4,
        ..gated()
    };
    let context = queue.register(&spec).unwrap();
    let mut desk = Desk::new(|_| IDLE);
    assert!(queue.enqueue(context, ExecId(1), &desk).is_ok());
    for stream in [0, 1, 3] {
        desk.fire(context, stream, 6);
    }
    ticks(&queue, &mut Worker::new(), &mut desk);
    let task = queue.tasks().next().unwrap();
    assert_eq!(task.state, RunState::WaitingDeviceTrigger);
    assert_eq!((task.context, task.exec), (context, ExecId(1)));
    let words = desk.words.borrow();
    let waited = (0..4)
        .map(|stream| words.get(task.context, task.kind, stream))
        .map(|word| spec.polarity.is_fired(word));
    assert!(waited.eq([true, true, false, true]));
}
