//! Queue and driver against the oracle: every result, every call in order, every start word, over random and over all short
//! sequences of operations.

use std::cell::RefCell;

use proxy_core::port::BarrierPoll;
use proxy_core::{Arming, Cause, Polarity, Rank, Shut, Spec, Status, StopAt, TaskKind};
use proxy_kit::oracle::{Event, Library, Mood, XorShift};
use proxy_kit::pair::{CONTEXTS, Op, Pair, all, quiet};

fn random_spec(random: &mut XorShift) -> Spec {
    let small = |random: &mut XorShift, below| u8::try_from(random.below(below)).unwrap();
    Spec {
        rank: random.pick(&[Rank(9), Rank(2), Rank(5), Rank(7), Rank(0)]),
        streams: if random.once_in(8) {
            0
        } else {
            1 + small(random, 4)
        },
        blocks: u16::from(1 + small(random, 3)),
        skip: random.once_in(8),
        device_wait: random.once_in(2),
        barrier: random.once_in(2),
        barrier_triggers: small(random, 3),
        polarity: random.pick(&[Polarity::Specification, Polarity::Header]),
        arming: random.pick(&[Arming::OnEnqueue, Arming::Explicit, Arming::ByDevice]),
        stop_at: random.pick(&[StopAt::End, StopAt::Switch]),
    }
}

fn random_op(random: &mut XorShift, contexts: usize, tasks: usize) -> Op {
    let kind = random.pick(&[TaskKind::Network, TaskKind::Barrier]);
    let number = usize::try_from(random.below(u64::try_from(contexts).unwrap())).unwrap();
    let errors = random.pick(&[12, 30, 1000]);
    let mixed = Mood::Mixed {
        seed: random.next(),
        errors,
    };
    let task = usize::try_from(random.below(1 + u64::try_from(tasks).unwrap())).unwrap();
    let cause = random.pick(&[Cause::Aborted, Cause::TimedOut]);
    match random.below(115) {
        100..107 => Op::Order(task, cause),
        107..109 => Op::OrderContext(number, cause),
        109..113 => Op::Conclude(task),
        113 | 114 => Op::Peek(task),
        0..20 => Op::Enqueue(number),
        20..25 => Op::Append(number, kind),
        25..30 => Op::Arm(number, kind),
        30..45 => {
            let stream = u8::try_from(random.below(4)).unwrap();
            let value = random.pick(&[0, 1, 7, u32::MAX]);
            Op::Fire(number, kind, stream, value)
        }
        45..80 => Op::Tick(mixed),
        80..87 => Op::Poll(task),
        87..94 => Op::Check(number, kind),
        94 => Op::ArmBell,
        95 => Op::Reset(number),
        96 => Op::Retire(number),
        97 | 98 => Op::Register(number),
        _ if random.once_in(4) => Op::Shut(random.pick(&[Shut::Closed, Shut::Dead])),
        _ => Op::AbortAll(mixed),
    }
}

