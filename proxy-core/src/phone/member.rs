//! Who is on the bus.
//!
//! ```text
//!            1 join             2 ready            3 leave
//!   FREE ------------> JOINING -----------> JOINED --------> LEFT
//!    |                  |   |                  |              ^
//!    |                  |   +-------- 3 leave -|--------------+
//!    +------ 4 die -----+----------------------+-----------> DEAD
//! ```
//!
//! Edges 1 to 3 are the member's own; a join that fails half-way ends with edge 3. Edge 4 is anybody's who has proof that the
//! rank died, also before it joined. All are compare-and-swaps of one word, so a member that left is never called dead,
//! of many who call a rank dead one is the first, and a second rank of the same number is refused.
//!
//! Who takes edge 3 or 4 calls everybody who waits for the rank: [`Segment::signals_of`], each [nudged](super::Signal::nudge).

use core::fmt;

use super::layout::Segment;
use super::signal::WORDS;
use super::{Corrupt, Signal, Wake, Word};
use crate::sync::Ordering;

/// Changes with the meaning of a member's words; part of the layout's hash.
pub(super) const LAYOUT: u32 = 2;

/// State of a place on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum State {
    /// Nobody has come yet.
    Free = 0,
    /// Its rank is joining.
    Joining = 1,
    /// Its rank is there.
    Joined = 2,
    /// Its rank has hung up.
    Left = 3,
    /// Its rank died without hanging up.
    Dead = 4,
}

impl State {
    const ALL: [Self; 5] = [
        Self::Free,
        Self::Joining,
        Self::Joined,
        Self::Left,
        Self::Dead,
    ];
    const ALIVE: [Self; 3] = [Self::Free, Self::Joining, Self::Joined];

    #[expect(clippy::as_conversions, reason = "a fieldless enum of one byte")]
    const fn word(self) -> u32 {
        self as u32
    }

    /// Whether nothing can be expected of the rank any more.
    #[must_use]
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Left | Self::Dead)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "not there yet",
            Self::Joining => "joining",
            Self::Joined => "there",
            Self::Left => "left",
            Self::Dead => "dead",
        })
    }
}

/// Why a change of state was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MemberError {
    /// The rank is not one of this bus.
    NoSuchRank {
        /// The rank.
        rank: u16,
        /// Ranks of the bus.
        world: u16,
    },
    /// The change does not lead from this state: for a join, the place is taken.
    State {
        /// The rank.
        rank: u16,
        /// The state it has.
        state: State,
    },
    /// The state is none.
    Corrupt(Corrupt),
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRank { rank, world } => write!(
                f,
                "rank {rank}, accepted: below {world}, the bus's world size"
            ),
            Self::State { rank, state } => write!(f, "rank {rank} of the bus is {state}"),
            Self::Corrupt(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MemberError {}

/// The members of a bus.
#[derive(Debug, Clone, Copy)]
pub struct Members<'a>(Segment<'a>);

impl<'a> Members<'a> {
    /// Of this segment.
    #[must_use]
    pub const fn of(segment: Segment<'a>) -> Self {
        Self(segment)
    }

    /// State of a rank.
    #[inline]
    pub fn state(&self, rank: u16) -> Result<State, MemberError> {
        Self::named(rank, self.signal(rank)?.load())
    }

    /// Edge 1. Stores two words for diagnosis, the caller's process and its namespace of process ids as a number.
    pub fn join(&self, rank: u16, process: u32, namespace: u32) -> Result<Wake, MemberError> {
        let wake = self.change(rank, &[State::Free], State::Joining)?;
        if let Some([first, second, ..]) = self.told(rank) {
            // Relaxed, both: published by `ready`.
            first.store(process, Ordering::Relaxed);
            second.store(namespace, Ordering::Relaxed); // as above
        }
        Ok(wake)
    }

