//! Whom a barrier knows: its leader, its participants, and what a report sees of their arrivals.
//!
//! Requirement: H46.

use super::{BARRIER, arrive, on_barrier, pass};
use crate::phone::barrier::{Arrived, Participant, RankSet, last_arrival};
use crate::phone::tests::on_bus;

#[test]
fn the_arrival_for_the_latest_execution_is_what_was_seen_last_of_a_rank() {
    const LATE: u64 = 1 << 40 | 3;
    on_barrier(2, |segment, mut all| {
        assert_eq!(last_arrival(segment, 0), None);
        pass(&mut all, 7);
        arrive(&mut all[0], LATE);
        let all_ranks = RankSet::below(2);
        let mut elsewhere = Participant::new(segment, 0, 0, all_ranks).unwrap();
        arrive(&mut elsewhere, 9);
        let seen = |generation, exec| {
            Some(Arrived {
                barrier: BARRIER,
                generation,
                exec,
            })
        };
        assert_eq!(last_arrival(segment, 0), seen(2, LATE));
        assert_eq!(last_arrival(segment, 1), seen(1, 7));
        assert_eq!(last_arrival(segment, 2), None, "no rank of this bus");
    });
}

#[test]
fn the_lowest_participant_leads_and_only_participants_are_seen() {
    on_bus(8, 1, 2, |segment| {
        let some: RankSet = [5, 3, 7].into_iter().collect();
        let leads = |rank| {
            let it = Participant::new(segment, 0, rank, some)?;
            Some((it.is_leader(), it.leader(), it.participants() == some))
        };
        assert_eq!(leads(3), Some((true, 3, true)));
        assert_eq!(leads(5), Some((false, 3, true)));
        assert_eq!(leads(4), None);
        assert!(Participant::new(segment, 1, 3, some).is_none());
        assert!(Participant::new(segment, 0, 3, some.with(8)).is_none());
        assert!(Participant::new(segment, 0, 3, RankSet::default()).is_none());
        let leader = Participant::new(segment, 0, 3, some).unwrap();
        assert!(leader.arrival_of(7).is_some());
        assert!(leader.arrival_of(4).is_none());
    });
}
