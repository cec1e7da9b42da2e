//! What a report sees of the buses of this process: who is on them, and what a rank waits for. Nobody is waited for.
//!
//! Members are words of the segment. A wait is noted right before its first sleep, so those that end while they spin cost nothing,
//! and is forgotten when it ends. Only weak references are kept: a report never keeps a bus alive.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::{self, Arrived, RankSet};
use proxy_core::phone::layout::{Geometry, MAX_WORLD, Segment};
use proxy_core::phone::member::{Members, State};

use super::counters::Counters;
use super::error::Phase;
use super::wait::Waiting;
use crate::diagnosis;
use crate::sys::mmap::Mapping;
use crate::sys::pidfd;

/// Ranks that a bus can have.
const RANKS: usize = MAX_WORLD as usize;
/// Waits of one rank that are noted at a time: its bus has one user at a time, and so has each of its barriers.
const NOTES: usize = 4;

/// One wait.
#[derive(Debug, Clone, Copy)]
struct Note {
    phase: Phase,
    since: Instant,
    missing: RankSet,
}

/// How this process has come to know that a rank is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Death {
    /// Its process ended.
    Process = 1,
    /// Its connection ended.
    Connection,
}

impl Death {
    /// Where somebody else has noticed it: the hub, or another process.
    pub(crate) const TOLD: &str =
        "its word on the bus says that it is dead, as others have noticed";

    const fn number(self) -> u8 {
        self as u8
    }

    fn of_number(number: u8) -> Option<Self> {
        let all = [Self::Process, Self::Connection];
        all.into_iter().find(|death| death.number() == number)
    }

    /// In words.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Process => "its process ended without a farewell",
            Self::Connection => "its connection ended without a farewell",
        }
    }
}

/// What a report sees of one rank's membership.
#[derive(Debug)]
pub(super) struct Sight {
    /// By rank, the [`Death`] that this process has noticed; 0 = none. Relaxed: words for messages.
    deaths: [AtomicU8; RANKS],
    /// Locked for the length of a copy only.
    notes: Mutex<[Option<Note>; NOTES]>,
    segment: OnceLock<(Weak<Mapping>, Geometry)>,
}

impl Default for Sight {
    fn default() -> Self {
        Self {
            deaths: [const { AtomicU8::new(0) }; RANKS],
            notes: Mutex::default(),
            segment: OnceLock::new(),
        }
    }
}

/// Notes how this process has come to know that a rank is dead, for the reports of all its ranks on this bus.
pub(super) fn died(segment: Segment<'_>, rank: u16, death: Death) {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    for counters in known.iter().filter_map(|known| known.counters.upgrade()) {
        let sight = &counters.sight;
        let mapping = sight
            .segment
            .get()
            .and_then(|(mapping, _)| mapping.upgrade());
        let same = mapping.is_some_and(|mapping| std::ptr::eq(mapping.words(), segment.words()));
        if let Some(word) = sight.deaths.get(usize::from(rank)).filter(|_| same) {
            // Relaxed: see `Sight`.
            word.store(death.number(), Ordering::Relaxed);
        }
    }
}

impl Sight {
    /// The rank was let in.
    pub(super) fn joined(&self, mapping: &Arc<Mapping>, geometry: Geometry) {
        // A rank is let in once.
        let _ = self.segment.set((Arc::downgrade(mapping), geometry));
    }

    /// A place for the note of a wait.
    pub(super) const fn noting(&self) -> Noting<'_> {
        Noting {
            sight: self,
            place: None,
        }
    }
}

/// The note of one wait, which ends with it.
#[derive(Debug)]
pub(super) struct Noting<'a> {
    sight: &'a Sight,
    place: Option<usize>,
}

impl Noting<'_> {
    /// Notes that the wait is still needed by these ranks. With all places taken it does nothing.
    pub(super) fn tell(&mut self, waiting: &Waiting, missing: RankSet) {
        let mut notes = (self.sight.notes.lock()).unwrap_or_else(PoisonError::into_inner);
        let free = || notes.iter().position(Option::is_none);
        self.place = self.place.or_else(free);
        let note = self.place.and_then(|place| notes.get_mut(place));
        if let Some(note) = note {
            *note = Some(Note {
                phase: waiting.phase,
                since: waiting.since(),
                missing,
            });
        }
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut notes = (self.sight.notes.lock()).unwrap_or_else(PoisonError::into_inner);
        if let Some(note) = notes.get_mut(place) {
            *note = None;
        }
    }
}

/// One rank of this process on one bus.
#[derive(Debug)]
struct Known {
    job: String,
    rank: u16,
    world: u16,
    counters: Weak<Counters>,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// Makes a rank of this process known, from before it joins.
pub(super) fn remember(job: &str, rank: u16, world: u16, counters: &Arc<Counters>) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|known| known.counters.strong_count() > 0);
    known.push(Known {
        job: job.to_owned(),
        rank,
        world,
        counters: Arc::downgrade(counters),
    });
}

/// A rank of a bus at one moment.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) state: State,
    /// Its process; 0 if that has no number here.
    pub(crate) pid: u32,
    /// How this process knows of its death, if it has noticed that itself.
    pub(crate) death: Option<Death>,
    pub(crate) last_seen: Option<Arrived>,
}

/// A membership at one moment.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) job: String,
    pub(crate) rank: u16,
    pub(crate) world: u16,
    /// The oldest wait: what for, how long, and which ranks it needs.
    pub(crate) wait: Option<(Phase, Duration, RankSet)>,
    /// Each rank, once this one was let in.
    pub(crate) members: Vec<Member>,
    pub(crate) counts: Vec<(&'static str, u64)>,
    /// The waits could not be read: somebody held them.
    pub(crate) partial: bool,
}

/// The memberships of this process; `None` if their list is locked for longer than a report waits.
pub(crate) fn all() -> Option<Vec<Seen>> {
    let known = diagnosis::lock(&KNOWN)?;
    Some(known.iter().filter_map(see).collect())
}

fn see(known: &Known) -> Option<Seen> {
    let counters = known.counters.upgrade()?;
    let notes = diagnosis::lock(&counters.sight.notes).map(|notes| *notes);
    let oldest = (notes.iter().flatten().flatten()).min_by_key(|note| note.since);
    Some(Seen {
        job: known.job.clone(),
        rank: known.rank,
        world: known.world,
        wait: oldest.map(|note| (note.phase, note.since.elapsed(), note.missing)),
        members: members(&counters.sight).unwrap_or_default(),
        counts: counters.snapshot().named().collect(),
        partial: notes.is_none(),
    })
}

fn members(sight: &Sight) -> Option<Vec<Member>> {
    let (mapping, geometry) = sight.segment.get()?;
    let mapping = mapping.upgrade()?;
    let segment = Segment::again(mapping.words(), *geometry).ok()?;
    let members = Members::of(segment);
    // As in the member's words: the low half.
    let here = (pidfd::namespace() & u64::from(u32::MAX)) as u32;
    let death = |rank: u16| {
        let word = sight.deaths.get(usize::from(rank))?;
        // Relaxed: see `Sight`.
        Death::of_number(word.load(Ordering::Relaxed))
    };
    let one = |rank| {
        let process = members.process(rank).filter(|(_, there)| *there == here);
        // A state that cannot be is a matter of the bus's own calls.
        let state = members.state(rank).unwrap_or(State::Free);
        Member {
            state,
            pid: process.map_or(0, |(process, _)| process),
            death: death(rank),
            last_seen: barrier::last_arrival(segment, rank),
        }
    };
    Some((0..geometry.world()).map(one).collect())
}
