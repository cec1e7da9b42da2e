//! One sentence from the reports of many ranks: who is behind, in which operation, waiting for whom.
//!
//! The order of the questions is that of people who look at a hung job: who did not answer at all, who is dead, who has enqueued
//! less than the others, and only then who waits for what.

use std::collections::{BTreeMap, BTreeSet};

use super::ranges::{members, ranges};
use super::record::{Report, Stall, StallKind, Task};

/// What the reports of a job's ranks say together. Reports may be of one rank each or of many; their order does not matter.
/// `world` is the number of ranks of the job, if it is known: ranks without a report are then told, too.
#[must_use]
pub fn merge(reports: &[Report], world: Option<u32>) -> String {
    let ranks = by_rank(reports);
    let mut sentences: Vec<String> = Vec::new();
    sentences.extend(silent(&ranks, world));
    let waiting = waiting(reports);
    if waiting.is_empty() && sentences.is_empty() {
        return moving(&ranks);
    }
    sentences.extend(behind(&ranks));
    sentences.extend(waiting);
    sentences.join("; ")
}

/// Nothing is stuck. Ranks that run are read one after another, so one that seems behind may be not.
fn moving(ranks: &BTreeMap<u32, u64>) -> String {
    let at = match (ranks.values().min(), ranks.values().max()) {
        (Some(first), Some(last)) if first == last => format!("exec {first}"),
        (Some(first), Some(last)) => format!("exec {first} to {last}"),
        _ => return "no rank has a task".to_owned(),
    };
    format!(
        "{}, at {at}: nothing is stuck",
        named(ranks.keys().copied())
    )
}

/// Ranks in words.
fn named(numbers: impl IntoIterator<Item = u32>) -> String {
    let text = ranges(numbers);
    let one = text.parse::<u32>().is_ok();
    format!("rank{} {text}", if one { "" } else { "s" })
}