/// Runs `check`, and names what was run if it fails.
fn named(what: impl Fn() -> String, check: impl FnOnce()) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    if let Err(panic) = outcome {
        eprintln!("{}", what());
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn random_sequences_agree() {
    for seed in 1..=20_000 {
        let trace = RefCell::new(Vec::new());
        let what = || format!("seed {seed}: {:#?}", trace.borrow());
        named(what, || {
            let mut random = XorShift::new(seed);
            let count = random.pick(&[1, 2, CONTEXTS]);
            let specs: Vec<Spec> = (0..count).map(|_| random_spec(&mut random)).collect();
            let mut pair = Pair::new(&specs);
            for _ in 0..60 {
                let op = random_op(&mut random, count, pair.tickets.len());
                trace.borrow_mut().push(op);
                pair.run(op);
            }
            pair.finish();
        });
    }
}

/// All sequences of `length` operations of `alphabet`.
fn exhaust(specs: &[Spec], alphabet: &[Op], length: u32) {
    let sequences = alphabet.len().pow(length);
    for number in 0..sequences {
        let op = |at| alphabet[number / alphabet.len().pow(at) % alphabet.len()];
        let what = || format!("{specs:#?}: {:#?}", (0..length).map(op).collect::<Vec<_>>());
        named(what, || {
            let mut pair = Pair::new(specs);
            (0..length).for_each(|at| pair.run(op(at)));
            pair.finish();
        });
    }
}

const NETWORK: TaskKind = TaskKind::Network;
const BARRIER: TaskKind = TaskKind::Barrier;

#[test]
fn all_short_sequences_with_triggers_and_barrier_agree() {
    let spec = Spec {
        device_wait: true,
        barrier: true,
        barrier_triggers: 1,
        ..Spec::new(Rank(3))
    };
    let alphabet = [
        Op::Enqueue(0),
        Op::Fire(0, NETWORK, 0, 1),
        Op::Fire(0, BARRIER, 0, 7),
        Op::Tick(quiet()),
        Op::Tick(all(true, false, Status::SUCCESS, BarrierPoll::Pending)),
        Op::Tick(all(false, false, Status::FAILURE, BarrierPoll::Ready)),
        Op::Check(0, NETWORK),
    ];
    exhaust(&[spec], &alphabet, 6);
}

#[test]
fn all_short_sequences_of_explicit_arming_agree() {
    let spec = Spec {
        device_wait: true,
        arming: Arming::Explicit,
        streams: 2,
        ..Spec::new(Rank(3))
    };
    let alphabet = [
        Op::Enqueue(0),
        Op::Arm(0, NETWORK),
        Op::Fire(0, NETWORK, 0, 0),
        Op::Fire(0, NETWORK, 1, 5),
        Op::Tick(quiet()),
        Op::Register(0),
        Op::Reset(0),
        Op::AbortAll(quiet()),
    ];
    exhaust(&[spec], &alphabet, 6);
}

#[test]
fn all_short_sequences_of_blocks_and_stops_agree() {
    let spec = Spec {
        streams: 2,
        blocks: 3,
        stop_at: StopAt::Switch,
        ..Spec::new(Rank(3))
    };
    let alphabet = [
        Op::Enqueue(0),
        Op::Tick(quiet()),
        Op::Tick(all(false, false, Status::SUCCESS, BarrierPoll::Ready)),
        Op::Tick(Mood::Mixed {
            seed: 4,
            errors: 1_000_000,
        }),
        Op::Tick(Mood::Mixed { seed: 9, errors: 3 }),
        Op::ArmBell,
        Op::Poll(0),
    ];
    exhaust(&[spec], &alphabet, 6);
}

#[test]
fn all_short_sequences_of_orders_and_verdicts_agree() {
    let spec = Spec {
        device_wait: true,
        ..Spec::new(Rank(3))
    };
    let alphabet = [
        Op::Enqueue(0),
        Op::Fire(0, NETWORK, 0, 1),
        Op::Tick(quiet()),
        Op::Order(0, Cause::TimedOut),
        Op::OrderContext(0, Cause::Aborted),
        Op::Conclude(0),
        Op::Poll(0),
        Op::ArmBell,
    ];
    exhaust(&[spec], &alphabet, 6);
}

/// Four ranks take turns at three places.
#[test]
fn all_short_sequences_of_more_ranks_than_places_agree() {
    let specs = [4, 3, 2, 1].map(|rank| Spec::new(Rank(rank)));
    let alphabet = [
        Op::Enqueue(0),
        Op::Enqueue(3),
        Op::AbortAll(quiet()),
        Op::Poll(0),
        Op::Retire(0),
        Op::Retire(1),
        Op::Register(0),
        Op::Register(3),
    ];
    exhaust(&specs, &alphabet, 6);
}

/// The comparison itself can fail: what a tick calls is really looked at.
#[test]
fn a_wrong_prediction_is_noticed() {
    let mut pair = Pair::new(&[Spec::new(Rank(0))]);
    pair.run(Op::Enqueue(0));
    let mut library = Library::new(quiet());
    let _ = pair.oracle.tick(&mut library);
    let calls = library
        .events
        .iter()
        .filter(|event| matches!(event, Event::Called(_)));
    assert_eq!(calls.count(), 1, "one stream, one block: one start");
    let behind = std::panic::AssertUnwindSafe(|| pair.run(Op::Tick(quiet())));
    assert!(std::panic::catch_unwind(behind).is_err());
}
