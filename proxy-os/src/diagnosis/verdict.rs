//! From a report's facts to its verdict: what is wrong, since when, and where to look next.

use std::collections::BTreeMap;

use super::ranges::ranges;
use super::record::{BarrierWait, Bus, Group, Report, Stall, StallKind, Task};
use crate::words::{agree, counted, named};

/// Fills in verdict, stall and hint from the facts.
pub(crate) fn judge(report: &mut Report) {
    let mut found = stalls_of(report).into_iter();
    let Some((stall, sentence)) = found.next() else {
        report.verdict = calm(report);
        return;
    };
    report.verdict = match found.len() {
        0 => sentence,
        1 => format!("{sentence}; one more wait is listed below"),
        others => format!("{sentence}; {others} more waits are listed below"),
    };
    report.hint = Some(hint(stall.kind).to_owned());
    report.stall = Some(stall);
}

/// Everything that a report's facts show to be stalled, each with its sentence: the most certain kind first, of one kind the oldest.
#[must_use]
pub fn stalls_of(report: &Report) -> Vec<(Stall, String)> {
    let mut found: Vec<(Stall, String)> = report
        .groups
        .iter()
        .flat_map(|group| of_group(group, report.stall_threshold))
        .chain(
            report
                .buses
                .iter()
                .filter_map(|bus| of_bus(bus, report.stall_threshold)),
        )
        .collect();
    found.sort_by(|(one, _), (other, _)| {
        let age = |stall: &Stall| stall.age.unwrap_or(0.0);
        one.kind
            .cmp(&other.kind)
            .then(age(other).total_cmp(&age(one)))
    });
    found
}

/// What could not be read, as far as the verdict names it; [`Report::partial`] has all.
const UNSEEN: usize = 3;

/// The verdict when nothing is stalled: what was looked at, and what could not be seen.
fn calm(report: &Report) -> String {
    let unfinished: Vec<&Task> = report.groups.iter().flat_map(unfinished).collect();
    let groups = counted(report.groups.len(), "group");
    let threshold = report.stall_threshold;
    let unknown = unfinished.iter().filter(|task| is_ageless(task)).count();
    let seen = match (unfinished.len(), unknown) {
        (0, _) => format!("{groups} without a task"),
        (tasks, 0) => format!(
            "{} in {groups}, none without a change for {threshold} s",
            counted(tasks, "task"),
        ),
        (tasks, unknown) => format!(
            "{} in {groups}, none known to be without a change for {threshold} s; the black box no longer has the last change of {unknown}",
            counted(tasks, "task"),
        ),
    };
    if report.partial.is_empty() {
        return format!("nothing is stuck: {seen}");
    }
    let (named, others) = report
        .partial
        .split_at_checked(UNSEEN)
        .unwrap_or((&report.partial, &[]));
    let named = named.join(", ");
    let others = match others.len() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    format!("nothing seen is stuck: {seen}; could not be read, as locked: {named}{others}")
}

/// Whether nothing says how long a task that waits has done so.
fn is_ageless(task: &Task) -> bool {
    let waits = matches!(task.state.as_str(), "WAITING_DEVICE_TRIGGER" | "IDLE");
    waits && task.age.is_none()
}

fn unfinished(group: &Group) -> impl Iterator<Item = &Task> {
    group.tasks.iter().filter(|task| task.state != "DONE")
}

/// Everything in a group that lasts longer than the threshold.
fn of_group(group: &Group, threshold: f64) -> Vec<(Stall, String)> {
    if group.health == "dead" {
        let sentence = format!(
            "group {}: its worker died; every task of it has ended with an error",
            group.gid
        );
        return vec![(stall(StallKind::WorkerDead, group, None, None), sentence)];
    }
    if let Some(call) = &group.worker.call
        && call.age >= threshold
    {
        let sentence = format!(
            "group {}: the worker has been inside {} for {}; {} for it",
            group.gid,
            call.function,
            seconds(call.age),
            match unfinished(group).count() {
                1 => "1 task waits".to_owned(),
                tasks => format!("{tasks} tasks wait"),
            },
        );
        return vec![(
            stall(StallKind::CallNotReturning, group, None, Some(call.age)),
            sentence,
        )];
    }
    let asleep = group.worker.activity == "asleep";
    let old = |task: &&Task| {
        let waits = match task.state.as_str() {
            // Its turn has not come, or it moves in each step: only a worker that makes no steps keeps it.
            "INIT" | "PROGRESSING" => asleep,
            // The one that has the library is the one to look at.
            "IDLE" if task.behind => asleep,
            _ => true,
        };
        waits && task.age.unwrap_or(task.least_age) >= threshold
    };
    let tasks = group
        .tasks
        .iter()
        .filter(old)
        .filter_map(|task| of_task(group, task));
    tasks.chain(full_ranks(group, threshold)).collect()
}

