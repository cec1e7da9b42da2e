//! The device gate: start words, arms, both polarities.

use proxy_core::port::DeviceWords;
use proxy_core::trigger::{CONSUMED, SENTINEL};
use proxy_core::{
    Arming, Cause, EnqueueError, ExecId, Polarity, Poll, Rank, RunState, Spec, Status, Stream,
    TaskKind,
};

use crate::desk::{Call, Desk, ENDS, Small, Worker};
use crate::{Outcome, cases, ensure, take};

cases![
    no_stream_progresses_before_every_word_has_fired,
    a_fire_opens_the_gate_of_one_execution,
    a_stale_zero_opens_nothing,
    the_headers_polarity_is_the_reverse,
    a_fire_before_its_arm_is_refused,
    a_device_that_arms_itself_is_obeyed,
    words_that_gate_nothing_are_left_alone,
    who_ends_before_its_gate_gives_its_arm_back,
    a_reset_forgets_arms_and_words,
];

const NETWORK: TaskKind = TaskKind::Network;

const fn waiting(streams: u8) -> Spec {
    Spec {
        streams,
        device_wait: true,
        ..Spec::new(Rank(0))
    }
}

fn no_stream_progresses_before_every_word_has_fired() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&waiting(2)), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    ensure!(desk.load(context, NETWORK, Stream(0)) == SENTINEL, "armed");
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
    }
    desk.fire(context, NETWORK, 1, 7);
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let starts = [Call::Start(0, 0), Call::Start(1, 0)];
    ensure!(desk.called(&starts), "one word of two opens nothing");
    let ticket = take!(appended.network, "ticket");
    let waiting = Ok(Poll::Pending(RunState::WaitingDeviceTrigger));
    ensure!(queue.poll(ticket) == waiting, "it waits");
    desk.fire(context, NETWORK, 0, 1);
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "through"
    );
    let words = [0, 1].map(|stream| desk.load(context, NETWORK, Stream(stream)));
    ensure!(words == [CONSUMED; 2], "both words are consumed");
    Ok(())
}

fn a_fire_opens_the_gate_of_one_execution() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&waiting(1)), "registered");
    let first = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let second = take!(queue.enqueue(context, ExecId(2), &desk), "appended");
    let tickets = (
        take!(first.network, "ticket"),
        take!(second.network, "ticket"),
    );
    desk.fire(context, NETWORK, 0, 1);
    for _ in 0..6 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let waiting = Ok(Poll::Pending(RunState::WaitingDeviceTrigger));
    ensure!(
        queue.poll(tickets.0) == Ok(Poll::Done(Status::SUCCESS)),
        "first"
    );
    ensure!(queue.poll(tickets.1) == waiting, "the second waits");
    ensure!(
        desk.load(context, NETWORK, Stream(0)) == SENTINEL,
        "armed again"
    );
    desk.fire(context, NETWORK, 0, 2);
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(
        queue.poll(tickets.1) == Ok(Poll::Done(Status::SUCCESS)),
        "second"
    );
    Ok(())
}

fn a_stale_zero_opens_nothing() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let spec = Spec {
        arming: Arming::Explicit,
        ..waiting(1)
    };
    let context = take!(queue.register(&spec), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    for _ in 0..4 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let ticket = take!(appended.network, "ticket");
    let waiting = Ok(Poll::Pending(RunState::WaitingDeviceTrigger));
    ensure!(
        queue.poll(ticket) == waiting,
        "0 reads as fired, but nobody armed"
    );
    ensure!(queue.arm(context, NETWORK, &desk) == Ok(()), "armed");
    desk.fire(context, NETWORK, 0, 3);
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "through"
    );
    Ok(())
}

fn the_headers_polarity_is_the_reverse() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let spec = Spec {
        polarity: Polarity::Header,
        ..waiting(1)
    };
    let context = take!(queue.register(&spec), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    desk.fire(context, NETWORK, 0, 7);
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(desk.called(&[Call::Start(0, 0)]), "7 is not fired");
    desk.fire(context, NETWORK, 0, SENTINEL);
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let ticket = take!(appended.network, "ticket");
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "all ones is"
    );
    Ok(())
}

