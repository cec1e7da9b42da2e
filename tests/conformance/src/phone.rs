//! The pure half of the host bus: layout, members, messages, barrier. No rank sleeps here: what would sleep asks again.

use proxy_core::phone::barrier::{Gather, Participant, RankSet, Verdict};
use proxy_core::phone::layout::{Geometry, LayoutError, Segment};
use proxy_core::phone::member::{Members, State};
use proxy_core::phone::ring::{Producer, Reader, RecvError, SendError, To};
use proxy_core::phone::{Wake, Word};

use crate::{Failure, Outcome, cases, ensure, take};

cases![
    a_segment_is_created_and_attached,
    a_foreign_segment_is_refused,
    members_join_become_ready_and_leave,
    a_rank_is_called_dead_once_and_not_after_it_left,
    messages_arrive_whole_in_order_and_once,
    a_full_ring_names_its_slowest_reader,
    a_barrier_passes_when_all_have_arrived,
    one_verdict_stands_for_all,
    another_execution_fails_the_generation,
    a_forgone_generation_fails_and_hides_no_pass,
];

/// Enough for two ranks, one barrier and rings of four cells.
const WORDS: usize = 512;

type Memory = [Word; WORDS];

fn memory() -> Memory {
    [const { Word::new(0) }; WORDS]
}

/// A segment for two ranks in `memory`.
fn two_ranks(memory: &Memory) -> Result<Segment<'_>, Failure> {
    let geometry = take!(Geometry::new(2, 1, 4), "sizes in range");
    ensure!(geometry.words() <= WORDS, "the memory suffices");
    Ok(take!(Segment::create(memory, geometry), "created"))
}

fn a_segment_is_created_and_attached() -> Outcome {
    let memory = memory();
    let segment = two_ranks(&memory)?;
    let again = take!(Segment::attach(&memory), "attached");
    ensure!(again.geometry() == segment.geometry(), "as it was created");
    Ok(())
}

fn a_foreign_segment_is_refused() -> Outcome {
    let memory = memory();
    let refused = Segment::attach(&memory).map(|_| ());
    let named = matches!(refused, Err(LayoutError::NotABus { found: 0 }));
    ensure!(named, "zeros are no bus");
    let small = memory.get(..20).unwrap_or(&[]);
    let geometry = take!(Geometry::new(2, 1, 4), "sizes in range");
    let refused = Segment::create(small, geometry).map(|_| ());
    let named = matches!(refused, Err(LayoutError::TooSmall { found: 20, .. }));
    ensure!(named, "too small");
    Ok(())
}

fn members_join_become_ready_and_leave() -> Outcome {
    let memory = memory();
    let members = Members::of(two_ranks(&memory)?);
    let _ = take!(members.join(1, 42, 1), "joined");
    ensure!(members.join(1, 43, 1).is_err(), "a rank joins once");
    ensure!(members.process(1) == Some((42, 1)), "who it is");
    let _ = take!(members.ready(1), "ready");
    ensure!(members.state(1) == Ok(State::Joined), "ready");
    let _ = take!(members.leave(1), "left");
    let gone = members.state(1).is_ok_and(State::is_gone);
    ensure!(gone, "gone");
    ensure!(members.state(2).is_err(), "two ranks, no third");
    Ok(())
}

fn a_rank_is_called_dead_once_and_not_after_it_left() -> Outcome {
    let memory = memory();
    let members = Members::of(two_ranks(&memory)?);
    ensure!(members.die(0).is_ok_and(|wake| wake.is_some()), "the first");
    ensure!(members.die(0) == Ok(None), "a second one");
    ensure!(members.state(0) == Ok(State::Dead), "dead before it joined");
    ensure!(members.join(0, 42, 1).is_err(), "it stays so");
    let _ = take!(members.join(1, 43, 1), "joined");
    let _ = take!(members.leave(1), "left before it was ready");
    ensure!(members.die(1) == Ok(None), "who left does not die");
    ensure!(members.state(1) == Ok(State::Left), "left");
    Ok(())
}

fn messages_arrive_whole_in_order_and_once() -> Outcome {
    let memory = memory();
    let segment = two_ranks(&memory)?;
    let mut producer = take!(Producer::new(segment, 0), "producer");
    let mut reader = take!(Reader::new(segment, 0, 1), "reader");
    let mut buffer = [0; 80];
    for round in 0_u8..20 {
        let message: [u8; 70] = core::array::from_fn(|at| round ^ at.to_le_bytes()[0]);
        let _ = take!(
            producer.try_send(To::Rank(1), round.into(), &message),
            "sent"
        );
        let received = take!(reader.try_recv(&mut buffer), "received");
        ensure!(received.tag == u32::from(round), "its tag");
        ensure!(buffer.get(..received.bytes) == Some(&message), "its bytes");
        let empty = reader.try_recv(&mut buffer) == Err(RecvError::Empty);
        ensure!(empty, "once");
    }
    Ok(())
}