/// Ranks that have not been able to append for longer than the threshold. A rank whose places are all taken is no stall while any of its tasks
/// moves: each task that ends and is consumed makes place.
fn full_ranks(group: &Group, threshold: f64) -> impl Iterator<Item = (Stall, String)> + '_ {
    let asleep = group.worker.activity == "asleep";
    let mut ranks: BTreeMap<u32, (u32, f64)> = BTreeMap::new();
    for task in &group.tasks {
        let (count, still) = ranks.entry(task.rank).or_insert((0, f64::INFINITY));
        *count = count.saturating_add(1);
        *still = still.min(unmoved(task, asleep));
    }
    let full = move |(_, (count, still)): &(u32, (u32, f64))| {
        *count >= group.worker.capacity && *still >= threshold
    };
    ranks.into_iter().filter(full).map(|(rank, (count, still))| {
        let sentence = format!(
            "group {}, rank {rank}: all {count} places for tasks are taken, and none of these tasks has moved for {}, so it cannot enqueue",
            group.gid,
            seconds(still)
        );
        let stall = Stall {
            rank: Some(rank),
            ..stall(StallKind::QueueFull, group, None, Some(still))
        };
        (stall, sentence)
    })
}

/// For how long a task has not moved, as far as that is known.
fn unmoved(task: &Task, asleep: bool) -> f64 {
    match task.state.as_str() {
        // As in `of_group`: the worker comes to it in its next tick.
        "INIT" | "PROGRESSING" if !asleep => 0.0,
        _ => task.age.unwrap_or(task.least_age),
    }
}

/// What one task that has not changed for long waits for.
fn of_task(group: &Group, task: &Task) -> Option<(Stall, String)> {
    let who = format!(
        "group {}, rank {}, {} task exec {}",
        group.gid, task.rank, task.kind, task.exec
    );
    let since = match (task.age, task.least_age) {
        (Some(age), _) => format!("for {}", seconds(age)),
        (None, least) if least > 0.0 => format!("for {} or longer", seconds(least)),
        _ => "for longer than the black box knows".to_owned(),
    };
    let (kind, sentence) = match task.state.as_str() {
        "DONE" => {
            let sentence =
                format!("{who} has been done {since} and nobody has consumed its status");
            (StallKind::ConsumerNotPolling, sentence)
        }
        _ if group.worker.activity == "asleep" => {
            let sentence = format!(
                "{who} has been in {} {since} while the worker sleeps",
                task.state
            );
            (StallKind::AsleepWithWork, sentence)
        }
        "WAITING_DEVICE_TRIGGER" => (
            StallKind::DeviceNeverFired,
            waits_for_device(task, &who, &since)?,
        ),
        _ if task.kind == "barrier" => (
            StallKind::BarrierWaiting,
            waits_at_barrier(task, &who, &since),
        ),
        _ => (
            StallKind::LibraryIdle,
            waits_for_library(task, &who, &since),
        ),
    };
    let least_age = Some(task.least_age).filter(|age| *age > 0.0);
    let mut stall = stall(kind, group, Some(task), task.age.or(least_age));
    stall.streams = task.unfired.iter().map(|word| word.stream).collect();
    stall.missing = task
        .barrier
        .as_ref()
        .map(|barrier| barrier.missing.clone())
        .unwrap_or_default();
    Some((stall, sentence))
}

/// `None` if all its words have fired by now.
fn waits_for_device(task: &Task, who: &str, since: &str) -> Option<String> {
    if task.unread {
        return Some(format!(
            "{who} has waited {since} for the device, on words that could not be read, as their context was locked"
        ));
    }
    let first = task.unfired.first()?;
    let streams: Vec<String> = task
        .unfired
        .iter()
        .map(|word| word.stream.to_string())
        .collect();
    Some(format!(
        "{who} has waited {since} for the device on {} (word at {:#x} is still {:#010x})",
        named("stream", streams.join(", ")),
        first.address,
        first.word
    ))
}

