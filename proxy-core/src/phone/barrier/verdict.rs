//! How a generation ended: on this machine, or because of another.

use core::fmt;

/// The bit of the kinds that are about a machine.
const ELSEWHERE: u32 = 8;

/// How the part of a generation that is on another machine failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Elsewhere {
    /// Its leader has not told that it has arrived, until the deadline.
    Missing,
    /// Its leader cannot be reached, or has stopped.
    Gone,
    /// It is at another execution.
    OtherExecution,
    /// A rank there waited longer than its deadline.
    TimedOut,
    /// A rank there gave up or died.
    Cancelled,
}

impl Elsewhere {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Missing,
        Self::Gone,
        Self::OtherExecution,
        Self::TimedOut,
        Self::Cancelled,
    ];

    /// Its number, 1 to 5, for words and messages.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Missing => 1,
            Self::Gone => 2,
            Self::OtherExecution => 3,
            Self::TimedOut => 4,
            Self::Cancelled => 5,
        }
    }

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.number() == number)
    }
}

/// How a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Verdict {
    /// Everybody arrived.
    Passed,
    /// This rank's deadline passed before that.
    TimedOut(u16),
    /// This rank died or left before it arrived.
    Gone(u16),
    /// This rank arrived for another execution than the leader.
    OtherExecution(u16),
    /// This rank gave up: its task was aborted or failed.
    Cancelled(u16),
    /// This machine's part of the barrier failed.
    Elsewhere(u8, Elsewhere),
}

impl Verdict {
    /// Kind, and number of a rank or, for kinds with [`ELSEWHERE`], of a machine.
    pub(super) const fn parts(self) -> (u32, u16) {
        match self {
            Self::Passed => (1, 0),
            Self::TimedOut(rank) => (2, rank),
            Self::Gone(rank) => (3, rank),
            Self::OtherExecution(rank) => (4, rank),
            Self::Cancelled(rank) => (5, rank),
            Self::Elsewhere(machine, why) => (ELSEWHERE | why.number(), widened(machine)),
        }
    }

    pub(super) fn from_parts(kind: u32, number: u8) -> Option<Self> {
        let rank = u16::from(number);
        match kind {
            1 => Some(Self::Passed),
            2 => Some(Self::TimedOut(rank)),
            3 => Some(Self::Gone(rank)),
            4 => Some(Self::OtherExecution(rank)),
            5 => Some(Self::Cancelled(rank)),
            _ if kind & ELSEWHERE == 0 => None,
            _ => Elsewhere::from_number(kind ^ ELSEWHERE).map(|why| Self::Elsewhere(number, why)),
        }
    }

    /// The rank that it is about; none if it is about a machine.
    pub(super) const fn rank(self) -> Option<u16> {
        match self {
            Self::Elsewhere(..) => None,
            other => Some(other.parts().1),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::TimedOut(rank) => write!(f, "rank {rank} waited longer than its deadline"),
            Self::Gone(rank) => write!(f, "rank {rank} is gone"),
            Self::OtherExecution(rank) => {
                write!(
                    f,
                    "MPMD execution is not supported: rank {rank} is at another execution"
                )
            }
            Self::Cancelled(rank) => write!(f, "rank {rank} gave up"),
            Self::Elsewhere(machine, why) => match why {
                Elsewhere::Missing => write!(f, "nothing came from machine {machine}"),
                Elsewhere::Gone => write!(f, "machine {machine} is gone"),
                Elsewhere::OtherExecution => write!(
                    f,
                    "MPMD execution is not supported: machine {machine} is at another execution"
                ),
                Elsewhere::TimedOut => write!(
                    f,
                    "a rank of machine {machine} waited longer than its deadline"
                ),
                Elsewhere::Cancelled => write!(f, "a rank of machine {machine} gave up or died"),
            },
        }
    }
}

#[expect(clippy::as_conversions, reason = "a wider type; `From` is not const")]
const fn widened(machine: u8) -> u16 {
    machine as u16
}