    /// Tells on which CPUs a rank runs: a number that stands for their set and for no other, not 0, and how many they are. The rank's own,
    /// before it is [ready](Self::ready).
    pub fn run_on(&self, rank: u16, set: u32, cpus: u32) {
        if let Some([_, _, first, second]) = self.told(rank) {
            // Relaxed, both: published by `ready`.
            first.store(set, Ordering::Relaxed);
            second.store(cpus, Ordering::Relaxed); // as above
        }
    }

    /// Whether more ranks have told the CPUs of rank `rank` than those are; `None` until all ranks have told theirs. Ranks whose sets only
    /// overlap are not counted. O(world).
    #[must_use]
    pub fn is_crowded(&self, rank: u16) -> Option<bool> {
        let told = |rank| {
            let [_, _, set, cpus] = self.told(rank)?;
            // Relaxed, both: a hint, and only the own number of CPUs counts.
            Some((set.load(Ordering::Relaxed), cpus.load(Ordering::Relaxed)))
        };
        let (own, cpus) = told(rank)?;
        let mut sharing = 0_u32;
        for other in 0..self.0.geometry().world() {
            match told(other)? {
                (0, _) => return None,
                (set, _) if set == own => sharing = sharing.wrapping_add(1),
                _ => {}
            }
        }
        Some(sharing > cpus)
    }

    /// Edge 2.
    pub fn ready(&self, rank: u16) -> Result<Wake, MemberError> {
        self.change(rank, &[State::Joining], State::Joined)
    }

    /// Edge 3, also from a join that was not completed.
    pub fn leave(&self, rank: u16) -> Result<Wake, MemberError> {
        self.change(rank, &[State::Joined, State::Joining], State::Left)
    }

    /// Edge 4. `Ok(None)`: it had left or been called dead before.
    pub fn die(&self, rank: u16) -> Result<Option<Wake>, MemberError> {
        match self.change(rank, &State::ALIVE, State::Dead) {
            Ok(wake) => Ok(Some(wake)),
            Err(MemberError::State { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Process and namespace of a rank, as it told them when it joined; zero before. For messages only.
    #[must_use]
    pub fn process(&self, rank: u16) -> Option<(u32, u32)> {
        let [process, namespace, ..] = self.told(rank)?;
        // Relaxed: for messages.
        let (process, namespace) = (
            process.load(Ordering::Relaxed),
            namespace.load(Ordering::Relaxed),
        );
        Some((process, namespace))
    }

    /// The words that a rank tells about itself; none if there is no such rank.
    fn told(&self, rank: u16) -> Option<&'a [Word; 4]> {
        if rank >= self.0.geometry().world() {
            return None;
        }
        let line = self.0.line(self.0.geometry().member(rank))?;
        line.get(WORDS..)?.first_chunk()
    }

    #[inline]
    fn signal(&self, rank: u16) -> Result<Signal<'a>, MemberError> {
        self.0.member_signal(rank).ok_or(MemberError::NoSuchRank {
            rank,
            world: self.0.geometry().world(),
        })
    }

    /// Goes from one of the states `from` to `to`.
    fn change(&self, rank: u16, from: &[State], to: State) -> Result<Wake, MemberError> {
        let signal = self.signal(rank)?;
        let mut found = signal.load();
        // An honest state only goes forward, so it changes under our hands less often than there are states.
        for _ in State::ALL {
            let state = Self::named(rank, found)?;
            if !from.contains(&state) {
                return Err(MemberError::State { rank, state });
            }
            match signal.exchange(found, to.word()) {
                Ok(wake) => return Ok(wake),
                Err(now) => found = now,
            }
        }
        Err(Self::corrupt(rank, found))
    }

    #[inline]
    fn named(rank: u16, found: u32) -> Result<State, MemberError> {
        let state = State::ALL.into_iter().find(|state| state.word() == found);
        state.ok_or_else(|| Self::corrupt(rank, found))
    }

    const fn corrupt(rank: u16, found: u32) -> MemberError {
        MemberError::Corrupt(Corrupt {
            field: "state",
            rank,
            found,
        })
    }
}

#[cfg(test)]
mod tests;
