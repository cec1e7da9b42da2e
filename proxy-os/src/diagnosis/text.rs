//! A report as text for people: the verdict first, then what it was read from.

use std::collections::BTreeMap;
use std::fmt;

use super::ranges::ranges;
use super::record::{Bus, Group, Peer, Report, Task};
use super::verdict::seconds;
use crate::words::{counted, named};

/// Changes of state that the text shows per group; the record has all that the black box keeps.
const CHANGES: usize = 20;
/// Process ids that the text shows per state of a bus's ranks; the record has all.
const PIDS: usize = 8;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.verdict)?;
        if let Some(hint) = &self.hint {
            writeln!(f, "next: {hint}")?;
        }
        if !self.partial.is_empty() {
            writeln!(f, "PARTIAL: could not read {}", self.partial.join(", "))?;
        }
        let process = &self.process;
        writeln!(
            f,
            "{} (pid {}, host {}, driver {}), made for: {}",
            process.program, process.pid, process.host, process.version, self.reason
        )?;
        self.groups
            .iter()
            .try_for_each(|group| of_group(f, group))?;
        self.buses.iter().try_for_each(|bus| of_bus(f, bus))?;
        for library in &self.libraries {
            match &library.error {
                None => writeln!(f, "library {}: {}", library.path, library.version)?,
                Some(error) => writeln!(f, "library {}: {error}", library.name)?,
            }
        }
        for setting in &self.settings {
            writeln!(
                f,
                "setting {} = {} ({})",
                setting.name, setting.value, setting.origin
            )?;
        }
        writeln!(
            f,
            "environment: kernel {}, cpus {}, open files {}, pid namespace {}, user namespace {}",
            process.kernel,
            process.cpus,
            process.open_files,
            process.pid_namespace,
            process.user_namespace
        )
    }
}

fn of_group(f: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
    let Group {
        gid,
        sharers,
        health,
        enqueued,
        ended,
        worker,
        ..
    } = group;
    writeln!(
        f,
        "group {gid}: {health}, {}, {} enqueued, {ended} ended",
        counted(sharers, "sharer"),
        counted(enqueued, "task"),
    )?;
    write!(
        f,
        "  worker {} (tid {}): {}, {}, {}, {}, {}, {}, {} queued, cpus {}",
        worker.name,
        worker.tid,
        worker.activity,
        counted(worker.ticks, "tick"),
        counted(worker.pauses, "pause"),
        counted(worker.yields, "yield"),
        counted(worker.sleeps, "sleep"),
        counted(worker.wakes, "wake"),
        worker.queued,
        worker.cpus_granted,
    )?;
    match worker.last_cpu {
        Some(cpu) => writeln!(f, ", last on cpu {cpu}")?,
        None => writeln!(f)?,
    }
    if let Some(call) = &worker.call {
        writeln!(f, "  inside {} for {}", call.function, seconds(call.age))?;
    }
    for error in &group.errors {
        writeln!(
            f,
            "  {} ended with {}: {}",
            counted(error.count, "task"),
            error.status,
            error.text
        )?;
    }
    group.tasks.iter().try_for_each(|task| of_task(f, task))?;
    history(f, group)
}

fn history(f: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
    let skipped = group.history.len().saturating_sub(CHANGES);
    for change in group.history.iter().skip(skipped) {
        write!(
            f,
            "  at {}.{:09} rank {} {} exec {}: {} -> {}",
            change.monotonic_ns / 1_000_000_000,
            change.monotonic_ns % 1_000_000_000,
            change.rank,
            change.kind,
            change.exec,
            change.from,
            change.to
        )?;
        match change.status {
            0 => writeln!(f)?,
            status => writeln!(f, " with {status}")?,
        }
    }
    Ok(())
}

