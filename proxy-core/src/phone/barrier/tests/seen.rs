//! What a report sees of the arrivals.
//!
//! Requirement: H46.

use super::super::{Arrived, Participant, RankSet, last_arrival};
use super::{BARRIER, arrive, on_barrier, pass};

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