/// What ranks do, with the verb that goes with one or many; `what` begins with that of many.
fn do_what(numbers: &BTreeSet<u32>, what: &str) -> String {
    let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
    let verb = match (numbers.len(), verb) {
        (1, "are") => "is",
        (1, "have") => "has",
        (1, "wait") => "waits",
        _ => verb,
    };
    format!("{} {verb} {rest}", named(numbers.iter().copied()))
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

fn silent(ranks: &BTreeMap<u32, u64>, world: Option<u32>) -> Option<String> {
    let missing: Vec<u32> = (0..world?)
        .filter(|rank| !ranks.contains_key(rank))
        .collect();
    (!missing.is_empty()).then(|| format!("no report of {} has a task", named(missing)))
}

/// Who has begun fewer executions than the others.
fn behind(ranks: &BTreeMap<u32, u64>) -> Option<String> {
    let most = *ranks.values().max()?;
    let late: BTreeMap<u64, BTreeSet<u32>> = ranks.iter().filter(|(_, exec)| **exec < most).fold(
        BTreeMap::new(),
        |mut late, (rank, exec)| {
            late.entry(*exec)
                .or_insert_with(BTreeSet::new)
                .insert(*rank);
            late
        },
    );
    if late.is_empty() {
        return None;
    }
    let ahead = named(
        ranks
            .iter()
            .filter(|(_, exec)| **exec == most)
            .map(|(rank, _)| *rank),
    );
    let late: Vec<String> = late
        .into_iter()
        .map(|(exec, ranks)| do_what(&ranks, &format!("are at exec {exec}")))
        .collect();
    Some(format!(
        "{}, behind {ahead} at exec {most}",
        late.join(", ")
    ))
}

/// Who waits for what, alike waits together.
fn waiting(reports: &[Report]) -> Vec<String> {
    let mut waits: BTreeMap<(StallKind, String), BTreeSet<u32>> = BTreeMap::new();
    for report in reports {
        if let Some((stall, tasks)) = stalls(report) {
            let who = stall
                .rank
                .into_iter()
                .chain(tasks.iter().map(|task| task.rank));
            waits
                .entry((stall.kind, told(stall, report)))
                .or_default()
                .extend(who);
        }
    }
    waits
        .into_iter()
        .map(|((_, what), ranks)| do_what(&ranks, &what))
        .collect()
}

/// The stall of a report, and the tasks of the report that it holds up, too.
fn stalls(report: &Report) -> Option<(&Stall, Vec<&Task>)> {
    let stall = report.stall.as_ref()?;
    let whole_group = matches!(
        stall.kind,
        StallKind::WorkerDead | StallKind::CallNotReturning | StallKind::AsleepWithWork
    );
    let group = report
        .groups
        .iter()
        .find(|group| Some(group.gid) == stall.gid);
    let tasks = group
        .into_iter()
        .flat_map(|group| &group.tasks)
        .filter(|_| whole_group)
        .collect();
    Some((stall, tasks))
}

fn told(stall: &Stall, report: &Report) -> String {
    let exec = stall
        .exec
        .map_or_else(String::new, |exec| format!(" in exec {exec}"));
    let call = || {
        let group = report
            .groups
            .iter()
            .find(|group| Some(group.gid) == stall.gid);
        group
            .and_then(|group| group.worker.call.as_ref())
            .map_or("the library", |call| call.function.as_str())
    };
    match stall.kind {
        StallKind::WorkerDead => "have lost their worker".to_owned(),
        StallKind::CallNotReturning => format!("have a worker inside {}", call()),
        StallKind::AsleepWithWork => "have a worker that sleeps on its work".to_owned(),
        StallKind::DeviceNeverFired => {
            format!("wait for the device on {}{exec}", streams(&stall.streams))
        }
        StallKind::BarrierWaiting if stall.missing.is_empty() => {
            format!("wait at the host barrier{exec}, which does not say for whom")
        }
        StallKind::BarrierWaiting => {
            let missing = named(members(&stall.missing, 100_000));
            format!("wait at the host barrier for {missing}{exec}")
        }
        StallKind::LibraryIdle => format!("wait for the network{exec}"),
        StallKind::RendezvousWaiting => {
            let missing = named(members(&stall.missing, 100_000));
            format!("wait on the bus for {missing}")
        }
        StallKind::QueueFull => "have no place for another task".to_owned(),
        StallKind::ConsumerNotPolling => format!("have a status that nobody consumes{exec}"),
    }
}

fn streams(streams: &[u32]) -> String {
    match streams {
        [one] => format!("stream {one}"),
        _ => format!("streams {}", ranges(streams.iter().copied())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Group;
    use super::*;

    /// A rank that is in an execution, and what its report says is wrong.
    fn rank(rank: u32, exec: u64, kind: Option<StallKind>) -> Report {
        let task = Task {
            rank,
            exec,
            kind: "network".to_owned(),
            state: "IDLE".to_owned(),
            ..Task::default()
        };
        let stall = kind.map(|kind| Stall {
            kind,
            age: Some(40.0),
            gid: Some(rank),
            rank: Some(rank),
            exec: Some(exec),
            task: None,
            streams: vec![1],
            missing: "5".to_owned(),
        });
        let group = Group {
            gid: rank,
            tasks: vec![task],
            ..Group::default()
        };
        Report {
            stall,
            groups: vec![group],
            ..Report::default()
        }
    }

    #[test]
    fn the_rank_that_is_behind_and_who_waits_for_it_are_one_sentence() {
        let mut reports: Vec<Report> = (0..8)
            .map(|at| rank(at, 813, Some(StallKind::BarrierWaiting)))
            .collect();
        reports[5] = rank(5, 812, Some(StallKind::DeviceNeverFired));
        assert_eq!(
            merge(&reports, Some(8)),
            "rank 5 is at exec 812, behind ranks 0-4,6-7 at exec 813; rank 5 waits for the device on stream 1 in exec 812; \
             ranks 0-4,6-7 wait at the host barrier for rank 5 in exec 813"
        );
    }

    #[test]
    fn a_barrier_that_names_nobody_is_said_to() {
        let mut waits = rank(0, 3, Some(StallKind::BarrierWaiting));
        let stall = waits.stall.as_mut().expect("a stall");
        stall.missing.clear();
        assert_eq!(
            merge(&[waits], None),
            "rank 0 waits at the host barrier in exec 3, which does not say for whom"
        );
    }

    #[test]
    fn ranks_without_a_report_are_told_first() {
        let reports = [rank(0, 3, None), rank(2, 3, None)];
        assert_eq!(
            merge(&reports, Some(4)),
            "no report of ranks 1,3 has a task"
        );
        assert_eq!(
            merge(&reports, None),
            "ranks 0,2, at exec 3: nothing is stuck"
        );
        assert_eq!(merge(&[], None), "no rank has a task");
    }

    #[test]
    fn a_thousand_ranks_still_are_a_sentence() {
        let reports: Vec<Report> = (0..1000)
            .map(|at| rank(at, 7, (at != 77).then_some(StallKind::LibraryIdle)))
            .collect();
        assert_eq!(
            merge(&reports, Some(1000)),
            "ranks 0-76,78-999 wait for the network in exec 7"
        );
    }
}
