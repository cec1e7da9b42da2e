//! The barrier: ranks arrive, a leader gathers, one verdict is found, all read it.
//!
//! ```text
//!   participant:  arrive(g) ----------------------------> poll: pending ... verdict(g)
//!   leader:       arrive(g) -> gather: pending ... complete -> decide(g, passed) -> verdict(g)
//!   anybody:      deadline, dead peer -> decide(g, failed) -> verdict(g)
//! ```
//!
//! The verdict of a generation is one word, decided once by compare-and-swap; whoever comes later with another opinion gets
//! the one that stands. So all ranks leave a generation the same way (requirement H21), also when one times out while the
//! last one arrives.
//!
//! Back to back is safe. Nobody arrives at g+1 before it has read the verdict on g; but a rank that is slow to read it may find the
//! failure of g+1 in its place. g+1 cannot have passed without the slow rank, g can. So each rank notes beside its arrival
//! the last generation that passed, before it goes on, and the slow rank looks there: who decided g+1 has noted how g ended.
//! A rank may be slow by 2^19 generations.
//!
//! The execution id travels with the arrival. The leader compares; a rank that is at another execution makes the generation fail
//! for everybody, as the original does not support programs that differ between ranks.
//!
//! A barrier may span machines: then the leader, before it decides, asks the leaders of the other machines by means that are not the
//! bus's. What it hears becomes the verdict here ([`Verdict::Elsewhere`]), and while it waits it notes for which machine, so
//! that a rank whose deadline passes can name it.

use core::fmt;

use super::layout::{MAX_WORLD, Segment};
use super::signal::WORDS;
use super::{Corrupt, Signal, Wake, Word};
use crate::sync::Ordering;

/// Changes with the meaning of arrivals and verdicts; part of the layout's hash.
pub(super) const LAYOUT: u32 = 2;

/// A set of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RankSet([u32; 4]);

impl RankSet {
    /// Adds a rank below 128; others are left out.
    #[must_use]
    pub fn with(mut self, rank: u16) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(rank >> 5)) {
            *word |= 1 << (rank & 31);
        }
        self
    }

    /// All ranks below `world`.
    #[must_use]
    pub fn below(world: u16) -> Self {
        (0..world).collect()
    }

    /// Whether a rank is in it.
    #[must_use]
    pub fn has(&self, rank: u16) -> bool {
        self.0
            .get(usize::from(rank >> 5))
            .is_some_and(|word| word >> (rank & 31) & 1 == 1)
    }

    /// Its ranks in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + use<> {
        let set = *self;
        (0..128).filter(move |rank| set.has(*rank))
    }

    /// Number of ranks.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0
            .iter()
            .map(|word| word.count_ones())
            .fold(0, u32::wrapping_add)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The lowest rank.
    #[must_use]
    pub fn first(&self) -> Option<u16> {
        self.iter().next()
    }
}

impl RankSet {
    /// Its 128 bits: rank r is bit r % 32 of word r / 32.
    #[must_use]
    pub const fn words(self) -> [u32; 4] {
        self.0
    }

    /// The set with these bits.
    #[must_use]
    pub const fn from_words(words: [u32; 4]) -> Self {
        Self(words)
    }

    /// Without a rank.
    #[must_use]
    pub fn without(mut self, rank: u16) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(rank >> 5)) {
            *word &= !(1 << (rank & 31));
        }
        self
    }
}

impl FromIterator<u16> for RankSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ranks: I) -> Self {
        ranks.into_iter().fold(Self::default(), Self::with)
    }
}

impl fmt::Display for RankSet {
    /// Ranges, not lists: `{0-3,7}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        let mut ranks = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = ranks.next() {
            let mut last = first;
            while let Some(next) = ranks.next_if(|next| *next == last.wrapping_add(1)) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        f.write_str("}")
    }
}

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
    const fn parts(self) -> (u32, u16) {
        match self {
            Self::Passed => (1, 0),
            Self::TimedOut(rank) => (2, rank),
            Self::Gone(rank) => (3, rank),
            Self::OtherExecution(rank) => (4, rank),
            Self::Cancelled(rank) => (5, rank),
            Self::Elsewhere(machine, why) => (ELSEWHERE | why.number(), widened(machine)),
        }
    }

    fn from_parts(kind: u32, number: u8) -> Option<Self> {
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
    const fn rank(self) -> Option<u16> {
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

/// What the leader sees of its participants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Gather {
    /// This rank, and perhaps others, have not arrived.
    Pending(u16),
    /// All have arrived for the same execution.
    Complete,
    /// This rank arrived for another execution.
    OtherExecution(u16),
}

/// A verdict word: 20 bits of generation, of which only the distance counts, 8 bits of rank or machine, 4 bits of kind.
const GENERATION_SHIFT: u32 = 12;
const RANK_SHIFT: u32 = 4;
/// The bits of the kind.
const KIND: u32 = 0xF;
/// The bit of the kinds that are about a machine.
const ELSEWHERE: u32 = 8;

/// One participant's view of one barrier. Not shared; a rank has one per barrier.
#[derive(Debug)]
pub struct Participant<'a> {
    segment: Segment<'a>,
    barrier: u16,
    me: u16,
    participants: RankSet,
    generation: u32,
    /// Participants that the leader has seen in this generation.
    seen: RankSet,
}

