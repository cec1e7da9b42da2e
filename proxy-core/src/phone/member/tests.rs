//! Every state and event of the drawing, and what several sides make of one rank.
//!
//! Requirements: H66.

use std::string::ToString;

use super::MemberError::State as Refused;
use super::State::{Dead, Free, Joined, Joining, Left};
use super::{MemberError, Members, State};
use crate::phone::layout::Segment;
use crate::phone::tests::{on_bus, rounds};
use crate::phone::{Corrupt, Wake};

const RANK: u16 = 1;

/// What may happen to a place.
#[derive(Debug, Clone, Copy)]
enum Event {
    Join,
    Ready,
    Leave,
    Die,
}

/// The table: for each state what joining, ready, leaving and dying lead to; `None` is a refusal.
const TABLE: [(State, [Option<State>; 4]); 5] = [
    (Free, [Some(Joining), None, None, Some(Dead)]),
    (Joining, [None, Some(Joined), Some(Left), Some(Dead)]),
    (Joined, [None, None, Some(Left), Some(Dead)]),
    (Left, [None; 4]),
    (Dead, [None; 4]),
];

/// A bus whose rank 1 has a state.
fn with_state(state: State, test: impl FnOnce(Segment<'_>, Members<'_>)) {
    on_bus(3, 1, 2, |segment| {
        let signal = segment.member_signal(RANK).unwrap();
        assert_eq!(signal.store(state.word()), Wake::Nobody);
        test(segment, Members::of(segment));
    });
}

#[test]
fn every_state_and_event_is_as_drawn() {
    for (state, row) in TABLE {
        for (event, wanted) in [Event::Join, Event::Ready, Event::Leave, Event::Die]
            .into_iter()
            .zip(row)
        {
            with_state(state, |_, members| {
                let found = match event {
                    Event::Join => members.join(RANK, 4711, 9).map(Some),
                    Event::Ready => members.ready(RANK).map(Some),
                    Event::Leave => members.leave(RANK).map(Some),
                    Event::Die => members.die(RANK),
                };
                let refused = match event {
                    // Of many who call a rank dead one is the first.
                    Event::Die => Ok(None),
                    _ => Err(Refused { rank: RANK, state }),
                };
                let wanted_result = wanted.map_or(refused, |_| Ok(Some(Wake::Nobody)));
                assert_eq!(found, wanted_result, "{state:?} {event:?}");
                let after = members.state(RANK);
                assert_eq!(after, Ok(wanted.unwrap_or(state)), "{state:?} {event:?}");
                let others = [members.state(0), members.state(2)];
                assert_eq!(others, [Ok(Free), Ok(Free)]);
            });
        }
    }
}

#[test]
fn what_a_member_tells_about_itself_is_read() {
    with_state(Free, |segment, members| {
        assert_eq!(members.process(RANK), Some((0, 0)));
        assert_eq!(members.join(RANK, 4711, 9), Ok(Wake::Nobody));
        assert_eq!(Members::of(segment).process(RANK), Some((4711, 9)));
        assert_eq!(members.process(0), Some((0, 0)));
        assert_eq!(members.process(3), None);
    });
}

#[test]
fn ranks_are_crowded_where_more_have_told_the_same_cpus_than_there_are() {
    on_bus(4, 0, 2, |segment| {
        let members = Members::of(segment);
        assert_eq!(members.is_crowded(4), None, "no rank of this bus");
        members.run_on(4, 7, 1);
        // Two on two CPUs, one on its own, one that has not told.
        for (rank, set, cpus) in [(0, 7, 2), (1, 7, 2), (2, 9, 1)] {
            assert_eq!(members.is_crowded(0), None);
            members.run_on(rank, set, cpus);
        }
        assert_eq!(members.is_crowded(0), None, "rank 3 may come there");
        members.run_on(3, 9, 1);
        assert_eq!(
            [0, 1, 2, 3].map(|rank| members.is_crowded(rank)),
            [Some(false), Some(false), Some(true), Some(true)]
        );
        assert_eq!(members.process(0), Some((0, 0)), "words of their own");
    });
}

#[test]
fn who_waits_for_a_member_is_called_by_each_change() {
    with_state(Free, |segment, members| {
        let sleeper = segment.member_signal(RANK).unwrap().sleep();
        let called = Wake::Word(sleeper.index());
        assert_eq!(members.join(RANK, 1, 1), Ok(called));
        assert_eq!(members.ready(RANK), Ok(called));
        assert_eq!(members.die(RANK), Ok(Some(called)));
        assert_eq!(members.die(RANK), Ok(None));
    });
}

#[test]
fn h66_a_state_that_cannot_be_is_named() {
    on_bus(2, 0, 2, |segment| {
        let members = Members::of(segment);
        let _ = segment.member_signal(RANK).unwrap().store(5);
        let corrupt = MemberError::Corrupt(Corrupt {
            field: "state",
            rank: RANK,
            found: 5,
        });
        assert_eq!(members.state(RANK), Err(corrupt));
        assert_eq!(members.join(RANK, 0, 0), Err(corrupt));
        assert_eq!(members.ready(RANK), Err(corrupt));
        assert_eq!(members.leave(RANK), Err(corrupt));
        assert_eq!(members.die(RANK), Err(corrupt));
        assert_eq!(
            corrupt.to_string(),
            "the bus is corrupt: state of rank 1 is 0x5"
        );
    });
}

#[test]
fn errors_say_who_and_what_is_accepted() {
    on_bus(2, 0, 2, |segment| {
        let members = Members::of(segment);
        let error = members.join(2, 0, 0).unwrap_err();
        let text = "rank 2, accepted: below 2, the bus's world size";
        assert_eq!(error.to_string(), text);
        assert_eq!(members.die(2), Err(error));
        for (state, text) in [
            (Joining, "rank 1 of the bus is joining"),
            (Joined, "rank 1 of the bus is there"),
            (Left, "rank 1 of the bus is left"),
            (Dead, "rank 1 of the bus is dead"),
        ] {
            let _ = segment.member_signal(RANK).unwrap().store(state.word());
            let error = members.join(RANK, 0, 0).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
        let _ = segment.member_signal(RANK).unwrap().store(Free.word());
        let error = members.ready(RANK).unwrap_err();
        assert_eq!(error.to_string(), "rank 1 of the bus is not there yet");
    });
}

/// Many call a rank dead while it hangs up: it ends in one of the two, and one side only takes the edge.
#[test]
fn leaving_and_dying_at_once_have_one_outcome() {
    for _ in 0..rounds(200) {
        with_state(Joined, |_, members| {
            let taken = std::thread::scope(|scope| {
                let died =
                    [0, 1].map(|_| scope.spawn(move || members.die(RANK).unwrap().is_some()));
                let left = scope.spawn(move || members.leave(RANK).is_ok());
                let died = died.map(|thread| thread.join().unwrap());
                (left.join().unwrap(), died)
            });
            let state = members.state(RANK).unwrap();
            let wanted = match taken {
                (true, [false, false]) => Left,
                (false, [true, false] | [false, true]) => Dead,
                other => panic!("{other:?}"),
            };
            assert_eq!(state, wanted);
        });
    }
}
