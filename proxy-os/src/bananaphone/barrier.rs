//! The barrier: blocking, or in steps that never wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::{Elsewhere, Gather, Meeting, Participant, RankSet, Verdict};
use proxy_core::phone::layout::Segment;
use proxy_core::phone::{Corrupt, Wake};

use super::counters::Counters;
use super::error::{BusError, Phase, WaitError, Why, Within};
use super::home::Home;
use super::kill::{self, Point};
use super::share::Share;
use super::wait::{self, Look, Pace, Stage, Waiting};
use crate::sys::fork;
use crate::sys::mmap::{Family, Tied};

/// How long a rank that polls may overlook a death that only another process has noticed.
const OVERLOOK: Duration = Duration::from_millis(1);

/// How far a generation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Not all have arrived.
    Pending,
    /// All have arrived, and this rank, the leader, has to say so: [`Barrier::pass`].
    Complete,
    /// It is over, for all participants alike.
    Over(Verdict),
}

/// A participant and what it needs to judge, as a borrower of the mapping.
#[derive(Debug)]
struct Part<'a> {
    segment: Segment<'a>,
    slot: u16,
    me: u16,
    share: Option<Share>,
    participant: Participant<'a>,
    exec: u64,
    /// The wait of the generation that was arrived at; none before the first.
    waiting: Option<Waiting>,
    /// Deaths that this process had noticed at the last look at the member table, and when that was.
    looked: (u32, Instant),
}

#[derive(Debug)]
struct PartOf;

impl Family for PartOf {
    type Of<'a> = Part<'a>;
}

/// One rank's handle of one barrier. Any thread may use it, one at a time. It keeps the segment mapped.
#[derive(Debug)]
pub struct Barrier {
    part: Tied<PartOf>,
    home: Arc<Home>,
    counters: Arc<Counters>,
    slot: u16,
    me: u16,
    pace: Pace,
}

impl Barrier {
    pub(super) fn new(
        home: &Arc<Home>,
        counters: &Arc<Counters>,
        (me, pace): (u16, Pace),
        slot: u16,
        participants: RankSet,
    ) -> Result<Self, BusError> {
        let bad = || BusError::BadBarrier { slot, participants };
        let part = Tied::<PartOf>::new(&home.mapping, |words| {
            let segment = Segment::again(words, home.geometry).map_err(|_| bad())?;
            let participant = Participant::new(segment, slot, me, participants).ok_or_else(bad)?;
            participant
                .claim()?
                .map_err(|other| BusError::OtherParticipants {
                    slot,
                    ours: participants,
                    rank: other.rank,
                    theirs: other.theirs,
                })?;
            Ok::<_, BusError>(Part {
                segment,
                slot,
                me,
                share: home.share,
                participant,
                exec: 0,
                waiting: None,
                looked: (0, Instant::now()),
            })
        })?;
        Ok(Self {
            part,
            home: Arc::clone(home),
            counters: Arc::clone(counters),
            slot,
            me,
            pace,
        })
    }

