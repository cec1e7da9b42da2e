//! Waiting: look, spin a little, yield a little, sleep in slices, until the deadline.
//!
//! Nothing that is waited for is told in any other way than through words of the segment, so a waiter looks at them; the futex
//! only saves it from looking all the time. A slice ends the sleep now and then, so that a wake-up that a peer
//! died before it could give costs no more than that. Signals end a sleep early and change nothing else: the deadline is a
//! point in time, not a sum of sleeps (requirement H65).

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::Segment;
use proxy_core::phone::member::{MemberError, Members, State};
use proxy_core::phone::{Corrupt, Signal, Sleeping, Wake, Word};

use super::counters::{Counters, Fallback};
use super::error::{Phase, WaitError, Why, Within};
use super::share::Share;
use crate::sys::{affinity, futex, thread};

/// A sleep at most. Also what a lost wake-up costs.
const SLICE: Duration = Duration::from_millis(100);
/// Looks between two of the clock.
const CLOCK_EVERY: u32 = 64;
/// Looks between two that overlook nothing, for budgets far larger than the usual ones: a fraction of a millisecond.
const THOROUGH_EVERY: u32 = 4096;
/// A poll where the kernel refuses to let us sleep on a word.
const POLL: Duration = Duration::from_millis(1);

/// How long to look before sleeping: a hand-off between running threads takes a fraction of a microsecond, one through a
/// sleep 5 to 50. Spinning pays only while every rank has a CPU. Yields are few: one lets the rank that is waited for run, if it has the
/// same CPU; but where others compute, each gives them a whole slice, and a sleeper that is woken gets its CPU back sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    spins: u32,
    yields: u32,
}

impl Pace {
    /// For a bus of so many ranks; a number that is given counts instead.
    pub(super) fn of(world: u16, spins: Option<u32>, yields: Option<u32>) -> Self {
        let usual = Self::usual(world);
        Self {
            spins: spins.unwrap_or(usual.spins),
            yields: yields.unwrap_or(usual.yields),
        }
    }

    fn usual(world: u16) -> Self {
        if has_cpus(world.into()) {
            Self {
                spins: 250,
                yields: 3,
            }
        } else {
            // Others want this CPU, among them perhaps the one that is waited for.
            Self {
                spins: 8,
                yields: 4,
            }
        }
    }
}

/// Whether so many ranks have a CPU each.
fn has_cpus(ranks: usize) -> bool {
    static CPUS: OnceLock<usize> = OnceLock::new();
    // One call, and where CPUs are few that is all; what a control group allows is in files, which take ten.
    let few = affinity::current().is_ok_and(|cpus| cpus.len() < ranks);
    let cpus = || std::thread::available_parallelism().map_or(1, Into::into);
    !few && ranks <= *CPUS.get_or_init(cpus)
}

/// Why a look is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// One of many in a row; it should cost little.
    Spin,
    /// The last before a sleep, or the first after one; it must overlook nothing.
    Sleep,
}

/// What a look has shown.
pub(super) enum Look<'a, T> {
    /// The wait is over.
    Done(T),
    /// Nothing yet; this is where the news will come, and these are the ranks that are waited for, as far as it is cheap to know.
    Sleep(Signal<'a>, RankSet),
}

/// Looks until something is there or the deadline has passed; looks at least once, and once more after the deadline.
pub(super) fn until<'a, T>(
    segment: Segment<'a>,
    pace: Pace,
    waiting: &Waiting,
    counters: &Counters,
    mut look: impl FnMut(Stage) -> Look<'a, T>,
) -> Option<T> {
    for round in 0..pace.spins.saturating_add(pace.yields) {
        // A budget of many looks must not hide a death.
        let stage = match round % THOROUGH_EVERY == THOROUGH_EVERY - 1 {
            true => Stage::Sleep,
            false => Stage::Spin,
        };
        if let Look::Done(done) = look(stage) {
            return Some(done);
        }
        // A budget of many looks must not outlast the deadline.
        if round % CLOCK_EVERY == CLOCK_EVERY - 1 && left(waiting.deadline()).is_none() {
            break;
        }
        if round < pace.spins {
            thread::pause();
        } else {
            thread::sched_yield();
        }
    }
    let mut noting = counters.sight.noting();
    loop {
        let (signal, missing) = match look(Stage::Sleep) {
            Look::Done(done) => return Some(done),
            Look::Sleep(signal, missing) => (signal, missing),
        };
        let left = left(waiting.deadline())?;
        noting.tell(waiting, missing);
        let sleeping = signal.sleep();
        match look(Stage::Sleep) {
            Look::Done(done) => return Some(done),
            // Only a sleep on the signal that was counted is sure to be ended.
            Look::Sleep(same, _) if same.index() == signal.index() => {
                sleep(segment, &sleeping, left.min(SLICE), counters);
            }
            Look::Sleep(..) => {}
        }
    }
}