fn a_fire_before_its_arm_is_refused() -> Outcome {
    let (queue, desk) = (Small::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&waiting(2)), "registered");
    desk.fire(context, NETWORK, 1, 9);
    let refused = queue.enqueue(context, ExecId(1), &desk);
    let named = matches!(
        refused,
        Err(EnqueueError::FiredBeforeArm(fired)) if (fired.stream, fired.word) == (Stream(1), 9)
    );
    ensure!(named, "stream and word are named");
    ensure!(queue.tasks().next().is_none(), "nothing was appended");
    Ok(())
}

fn a_device_that_arms_itself_is_obeyed() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let spec = Spec {
        arming: Arming::ByDevice,
        ..waiting(1)
    };
    let context = take!(queue.register(&spec), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
    }
    ensure!(
        desk.called(&[Call::Start(0, 0)]),
        "0 is what a consume left"
    );
    desk.fire(context, NETWORK, 0, SENTINEL);
    let _ = worker.tick(&queue, &mut desk);
    desk.fire(context, NETWORK, 0, 4);
    for _ in 0..2 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let ticket = take!(appended.network, "ticket");
    ensure!(
        queue.poll(ticket) == Ok(Poll::Done(Status::SUCCESS)),
        "through"
    );
    Ok(())
}

fn words_that_gate_nothing_are_left_alone() -> Outcome {
    let (queue, desk) = (Small::new(), Desk::new(|_| ENDS));
    let skipped = Spec {
        skip: true,
        ..waiting(1)
    };
    for spec in [Spec::new(Rank(0)), skipped] {
        let context = take!(queue.register(&spec), "registered");
        let _ = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
        let word = desk.load(context, NETWORK, Stream(0));
        ensure!(word == 0, "no device wait, or no stage to wait with");
    }
    Ok(())
}

fn who_ends_before_its_gate_gives_its_arm_back() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let context = take!(queue.register(&waiting(1)), "registered");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    let ordered = queue.order(take!(appended.network, "ticket"), Cause::Aborted);
    ensure!(ordered.is_ok(), "ordered to end");
    ensure!(worker.tick(&queue, &mut desk).aborted == 1, "it ends");
    let word = desk.load(context, NETWORK, Stream(0));
    ensure!(word == SENTINEL, "the word stays armed");
    desk.fire(context, NETWORK, 0, 5);
    let late = queue.enqueue(context, ExecId(2), &desk);
    let refused = matches!(late, Err(EnqueueError::FiredBeforeArm(fired)) if fired.word == 5);
    ensure!(refused, "nothing was armed when it fired");
    Ok(())
}

fn a_reset_forgets_arms_and_words() -> Outcome {
    let (queue, mut worker, mut desk) = (Small::new(), Worker::new(), Desk::new(|_| ENDS));
    let spec = Spec {
        arming: Arming::Explicit,
        ..waiting(2)
    };
    let context = take!(queue.register(&spec), "registered");
    ensure!(queue.arm(context, NETWORK, &desk) == Ok(()), "armed");
    desk.fire(context, NETWORK, 1, 9);
    ensure!(queue.reset_words(context, &desk) == Ok(()), "reset");
    let words = [0, 1].map(|stream| desk.load(context, NETWORK, Stream(stream)));
    ensure!(words == [CONSUMED; 2], "armed or fired, both words");
    let appended = take!(queue.enqueue(context, ExecId(1), &desk), "appended");
    for _ in 0..3 {
        let _ = worker.tick(&queue, &mut desk);
    }
    let ticket = take!(appended.network, "ticket");
    let waiting = Ok(Poll::Pending(RunState::WaitingDeviceTrigger));
    ensure!(queue.poll(ticket) == waiting, "the arm is forgotten");
    let busy = queue.reset_words(context, &desk);
    ensure!(busy.is_err(), "not while an execution is unfinished");
    Ok(())
}