fn waits_at_barrier(task: &Task, who: &str, since: &str) -> String {
    let Some(barrier) = &task.barrier else {
        let why = match task.unread {
            true => "which could not be read, as its context was locked",
            false => "which does not say for whom",
        };
        return format!("{who} has waited {since} at the host barrier, {why}");
    };
    let BarrierWait {
        slot,
        generation,
        arrived,
        missing,
        ..
    } = barrier;
    let at = format!("{who} has waited {since} at the host barrier {slot} #{generation}");
    if !missing.is_empty() {
        let dead = match barrier.dead.as_str() {
            "" => String::new(),
            dead if dead == missing => format!(", which {} dead", agree(dead, "is", "are")),
            dead => format!(", of which {dead} {} dead", agree(dead, "is", "are")),
        };
        let arrived = match arrived.as_str() {
            "" => "no rank has arrived".to_owned(),
            some => format!("{} {} arrived", named("rank", some), have(some)),
        };
        return format!("{at} for {}{dead}; {arrived}", named("rank", missing));
    }
    match barrier.machine {
        Some(machine) => format!(
            "{at} for machine {machine}; {} of this one {} arrived",
            named("rank", arrived),
            have(arrived)
        ),
        None if agree(arrived, "one", "many") == "one" => {
            format!("{at}; rank {arrived}, the leader, has arrived, and has not passed")
        }
        None => format!(
            "{at}; ranks {arrived} have arrived, and the first of them, the leader, has not let them pass"
        ),
    }
}

fn have(ranks: &str) -> &'static str {
    agree(ranks, "has", "have")
}

fn waits_for_library(task: &Task, who: &str, since: &str) -> String {
    match &task.block {
        Some(block) => format!(
            "{who} has been {} {since} in block {} ({} of {}): the library is called ({}, the last returned {}) and \
             moves nothing",
            task.state,
            block.id,
            block.place,
            block.of,
            counted(block.calls, "progress call"),
            block.last_return
        ),
        None => format!("{who} has been {} {since}", task.state),
    }
}

fn of_bus(bus: &Bus, threshold: f64) -> Option<(Stall, String)> {
    let age = bus.age.filter(|age| *age >= threshold)?;
    let dead = ranges(
        bus.peers
            .iter()
            .filter(|peer| peer.state == "dead")
            .map(|peer| peer.rank),
    );
    let dead = match dead.as_str() {
        "" => String::new(),
        dead => format!(
            "; {} {} dead",
            named("rank", dead),
            agree(dead, "is", "are")
        ),
    };
    let whom = match bus.missing.as_str() {
        // The rank that opened the bus is known to nobody who was not let in.
        "" => "the rank that opened the bus, which has not answered".to_owned(),
        missing => named("rank", missing),
    };
    let sentence = format!(
        "bus {}, rank {} of {}: has waited for {} in {} for {whom}{dead}",
        bus.job,
        bus.rank,
        bus.world,
        seconds(age),
        bus.phase,
    );
    let stall = Stall {
        kind: StallKind::RendezvousWaiting,
        age: Some(age),
        gid: None,
        rank: Some(bus.rank),
        exec: None,
        task: None,
        streams: Vec::new(),
        missing: bus.missing.clone(),
    };
    Some((stall, sentence))
}

fn stall(kind: StallKind, group: &Group, task: Option<&Task>, age: Option<f64>) -> Stall {
    Stall {
        kind,
        age,
        gid: Some(group.gid),
        rank: task.map(|task| task.rank),
        exec: task.map(|task| task.exec),
        task: task.map(|task| task.kind.clone()),
        streams: Vec::new(),
        missing: String::new(),
    }
}

/// An age in words.
pub(super) fn seconds(age: f64) -> String {
    if age < 1.0 {
        format!("{:.0} ms", age * 1000.0)
    } else {
        format!("{age:.1} s")
    }
}

/// Where to look next.
const fn hint(kind: StallKind) -> &'static str {
    match kind {
        StallKind::WorkerDead => {
            "read the panic message in the log; release the group and create it anew"
        }
        StallKind::CallNotReturning => {
            "take a stack trace of the worker's thread; the library is inside it"
        }
        StallKind::AsleepWithWork => {
            "this is a fault of the driver: please report it with this record; an append wakes the worker"
        }
        StallKind::DeviceNeverFired => {
            "look at the device: did it load and start this execution, and does it write this word?"
        }
        StallKind::BarrierWaiting => {
            "read the records of the missing ranks: they are behind, or have never been started"
        }
        StallKind::LibraryIdle => {
            "read the peers' records, and the network: a peer sends or receives nothing"
        }
        StallKind::RendezvousWaiting => {
            "look whether the missing ranks were started and use the same job name"
        }
        StallKind::QueueFull => "consume the statuses of finished tasks, or enqueue less ahead",
        StallKind::ConsumerNotPolling => "look at the thread that should consume this execution",
    }
}

#[cfg(test)]
mod tests;