    /// Whether this rank gathers the others: the lowest participant does.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.part.with(|part| part.participant.is_leader())
    }

    /// The participants.
    #[must_use]
    pub fn participants(&self) -> RankSet {
        self.part.with(|part| part.participant.participants())
    }

    /// Participants that have not arrived at the generation that this rank arrived at last.
    #[must_use]
    pub fn missing(&self) -> RankSet {
        self.part.with(|part| part.participant.missing())
    }

    /// Announces this rank's arrival for execution `exec` and returns at once. The generation before must be over.
    ///
    /// In a forked child it does nothing, and a poll says why.
    pub fn arrive(&mut self, exec: u64, within: impl Into<Within>) {
        if fork::is_child() {
            return;
        }
        let (within, news) = (within.into(), self.home.watch.news());
        self.part.with_mut(|part| {
            // Behind the arrival, as others may wait for that alone.
            let _ = part.arrive(exec, within, Participant::arrive).since();
            // So that the first poll looks at the table.
            part.looked.0 = news.wrapping_sub(1);
        });
    }

    /// Looks how far the generation is, and returns at once.
    ///
    /// A look also decides the generation for everybody when a participant that is needed is gone, when this rank's deadline has
    /// passed, and, on the leader, when a rank has arrived for another execution.
    ///
    /// # Errors
    /// The segment holds something that cannot be.
    pub fn poll(&mut self) -> Result<Progress, BusError> {
        in_owner()?;
        let news = self.home.watch.news();
        Ok(self.part.with_mut(|part| part.poll(news))?)
    }

    /// Leader, when [`Progress::Complete`] was seen: lets everybody pass. Returns the verdict that stands, which is another if somebody has
    /// decided before.
    ///
    /// # Errors
    /// As for [`Self::poll`].
    pub fn pass(&mut self) -> Result<Verdict, BusError> {
        self.decide(Verdict::Passed)
    }

    /// Gives up: the generation fails for everybody, unless it is over.
    ///
    /// # Errors
    /// As for [`Self::poll`].
    pub fn cancel(&mut self) -> Result<Verdict, BusError> {
        self.decide(Verdict::Cancelled(self.me))
    }

    /// Instead of an arrival: the next generation, that of execution `exec`, fails for everybody, and this rank is in step
    /// with the others afterwards. The generation before must be over.
    ///
    /// # Errors
    /// As for [`Self::poll`].
    pub fn forgo(&mut self, exec: u64) -> Result<Verdict, BusError> {
        in_owner()?;
        kill::point(Point::Arriving);
        let me = self.me;
        let verdict = self.part.with_mut(|part| {
            let (decided, wake) = part.participant.forgo(exec);
            kill::point(Point::Arrived);
            wait::wake(part.segment.words(), wake);
            decided.map(|decided| part.spread(Verdict::Cancelled(me), decided))
        });
        Ok(verdict?)
    }

    /// Ends the generation with an opinion of this rank; returns the verdict that stands.
    pub(super) fn decide(&mut self, opinion: Verdict) -> Result<Verdict, BusError> {
        in_owner()?;
        Ok(self.part.with(|part| part.decide(opinion))?)
    }

    /// Leader that waits for other machines: notes for which, and says whether this rank's deadline has passed.
    pub(super) fn await_machine(&mut self, machine: Option<u8>) -> bool {
        in_owner().is_ok()
            && self.part.with(|part| {
                part.participant.await_machine(machine);
                part.is_late(Instant::now())
            })
    }

    /// Arrives and waits until all have arrived for the same execution.
    ///
    /// # Errors
    /// [`BusError::Wait`] with the verdict, which is the same for all participants; and as for [`Self::poll`].
    pub fn wait(&mut self, exec: u64, within: impl Into<Within>) -> Result<(), BusError> {
        in_owner()?;
        let (within, pace, counters) = (within.into(), self.pace, &self.counters);
        let verdict = self.part.with_mut(|part| {
            part.arrive(exec, within, Participant::arrive_ready);
            match part.gather(pace, counters)? {
                Progress::Over(verdict) => Ok(verdict),
                // A wait is never left pending.
                Progress::Complete | Progress::Pending => part.decide(Verdict::Passed),
            }
        })?;
        match verdict {
            Verdict::Passed => Ok(()),
            verdict => Err(self.failure(verdict).into()),
        }
    }

    /// Waits, after [`Self::arrive`], until this rank has something to do: on the leader that is [`Progress::Complete`] when all
    /// have arrived, and nobody has passed then; on the others the verdict. Passed deadlines are a verdict, too.
    ///
    /// # Errors
    /// As for [`Self::poll`].
    pub fn gather(&mut self) -> Result<Progress, BusError> {
        in_owner()?;
        let (pace, counters) = (self.pace, &self.counters);
        Ok(self.part.with_mut(|part| part.gather(pace, counters))?)
    }

    /// The error of a generation that did not pass, with the bus as it is now.
    #[must_use]
    pub fn failure(&self, verdict: Verdict) -> WaitError {
        self.part.with(|part| {
            let missing = part.participant.missing();
            (part.waiting()).error(part.segment, Why::Verdict(verdict), missing)
        })
    }

    /// Slot and generation, and the machine that the leader waits for, if it has said for one.
    pub(super) fn place(&self) -> (u16, u32, Option<u8>) {
        self.part.with(|part| {
            let participant = &part.participant;
            let machine = participant.awaited_machine();
            (self.slot, participant.generation(), machine)
        })
    }
}

