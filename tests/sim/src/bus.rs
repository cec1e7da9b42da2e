//! The host barrier of a simulated job, over the bus's real barrier in plain memory.
//!
//! What the shell adds around it (deadlines, one execution at a time, giving up) is done here in virtual time.

use std::collections::BTreeMap;

use proxy_core::phone::Word;
use proxy_core::phone::barrier::{Gather, Participant, RankSet, Verdict};
use proxy_core::phone::layout::{Geometry, Segment};
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Status};

/// Members of a world at most.
pub(crate) const MEMBERS: u16 = 6;

thread_local! {
    /// One bus per thread, zeroed for each world: a participant borrows it for as long as it likes.
    static WORDS: &'static [Word] = {
        let words = Geometry::new(MEMBERS, 1, 2).map_or(0, |geometry| geometry.words());
        Box::leak((0..words).map(|_| Word::new(0)).collect())
    };
}

/// One member's side.
#[derive(Debug)]
struct Part {
    participant: Participant<'static>,
    /// The execution that has arrived and is not over, and its deadline.
    current: Option<(ExecId, u64)>,
    /// The last execution that was over.
    over: Option<ExecId>,
}

/// The barrier of all members that have one.
#[derive(Debug)]
pub(crate) struct Bus {
    parts: BTreeMap<u16, Part>,
    verdicts: BTreeMap<u32, Verdict>,
    wrong: Option<String>,
}

impl Bus {
    /// A fresh barrier of these members.
    pub(crate) fn new(members: &[u16]) -> Self {
        let words = WORDS.with(|words| *words);
        for word in words {
            // Relaxed: one thread.
            word.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        let everybody: RankSet = members.iter().copied().collect();
        let geometry = Geometry::new(MEMBERS, 1, 2).expect("sizes in range");
        let segment = Segment::create(words, geometry).expect("enough words");
        let part = |me: &u16| {
            let participant = Participant::new(segment, 0, *me, everybody)?;
            let part = Part {
                participant,
                current: None,
                over: None,
            };
            Some((*me, part))
        };
        Self {
            parts: members.iter().filter_map(part).collect(),
            verdicts: BTreeMap::new(),
            wrong: None,
        }
    }

    /// The first breach of a law: all leave a generation the same way, and nobody passes before all have arrived.
    pub(crate) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// Arrives; on the leader, ready when all have.
    pub(crate) fn arrive(&mut self, me: u16, exec: ExecId, now: u64, within: u64) -> BarrierPoll {
        let Some(part) = self.parts.get_mut(&me) else {
            return BarrierPoll::Failed(Status::BARRIER_MISUSE);
        };
        match part.current {
            None => {
                let _ = part.participant.arrive(exec.0);
                part.current = Some((exec, now + within));
            }
            Some((current, _)) if current == exec => {}
            // An older execution is at the barrier; this one comes after it.
            Some(_) => return BarrierPoll::Pending,
        }
        if !part.participant.is_leader() {
            return BarrierPoll::Ready;
        }
        match part.participant.verdict() {
            Ok(Some(verdict)) => return self.over(me, verdict),
            Ok(None) => {}
            Err(_) => return self.corrupt(),
        }
        match part.participant.gather(exec.0) {
            Gather::Complete => BarrierPoll::Ready,
            Gather::OtherExecution(rank) => self.decide(me, Verdict::OtherExecution(rank)),
            Gather::Pending(_) => self.late(me, now),
        }
    }

    /// Whether this member has been let go; the leader lets all go.
    pub(crate) fn release(&mut self, me: u16, now: u64) -> BarrierPoll {
        let Some(part) = self.parts.get(&me) else {
            return BarrierPoll::Failed(Status::BARRIER_MISUSE);
        };
        if part.participant.is_leader() {
            return self.decide(me, Verdict::Passed);
        }
        match part.participant.verdict() {
            Ok(Some(verdict)) => self.over(me, verdict),
            Ok(None) => self.late(me, now),
            Err(_) => self.corrupt(),
        }
    }

    /// The task ends early: peers are told, also when it had not arrived yet, and the member stays in step with them.
    pub(crate) fn cancel(&mut self, me: u16, exec: ExecId) {
        let Some(part) = self.parts.get_mut(&me) else {
            return;
        };
        match part.current {
            Some((current, _)) if current != exec => return,
            Some(_) => {}
            None if part.over == Some(exec) => return,
            None => {
                let _ = part.participant.arrive(exec.0);
                part.current = Some((exec, 0));
            }
        }
        self.decide(me, Verdict::Cancelled(me));
    }

    fn late(&mut self, me: u16, now: u64) -> BarrierPoll {
        let deadline = self.parts.get(&me).and_then(|part| part.current);
        if deadline.is_some_and(|(_, deadline)| now >= deadline) {
            return self.decide(me, Verdict::TimedOut(me));
        }
        BarrierPoll::Pending
    }

    fn decide(&mut self, me: u16, verdict: Verdict) -> BarrierPoll {
        let decided = self
            .parts
            .get(&me)
            .map(|part| part.participant.decide(verdict));
        match decided {
            Some(Ok((standing, _))) => self.over(me, standing),
            _ => self.corrupt(),
        }
    }

    fn over(&mut self, me: u16, verdict: Verdict) -> BarrierPoll {
        let Some(part) = self.parts.get_mut(&me) else {
            return BarrierPoll::Pending;
        };
        part.over = part.current.take().map(|(exec, _)| exec);
        let generation = part.participant.generation();
        let first = *self.verdicts.entry(generation).or_insert(verdict);
        // A rank that is slow may be told the failure of a later generation; whether its own passed is the same for all.
        if (first == Verdict::Passed) != (verdict == Verdict::Passed) {
            let what = format!("generation {generation} is {first} for one and {verdict} for {me}");
            self.wrong.get_or_insert(what);
        }
        let early = |part: &&Part| part.participant.generation() < generation;
        if verdict == Verdict::Passed && self.parts.values().any(|part| early(&part)) {
            let what = format!("generation {generation} passed before all had arrived");
            self.wrong.get_or_insert(what);
        }
        BarrierPoll::Failed(match verdict {
            Verdict::Passed => return BarrierPoll::Ready,
            Verdict::TimedOut(_) => Status::BARRIER_TIMEOUT,
            Verdict::Gone(_) => Status::PEER_DEAD,
            Verdict::OtherExecution(_) => Status::MPMD,
            Verdict::Cancelled(_) => Status::PEER_CANCELLED,
            // One machine.
            Verdict::Elsewhere(..) => return self.corrupt(),
        })
    }

    fn corrupt(&mut self) -> BarrierPoll {
        self.wrong.get_or_insert("the bus is corrupt".to_owned());
        BarrierPoll::Failed(Status::BUS_CORRUPT)
    }
}
