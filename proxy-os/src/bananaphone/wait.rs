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
/// Pauses between two looks at the clock.
const CLOCK_EVERY: u32 = 64;
/// Looks between two that overlook nothing, for budgets far larger than the usual ones: a fraction of a millisecond.
const THOROUGH_EVERY: u32 = 4096;
/// A poll where the kernel refuses to let us sleep on a word.
const POLL: Duration = Duration::from_millis(1);
/// How long to yield before a sleep, about what a sleep and its wake-up cost: so a wait never costs more than twice what it must.
const PATIENCE: Duration = Duration::from_micros(50);

/// How long to look before sleeping: a hand-off between running threads takes a fraction of a microsecond, one through a
/// sleep 5 to 50, and a rank that sleeps makes the others wait as long, who then sleep, too. Looks in a row pay only where each
/// rank has a CPU; else the next thing to do is to let the others run. Yields end by the clock and not by their number: where only ranks
/// share a CPU, each takes as long as these run, and they are about to arrive; where others compute, the first takes the
/// whole patience, and a sleeper that is woken gets its CPU back sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// Pauses before the first yield, if given.
    spins: Option<u32>,
    /// Yields before a sleep, if given.
    yields: Option<u32>,
}

impl Pace {
    /// Pauses before the first yield where each rank has a CPU.
    const ALONE: u32 = 250;
    /// The same where ranks share CPUs.
    const CROWDED: u32 = 0;

    /// The usual one; a number that is given counts instead.
    pub(super) const fn of(spins: Option<u32>, yields: Option<u32>) -> Self {
        Self { spins, yields }
    }

    /// What is to be done before a sleep in a wait that has shown nothing at its first look, made at `now`.
    fn budget(self, crowded: bool, now: Instant, deadline: Instant) -> Budget {
        let usual = if crowded { Self::CROWDED } else { Self::ALONE };
        let (yields, end) = match self.yields {
            Some(yields) => (yields, deadline),
            None => (u32::MAX, deadline.min(now + PATIENCE)),
        };
        Budget {
            looks: 1,
            spins: self.spins.unwrap_or(usual),
            yields,
            end,
            deadline,
        }
    }
}

/// What is left to be done before a sleep.
#[derive(Debug, PartialEq, Eq)]
struct Budget {
    /// Made so far.
    looks: u32,
    spins: u32,
    yields: u32,
    /// Of the yields.
    end: Instant,
    /// Of the wait: a budget of many looks must not outlast it.
    deadline: Instant,
}

impl Budget {
    /// How the next look is to be made: a budget of many must not hide a death.
    const fn stage(&mut self) -> Stage {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(THOROUGH_EVERY) {
            Stage::Sleep
        } else {
            Stage::Spin
        }
    }

    /// Lets a moment pass before the next look; false = the budget or the wait is over.
    fn pass(&mut self) -> bool {
        if let Some(left) = self.spins.checked_sub(1) {
            self.spins = left;
            thread::pause();
            return left % CLOCK_EVERY != 0 || Instant::now() < self.deadline;
        }
        let Some(left) = self.yields.checked_sub(1) else {
            return false;
        };
        self.yields = left;
        thread::sched_yield();
        Instant::now() < self.end
    }
}

/// Whether this rank shares its CPUs with other ranks of the bus, once that is known.
#[derive(Debug, Default)]
pub(super) struct Crowd(OnceLock<bool>);

impl Crowd {
    /// Tells the others on which CPUs this rank runs: those of the calling thread. One that the kernel tells nothing of counts as crowded.
    pub(super) fn tell(segment: Segment<'_>, me: u16) {
        let set = affinity::current().unwrap_or_default();
        // FNV-1a. Two sets with one number would only make ranks yield earlier, or spin longer, than they should.
        let number = set.iter().fold(0x811C_9DC5_u32, |hash, cpu| {
            (hash ^ cpu).wrapping_mul(0x0100_0193)
        });
        // What a control group allows may be less, but is in files, which take ten calls: asked where the CPUs alone would be enough for all.
        let mut cpus = set.len();
        if cpus >= segment.geometry().world().into() {
            cpus = std::thread::available_parallelism().map_or(cpus, usize::from);
        }
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        Members::of(segment).run_on(me, number.max(1), cpus);
    }

