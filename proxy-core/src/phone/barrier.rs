//! The barrier: ranks arrive, a leader gathers, one verdict is found, all read it.
//!
//! ```text
//!   a rank:            1 arrive                          4 read: the verdict
//!   OUT of g ---------------------------> IN g+1 ------------------------------------> OUT of g+1
//!        \---- 2 forgo: fails g+1 ------>  ^  |  \---- 5 read late: passed, as noted --->
//!                                          +--+ 3 read: none yet
//!
//!   a generation:      7 all arrived: decide
//!   OPEN <-+ 6 pending  -------------------------> DECIDED <-+ 10 decide late: what stands
//!    |  \--/            8 other execution: decide     ^  \---/
//!    +----- 9 deadline, death, cancel: decide --------+
//! ```
//!
//! Edges 6 to 8 are the leader's, by what it has gathered; 2 and 9 are anybody's.
//!
//! The verdict of a generation is one word, decided once by compare-and-swap; whoever comes later with another opinion gets
//! the one that stands. So all ranks leave a generation the same way (requirement H21), also when one times out while the
//! last one arrives.
//!
//! Back to back is safe. Nobody arrives at g+1 before it has read the verdict on g; but a rank that is slow to read it may find the
//! failure of g+1 in its place. g+1 cannot have passed without the slow rank, g can. So who decides that a generation fails first notes
//! beside its arrival the last one that it knows to have passed, and the slow rank looks there: who decided g+1 has noted how g ended.
//! A rank may be slow by 2^19 generations. Where all pass nothing is noted: the leader waits on that line, and would fetch it twice.
//!
//! The leader gathers from all, not through a tree. 127 lines that another core has just written take it 2.5 us, 31 take 0.8 us, 7 take
//! 0.3 us (2 cores, AMD EPYC). With a tree of 8 it would read a sixth of the lines, but behind one or two ranks in a row, each
//! of which must notice others first: 0.3 us if it spins on a core of its own, a tick of its worker if it is a task, tens of
//! us if it sleeps. And all ranks together would execute twice as much, mostly on cores that they share: 54 thousand instructions per
//! generation against 27 thousand for 128 ranks, 15 against 8 for 32.
//!
//! The execution id travels with the arrival. The leader compares; a rank that is at another execution makes the generation fail
//! for everybody, as the original does not support programs that differ between ranks.
//!
//! Two ranks that have nothing to do but to pass need no verdict for it: see `meeting`.
//!
//! A barrier may span machines: then the leader, before it decides, asks the leaders of the other machines by means that are not the
//! bus's. What it hears becomes the verdict here ([`Verdict::Elsewhere`]), and while it waits it notes for which machine, so
//! that a rank whose deadline passes can name it.

mod claim;
mod meeting;
mod verdict;

use super::layout::{MAX_WORLD, Segment};
use super::signal::WORDS;
use super::{Corrupt, Signal, Wake, Word};
use crate::sync::Ordering;

pub use super::ranks::RankSet;
pub use claim::OtherParticipants;
pub use meeting::Meeting;
pub use verdict::{Elsewhere, Verdict};

/// Changes with the meaning of arrivals and verdicts; part of the layout's hash.
pub(super) const LAYOUT: u32 = 4;

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
/// Generations are counted in the bits of a word that [`meeting::READY`] leaves.
const GENERATIONS: u32 = u32::MAX >> 1;
/// Generations after which words are brought up that nothing has moved. Fewer than a rank may be slow by.
const REFRESH: u32 = 1 << 16;

