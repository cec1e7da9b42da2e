//! One sentence from the reports of many ranks: who is behind, in which operation, waiting for whom.
//!
//! The order of the questions is that of people who look at a hung job: who did not answer at all, who is dead, who has enqueued
//! less than the others, and only then who waits for what.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use super::ranges::{members, ranges};
use super::record::{Group, Report, Stall, StallKind};
use super::verdict::stalls_of;
use crate::words;

/// Name and version of the schema of [`Merged`].
pub const MERGED: &str = "proxy-merge/1";

/// More ranks are not looked for.
const MAX_WORLD: u32 = 1 << 20;

/// What the reports of a job's ranks say together. Written out, it is its sentence. Sets of ranks are ranges: `0-2,5`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Merged {
    /// [`MERGED`].
    pub schema: String,
    /// All of it, in one sentence.
    pub sentence: String,
    /// How many reports there were.
    pub reports: usize,
    /// Ranks that no report has a task of; empty where the number of ranks was not given.
    pub silent: String,
    /// The newest execution that any rank has begun.
    pub newest: Option<u64>,
    /// Who has begun fewer executions, the oldest first; nobody where nothing is stuck, as ranks that run are read one after another.
    pub behind: Vec<Behind>,
    /// Who waits for what: alike waits together, the most certain cause first.
    pub waits: Vec<Wait>,
}

/// Ranks that have begun fewer executions than others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Behind {
    /// Who.
    pub ranks: String,
    /// The newest execution that they have begun.
    pub exec: u64,
}

/// Ranks that wait for the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The kind of stall.
    pub kind: StallKind,
    /// Who; empty for a worker that had no task any more.
    pub ranks: String,
    /// In words.
    pub sentence: String,
}

impl Merged {
    /// All of it as JSON.
    ///
    /// # Errors
    /// None that reports can cause.
    pub fn to_json(&self) -> io::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// What the reports of a job's ranks say together. Reports may be of one rank each or of many; their order does not matter.
/// `world` is the number of ranks of the job, if it is known: ranks without a report are then told, too, of the first 2^20.
/// Any thread; waits for nothing.
#[must_use]
pub fn merge(reports: &[Report], world: Option<u32>) -> Merged {
    let ranks = by_rank(reports);
    let silent: BTreeSet<u32> = (0..world.unwrap_or(0).min(MAX_WORLD))
        .filter(|rank| !ranks.contains_key(rank))
        .collect();
    let waits = waiting(reports);
    let newest = ranks.values().max().copied();
    let stuck = !waits.is_empty() || !silent.is_empty();
    let late = if stuck { late(&ranks) } else { BTreeMap::new() };

    let mut sentences: Vec<String> = Vec::new();
    if !silent.is_empty() {
        sentences.push(format!("no report of {} has a task", named(&silent)));
    }
    sentences.extend(newest.and_then(|newest| behind(&ranks, &late, newest)));
    sentences.extend(waits.iter().map(|wait| wait.sentence.clone()));
    let sentence = match sentences.as_slice() {
        [] => moving(&ranks),
        _ => sentences.join("; "),
    };
    Merged {
        schema: MERGED.to_owned(),
        sentence,
        reports: reports.len(),
        silent: ranges(silent),
        newest,
        behind: (late.into_iter())
            .map(|(exec, late)| Behind {
                ranks: ranges(late),
                exec,
            })
            .collect(),
        waits,
    }
}

/// Nothing is stuck. Ranks that run are read one after another, so one that seems behind may be not.
fn moving(ranks: &BTreeMap<u32, u64>) -> String {
    let at = match (ranks.values().min(), ranks.values().max()) {
        (Some(first), Some(last)) if first == last => format!("exec {first}"),
        (Some(first), Some(last)) => format!("exec {first} to {last}"),
        _ => return "no rank has a task".to_owned(),
    };
    let who = named(&ranks.keys().copied().collect());
    format!("{who}, at {at}: nothing is stuck")
}

/// Ranks in words.
fn named(numbers: &BTreeSet<u32>) -> String {
    words::named("rank", ranges(numbers.iter().copied()))
}

/// A set of ranks that a report names, in words.
fn named_in(set: &str) -> String {
    named(&members(set, 100_000).into_iter().collect())
}

/// What ranks do, in the words that go with one or many.
struct Does {
    one: String,
    many: String,
}

impl Does {
    /// A verb and what is the same for one and many.
    fn new(one: &str, many: &str, rest: &str) -> Self {
        Self {
            one: format!("{one} {rest}"),
            many: format!("{many} {rest}"),
        }
    }