fn a_full_ring_names_its_slowest_reader() -> Outcome {
    let memory = memory();
    let segment = two_ranks(&memory)?;
    let mut producer = take!(Producer::new(segment, 0), "producer");
    let mut reader = take!(Reader::new(segment, 0, 1), "reader");
    let full = Err(SendError::Full { reader: 1 });
    let sent = (0..8).take_while(|tag| producer.try_send(To::Everybody, *tag, &[1]) != full);
    ensure!(sent.count() == 4, "one message a cell");
    let mut buffer = [0; 8];
    take!(reader.try_recv(&mut buffer), "received");
    let room = producer.try_send(To::Everybody, 4, &[1]).is_ok();
    ensure!(room, "a read cell is free");
    Ok(())
}

/// Both ranks' sides of the barrier.
fn pair<'a>(segment: Segment<'a>) -> Result<[Participant<'a>; 2], Failure> {
    let all = RankSet::below(2);
    Ok([
        take!(Participant::new(segment, 0, 0, all), "leader"),
        take!(Participant::new(segment, 0, 1, all), "follower"),
    ])
}

fn a_barrier_passes_when_all_have_arrived() -> Outcome {
    let memory = memory();
    let [mut leader, mut other] = pair(two_ranks(&memory)?)?;
    ensure!(leader.is_leader() && !other.is_leader(), "one leader");
    for exec in 1..40 {
        let _ = leader.arrive(exec);
        ensure!(leader.gather(exec) == Gather::Pending(1), "one is missing");
        ensure!(leader.missing().iter().eq([1]), "by name");
        let _ = other.arrive(exec);
        ensure!(other.verdict() == Ok(None), "nobody passes early");
        ensure!(leader.gather(exec) == Gather::Complete, "all are here");
        let _ = take!(leader.decide(Verdict::Passed), "decided");
        ensure!(leader.verdict() == Ok(Some(Verdict::Passed)), "leader");
        ensure!(other.verdict() == Ok(Some(Verdict::Passed)), "follower");
    }
    Ok(())
}

fn one_verdict_stands_for_all() -> Outcome {
    let memory = memory();
    let [mut leader, mut other] = pair(two_ranks(&memory)?)?;
    let _ = leader.arrive(1);
    let _ = other.arrive(1);
    let (first, _) = take!(other.decide(Verdict::TimedOut(0)), "decided");
    let (second, wake) = take!(leader.decide(Verdict::Passed), "decided late");
    ensure!(first == Verdict::TimedOut(0), "the first opinion stands");
    ensure!(
        second == first && wake == Wake::Nobody,
        "for the second too"
    );
    ensure!(leader.verdict() == Ok(Some(first)), "and whoever reads it");
    Ok(())
}

fn another_execution_fails_the_generation() -> Outcome {
    let memory = memory();
    let [mut leader, mut other] = pair(two_ranks(&memory)?)?;
    let _ = leader.arrive(1);
    let _ = other.arrive(2);
    ensure!(leader.gather(1) == Gather::OtherExecution(1), "noticed");
    let _ = take!(leader.decide(Verdict::OtherExecution(1)), "decided");
    let verdict = other.verdict();
    ensure!(verdict == Ok(Some(Verdict::OtherExecution(1))), "for both");
    Ok(())
}

fn a_forgone_generation_fails_and_hides_no_pass() -> Outcome {
    let memory = memory();
    let [mut leader, mut other] = pair(two_ranks(&memory)?)?;
    let _ = leader.arrive(1);
    let _ = other.arrive(1);
    ensure!(leader.gather(1) == Gather::Complete, "all are here");
    let _ = take!(leader.decide(Verdict::Passed), "decided");
    let failed = Verdict::Cancelled(0);
    let (decided, _) = leader.forgo(2);
    let (forgone, _) = take!(decided, "the leader forgoes the next");
    ensure!(forgone == failed, "which fails by it");
    let late = other.verdict();
    ensure!(late == Ok(Some(Verdict::Passed)), "read late, it passed");
    let _ = other.arrive(2);
    ensure!(other.verdict() == Ok(Some(failed)), "the next did not");
    Ok(())
}