/// Time to the deadline; `None` = it has passed.
fn left(deadline: Instant) -> Option<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    (!left.is_zero()).then_some(left)
}

fn sleep(segment: Segment<'_>, sleeping: &Sleeping<'_>, slice: Duration, counters: &Counters) {
    let Some(word) = segment.words().get(sleeping.index()) else {
        return;
    };
    if let Err(error) = futex::wait(word, sleeping.seen(), slice) {
        counters.fallback(Fallback::Polling, format_args!("FUTEX_WAIT: {error}"));
        std::thread::sleep(slice.min(POLL));
    }
}

/// Does what a change of a word asks for.
pub(super) fn wake(words: &[Word], wake: Wake) {
    if let Wake::Word(index) = wake
        && let Some(word) = words.get(index)
    {
        futex::wake_all(word);
    }
}

/// Wakes every sleeper of the bus: a rank is gone, and whoever waits for whatever must look.
///
/// One death can concern sleepers on words of other ranks: a leader that waits for one participant learns of another's.
pub(super) fn wake_everybody(segment: Segment<'_>) {
    for rank in 0..segment.geometry().world() {
        for signal in segment.signals_of(rank) {
            wake(segment.words(), signal.nudge());
        }
    }
}

/// Whether a rank that is waited for is gone for good.
pub(super) fn gone(segment: Segment<'_>, rank: u16) -> Result<Option<Why>, Corrupt> {
    match Members::of(segment).state(rank) {
        Ok(State::Dead) => Ok(Some(Why::PeerDead(rank))),
        Ok(State::Left) => Ok(Some(Why::PeerLeft(rank))),
        Ok(_) | Err(MemberError::NoSuchRank { .. } | MemberError::State { .. }) => Ok(None),
        Err(MemberError::Corrupt(error)) => Err(error),
    }
}

/// The ranks of a bus in this state.
pub(super) fn in_state(segment: Segment<'_>, state: State) -> RankSet {
    let members = Members::of(segment);
    (0..segment.geometry().world())
        .filter(|rank| members.state(*rank) == Ok(state))
        .collect()
}

/// One wait: what its error will say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) phase: Phase,
    pub(super) rank: u16,
    pub(super) within: Within,
    share: Option<Share>,
    start: Instant,
}

impl Waiting {
    /// A wait that begins now.
    pub(super) fn new(phase: Phase, rank: u16, within: Within) -> Self {
        Self {
            phase,
            rank,
            within,
            share: None,
            start: Instant::now(),
        }
    }

    /// The same on a bus that has only these ranks of a job.
    pub(super) const fn of(self, share: Option<Share>) -> Self {
        Self { share, ..self }
    }

    /// When it began.
    pub(super) const fn since(&self) -> Instant {
        self.start
    }

    /// When it ends at the latest. A time beyond the clock's range is a century.
    pub(super) fn deadline(&self) -> Instant {
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        self.start + self.within.time.min(century)
    }

    /// Its error, with the bus as it is now.
    pub(super) fn error(&self, segment: Segment<'_>, why: Why, missing: RankSet) -> WaitError {
        WaitError {
            phase: self.phase,
            why,
            rank: self.rank,
            world: segment.geometry().world(),
            missing,
            dead: in_state(segment, State::Dead),
            left: in_state(segment, State::Left),
            elapsed: self.start.elapsed(),
            within: self.within,
            share: self.share,
        }
    }

    /// Its error when there is no bus yet.
    pub(super) fn without_bus(&self, world: u16) -> WaitError {
        WaitError {
            phase: self.phase,
            why: Why::Deadline,
            rank: self.rank,
            world,
            missing: RankSet::default(),
            dead: RankSet::default(),
            left: RankSet::default(),
            elapsed: self.start.elapsed(),
            within: self.within,
            share: self.share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_that_is_given_counts_and_else_the_one_for_so_many_ranks() {
        let usual = Pace::usual(1);
        assert_eq!((usual.spins, usual.yields), (250, 3));
        assert_eq!(Pace::of(1, None, None), usual);
        let given = Pace::of(1, Some(7), None);
        assert_eq!((given.spins, given.yields), (7, 3));
        let crowded = Pace::of(u16::MAX, None, Some(0));
        assert_eq!((crowded.spins, crowded.yields), (8, 0));
    }
}