/// Whether the caller is the process that joined, and not a forked child of it.
fn in_owner() -> Result<(), BusError> {
    if fork::is_child() {
        Err(BusError::Forked)
    } else {
        Ok(())
    }
}

/// What words of the barrier alone say.
enum Glance {
    Over(Verdict),
    Complete,
    /// For this rank's arrival, or for the verdict.
    Pending(Option<u16>),
}

impl<'a> Part<'a> {
    /// A wait of the generation that was arrived at.
    fn begin(&self, within: Within) -> Waiting {
        let (slot, generation) = (self.slot, self.participant.generation());
        let phase = Phase::Barrier { slot, generation };
        Waiting::new(phase, self.me, within).of(self.share)
    }

    /// The wait of the generation that was arrived at; before the first, one that is over.
    fn waiting(&self) -> Waiting {
        let none = || self.begin(Duration::ZERO.into());
        self.waiting.clone().unwrap_or_else(none)
    }

    /// Arrives at the next generation, in one of the two ways.
    #[inline]
    fn arrive(
        &mut self,
        exec: u64,
        within: Within,
        arrive: impl FnOnce(&mut Participant<'a>, u64) -> Wake,
    ) -> &Waiting {
        kill::point(Point::Arriving);
        let wake = arrive(&mut self.participant, exec);
        kill::point(Point::Arrived);
        wait::wake(self.segment.words(), wake);
        self.exec = exec;
        let waiting = self.begin(within);
        self.waiting.insert(waiting)
    }

    /// Waits until this rank has something to do.
    fn gather(&mut self, pace: Pace, counters: &Counters) -> Result<Progress, Corrupt> {
        let (segment, waiting) = (self.segment, self.waiting());
        let over = wait::until(segment, pace, &waiting, counters, |stage| self.look(stage));
        // With the time at which it began.
        self.waiting = Some(waiting);
        // Somebody may have decided since the last look, and then that stands.
        over.unwrap_or_else(|| self.decide(self.late()).map(Progress::Over))
    }

    /// Who is waited for: ranks that have not arrived, or the leader, which has not let them pass.
    fn awaited(&self) -> RankSet {
        let missing = self.participant.missing();
        if missing.is_empty() && !self.participant.is_leader() {
            return missing.with(self.participant.leader());
        }
        missing
    }

    fn glance(&mut self) -> Result<Glance, Corrupt> {
        match self.participant.meet(self.exec)? {
            Meeting::Over(verdict) => return Ok(Glance::Over(verdict)),
            Meeting::Missing(rank) => return Ok(Glance::Pending(Some(rank))),
            Meeting::None => {}
        }
        if let Some(verdict) = self.participant.verdict()? {
            return Ok(Glance::Over(verdict));
        }
        if !self.participant.is_leader() {
            return Ok(Glance::Pending(None));
        }
        match self.participant.gather(self.exec) {
            Gather::Complete => {
                kill::point(Point::Gathered);
                Ok(Glance::Complete)
            }
            Gather::OtherExecution(rank) => {
                let verdict = self.decide(Verdict::OtherExecution(rank))?;
                Ok(Glance::Over(verdict))
            }
            Gather::Pending(rank) => Ok(Glance::Pending(Some(rank))),
        }
    }

    /// One step of the form that never waits.
    fn poll(&mut self, news: u32) -> Result<Progress, Corrupt> {
        match self.glance()? {
            Glance::Over(verdict) => return Ok(Progress::Over(verdict)),
            Glance::Complete => return Ok(Progress::Complete),
            Glance::Pending(_) => {}
        }
        let now = Instant::now();
        if news != self.looked.0 || now.duration_since(self.looked.1) >= OVERLOOK {
            self.looked = (news, now);
            if let Some(rank) = self.first_gone()? {
                return self.decide(Verdict::Gone(rank)).map(Progress::Over);
            }
        }
        if self.is_late(now) {
            return self.decide(self.late()).map(Progress::Over);
        }
        Ok(Progress::Pending)
    }

    /// Whether this rank's deadline has passed.
    fn is_late(&self, now: Instant) -> bool {
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|waiting| waiting.deadline() <= now)
    }

