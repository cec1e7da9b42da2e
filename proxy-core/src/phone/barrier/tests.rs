//! One verdict per generation, whoever has which opinion when.
//!
//! Requirements: H20, H21, H66.

mod forgone;
mod reached;
mod seen;

use std::string::ToString;
use std::vec::Vec;

use super::{
    Arrival, Elsewhere, GENERATION_SHIFT, GENERATIONS, Gather, Participant, RankSet, Verdict,
};
use crate::phone::layout::Segment;
use crate::phone::tests::{Random, on_bus, rounds};
use crate::phone::{Corrupt, Wake};
use crate::sync::Ordering;

const BARRIER: u16 = 1;

/// All ranks of a bus as participants of its second barrier.
pub(super) fn on_barrier(world: u16, test: impl for<'a> FnOnce(Segment<'a>, Vec<Participant<'a>>)) {
    on_bus(world, 2, 2, |segment| {
        let participants = (0..world).map(|rank| participant(segment, rank)).collect();
        test(segment, participants);
    });
}

pub(super) fn participant(segment: Segment<'_>, rank: u16) -> Participant<'_> {
    let all = RankSet::below(segment.geometry().world());
    Participant::new(segment, BARRIER, rank, all).unwrap()
}

pub(super) fn arrive(participant: &mut Participant<'_>, exec: u64) {
    assert_eq!(participant.arrive(exec), Wake::Nobody);
}

/// One generation that passes.
fn pass(all: &mut [Participant<'_>], exec: u64) {
    for rank in all.iter_mut().rev() {
        arrive(rank, exec);
        assert_eq!(rank.verdict(), Ok(None));
    }
    assert_eq!(all[0].gather(exec), Gather::Complete);
    let decided = all[0].decide(Verdict::Passed);
    assert_eq!(decided, Ok((Verdict::Passed, Wake::Nobody)));
    for rank in all {
        assert_eq!(rank.verdict(), Ok(Some(Verdict::Passed)));
        assert!(rank.missing().is_empty());
    }
}

#[test]
fn a_barrier_passes_when_all_have_arrived() {
    on_barrier(3, |_, mut all| {
        arrive(&mut all[0], 9);
        assert_eq!(all[0].gather(9), Gather::Pending(1));
        arrive(&mut all[2], 9);
        assert_eq!(all[0].gather(9), Gather::Pending(1));
        assert_eq!(all[0].missing().to_string(), "{1}");
        arrive(&mut all[1], 9);
        assert_eq!(all[0].gather(9), Gather::Complete);
        assert_eq!(all[2].verdict(), Ok(None), "nothing is decided yet");
        let decided = all[0].decide(Verdict::Passed);
        assert_eq!(decided, Ok((Verdict::Passed, Wake::Nobody)));
        assert_eq!(all[2].verdict(), Ok(Some(Verdict::Passed)));
        assert_eq!(all[2].generation(), 1);
    });
}

#[test]
fn one_rank_alone_passes_at_once() {
    on_barrier(1, |_, mut all| pass(&mut all, 3));
}

#[test]
fn whoever_waits_is_called() {
    on_barrier(2, |_, mut all| {
        arrive(&mut all[0], 1);
        let leader = all[0].arrival_of(1).unwrap().sleep();
        assert_eq!(all[1].arrive(1), Wake::Word(leader.index()));
        let other = all[1].released().sleep();
        let called = Wake::Word(other.index());
        assert_eq!(
            all[0].decide(Verdict::Passed),
            Ok((Verdict::Passed, called))
        );
        let again = all[0].decide(Verdict::TimedOut(0));
        assert_eq!(again, Ok((Verdict::Passed, Wake::Nobody)));
    });
}

#[test]
fn h20_every_waiter_lists_the_same_missing_ranks() {
    on_barrier(4, |_, mut all| {
        pass(&mut all, 1);
        arrive(&mut all[0], 2);
        arrive(&mut all[2], 2);
        for waiter in [0, 2] {
            assert_eq!(all[waiter].missing(), [1, 3].into_iter().collect());
            assert_eq!(all[waiter].missing().to_string(), "{1,3}");
        }
        let timed_out = all[2].decide(Verdict::TimedOut(2)).unwrap().0;
        assert_eq!(all[0].verdict(), Ok(Some(timed_out)));
        arrive(&mut all[1], 2);
        assert_eq!(all[0].missing().to_string(), "{3}", "no arrived rank");
    });
}

#[test]
fn h21_of_two_opinions_the_first_stands_for_all() {
    let opinions = [
        Verdict::Passed,
        Verdict::TimedOut(1),
        Verdict::Gone(2),
        Verdict::OtherExecution(2),
        Verdict::Cancelled(0),
        Verdict::Elsewhere(255, Elsewhere::Missing),
        Verdict::Elsewhere(0, Elsewhere::Cancelled),
    ];
    for first in opinions {
        for second in opinions {
            on_barrier(3, |_, mut all| {
                all.iter_mut().for_each(|rank| arrive(rank, 1));
                assert_eq!(all[0].decide(first), Ok((first, Wake::Nobody)));
                assert_eq!(all[1].decide(second), Ok((first, Wake::Nobody)));
                for rank in &all {
                    assert_eq!(rank.verdict(), Ok(Some(first)));
                }
            });
        }
    }
}

#[test]
fn h21_who_arrives_after_a_failure_fails_too() {
    on_barrier(3, |_, mut all| {
        arrive(&mut all[0], 1);
        arrive(&mut all[1], 1);
        let failed = Verdict::TimedOut(1);
        assert_eq!(all[1].decide(failed), Ok((failed, Wake::Nobody)));
        arrive(&mut all[2], 1);
        assert_eq!(all[2].verdict(), Ok(Some(failed)));
        // The leader sees all of them, too late.
        assert_eq!(all[0].gather(1), Gather::Complete);
        assert_eq!(all[0].decide(Verdict::Passed), Ok((failed, Wake::Nobody)));
        pass(&mut all, 2);
    });
}

#[test]
fn h21_who_arrives_generations_later_fails_each_of_them() {
    on_barrier(2, |_, mut all| {
        for _ in 0..3 {
            arrive(&mut all[0], 1);
            assert_eq!(all[0].gather(1), Gather::Pending(1));
            let failed = Verdict::TimedOut(0);
            assert_eq!(all[0].decide(failed), Ok((failed, Wake::Nobody)));
        }
        for _ in 0..3 {
            arrive(&mut all[1], 1);
            assert_eq!(all[1].verdict(), Ok(Some(Verdict::TimedOut(0))));
            let own = all[1].decide(Verdict::Cancelled(1));
            assert_eq!(own, Ok((Verdict::TimedOut(0), Wake::Nobody)));
        }
        pass(&mut all, 2);
    });
}

/// Two of three read that a generation passed and fail the next ones before the third looks.
#[test]
fn h21_who_is_slow_to_read_that_all_passed_passes_too() {
    for later in 1..4 {
        on_barrier(3, |_, mut all| {
            pass(&mut all, 1);
            all.iter_mut().for_each(|rank| arrive(rank, 2));
            let decided = all[0].decide(Verdict::Passed);
            assert_eq!(decided, Ok((Verdict::Passed, Wake::Nobody)));
            assert_eq!(all[1].verdict(), Ok(Some(Verdict::Passed)));
            let failed = Verdict::TimedOut(1);
            for _ in 0..later {
                arrive(&mut all[1], 3);
                assert_eq!(all[1].decide(failed), Ok((failed, Wake::Nobody)));
            }
            assert_eq!(all[2].verdict(), Ok(Some(Verdict::Passed)));
            let late = all[2].decide(Verdict::TimedOut(2));
            assert_eq!(late, Ok((Verdict::Passed, Wake::Nobody)));
            for _ in 0..later {
                arrive(&mut all[2], 3);
                assert_eq!(all[2].verdict(), Ok(Some(failed)));
            }
        });
    }
}

#[test]
fn ranks_at_different_executions_fail_the_barrier_for_all() {
    // Differences in either half of the number.
    for other in [2, 1 | 1 << 32] {
        on_barrier(3, |_, mut all| {
            arrive(&mut all[0], 1);
            arrive(&mut all[1], 1);
            arrive(&mut all[2], other);
            assert_eq!(all[0].gather(1), Gather::OtherExecution(2));
            let failed = Verdict::OtherExecution(2);
            assert_eq!(all[0].decide(failed), Ok((failed, Wake::Nobody)));
            for rank in &all {
                assert_eq!(rank.verdict(), Ok(Some(failed)));
            }
            pass(&mut all, u64::MAX);
        });
    }
}

#[test]
fn a_rank_that_gives_up_is_told_to_all() {
    on_barrier(2, |_, mut all| {
        arrive(&mut all[1], 5);
        let failed = Verdict::Cancelled(1);
        assert_eq!(all[1].decide(failed), Ok((failed, Wake::Nobody)));
        arrive(&mut all[0], 5);
        assert_eq!(all[0].verdict(), Ok(Some(failed)));
        pass(&mut all, 6);
    });
}

pub(super) fn forgo(rank: &mut Participant<'_>, exec: u64) -> Verdict {
    let (decided, wake) = rank.forgo(exec);
    assert_eq!(wake, Wake::Nobody);
    decided.unwrap().0
}

#[test]
fn a_thousand_generations_follow_each_other() {
    on_barrier(3, |_, mut all| {
        for exec in 0..rounds(1000) {
            pass(&mut all, exec);
        }
        assert_eq!(u64::from(all[0].generation()), rounds(1000));
    });
}

/// Brings a barrier to where `generation` has passed.
pub(super) fn wind(segment: Segment<'_>, generation: u32) -> Vec<Participant<'_>> {
    let geometry = segment.geometry();
    for rank in 0..geometry.world() {
        let arrival = Arrival::of(&segment, BARRIER, rank).unwrap();
        // Relaxed: one thread.
        arrival.passed.store(generation, Ordering::Relaxed);
        let _ = arrival.generation.store(generation << 1);
    }
    let verdict = segment.signal(geometry.verdict(BARRIER)).unwrap();
    let _ = verdict.store(generation << GENERATION_SHIFT | Verdict::Passed.parts().0);
    (0..geometry.world())
        .map(|rank| participant(segment, rank))
        .collect()
}

#[test]
fn generations_wrap_in_the_verdict_and_in_the_arrival() {
    for start in [(1 << 20) - 3, (1 << 19) - 3, GENERATIONS - 2] {
        on_bus(2, 2, 2, |segment| {
            let mut all = wind(segment, start);
            for exec in 0..6 {
                pass(&mut all, exec);
                arrive(&mut all[1], exec);
                let failed = Verdict::TimedOut(1);
                assert_eq!(all[1].decide(failed), Ok((failed, Wake::Nobody)));
                arrive(&mut all[0], exec);
                assert_eq!(all[0].verdict(), Ok(Some(failed)));
            }
            assert_eq!(all[0].generation(), (start + 12) & GENERATIONS);
        });
    }
}

#[test]
fn participants_that_are_made_again_go_on_where_they_stopped() {
    on_barrier(3, |segment, mut all| {
        for exec in 0..5 {
            pass(&mut all, exec);
        }
        // The last one is at another generation than the others, as after a failure without it.
        arrive(&mut all[0], 5);
        let failed = Verdict::TimedOut(0);
        assert_eq!(all[0].decide(failed), Ok((failed, Wake::Nobody)));
        arrive(&mut all[1], 5);
        let mut again: Vec<_> = (0..3).map(|rank| participant(segment, rank)).collect();
        arrive(&mut again[2], 5);
        assert_eq!(again[2].verdict(), Ok(Some(failed)));
        pass(&mut again, 6);
    });
}

#[test]
fn h66_a_verdict_that_cannot_be_is_corrupt() {
    on_barrier(2, |segment, mut all| {
        all.iter_mut().for_each(|rank| arrive(rank, 1));
        let verdict = all[1].released();
        // No kind; a kind too many; a rank that is not there; passed without us.
        for found in [
            1 << 12,
            1 << 12 | 7,
            1 << 12 | 8,
            1 << 12 | 2 << 4 | 3,
            2 << 12 | 1,
        ] {
            let _ = verdict.store(found);
            let corrupt = Corrupt {
                field: "verdict",
                rank: 0,
                found,
            };
            assert_eq!(all[1].verdict(), Err(corrupt), "{found:#x}");
            assert_eq!(all[1].decide(Verdict::Passed), Err(corrupt), "{found:#x}");
        }
        let _ = verdict.store(0);
        assert_eq!(all[1].verdict(), Ok(None));
        for rank in [2, 255, 256, u16::MAX] {
            let unknown = all[1].decide(Verdict::Gone(rank)).unwrap_err();
            assert_eq!((unknown.field, unknown.rank), ("verdict", 0));
        }
        // Relaxed: one thread.
        let word =
            segment.line(segment.geometry().verdict(BARRIER)).unwrap()[0].load(Ordering::Relaxed);
        assert_eq!(word, 0, "a refused verdict leaves no trace");
    });
}

/// What one participant does next, and what all of them have been told so far.
fn random_step(
    random: &mut Random,
    rank: &mut Participant<'_>,
    waits: &mut bool,
    told: &mut [Vec<Verdict>],
) {
    let me = rank.me;
    let generation = usize::try_from(rank.generation).unwrap();
    if !*waits {
        if random.below(100) == 0 {
            let verdict = forgo(rank, 1);
            told[generation.saturating_add(1)].push(verdict);
            return;
        }
        arrive(rank, 1);
        *waits = true;
        return;
    }
    if rank.is_leader() && rank.gather(1) == Gather::Complete {
        let _ = rank.decide(Verdict::Passed).unwrap();
    }
    let verdict = match random.below(100) {
        0 => Some(rank.decide(Verdict::TimedOut(me)).unwrap().0),
        1 => Some(rank.decide(Verdict::Cancelled(me)).unwrap().0),
        _ => rank.verdict().unwrap(),
    };
    if let Some(verdict) = verdict {
        told[generation].push(verdict);
        *waits = false;
    }
}

/// Random steps of four participants: in each generation all pass or all fail, and who has been told stays told.
#[test]
#[cfg_attr(miri, ignore = "takes minutes there, on one thread")]
fn h21_no_generation_passes_for_some_and_fails_for_others() {
    for seed in 0..200 {
        on_barrier(4, |_, mut all| {
            let mut random = Random::new(seed);
            let mut waits = [false; 4];
            let mut told = std::vec![Vec::new(); 2001];
            for _ in 0..2000 {
                let who = random.below(4);
                random_step(&mut random, &mut all[who], &mut waits[who], &mut told);
            }
            let mut passed = 0;
            for verdicts in &told {
                let passes = verdicts.iter().filter(|it| **it == Verdict::Passed).count();
                assert!(passes == 0 || passes == verdicts.len(), "seed {seed}");
                passed += usize::from(passes > 0);
            }
            assert!(passed > 10, "seed {seed}: both ends come about");
        });
    }
}

/// Rank 2 dies just before it arrives, while rank 1's deadline ends.
#[test]
fn h21_a_death_before_the_arrival_fails_both_others_alike() {
    for _ in 0..rounds(1000) {
        on_barrier(3, |_, mut all| {
            let _ = all.pop();
            let verdicts: Vec<Verdict> = std::thread::scope(|scope| {
                let threads: Vec<_> = all
                    .iter_mut()
                    .map(|rank| {
                        scope.spawn(move || {
                            let _ = rank.arrive(1);
                            let opinion = match rank.me {
                                0 => Verdict::Gone(2),
                                me => Verdict::TimedOut(me),
                            };
                            rank.decide(opinion).unwrap().0
                        })
                    })
                    .collect();
                threads.into_iter().map(|it| it.join().unwrap()).collect()
            });
            assert_eq!(verdicts[0], verdicts[1]);
            assert_ne!(verdicts[0], Verdict::Passed);
        });
    }
}

#[test]
fn sets_of_ranks_are_shown_as_ranges() {
    for (ranks, text) in [
        (&[][..], "{}"),
        (&[7], "{7}"),
        (&[0, 1, 2, 3, 7], "{0-3,7}"),
        (&[127, 0, 64, 63], "{0,63-64,127}"),
    ] {
        let set: RankSet = ranks.iter().copied().collect();
        assert_eq!(set.to_string(), text);
        assert_eq!(usize::try_from(set.len()).unwrap(), ranks.len());
        assert_eq!(set.first(), ranks.iter().copied().min());
        assert_eq!(set.is_empty(), ranks.is_empty());
    }
    assert_eq!(RankSet::below(128).to_string(), "{0-127}");
    let others = RankSet::default().with(128).with(u16::MAX);
    assert!(others.is_empty());
    assert!(!RankSet::below(128).has(128));
}

#[test]
fn verdicts_are_told_in_words() {
    for (verdict, text) in [
        (Verdict::Passed, "passed"),
        (
            Verdict::TimedOut(3),
            "rank 3 waited longer than its deadline",
        ),
        (Verdict::Gone(3), "rank 3 is gone"),
        (
            Verdict::OtherExecution(3),
            "MPMD execution is not supported: rank 3 is at another execution",
        ),
        (Verdict::Cancelled(3), "rank 3 gave up"),
    ] {
        assert_eq!(verdict.to_string(), text);
    }
}

#[test]
fn verdicts_on_other_machines_keep_machine_and_cause() {
    for (machine, why) in [0, 1, 127, 255]
        .into_iter()
        .flat_map(|machine| Elsewhere::ALL.map(|why| (machine, why)))
    {
        on_barrier(2, |_, mut all| {
            all.iter_mut().for_each(|rank| arrive(rank, 1));
            let verdict = Verdict::Elsewhere(machine, why);
            assert_eq!(all[0].decide(verdict), Ok((verdict, Wake::Nobody)));
            assert_eq!(all[1].verdict(), Ok(Some(verdict)));
            assert!(
                verdict
                    .to_string()
                    .contains(&std::format!("machine {machine}"))
            );
        });
    }
}

#[test]
fn all_ranks_know_for_which_machine_their_leader_waits() {
    on_barrier(3, |_, mut all| {
        all.iter_mut().for_each(|rank| arrive(rank, 1));
        assert_eq!(all[2].awaited_machine(), None);
        all[0].await_machine(Some(255));
        assert_eq!(all[2].awaited_machine(), Some(255));
        all[0].await_machine(None);
        assert_eq!(all[1].awaited_machine(), None);
    });
}
