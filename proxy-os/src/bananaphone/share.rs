//! How messages name ranks where a bus has only some ranks of a job: as the job does, so that nobody takes rank 1 of one machine for that of
//! another.

use std::fmt;

use proxy_core::phone::barrier::{RankSet, Verdict};

use super::error::Why;

/// Which ranks of a job a bus has: those of one machine, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    /// The machine, from 0.
    pub machine: u16,
    /// The number in the job of the bus's rank 0.
    pub first: u16,
}

impl Share {
    /// The number in the job of a rank of the bus.
    const fn rank(self, rank: u16) -> u16 {
        self.first.saturating_add(rank)
    }
}

/// A rank, with its local number where it has another.
pub(super) struct Named(pub(super) u16, pub(super) Option<Share>);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(rank, share) = self;
        match share {
            None => write!(f, "rank {rank}"),
            Some(share) => {
                let (world, machine) = (share.rank(*rank), share.machine);
                write!(f, "rank {world} (local rank {rank} of machine {machine})")
            }
        }
    }
}

/// Ranks by their numbers in the job.
pub(super) struct Ranks(pub(super) RankSet, pub(super) Option<Share>);

impl fmt::Display for Ranks {
    /// As [`RankSet`] is shown: `{4-7,11}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ranks, Some(share)) = self else {
            return self.0.fmt(f);
        };
        let mut ranks = ranks.iter().peekable();
        f.write_str("{")?;
        let mut comma = "";
        while let Some(first) = ranks.next() {
            let mut last = first;
            while let Some(next) = ranks.next_if(|next| *next == last.wrapping_add(1)) {
                last = next;
            }
            write!(f, "{comma}{}", share.rank(first))?;
            if last > first {
                write!(f, "-{}", share.rank(last))?;
            }
            comma = ",";
        }
        f.write_str("}")
    }
}

/// The reason with the numbers that ranks have in the job.
pub(super) fn renamed(why: Why, share: Option<Share>) -> Why {
    let Some(share) = share else {
        return why;
    };
    let world = |rank| share.rank(rank);
    match why {
        Why::Deadline => Why::Deadline,
        Why::PeerDead(rank) => Why::PeerDead(world(rank)),
        Why::PeerLeft(rank) => Why::PeerLeft(world(rank)),
        Why::Verdict(verdict) => Why::Verdict(match verdict {
            Verdict::TimedOut(rank) => Verdict::TimedOut(world(rank)),
            Verdict::Gone(rank) => Verdict::Gone(world(rank)),
            Verdict::OtherExecution(rank) => Verdict::OtherExecution(world(rank)),
            Verdict::Cancelled(rank) => Verdict::Cancelled(world(rank)),
            // Machines have one number.
            Verdict::Passed | Verdict::Elsewhere(..) => verdict,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_numbers_in_the_job_and_local_ones_are_said_to_be() {
        let share = Some(Share {
            machine: 2,
            first: 200,
        });
        let ranks: RankSet = [0, 1, 2, 5].into_iter().collect();
        assert_eq!(Ranks(ranks, share).to_string(), "{200-202,205}");
        assert_eq!(Ranks(ranks, None).to_string(), ranks.to_string());
        let rank = Named(1, share).to_string();
        assert_eq!(rank, "rank 201 (local rank 1 of machine 2)");
        assert_eq!(Named(1, None).to_string(), "rank 1");
        let why = renamed(Why::Verdict(Verdict::Gone(5)), share).to_string();
        assert_eq!(why, "rank 205 is gone");
        assert_eq!(renamed(Why::PeerDead(3), None), Why::PeerDead(3));
    }
}