    /// This rank's opinion when its deadline has passed: where all ranks have arrived, the leader waits for another machine.
    fn late(&self) -> Verdict {
        match self.participant.awaited_machine() {
            Some(machine) if self.participant.missing().is_empty() => {
                Verdict::Elsewhere(machine, Elsewhere::Missing)
            }
            _ => Verdict::TimedOut(self.me),
        }
    }

    /// One look of the form that waits.
    fn look(&mut self, stage: Stage) -> Look<'a, Result<Progress, Corrupt>> {
        let decided = |verdict: Result<Verdict, Corrupt>| Look::Done(verdict.map(Progress::Over));
        let next = match self.glance() {
            Ok(Glance::Over(verdict)) => return decided(Ok(verdict)),
            Ok(Glance::Complete) => return Look::Done(Ok(Progress::Complete)),
            Ok(Glance::Pending(next)) => next,
            Err(error) => return Look::Done(Err(error)),
        };
        if stage == Stage::Sleep {
            match self.first_gone() {
                Ok(None) => {}
                Ok(Some(rank)) => return decided(self.decide(Verdict::Gone(rank))),
                Err(error) => return Look::Done(Err(error)),
            }
        }
        let news = match next {
            Some(rank) => self.participant.arrival_of(rank),
            None => Some(self.participant.released()),
        };
        match news {
            Some(news) if stage == Stage::Sleep => Look::Sleep(news, self.awaited()),
            Some(news) => Look::Sleep(news, RankSet::default()),
            // Both exist for every barrier that could be made.
            None => decided(self.decide(Verdict::Cancelled(self.me))),
        }
    }

    /// A participant without which the generation cannot pass, and that is gone: one that has not arrived, or the leader.
    fn first_gone(&self) -> Result<Option<u16>, Corrupt> {
        let needed = self.participant.missing().with(self.participant.leader());
        for rank in needed.iter() {
            if wait::gone(self.segment, rank)?.is_some() {
                return Ok(Some(rank));
            }
        }
        Ok(None)
    }

    fn decide(&self, verdict: Verdict) -> Result<Verdict, Corrupt> {
        let decided = self.participant.decide(verdict)?;
        Ok(self.spread(verdict, decided))
    }

    /// Wakes whoever waits for a verdict that has been decided, this rank's opinion having been `verdict`; returns the one that stands.
    fn spread(&self, verdict: Verdict, (standing, wake): (Verdict, Wake)) -> Verdict {
        kill::point(Point::Decided);
        wait::wake(self.segment.words(), wake);
        if standing == verdict && verdict != Verdict::Passed && !self.participant.is_leader() {
            // The leader does not sleep on the verdict but on an arrival that may never come.
            for rank in self.participant.participants().iter() {
                if let Some(arrival) = self.participant.arrival_of(rank) {
                    wait::wake(self.segment.words(), arrival.nudge());
                }
            }
        }
        standing
    }
}
