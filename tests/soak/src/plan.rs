//! A round: what is run and what is done to it. A pure function of seed and number, so that a round can be seen again.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use proxy_kit::dtype::Dtype;
use proxy_kit::op::Op;
use proxy_kit::oracle::XorShift;
use serde::{Deserialize, Serialize};

/// Processes that live as long as the soak; the first ones of every round.
pub(crate) const RESIDENTS: usize = 2;
/// The first rounds have each fault once, and the one without.
pub(crate) const FIRST: u64 = Kind::ALL.len() as u64 + 1;
/// How long an execution may take where nothing is to end by its deadline, on a machine with too much to run.
const AMPLE: Duration = Duration::from_secs(20);
/// How long where something is.
const SHORT: Duration = Duration::from_millis(1500);
/// Buffers have up to two to the power of one less than this elements: more than one transfer, and often less than one per rank.
const SIZES: u64 = 17;

/// One round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Its number.
    pub(crate) number: u64,
    /// Ranks of each process, in order.
    pub(crate) processes: Vec<Range<u32>>,
    /// Place of the collective among all.
    op: usize,
    /// Place of the element type among all.
    dtype: usize,
    /// Elements.
    pub(crate) count: usize,
    /// Streams.
    pub(crate) streams: usize,
    /// Basic blocks of each stream.
    pub(crate) blocks: usize,
    /// Executions.
    pub(crate) executions: u64,
    /// Devices that share a worker.
    pub(crate) per_worker: u32,
    /// The library may complete sends early.
    pub(crate) early: bool,
    /// Seed of the inputs.
    pub(crate) seed: u64,
    /// Deadline of an execution and of each wait on the bus.
    pub(crate) deadline: Duration,
    /// What is done.
    pub(crate) fault: Option<Fault>,
}

/// What is done to a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// What.
    pub(crate) kind: Kind,
    /// To which rank, or by it.
    pub(crate) victim: u32,
    /// When it has begun this execution, from 1.
    pub(crate) execution: u64,
    /// And how long afterwards.
    pub(crate) delay: Duration,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// `SIGKILL`.
    Kill,
    /// It calls `exit` while its worker is busy.
    Exit,
    /// `SIGSTOP`, and `SIGCONT` soon enough for everything to succeed.
    StopBriefly,
    /// `SIGSTOP` past the deadline, and `SIGCONT` when all others have ended.
    StopLong,
    /// `SIGSTOP` past the deadline, and `SIGKILL` when all others have ended.
    StopForGood,
    /// It aborts the execution's two tasks.
    AbortTask,
    /// It aborts its context's tasks.
    AbortContext,
    /// It aborts its group's tasks.
    AbortGroup,
    /// It aborts the tasks of all groups of its process.
    AbortAll,
    /// It releases its group's queue.
    Release,
}

impl Kind {
    /// All, in the order in which the first rounds have them.
    pub(crate) const ALL: [Self; 10] = [
        Self::Kill,
        Self::Exit,
        Self::StopBriefly,
        Self::StopLong,
        Self::StopForGood,
        Self::AbortTask,
        Self::AbortContext,
        Self::AbortGroup,
        Self::AbortAll,
        Self::Release,
    ];

    /// Whether the victim's process does not live on.
    pub(crate) const fn is_fatal(self) -> bool {
        matches!(self, Self::Kill | Self::Exit | Self::StopForGood)
    }

    /// Whether the execution is to end by its deadline.
    pub(crate) const fn is_late(self) -> bool {
        matches!(self, Self::StopLong | Self::StopForGood)
    }

    /// Whether the victim does it to itself.
    pub(crate) const fn is_own(self) -> bool {
        !matches!(
            self,
            Self::Kill | Self::StopBriefly | Self::StopLong | Self::StopForGood
        )
    }

    /// Whether the victim's process is to lose tasks beside the victim's own.
    pub(crate) const fn is_shared(self) -> bool {
        matches!(self, Self::AbortGroup | Self::AbortAll | Self::Release)
    }

    /// Whether the execution must not succeed: the victim's device never fires then, so the fault always meets an unfinished one.
    pub(crate) const fn hurts(self) -> bool {
        !matches!(self, Self::StopBriefly)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "killed",
            Self::Exit => "exit while busy",
            Self::StopBriefly => "stopped briefly",
            Self::StopLong => "stopped past the deadline",
            Self::StopForGood => "stopped for good",
            Self::AbortTask => "abort of a task",
            Self::AbortContext => "abort of a context",
            Self::AbortGroup => "abort of a group",
            Self::AbortAll => "abort of all",
            Self::Release => "early release",
        })
    }
}