impl<'a> Participant<'a> {
    /// Rank `me` as one of the participants of a barrier that nobody has used yet, or that these participants have used alone; it
    /// goes on where this rank stopped. `None` if barrier or rank do not exist or `me` is not among them.
    #[must_use]
    pub fn new(segment: Segment<'a>, barrier: u16, me: u16, participants: RankSet) -> Option<Self> {
        let geometry = segment.geometry();
        let known = barrier < geometry.barriers()
            && participants.iter().all(|rank| rank < geometry.world());
        if !known || !participants.has(me) {
            return None;
        }
        let last = Arrival::of(&segment, barrier, me)?.generation.load();
        Some(Self {
            segment,
            barrier,
            me,
            participants,
            generation: last,
            seen: RankSet::default(),
        })
    }

    /// The participants.
    #[must_use]
    pub const fn participants(&self) -> RankSet {
        self.participants
    }

    /// Who gathers and decides: the lowest participant.
    #[must_use]
    pub fn leader(&self) -> u16 {
        self.participants.first().unwrap_or(self.me)
    }

    /// Whether this rank is the leader.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leader() == self.me
    }

    /// Number of the generation that was arrived at last, from 1.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Arrives at the next generation, for execution `exec`. The verdict on the one before must have been read.
    pub fn arrive(&mut self, exec: u64) -> Wake {
        self.generation = self.generation.wrapping_add(1);
        self.seen = RankSet::default().with(self.me);
        let Some(arrival) = self.arrival(self.me) else {
            return Wake::Nobody;
        };
        for (word, half) in arrival.exec.iter().zip(halves(exec)) {
            // Relaxed: published by the generation.
            word.store(half, Ordering::Relaxed);
        }
        arrival.generation.store(self.generation)
    }

    /// Leader: whether all have arrived. Each participant is looked at until it has arrived, and then no more.
    pub fn gather(&mut self, exec: u64) -> Gather {
        for rank in self.participants.iter() {
            if self.seen.has(rank) {
                continue;
            }
            let Some(arrival) = self.arrival(rank) else {
                return Gather::Pending(rank);
            };
            if !self.reached(arrival.generation.load()) {
                return Gather::Pending(rank);
            }
            // Relaxed: made visible by the generation's acquire.
            let found = arrival
                .exec
                .each_ref()
                .map(|word| word.load(Ordering::Relaxed));
            if found != halves(exec) {
                return Gather::OtherExecution(rank);
            }
            self.seen = self.seen.with(rank);
        }
        Gather::Complete
    }

    /// The verdict on this generation, if there is one.
    pub fn verdict(&self) -> Result<Option<Verdict>, Corrupt> {
        let Some(signal) = self.released() else {
            return Ok(None);
        };
        let verdict = self.read(signal.load())?;
        Ok(verdict.map(|verdict| self.note(verdict)))
    }

    /// Decides this generation, unless it is decided: returns the verdict that stands, and whom to wake. Refuses a verdict about a
    /// rank that is not of this bus.
    pub fn decide(&self, verdict: Verdict) -> Result<(Verdict, Wake), Corrupt> {
        let Some(signal) = self.released() else {
            return Ok((verdict, Wake::Nobody));
        };
        let (kind, rank) = verdict.parts();
        let new =
            self.generation << GENERATION_SHIFT | u32::from(rank.min(0xFF)) << RANK_SHIFT | kind;
        self.read(new)?;
        let mut seen = signal.load();
        // A failure is another's decision, of this generation or, if we looked late, of an older one.
        for _ in 0..MAX_WORLD {
            if let Some(standing) = self.read(seen)? {
                return Ok((self.note(standing), Wake::Nobody));
            }
            match signal.exchange(seen, new) {
                Ok(wake) => return Ok((self.note(verdict), wake)),
                Err(now) => seen = now,
            }
        }
        Err(self.corrupt(seen))
    }

    /// Participants that have not arrived at this generation.
    #[must_use]
    pub fn missing(&self) -> RankSet {
        let arrived = |rank: &u16| {
            self.arrival(*rank)
                .is_some_and(|arrival| self.reached(arrival.generation.load()))
        };
        self.participants
            .iter()
            .filter(|rank| !arrived(rank))
            .collect()
    }

    /// Leader: notes for which machine it waits, all ranks here having arrived; `None` = for none.
    pub fn await_machine(&self, machine: Option<u8>) {
        if let Some(arrival) = self.arrival(self.me) {
            let word = machine.map_or(0, |machine| u32::from(machine).wrapping_add(1));
            // Relaxed: a word for messages.
            arrival.awaits.store(word, Ordering::Relaxed);
        }
    }

    /// The machine for which the leader waits, if all ranks here have arrived and it waits for one.
    #[must_use]
    pub fn awaited_machine(&self) -> Option<u8> {
        let leader = self.arrival(self.leader())?;
        // Relaxed: a word for messages.
        let word = leader.awaits.load(Ordering::Relaxed);
        u8::try_from(word.checked_sub(1)?).ok()
    }

    /// The signal of the verdict, to sleep on.
    #[must_use]
    pub fn released(&self) -> Option<Signal<'a>> {
        self.segment
            .signal(self.segment.geometry().verdict(self.barrier))
    }

    /// The signal of a participant's arrival, for the leader to sleep on.
    #[must_use]
    pub fn arrival_of(&self, rank: u16) -> Option<Signal<'a>> {
        if !self.participants.has(rank) {
            return None;
        }
        Some(self.arrival(rank)?.generation)
    }

    fn arrival(&self, rank: u16) -> Option<Arrival<'a>> {
        Arrival::of(&self.segment, self.barrier, rank)
    }

    /// Notes a verdict on this generation for those who are slow to read it.
    fn note(&self, verdict: Verdict) -> Verdict {
        if let (Verdict::Passed, Some(arrival)) = (verdict, self.arrival(self.me)) {
            // Relaxed: published by our next arrival, before which we decide nothing later.
            arrival.passed.store(self.generation, Ordering::Relaxed);
        }
        verdict
    }

    /// Whether another has noted that this generation passed.
    fn is_noted(&self) -> bool {
        self.participants.iter().any(|rank| {
            self.arrival(rank).is_some_and(|arrival| {
                // Relaxed: made visible by the acquire of a later generation's verdict.
                arrival.passed.load(Ordering::Relaxed) == self.generation
            })
        })
    }

    /// Whether an arrival word has reached this generation.
    const fn reached(&self, arrived: u32) -> bool {
        arrived.wrapping_sub(self.generation) <= u32::MAX / 2
    }

    /// What a verdict word says of this generation. A later generation's verdict is a failure, as that could not have passed
    /// without us, and how this one ended has been noted.
    fn read(&self, word: u32) -> Result<Option<Verdict>, Corrupt> {
        let ahead = (word >> GENERATION_SHIFT).wrapping_sub(self.generation) << GENERATION_SHIFT;
        // A word of a generation before ours, or of none at all.
        if word == 0 || ahead > u32::MAX / 2 {
            return Ok(None);
        }
        let [number, ..] = (word >> RANK_SHIFT).to_le_bytes();
        let world = self.segment.geometry().world();
        let known = Verdict::from_parts(word & KIND, number)
            .filter(|verdict| verdict.rank().is_none_or(|rank| rank < world));
        match known {
            Some(Verdict::Passed) if ahead != 0 => Err(self.corrupt(word)),
            Some(_) if ahead != 0 && self.is_noted() => Ok(Some(Verdict::Passed)),
            Some(verdict) => Ok(Some(verdict)),
            None => Err(self.corrupt(word)),
        }
    }

    fn corrupt(&self, found: u32) -> Corrupt {
        Corrupt {
            field: "verdict",
            rank: self.leader(),
            found,
        }
    }
}

/// A rank's arrival: its line.
struct Arrival<'a> {
    generation: Signal<'a>,
    exec: &'a [Word; 2],
    /// The last generation that this rank knows to have passed.
    passed: &'a Word,
    /// The machine that this rank, a leader, waits for, from 1; 0 = none.
    awaits: &'a Word,
}

impl<'a> Arrival<'a> {
    fn of(segment: &Segment<'a>, barrier: u16, rank: u16) -> Option<Self> {
        let index = segment.geometry().arrival(barrier, rank);
        let (exec, rest) = segment.line(index)?.get(WORDS..)?.split_first_chunk()?;
        let [passed, awaits] = rest.first_chunk()?;
        Some(Self {
            generation: segment.signal(index)?,
            exec,
            passed,
            awaits,
        })
    }
}

#[expect(clippy::as_conversions, reason = "a wider type; `From` is not const")]
const fn widened(machine: u8) -> u16 {
    machine as u16
}

#[expect(
    clippy::as_conversions,
    reason = "splitting a u64 into halves loses nothing"
)]
const fn halves(exec: u64) -> [u32; 2] {
    [exec as u32, (exec >> 32) as u32]
}

#[cfg(test)]
mod tests;
