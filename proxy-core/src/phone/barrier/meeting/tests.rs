//! Two that are ready pass without a verdict, and no third way to end is lost by it.
//!
//! Requirements: H21.

use super::super::tests::{arrive, forgo, on_barrier, participant, wind};
use super::Meeting;
use crate::phone::Wake;
use crate::phone::barrier::{GENERATION_SHIFT, Gather, Participant, REFRESH, Verdict};
use crate::phone::tests::on_bus;

const PASSED: Meeting = Meeting::Over(Verdict::Passed);

fn ready(rank: &mut Participant<'_>, exec: u64) {
    assert_eq!(rank.arrive_ready(exec), Wake::Nobody);
}

/// One generation at which both are ready.
fn meet(all: &mut [Participant<'_>], exec: u64) {
    for rank in all.iter_mut() {
        ready(rank, exec);
    }
    for rank in all {
        assert_eq!(rank.meet(exec), Ok(PASSED));
    }
}

#[test]
fn two_that_are_ready_pass_by_seeing_each_other() {
    on_barrier(2, |_, mut all| {
        for exec in [1, 2, 3, u64::MAX] {
            ready(&mut all[1], exec);
            assert_eq!(all[1].meet(exec), Ok(Meeting::Missing(0)));
            ready(&mut all[0], exec);
            assert_eq!(all[0].meet(exec), Ok(PASSED));
            assert_eq!(all[1].meet(exec), Ok(PASSED));
            assert_eq!(all[0].verdict(), Ok(None), "nobody has decided");
        }
    });
}

#[test]
fn of_three_nobody_meets() {
    on_barrier(3, |_, mut all| {
        all.iter_mut().for_each(|rank| ready(rank, 1));
        for rank in &mut all {
            assert_eq!(rank.meet(1), Ok(Meeting::None));
        }
        assert_eq!(all[0].gather(1), Gather::Complete);
    });
}

#[test]
fn who_is_ready_and_who_is_not_need_a_verdict() {
    for one in [0, 1] {
        on_barrier(2, |_, mut all| {
            ready(&mut all[one], 1);
            arrive(&mut all[1 - one], 1);
            for rank in &mut all {
                assert_eq!(rank.meet(1), Ok(Meeting::None));
                assert_eq!(rank.verdict(), Ok(None));
            }
            assert_eq!(all[0].gather(1), Gather::Complete);
            let passed = (Verdict::Passed, Wake::Nobody);
            assert_eq!(all[0].decide(Verdict::Passed), Ok(passed));
            assert_eq!(all[1].verdict(), Ok(Some(Verdict::Passed)));
            meet(&mut all, 2);
        });
    }
}

#[test]
fn two_that_are_ready_for_different_executions_do_not_pass() {
    // Differences in either half of the number.
    for other in [2, 1 | 1 << 32] {
        on_barrier(2, |_, mut all| {
            ready(&mut all[0], 1);
            ready(&mut all[1], other);
            assert_eq!(all[0].meet(1), Ok(Meeting::None));
            assert_eq!(all[1].meet(other), Ok(Meeting::None));
            assert_eq!(all[0].gather(1), Gather::OtherExecution(1));
            let failed = Verdict::OtherExecution(1);
            assert_eq!(all[0].decide(failed), Ok((failed, Wake::Nobody)));
            assert_eq!(all[1].meet(other), Ok(Meeting::None));
            assert_eq!(all[1].verdict(), Ok(Some(failed)));
            meet(&mut all, 3);
        });
    }
}

#[test]
fn h21_an_opinion_behind_a_meeting_changes_nothing() {
    for one in [0, 1] {
        on_barrier(2, |_, mut all| {
            meet(&mut all, 1);
            let passed = Ok((Verdict::Passed, Wake::Nobody));
            let cancelled = Verdict::Cancelled(all[one].me);
            assert_eq!(all[one].decide(cancelled), passed);
            let late = Verdict::TimedOut(all[1 - one].me);
            assert_eq!(all[1 - one].decide(late), passed);
            meet(&mut all, 2);
        });
    }
}

/// One has passed and is made again before the other, which has taken back that it is ready, has said that it passed.
#[test]
fn h21_who_is_made_again_behind_a_meeting_remembers_it() {
    on_barrier(2, |segment, mut all| {
        ready(&mut all[0], 1);
        ready(&mut all[1], 1);
        assert_eq!(all[1].meet(1), Ok(PASSED));
        assert!(all[0].has_met(), "it saw the other ready");
        let mut again = participant(segment, 1);
        let cancelled = Verdict::Cancelled(1);
        assert_eq!(forgo(&mut again, 2), cancelled);
        let passed = Ok((Verdict::Passed, Wake::Nobody));
        assert_eq!(all[0].decide(Verdict::TimedOut(0)), passed);
    });
}

#[test]
fn h21_who_fails_before_the_other_is_ready_fails_for_both() {
    for one in [0, 1] {
        on_barrier(2, |_, mut all| {
            meet(&mut all, 1);
            ready(&mut all[one], 2);
            let failed = Verdict::TimedOut(all[one].me);
            assert_eq!(all[one].decide(failed), Ok((failed, Wake::Nobody)));
            let other = &mut all[1 - one];
            ready(other, 2);
            assert_eq!(other.meet(2), Ok(Meeting::None), "not ready any more");
            assert_eq!(other.verdict(), Ok(Some(failed)));
            meet(&mut all, 3);
        });
    }
}

#[test]
fn h21_who_would_fail_after_the_other_was_ready_passes_with_it() {
    // The other looks before, and after.
    for early in [true, false] {
        on_barrier(2, |_, mut all| {
            all.iter_mut().for_each(|rank| ready(rank, 1));
            if early {
                assert_eq!(all[1].meet(1), Ok(PASSED));
            }
            let decided = all[0].decide(Verdict::TimedOut(0));
            assert_eq!(decided, Ok((Verdict::Passed, Wake::Nobody)));
            if !early {
                assert_eq!(all[1].meet(1), Ok(Meeting::None));
                assert_eq!(all[1].verdict(), Ok(Some(Verdict::Passed)));
            }
            meet(&mut all, 2);
        });
    }
}

#[test]
fn h21_who_is_slow_to_see_the_other_passes_whatever_becomes_of_the_next() {
    for one in [0, 1] {
        for later in 0..4 {
            on_barrier(2, |_, mut all| {
                all.iter_mut().for_each(|rank| ready(rank, 1));
                let other = 1 - one;
                assert_eq!(all[other].meet(1), Ok(PASSED));
                let failed = Verdict::Cancelled(all[other].me);
                match later {
                    0 => ready(&mut all[other], 2),
                    _ => (0..later).for_each(|_| assert_eq!(forgo(&mut all[other], 9), failed)),
                }
                let mut late = all[one].meet(1);
                if one == 1 {
                    // By its deadline, instead of a look.
                    late = all[one]
                        .decide(Verdict::TimedOut(1))
                        .map(|(it, _)| Meeting::Over(it));
                }
                assert_eq!(late, Ok(PASSED), "{later} later");
            });
        }
    }
}

#[test]
fn h21_a_handle_that_is_made_again_knows_of_the_last_meeting() {
    on_barrier(2, |segment, mut all| {
        meet(&mut all, 1);
        all.iter_mut().for_each(|rank| ready(rank, 2));
        assert_eq!(all[0].meet(2), Ok(PASSED));
        all[0] = participant(segment, 0);
        assert_eq!(forgo(&mut all[0], 3), Verdict::Cancelled(0));
        assert_eq!(all[1].meet(2), Ok(PASSED), "slow to see it");
    });
}

#[test]
fn the_verdicts_word_follows_from_far() {
    on_bus(2, 2, 2, |segment| {
        let start = REFRESH - 2;
        let mut all = wind(segment, start);
        let word = || {
            segment
                .signal(segment.geometry().verdict(1))
                .unwrap()
                .load()
        };
        meet(&mut all, 1);
        assert_eq!(word() >> GENERATION_SHIFT, start);
        meet(&mut all, 2);
        assert_eq!(word() >> GENERATION_SHIFT, REFRESH);
        meet(&mut all, 3);
    });
}