impl Round {
    /// Round `number` of a seed.
    pub(crate) fn draw(seed: u64, number: u64) -> Self {
        let mut random = XorShift::new(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        // The generator's first numbers are alike for seeds that are.
        for _ in 0..16 {
            random.below(2);
        }
        let kind = match number {
            0..FIRST => usize::try_from(number)
                .ok()
                .and_then(|at| Kind::ALL.get(at)),
            _ if random.once_in(4) => None,
            _ => Some(&Kind::ALL[pick(&mut random, Kind::ALL.len())]),
        };
        let kind = kind.copied();
        let processes = processes(&mut random, kind.is_some_and(Kind::is_fatal));
        let executions = 2 + random.below(5);
        let fault = kind.map(|kind| Fault {
            kind,
            victim: victim(&mut random, &processes, kind),
            execution: 1 + random.below(executions - 1),
            delay: Duration::from_micros(random.below(5000)),
        });
        let magnitude = random.below(SIZES);
        Self {
            number,
            op: pick(&mut random, Op::ALL.len()),
            dtype: pick(&mut random, Dtype::ALL.len()),
            count: 1 + pick(&mut random, 1 << magnitude),
            streams: pick(&mut random, 3) + 1,
            blocks: pick(&mut random, 3) + 1,
            executions,
            per_worker: 1 + u32::from(random.once_in(2)),
            early: random.once_in(2),
            seed: random.below(u64::MAX),
            deadline: match kind {
                Some(kind) if kind.is_late() => SHORT,
                _ => AMPLE,
            },
            processes,
            fault,
        }
    }

    /// The collective.
    pub(crate) fn op(&self) -> Op {
        Op::ALL[self.op]
    }

    /// The element type.
    pub(crate) fn dtype(&self) -> Dtype {
        Dtype::ALL[self.dtype]
    }

    /// All ranks.
    pub(crate) fn ranks(&self) -> u32 {
        self.processes.last().map_or(0, |last| last.end)
    }

    /// The process of a rank.
    pub(crate) fn process_of(&self, rank: u32) -> usize {
        let here = |ranks: &Range<u32>| ranks.contains(&rank);
        self.processes.iter().position(here).unwrap_or(0)
    }

    /// The fault, if this rank is the one it happens to, in this execution.
    pub(crate) fn strikes(&self, rank: u32, execution: u64) -> Option<Fault> {
        self.fault
            .filter(|fault| fault.victim == rank && fault.execution == execution)
    }
}

fn pick(random: &mut XorShift, below: usize) -> usize {
    usize::try_from(random.below(below as u64)).unwrap_or(0)
}

/// A resident with one or two ranks, one with one, and mortals with one each: none to two, but one where one is to die.
fn processes(random: &mut XorShift, fatal: bool) -> Vec<Range<u32>> {
    let first = 1 + u32::from(random.once_in(2));
    let mortals = match fatal {
        true => 1 + u32::from(random.once_in(2)),
        false => u32::try_from(random.below(3)).unwrap_or(0),
    };
    let single = (first..=first + mortals).map(|rank| rank..rank + 1);
    std::iter::once(0..first).chain(single).collect()
}

/// Who it happens to: what ends a process to a mortal only; a stop to any process but the first, whose ranks see it from outside.
fn victim(random: &mut XorShift, processes: &[Range<u32>], kind: Kind) -> u32 {
    let from = match kind {
        kind if kind.is_fatal() => RESIDENTS,
        kind if kind.is_own() => 0,
        _ => 1,
    };
    let candidates: Vec<u32> = processes[from..].iter().cloned().flatten().collect();
    candidates[pick(random, candidates.len())]
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "round {}: {} of {} x {}, {} streams, {} blocks, {} executions, ranks by process {:?}",
            self.number,
            self.op(),
            self.count,
            self.dtype(),
            self.streams,
            self.blocks,
            self.executions,
            self.processes,
        )?;
        match self.fault {
            None => f.write_str(", no fault"),
            Some(fault) => write!(
                f,
                ", rank {} {} in execution {} after {:?}",
                fault.victim, fault.kind, fault.execution, fault.delay
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_what_seed_and_number_say_and_victims_are_where_they_may_be() {
        let mut kinds = [0; Kind::ALL.len()];
        for number in 0..500 {
            let round = Round::draw(7, number);
            assert_eq!(round, Round::draw(7, number));
            assert_ne!(round.seed, Round::draw(8, number).seed);
            let Some(fault) = round.fault else { continue };
            kinds[Kind::ALL
                .iter()
                .position(|kind| *kind == fault.kind)
                .unwrap()] += 1;
            let process = round.process_of(fault.victim);
            assert!(!fault.kind.is_fatal() || process >= RESIDENTS, "{round}");
            assert!(fault.kind.is_own() || process >= 1, "{round}");
            assert!((1..round.executions).contains(&fault.execution), "{round}");
        }
        assert!(kinds.iter().all(|count| *count > 10), "{kinds:?}");
    }
}
