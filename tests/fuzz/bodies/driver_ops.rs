//! Operations on queue and driver, in any order, beside the oracle: the input says which contexts there are and what is done.
//!
//! Every result, every call across a port in its order and every start word is compared; at the end everything is aborted, and
//! each task must have exactly one end.

use proxy_core::port::BarrierPoll;
use proxy_core::{Arming, Cause, Polarity, Rank, Shut, Spec, Status, StopAt, TaskKind};
use proxy_kit::oracle::Mood;
use proxy_kit::pair::{CONTEXTS, Op, Pair, all};

use crate::input::Input;

/// Operations of one input at most.
const STEPS: usize = 200;

/// Runs one input; returns how many tasks it appended.
pub(crate) fn run(data: &[u8]) -> usize {
    let mut input = Input(data);
    let count = 1 + usize::from(input.byte()) % CONTEXTS;
    let specs: Vec<Spec> = (0..count).map(|_| spec(&mut input)).collect();
    let mut pair = Pair::new(&specs);
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        let op = operation(&mut input, count, pair.tickets.len());
        pair.run(op);
    }
    pair.finish();
    pair.tickets.len()
}

fn spec(input: &mut Input<'_>) -> Spec {
    let bits = input.byte();
    let small = input.byte();
    Spec {
        rank: input.pick(&[Rank(9), Rank(2), Rank(5), Rank(7)]),
        streams: small % 5,
        blocks: u16::from(small / 5 % 3) + 1,
        skip: bits & 0b111 == 7,
        device_wait: bits & 8 != 0,
        barrier: bits & 16 != 0,
        barrier_triggers: small / 16 % 3,
        polarity: [Polarity::Specification, Polarity::Header][usize::from(bits >> 5 & 1)],
        arming: input.pick(&[Arming::OnEnqueue, Arming::Explicit, Arming::ByDevice]),
        stop_at: [StopAt::End, StopAt::Switch][usize::from(bits >> 6 & 1)],
    }
}

fn operation(input: &mut Input<'_>, contexts: usize, tasks: usize) -> Op {
    let kind = |input: &mut Input<'_>| input.pick(&[TaskKind::Network, TaskKind::Barrier]);
    let step = input.byte();
    let number = usize::from(step / 16) % contexts;
    match step % 16 {
        0..=2 => Op::Enqueue(number),
        3 => Op::Append(number, kind(input)),
        4 => Op::Arm(number, kind(input)),
        5 | 6 => {
            let stream = input.byte() % 4;
            let value = input.pick(&[0, 1, 7, u32::MAX]);
            Op::Fire(number, kind(input), stream, value)
        }
        7..=9 => Op::Tick(mood(input)),
        10 => early(input, number, tasks),
        11 => Op::Poll(usize::from(input.byte()) % (tasks + 1)),
        12 => Op::Check(number, kind(input)),
        13 => Op::ArmBell,
        14 => match input.byte() % 4 {
            0 => Op::Retire(number),
            1 => Op::Reset(number),
            _ => Op::Register(number),
        },
        _ => match input.byte() % 8 {
            0 => Op::Shut(Shut::Closed),
            1 => Op::Shut(Shut::Dead),
            _ => Op::AbortAll(mood(input)),
        },
    }
}

/// A task, or all of a context, is to end early.
fn early(input: &mut Input<'_>, context: usize, tasks: usize) -> Op {
    let how = input.byte();
    let task = usize::from(how / 8) % (tasks + 1);
    let cause = [Cause::Aborted, Cause::TimedOut][usize::from(how >> 2 & 1)];
    match how % 4 {
        0 => Op::Order(task, cause),
        1 => Op::OrderContext(context, cause),
        2 => Op::Conclude(task),
        _ => Op::Peek(task),
    }
}

/// How the library answers: all alike, or each call otherwise.
fn mood(input: &mut Input<'_>) -> Mood {
    let bits = input.byte();
    if bits & 0b1000_0000 != 0 {
        return Mood::Mixed {
            seed: input.word().into(),
            errors: 1 + u64::from(bits & 31),
        };
    }
    let status = input.pick(&[
        Status::SUCCESS,
        Status::SUCCESS,
        Status::FAILURE,
        Status(77),
    ]);
    let poll = [
        BarrierPoll::Ready,
        BarrierPoll::Pending,
        BarrierPoll::Failed(Status(5)),
    ];
    all(
        bits & 1 != 0,
        bits & 2 != 0,
        status,
        poll[usize::from(bits >> 2 & 3) % 3],
    )
}
