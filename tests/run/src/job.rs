//! A checked job, as the launcher hands it to its ranks.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use proxy_kit::dtype::Dtype;
use proxy_kit::op::Op;
use proxy_kit::pattern::Pattern;
use serde::{Deserialize, Serialize};

use crate::layout::{Layout, plural};
use crate::size::Sizes;

/// The first argument of a program that is to be a rank. The second one is the number of the rank, the first
/// one of its process.
pub(crate) const RANK_VERB: &str = "rank";

/// Allowed for one summand of one element of an expected result; four ranks on two shared CPUs took 6 ns.
const SUMMAND_NANOS: u64 = 50;

/// Everything that all ranks agree on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The collective.
    #[serde(with = "by_name")]
    pub(crate) op: Op,
    /// The element type.
    #[serde(with = "by_name")]
    pub(crate) dtype: Dtype,
    /// Its ranks, and where they run.
    pub(crate) layout: Layout,
    /// The sizes to run.
    pub(crate) sizes: Sizes,
    /// Measured iterations of each size, at least 1.
    pub(crate) iters: u32,
    /// Iterations before them.
    pub(crate) warmup: u32,
    /// Results are checked against inputs of this kind.
    pub(crate) check: Option<Check>,
    /// Seed of random inputs.
    pub(crate) seed: u64,
    /// Streams of each collective.
    pub(crate) streams: usize,
    /// Basic blocks of each stream.
    pub(crate) blocks: usize,
    /// What the command line says about early completion; the environment otherwise.
    pub(crate) early_completion: Option<bool>,
    /// Sense of the start words.
    pub(crate) polarity: Sense,
    /// Executions have a barrier.
    pub(crate) barrier: bool,
    /// Deadline of one execution in seconds.
    pub(crate) timeout: u64,
    /// The collective library, by path or by name. Any bytes, which a path has no JSON form for.
    pub(crate) library: OsString,
    /// A rank that misbehaves.
    pub(crate) fault: Option<Fault>,
}

/// What a busy machine may add to a deadline.
const SILENCE: Duration = Duration::from_secs(5);

impl Job {
    /// Iterations of each size, the warm-up included.
    pub(crate) const fn all_iterations(&self) -> u32 {
        self.warmup.saturating_add(self.iters)
    }

    /// Deadline of one execution.
    pub(crate) const fn deadline(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// How much longer than an execution a rank may be on its way to the next one: it computes expected results, and on a small
    /// machine the ranks do that one after another.
    pub(crate) const fn checking(&self, bytes: u64) -> Duration {
        if self.check.is_none() {
            return Duration::ZERO;
        }
        let (elements, ranks) = (self.count(bytes), self.layout.ranks as u64);
        let summands = elements.saturating_mul(ranks).saturating_mul(ranks);
        Duration::from_nanos(summands.saturating_mul(SUMMAND_NANOS))
    }

    /// How long nothing may be heard from any rank before something is wrong with all of them: an execution, its check, and what a busy
    /// machine adds.
    pub(crate) fn silence(&self) -> Duration {
        self.deadline() + self.checking(self.sizes.max()) + SILENCE
    }

    /// What must be the same on all ranks for their collectives to fit together, as `rank` has it.
    pub(crate) fn signature(&self, rank: u32) -> String {
        let differs = self.fault
            == Some(Fault {
                rank,
                kind: FaultKind::Signature,
            });
        format!(
            "{} of {}, {}, {}, {}",
            self.op,
            self.dtype,
            self.sizes,
            plural(self.streams, "stream"),
            plural(self.blocks + usize::from(differs), "block"),
        )
    }

    /// Elements of a buffer of `bytes`.
    pub(crate) const fn count(&self, bytes: u64) -> u64 {
        bytes / self.dtype.size() as u64
    }
}

/// What a process of ranks is started with, on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The job.
    pub(crate) job: Job,
    /// Where the ranks meet.
    pub(crate) root: String,
    /// Process id of the launcher: a rank that has another parent is an orphan.
    pub(crate) launcher: u32,
    /// The folder for the process's part of the trace, if one is wanted.
    pub(crate) trace: Option<OsString>,
}

