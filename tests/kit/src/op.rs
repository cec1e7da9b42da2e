//! The six collectives: names, buffer sizes, and which rank talks to which.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::abi::Topology;
use crate::split::part;

/// A collective. `count` in the texts below is the number of elements in the buffer that "size(B)" measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Every rank gets the sum of all inputs. Input and output: `count`.
    AllReduce,
    /// Every rank gets all inputs in rank order. Input: this rank's part of `count`; output: `count`.
    AllGather,
    /// Every rank gets its part of the sum of all inputs. Input: `count`; output: this rank's part of `count`.
    ReduceScatter,
    /// Part j of the input goes to rank j. Input: `count`; output: one piece of the length of this rank's part from
    /// every rank, in rank order.
    AllToAll,
    /// Ranks 2k and 2k + 1 exchange their inputs; an odd one out keeps its own. Input and output: `count`.
    SendRecv,
    /// The input goes to the next rank, the last rank's to rank 0. Input and output: `count`.
    Permute,
}

impl Op {
    /// All ops, in the order in which help texts list them.
    pub const ALL: [Self; 6] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::SendRecv,
        Self::Permute,
    ];

    /// The short name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "allr",
            Self::AllGather => "allg",
            Self::ReduceScatter => "redsct",
            Self::AllToAll => "alltoall",
            Self::SendRecv => "sendrecv",
            Self::Permute => "permute",
        }
    }

    /// The long name on the command line (the same as the short one for the last three).
    pub const fn long_name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll | Self::SendRecv | Self::Permute => self.name(),
        }
    }

    /// The algorithm of this kit: ring neighbours, or a peer per entry.
    pub const fn topology(self) -> Topology {
        match self {
            Self::AllReduce | Self::AllGather | Self::ReduceScatter => Topology::Ring,
            Self::AllToAll | Self::SendRecv | Self::Permute => Topology::Mesh,
        }
    }

    /// How many inputs are added to make one element of the output, for [`verify`](crate::verify::verify).
    pub const fn summands(self, ranks: u32) -> u32 {
        match self {
            Self::AllReduce | Self::ReduceScatter => ranks,
            Self::AllGather | Self::AllToAll | Self::SendRecv | Self::Permute => 1,
        }
    }

    /// Elements of the input of `rank`.
    pub fn input_count(self, ranks: usize, rank: usize, count: usize) -> usize {
        match self {
            Self::AllGather => owned(ranks, rank, count).len(),
            _ => count,
        }
    }

    /// Elements of the output of `rank`.
    pub fn output_count(self, ranks: usize, rank: usize, count: usize) -> usize {
        match self {
            Self::ReduceScatter => owned(ranks, rank, count).len(),
            Self::AllToAll => owned(ranks, rank, count).len() * ranks,
            _ => count,
        }
    }
}

/// The part of the total buffer that belongs to `rank`.
pub(crate) fn owned(ranks: usize, rank: usize, count: usize) -> Range<usize> {
    part(&(0..count), ranks, rank)
}

/// The rank whose input becomes the output of `rank` in [`Op::SendRecv`] (its own for an odd one out).
pub(crate) const fn partner(ranks: usize, rank: usize) -> usize {
    if rank ^ 1 < ranks { rank ^ 1 } else { rank }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownOp(String);

impl fmt::Display for UnknownOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op is {:?}, accepted:", self.0)?;
        Op::ALL.iter().try_for_each(|op| write!(f, " {op}"))
    }
}

impl std::error::Error for UnknownOp {}

impl FromStr for Op {
    type Err = UnknownOp;

    fn from_str(name: &str) -> Result<Self, UnknownOp> {
        let known = Self::ALL
            .into_iter()
            .find(|op| op.name() == name || op.long_name() == name);
        known.ok_or_else(|| UnknownOp(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_parse() {
        for op in Op::ALL {
            assert_eq!(op.name().parse(), Ok(op));
            assert_eq!(op.long_name().parse(), Ok(op));
        }
        let error = "bcast".parse::<Op>().unwrap_err().to_string();
        assert_eq!(
            error,
            "op is \"bcast\", accepted: allr allg redsct alltoall sendrecv permute"
        );
    }

    #[test]
    fn uneven_counts_lose_nothing() {
        let inputs = |op: Op| (0..3).map(|r| op.input_count(3, r, 7)).collect::<Vec<_>>();
        let outputs = |op: Op| (0..3).map(|r| op.output_count(3, r, 7)).collect::<Vec<_>>();
        assert_eq!(
            (inputs(Op::AllReduce), outputs(Op::AllReduce)),
            (vec![7; 3], vec![7; 3])
        );
        assert_eq!(
            (inputs(Op::AllGather), outputs(Op::AllGather)),
            (vec![3, 2, 2], vec![7; 3])
        );
        assert_eq!(
            (inputs(Op::ReduceScatter), outputs(Op::ReduceScatter)),
            (vec![7; 3], vec![3, 2, 2])
        );
        assert_eq!(
            (inputs(Op::AllToAll), outputs(Op::AllToAll)),
            (vec![7; 3], vec![9, 6, 6])
        );
    }

    #[test]
    fn partners_are_mutual() {
        for ranks in 1..9 {
            for rank in 0..ranks {
                assert_eq!(partner(ranks, partner(ranks, rank)), rank);
            }
        }
        assert_eq!(partner(3, 2), 2);
    }
}