fn of_task(f: &mut fmt::Formatter<'_>, task: &Task) -> fmt::Result {
    write!(
        f,
        "  rank {} {} exec {} (sequence {}, {}): {}",
        task.rank, task.kind, task.exec, task.sequence, task.context, task.state
    )?;
    if let Some(age) = task.age {
        write!(f, " for {}", seconds(age))?;
    } else if task.least_age > 0.0 {
        write!(f, " for {} or longer", seconds(task.least_age))?;
    }
    if let Some(status) = task.status {
        write!(f, ", status {status}")?;
    }
    if let Some(block) = &task.block {
        write!(
            f,
            ", block {} ({} of {}), {}",
            block.id,
            block.place,
            block.of,
            counted(block.calls, "progress call")
        )?;
    }
    for word in &task.unfired {
        write!(
            f,
            ", stream {} not fired ({:#x} is {:#010x})",
            word.stream, word.address, word.word
        )?;
    }
    if let Some(barrier) = &task.barrier {
        write!(
            f,
            ", at barrier {} #{}: arrived {}, missing {}",
            barrier.slot,
            barrier.generation,
            some(&barrier.arrived),
            some(&barrier.missing)
        )?;
        if let Some(machine) = barrier.machine {
            write!(f, ", waiting for machine {machine}")?;
        }
        if !barrier.dead.is_empty() {
            write!(f, ", dead {}", barrier.dead)?;
        }
    }
    writeln!(f)
}

/// A set of ranks, or that there is none.
fn some(ranks: &str) -> &str {
    if ranks.is_empty() { "none" } else { ranks }
}

/// The ranks of a bus by state, with process ids where they are few.
fn peers(f: &mut fmt::Formatter<'_>, bus: &Bus) -> fmt::Result {
    let mut states: BTreeMap<&str, Vec<&Peer>> = BTreeMap::new();
    for peer in &bus.peers {
        states.entry(&peer.state).or_default().push(peer);
    }
    for (state, peers) in states {
        let ranks = ranges(peers.iter().map(|peer| peer.rank));
        write!(f, "  {state}: {}", named("rank", ranks))?;
        if peers.len() <= PIDS {
            let pids: Vec<String> = peers.iter().map(|peer| peer.pid.to_string()).collect();
            write!(f, " ({})", named("pid", pids.join(", ")))?;
        }
        writeln!(f)?;
    }
    Ok(())
}

fn of_bus(f: &mut fmt::Formatter<'_>, bus: &Bus) -> fmt::Result {
    write!(
        f,
        "bus {}: rank {} of {}, {}",
        bus.job, bus.rank, bus.world, bus.phase
    )?;
    if let Some(age) = bus.age {
        write!(f, " for {}", seconds(age))?;
    }
    if !bus.missing.is_empty() {
        write!(f, ", waits for {}", named("rank", &bus.missing))?;
    }
    writeln!(f)?;
    peers(f, bus)?;
    for (name, count) in bus.fallbacks.iter().filter(|(_, count)| *count > 0) {
        writeln!(f, "  counted {name}: {}", counted(count, "time"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::record::Worker;
    use super::*;

    #[test]
    fn h53_a_worker_and_an_age_that_is_only_known_in_part_are_told() {
        let worker = Worker {
            name: "proxy-7".to_owned(),
            tid: 7,
            activity: "asleep".to_owned(),
            ticks: 100,
            pauses: 53,
            yields: 54,
            sleeps: 55,
            wakes: 1,
            queued: 2,
            cpus_granted: "0-1".to_owned(),
            ..Worker::default()
        };
        let task = Task {
            state: "INIT".to_owned(),
            least_age: 1.5,
            ..Task::default()
        };
        let group = Group {
            worker,
            tasks: vec![task],
            ..Group::default()
        };
        let report = Report {
            groups: vec![group],
            ..Report::default()
        };
        let text = report.to_string();
        let worker = "  worker proxy-7 (tid 7): asleep, 100 ticks, 53 pauses, 54 yields, 55 sleeps, 1 wake, 2 queued, cpus 0-1\n";
        assert!(text.contains(worker), "{text}");
        assert!(text.contains(": INIT for 1.5 s or longer\n"), "{text}");
    }
}