impl Start {
    /// Names the host bus of a node of this job, and no other: no two launchers are at one address at the same time, and none is
    /// the same process.
    pub(crate) fn bus(&self, node: u32) -> String {
        format!("proxy-run {} {} {node}", self.root, self.launcher)
    }
}

/// `-c/--check`: what the inputs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(crate) enum Check {
    /// Random elements from the seed.
    Random,
    /// Ones.
    AllOnes,
}

impl Check {
    /// The inputs of one checked execution; `salt` tells them apart.
    pub(crate) const fn pattern(self, seed: u64, salt: u64) -> Pattern {
        match self {
            Self::Random => Pattern::Random { seed, salt },
            Self::AllOnes => Pattern::AllOnes,
        }
    }
}

/// `--polarity`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Sense {
    /// All ones = not fired.
    Specification,
    /// All ones = fired.
    Header,
}

impl Sense {
    /// As the driver names it.
    pub(crate) const fn of_driver(self) -> proxy_core::Polarity {
        match self {
            Self::Specification => proxy_core::Polarity::Specification,
            Self::Header => proxy_core::Polarity::Header,
        }
    }

    /// As the simulated device names it.
    pub(crate) const fn of_device(self) -> proxy_kit::device::Polarity {
        match self {
            Self::Specification => proxy_kit::device::Polarity::AsSpecified,
            Self::Header => proxy_kit::device::Polarity::Header,
        }
    }
}

/// `--fault RANK:KIND`: shows what is reported when something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// The rank that misbehaves.
    pub(crate) rank: u32,
    /// What it does.
    pub(crate) kind: FaultKind,
}

/// A misbehaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FaultKind {
    /// One byte of its output is changed before it is checked.
    Wrong,
    /// Its device never fires the start word of stream 0 in the last iteration.
    Hang,
    /// Its process ends in the last iteration.
    Exit,
    /// It tells the others that it has another collective.
    Signature,
    /// Its last iteration is another execution than that of the others.
    Execution,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(rank, kind)| {
            let kind = match kind {
                "wrong" => FaultKind::Wrong,
                "hang" => FaultKind::Hang,
                "exit" => FaultKind::Exit,
                "signature" => FaultKind::Signature,
                "execution" => FaultKind::Execution,
                _ => return None,
            };
            Some(Self {
                rank: rank.parse().ok()?,
                kind,
            })
        });
        parsed.ok_or_else(|| {
            "accepted: RANK:wrong, RANK:hang, RANK:exit, RANK:signature or RANK:execution"
                .to_owned()
        })
    }
}

/// Serialises a value as the name that it is shown and read by.
mod by_name {
    use super::{Deserialize, FromStr, fmt};

    pub(super) fn serialize<T: fmt::Display, S: serde::Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: fmt::Display>,
        D: serde::Deserializer<'de>,
    {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checking_takes_time_with_size_and_ranks_and_without_a_check_none() {
        let job = |args: &str| crate::cli::parse_from(args).unwrap().0;
        let checked = job("allr -r 4 -d fp32 -c random");
        assert_eq!(checked.checking(4000), Duration::from_nanos(1000 * 16 * 50));
        assert_eq!(checked.checking(0), Duration::ZERO);
        assert_eq!(job("allr -r 4 -d fp32").checking(4000), Duration::ZERO);
    }

    #[test]
    fn one_rank_has_another_signature_when_it_is_told_so() {
        let (job, _) =
            crate::cli::parse_from("allr -r 2 -b 4 -e 8 -f 2 -d fp32 --fault 1:signature").unwrap();
        let text = "allr of fp32, sizes 4 to 8 * 2, 1 stream, 1 block";
        assert_eq!(job.signature(0), text);
        assert_ne!(job.signature(1), text);
    }

    #[test]
    fn faults_are_read() {
        assert_eq!(
            "2:hang".parse(),
            Ok(Fault {
                rank: 2,
                kind: FaultKind::Hang
            })
        );
        for text in ["", "2", "2:", ":hang", "x:hang", "2:slow"] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
