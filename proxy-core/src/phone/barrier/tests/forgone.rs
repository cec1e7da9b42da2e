//! Generations that a rank makes fail without having come to them: the others fail, and all are in step.
//!
//! Requirements: H21.

use std::vec::Vec;

use super::{arrive, forgo, on_barrier, participant, pass, wind};
use crate::phone::Wake;
use crate::phone::barrier::{GENERATIONS, Verdict};
use crate::phone::tests::on_bus;

#[test]
fn h21_who_forgoes_generations_fails_them_for_all_and_is_in_step() {
    // The leader, and another; before the others arrive, and after.
    for (who, early) in [(0, true), (0, false), (1, true), (1, false)] {
        on_barrier(3, |_, mut all| {
            pass(&mut all, 1);
            let others: Vec<usize> = (0..3).filter(|rank| *rank != who).collect();
            let failed = Verdict::Cancelled(who.try_into().unwrap());
            if !early {
                others.iter().for_each(|rank| arrive(&mut all[*rank], 2));
            }
            for exec in 2..5 {
                assert_eq!(forgo(&mut all[who], exec), failed);
            }
            for exec in 2..5 {
                for rank in &others {
                    if early || exec > 2 {
                        arrive(&mut all[*rank], exec);
                    }
                    assert_eq!(all[*rank].verdict(), Ok(Some(failed)));
                }
            }
            pass(&mut all, 5);
        });
    }
}

#[test]
fn h21_who_forgoes_what_has_failed_already_learns_why() {
    on_barrier(2, |_, mut all| {
        arrive(&mut all[0], 1);
        let failed = Verdict::TimedOut(0);
        assert_eq!(all[0].decide(failed), Ok((failed, Wake::Nobody)));
        assert_eq!(forgo(&mut all[1], 1), failed);
        pass(&mut all, 2);
    });
}

/// A rank that has not read that a generation passed does so after another has forgone the next ones, also where numbers wrap.
#[test]
fn h21_a_forgone_generation_hides_no_pass_from_who_is_slow() {
    for start in [0, (1 << 20) - 2, GENERATIONS - 1] {
        on_bus(2, 2, 2, |segment| {
            let mut all = wind(segment, start);
            all.iter_mut().for_each(|rank| arrive(rank, 1));
            let decided = all[0].decide(Verdict::Passed);
            assert_eq!(decided, Ok((Verdict::Passed, Wake::Nobody)));
            let failed = Verdict::Cancelled(0);
            (2..5).for_each(|exec| assert_eq!(forgo(&mut all[0], exec), failed));
            assert_eq!(all[1].verdict(), Ok(Some(Verdict::Passed)));
            for exec in 2..5 {
                arrive(&mut all[1], exec);
                assert_eq!(all[1].verdict(), Ok(Some(failed)));
            }
            pass(&mut all, 5);
        });
    }
}

/// What a rank knows of generations that passed outlives its handle, whether that has forgone one or not.
#[test]
fn h21_a_handle_that_is_made_again_hides_no_pass_from_who_is_slow() {
    for before in 0..3 {
        on_barrier(2, |segment, mut all| {
            pass(&mut all, 1);
            all.iter_mut().for_each(|rank| arrive(rank, 2));
            let decided = all[0].decide(Verdict::Passed);
            assert_eq!(decided, Ok((Verdict::Passed, Wake::Nobody)));
            let failed = Verdict::Cancelled(0);
            (0..before).for_each(|_| assert_eq!(forgo(&mut all[0], 3), failed));
            all[0] = participant(segment, 0);
            assert_eq!(forgo(&mut all[0], 3), failed);
            assert_eq!(all[1].verdict(), Ok(Some(Verdict::Passed)));
        });
    }
}