    fn of(&self, ranks: &BTreeSet<u32>) -> String {
        let does = if ranks.len() == 1 {
            &self.one
        } else {
            &self.many
        };
        format!("{} {does}", named(ranks))
    }
}

/// The newest execution that each rank has begun, also where it has ended since.
fn by_rank(reports: &[Report]) -> BTreeMap<u32, u64> {
    let mut ranks = BTreeMap::new();
    let mut newest = |rank: u32, exec: u64| {
        let found = ranks.entry(rank).or_insert(exec);
        *found = exec.max(*found);
    };
    for group in reports.iter().flat_map(|report| &report.groups) {
        group
            .tasks
            .iter()
            .for_each(|task| newest(task.rank, task.exec));
        group
            .history
            .iter()
            .for_each(|change| newest(change.rank, change.exec));
    }
    ranks
}

/// The ranks that have begun fewer executions than others, by the newest that they have begun.
fn late(ranks: &BTreeMap<u32, u64>) -> BTreeMap<u64, BTreeSet<u32>> {
    let most = ranks.values().max();
    let mut late: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for (rank, exec) in ranks.iter().filter(|(_, exec)| Some(*exec) < most) {
        late.entry(*exec).or_default().insert(*rank);
    }
    late
}

/// Who has begun fewer executions than the others.
fn behind(
    ranks: &BTreeMap<u32, u64>,
    late: &BTreeMap<u64, BTreeSet<u32>>,
    newest: u64,
) -> Option<String> {
    if late.is_empty() {
        return None;
    }
    let ahead = ranks.iter().filter(|(_, exec)| **exec == newest);
    let ahead = named(&ahead.map(|(rank, _)| *rank).collect());
    let late: Vec<String> = (late.iter())
        .map(|(exec, ranks)| Does::new("is", "are", &format!("at exec {exec}")).of(ranks))
        .collect();
    let late = late.join(", ");
    Some(format!("{late}, behind {ahead} at exec {newest}"))
}

/// Who waits for what, alike waits together. Of a rank that waits for several things the most certain cause alone is told.
fn waiting(reports: &[Report]) -> Vec<Wait> {
    let mut waits: BTreeMap<(StallKind, String), (Does, BTreeSet<u32>)> = BTreeMap::new();
    let mut abandoned = Vec::new();
    for report in reports {
        let mut seen = BTreeSet::new();
        for (stall, _) in stalls_of(report) {
            let group = (report.groups.iter()).find(|group| Some(group.gid) == stall.gid);
            let all = held_up(&stall, group);
            if let (true, Some(group)) = (all.is_empty(), group) {
                abandoned.push(Wait {
                    kind: stall.kind,
                    ranks: String::new(),
                    sentence: format!("group {} {}", group.gid, does(&stall, Some(group)).one),
                });
            }
            let fresh: BTreeSet<u32> = all.into_iter().filter(|rank| seen.insert(*rank)).collect();
            if !fresh.is_empty() {
                let does = does(&stall, group);
                let wait = waits.entry((stall.kind, does.many.clone()));
                wait.or_insert((does, BTreeSet::new())).1.extend(fresh);
            }
        }
    }
    let told = waits.into_iter().map(|((kind, _), (does, ranks))| Wait {
        kind,
        sentence: does.of(&ranks),
        ranks: ranges(ranks),
    });
    abandoned.into_iter().chain(told).collect()
}

/// The ranks that a stall holds up: those with a task, or with a past, in a group whose worker is stuck as a whole.
fn held_up(stall: &Stall, group: Option<&Group>) -> BTreeSet<u32> {
    let whole_group = matches!(
        stall.kind,
        StallKind::WorkerDead | StallKind::CallNotReturning | StallKind::AsleepWithWork
    );
    let mut ranks: BTreeSet<u32> = stall.rank.into_iter().collect();
    if let Some(group) = group.filter(|_| whole_group) {
        ranks.extend(group.tasks.iter().map(|task| task.rank));
        if ranks.is_empty() {
            ranks.extend(group.history.iter().map(|change| change.rank));
        }
    }
    ranks
}

/// What the ranks that a stall holds up do.
fn does(stall: &Stall, group: Option<&Group>) -> Does {
    let exec = stall
        .exec
        .map_or_else(String::new, |exec| format!(" in exec {exec}"));
    let have = |rest: &str| Does::new("has", "have", rest);
    let wait = |rest: &str| Does::new("waits", "wait", rest);
    match stall.kind {
        StallKind::WorkerDead => Does {
            one: "has lost its worker".to_owned(),
            many: "have lost their worker".to_owned(),
        },
        StallKind::CallNotReturning => {
            let call = group.and_then(|group| group.worker.call.as_ref());
            let function = call.map_or("the library", |call| call.function.as_str());
            have(&format!("a worker inside {function}"))
        }
        StallKind::AsleepWithWork => have("a worker that sleeps on its work"),
        StallKind::DeviceNeverFired => {
            let streams = words::named("stream", ranges(stall.streams.iter().copied()));
            wait(&format!("for the device on {streams}{exec}"))
        }
        StallKind::BarrierWaiting if stall.missing.is_empty() => wait(&format!(
            "at the host barrier{exec}, which does not say for whom"
        )),
        StallKind::BarrierWaiting => {
            let missing = named_in(&stall.missing);
            wait(&format!("at the host barrier for {missing}{exec}"))
        }
        StallKind::LibraryIdle => wait(&format!("for the network{exec}")),
        StallKind::RendezvousWaiting if stall.missing.is_empty() => {
            wait("on the bus for the rank that opened it")
        }
        StallKind::RendezvousWaiting => {
            let missing = named_in(&stall.missing);
            wait(&format!("on the bus for {missing}"))
        }
        StallKind::QueueFull => have("no place for another task"),
        StallKind::ConsumerNotPolling => have(&format!("a status that nobody consumes{exec}")),
    }
}

#[cfg(test)]
mod tests;