    /// Whether it does; asked where a wait is not over at its first look. Until all ranks have told theirs, they are taken to.
    pub(super) fn is_there(&self, segment: Segment<'_>, me: u16) -> bool {
        let known = || {
            let crowded = Members::of(segment).is_crowded(me)?;
            Some(*self.0.get_or_init(|| crowded))
        };
        self.0.get().copied().or_else(known).unwrap_or(true)
    }
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
///
/// A wait that is over at its first look asks for nothing else, not even the time.
pub(super) fn until<'a, T>(
    segment: Segment<'a>,
    pace: Pace,
    waiting: &Waiting,
    counters: &Counters,
    mut look: impl FnMut(Stage) -> Look<'a, T>,
) -> Option<T> {
    if let Look::Done(done) = look(Stage::Spin) {
        return Some(done);
    }
    let now = waiting.begin();
    let crowded = counters.crowd.is_there(segment, waiting.rank);
    let mut budget = pace.budget(crowded, now, waiting.deadline());
    while budget.pass() {
        if let Look::Done(done) = look(budget.stage()) {
            return Some(done);
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
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) phase: Phase,
    pub(super) rank: u16,
    pub(super) within: Within,
    share: Option<Share>,
    /// When it began; nothing while nobody has had to wait. Most waits are over before a clock could be read.
    start: OnceLock<Instant>,
}

impl Waiting {
    /// A wait that begins with the first look that shows nothing, or with the first question when it began.
    pub(super) const fn new(phase: Phase, rank: u16, within: Within) -> Self {
        Self {
            phase,
            rank,
            within,
            share: None,
            start: OnceLock::new(),
        }
    }

    /// The same on a bus that has only these ranks of a job.
    pub(super) fn of(self, share: Option<Share>) -> Self {
        Self { share, ..self }
    }

    /// Begins, if it has not; returns the time.
    fn begin(&self) -> Instant {
        let now = Instant::now();
        let _ = self.start.get_or_init(|| now);
        now
    }

    /// When it began; it does with this call, if it has not.
    pub(super) fn since(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    /// When it ends at the latest. A time beyond the clock's range is a century.
    pub(super) fn deadline(&self) -> Instant {
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        self.since() + self.within.time.min(century)
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
            elapsed: self.since().elapsed(),
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
            elapsed: self.since().elapsed(),
            within: self.within,
            share: self.share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_that_is_given_counts_and_else_the_one_for_ranks_with_a_cpu_each_or_without() {
        let now = Instant::now();
        let deadline = now + Duration::from_secs(9);
        let budget = |spins, yields, crowded| {
            let budget = Pace::of(spins, yields).budget(crowded, now, deadline);
            (budget.spins, budget.yields, budget.end)
        };
        let patience = now + PATIENCE;
        assert_eq!(budget(None, None, false), (Pace::ALONE, u32::MAX, patience));
        assert_eq!(
            budget(None, None, true),
            (Pace::CROWDED, u32::MAX, patience)
        );
        assert_eq!(budget(Some(7), None, true), (7, u32::MAX, patience));
        assert_eq!(budget(None, Some(3), false), (Pace::ALONE, 3, deadline));
        assert_eq!(budget(Some(0), Some(0), true), (0, 0, deadline));
        let soon = Pace::of(None, None).budget(true, now, now);
        assert_eq!(
            (soon.end, soon.deadline),
            (now, now),
            "not longer than the wait"
        );
    }

    #[test]
    fn a_budget_ends_with_its_numbers_or_with_the_clock() {
        let later = Instant::now() + Duration::from_secs(600);
        let passed = |spins, yields, end, deadline| {
            let mut budget = Budget {
                looks: 1,
                spins,
                yields,
                end,
                deadline,
            };
            let passes = std::iter::from_fn(|| budget.pass().then_some(())).count();
            (passes, budget.spins, budget.yields)
        };
        assert_eq!(passed(70, 5, later, later), (75, 0, 0));
        let over = Instant::now();
        // A look follows each pass but the last, whose look is the one before the sleep.
        assert_eq!(passed(0, u32::MAX, over, later), (0, 0, u32::MAX - 1));
        let (passes, spins, yields) = passed(u32::MAX, 5, over, over);
        assert!(
            passes < 64 && u32::MAX - spins <= 64 && yields == 5,
            "{passes} {spins} {yields}"
        );
    }

    #[test]
    fn a_wait_begins_once_and_not_before_it_must() {
        let waiting = Waiting::new(Phase::Send, 1, Duration::from_secs(3).into());
        assert_eq!(waiting.start.get(), None);
        let before = Instant::now();
        let begun = waiting.begin();
        assert!(begun >= before && waiting.since() == begun);
        assert!(waiting.begin() >= begun && waiting.since() == begun);
        assert_eq!(waiting.deadline(), begun + Duration::from_secs(3));
        assert_eq!(waiting.clone().since(), begun, "with its copies");
    }
}