/// One participant's view of one barrier. Not shared; a rank has one per barrier.
#[derive(Debug)]
pub struct Participant<'a> {
    segment: Segment<'a>,
    barrier: u16,
    me: u16,
    participants: RankSet,
    generation: u32,
    /// The last generation that this rank knows to have passed.
    passed: u32,
    /// Participants that the leader has not seen in this generation.
    pending: RankSet,
    /// The own arrival.
    own: Arrival<'a>,
    /// The other rank and its arrival, if there are two.
    partner: Option<(u16, Arrival<'a>)>,
    verdict: Signal<'a>,
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
        let own = Arrival::of(&segment, barrier, me)?;
        let mut others = participants.without(me).iter();
        let partner = others
            .next()
            .filter(|_| others.next().is_none())
            .and_then(|other| Some((other, Arrival::of(&segment, barrier, other)?)));
        let mut participant = Self {
            segment,
            barrier,
            me,
            participants,
            generation: own.generation.load() >> 1,
            // Relaxed: this rank's own word.
            passed: own.passed.load(Ordering::Relaxed),
            pending: participants,
            own,
            partner,
            verdict: segment.signal(geometry.verdict(barrier))?,
        };
        // If the last generation passed by a meeting, nobody knows but who was there. What is corrupt is found by who needs it.
        participant.remember();
        Some(participant)
    }

    /// The participants.
    #[must_use]
    pub const fn participants(&self) -> RankSet {
        self.participants
    }

    /// Who gathers and decides: the lowest participant.
    #[inline]
    #[must_use]
    pub fn leader(&self) -> u16 {
        self.participants.first().unwrap_or(self.me)
    }

    /// Whether this rank is the leader.
    #[inline]
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leader() == self.me
    }

    /// Number of the generation that was arrived at last, from 1; after 2^31 - 1 comes 0.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Arrives at the next generation, for execution `exec`. The verdict on the one before must have been read.
    #[inline]
    pub fn arrive(&mut self, exec: u64) -> Wake {
        self.go_on();
        self.announce(exec, 0)
    }

    /// Makes the next generation, for execution `exec`, fail for everybody, and arrives at it, so as to be in step with the others.
    /// The verdict on the one before must have been read. Returns what [`Self::decide`] does, and whom to wake for the arrival.
    pub fn forgo(&mut self, exec: u64) -> (Result<(Verdict, Wake), Corrupt>, Wake) {
        self.go_on();
        // In this order: once it has arrived, the leader can let all pass.
        let decided = self.decide(Verdict::Cancelled(self.me));
        (decided, self.announce(exec, 0))
    }

    /// The next generation. How the one before has ended is kept, to be noted if this one fails.
    #[inline]
    fn go_on(&mut self) {
        // Another verdict is a failure of it or of a later one, and who decided that has noted how it ended.
        if self.verdict.load() == self.word(Verdict::Passed) {
            self.passed = self.generation;
        }
        if self.generation.is_multiple_of(REFRESH) {
            // A note as old as that could be taken for one of the same number, when numbers come again. Relaxed: as where one is needed.
            self.own.passed.store(self.passed, Ordering::Relaxed);
        }
        self.generation = self.generation.wrapping_add(1) & GENERATIONS;
    }

    /// The word of an arrival at this generation.
    const fn arrived(&self) -> u32 {
        self.generation << 1
    }

    #[inline]
    fn announce(&mut self, exec: u64, ready: u32) -> Wake {
        self.pending = self.participants.without(self.me);
        for (word, half) in self.own.exec.iter().zip(halves(exec)) {
            // Relaxed: published by the generation.
            word.store(half, Ordering::Relaxed);
        }
        // Right behind the execution, on the same line: who waits on it fetches it once.
        let word = self.arrived() | ready;
        if self.is_leader() && self.partner.is_none() {
            // Nobody waits on this one.
            self.own.generation.publish(word);
            return Wake::Nobody;
        }
        self.own.generation.store(word)
    }

    /// Leader: whether all have arrived. Each participant is looked at until it has arrived, and then no more.
    #[inline]
    pub fn gather(&mut self, exec: u64) -> Gather {
        while let Some(rank) = self.pending.first() {
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
            self.pending = self.pending.without(rank);
        }
        Gather::Complete
    }

    /// The verdict on this generation, if there is one.
    #[inline]
    pub fn verdict(&self) -> Result<Option<Verdict>, Corrupt> {
        self.read(self.verdict.load())
    }

    /// Decides this generation, unless it is decided: returns the verdict that stands, and whom to wake. Refuses a verdict about a
    /// rank that is not of this bus.
    #[inline]
    pub fn decide(&self, verdict: Verdict) -> Result<(Verdict, Wake), Corrupt> {
        self.read(self.word(verdict))?;
        let verdict = match verdict {
            Verdict::Passed => verdict,
            _ if self.has_met() => Verdict::Passed,
            _ => {
                // Relaxed: published by the exchange.
                self.own.passed.store(self.passed, Ordering::Relaxed);
                verdict
            }
        };
        let new = self.word(verdict);
        let mut seen = self.verdict.load();
        // A failure is another's decision, of this generation or, if we looked late, of an older one.
        for _ in 0..MAX_WORLD {
            if let Some(standing) = self.read(seen)? {
                return Ok((standing, Wake::Nobody));
            }
            match self.verdict.exchange(seen, new) {
                Ok(wake) => return Ok((verdict, wake)),
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
        let word = machine.map_or(0, |machine| u32::from(machine).wrapping_add(1));
        // Relaxed: a word for messages.
        self.own.awaits.store(word, Ordering::Relaxed);
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
    pub const fn released(&self) -> Signal<'a> {
        self.verdict
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

    /// Whether another has noted that this generation passed.
    fn is_noted(&self) -> bool {
        self.participants.iter().any(|rank| {
            self.arrival(rank).is_some_and(|arrival| {
                // Relaxed: made visible by the acquire of that failure, whose release stands behind the note.
                arrival.passed.load(Ordering::Relaxed) == self.generation
            })
        })
    }

    /// Whether an arrival word has reached this generation.
    const fn reached(&self, arrived: u32) -> bool {
        arrived.wrapping_sub(self.arrived()) <= u32::MAX / 2
    }

    /// The word of a verdict on this generation.
    #[inline]
    fn word(&self, verdict: Verdict) -> u32 {
        let (kind, rank) = verdict.parts();
        self.generation << GENERATION_SHIFT | u32::from(rank.min(0xFF)) << RANK_SHIFT | kind
    }

    /// What a verdict word says of this generation. A later generation's verdict is a failure, as that could not have passed
    /// without us, and how this one ended has been noted.
    #[inline]
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

/// Where a rank has been seen last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Arrived {
    /// The barrier.
    pub barrier: u16,
    /// How often the rank has arrived there.
    pub generation: u32,
    /// The execution that it arrived for.
    pub exec: u64,
}

/// A rank's arrival for the latest execution, of all barriers; `None` if it has arrived at none. For messages: an arrival that is under way
/// may be seen with the execution before or after it. O(barriers).
#[must_use]
pub fn last_arrival(segment: Segment<'_>, rank: u16) -> Option<Arrived> {
    if rank >= segment.geometry().world() {
        return None;
    }
    let arrivals = (0..segment.geometry().barriers()).filter_map(|barrier| {
        let arrival = Arrival::of(&segment, barrier, rank)?;
        let generation = arrival.generation.load() >> 1;
        (generation > 0).then_some(Arrived {
            barrier,
            generation,
            exec: arrival.exec(),
        })
    });
    arrivals.max_by_key(|arrived| arrived.exec)
}

/// A rank's arrival: its line.
#[derive(Debug)]
struct Arrival<'a> {
    /// Twice the generation, and [`meeting::READY`].
    generation: Signal<'a>,
    exec: &'a [Word; 2],
    /// The last generation that this rank knew to have passed when it last decided that one fails.
    passed: &'a Word,
    /// The machine that this rank, a leader, waits for, from 1; 0 = none.
    awaits: &'a Word,
    /// The participants that this rank was told, if it claimed the barrier.
    participants: &'a [Word; 4],
    /// The executions that this rank was ready for, by even and odd generations.
    met: &'a [Word; 4],
}

impl<'a> Arrival<'a> {
    fn of(segment: &Segment<'a>, barrier: u16, rank: u16) -> Option<Self> {
        let index = segment.geometry().arrival(barrier, rank);
        let (exec, rest) = segment.line(index)?.get(WORDS..)?.split_first_chunk()?;
        let ([passed, awaits], rest) = rest.split_first_chunk()?;
        let (participants, rest) = rest.split_first_chunk()?;
        Some(Self {
            generation: segment.signal(index)?,
            exec,
            passed,
            awaits,
            participants,
            met: rest.first_chunk()?,
        })
    }

    /// The execution.
    fn exec(&self) -> u64 {
        // Relaxed: made visible by the generation's acquire.
        let [low, high] = (self.exec.each_ref()).map(|word| word.load(Ordering::Relaxed));
        u64::from(high) << 32 | u64::from(low)
    }
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
