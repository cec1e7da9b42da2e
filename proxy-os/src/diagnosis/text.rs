//! A report as text for people: the verdict first, then what it was read from.

use std::collections::BTreeMap;
use std::fmt;

use super::ranges::ranges;
use super::record::{BarrierWait, Bus, Group, Latency, Library, Peer, Report, Task, Worker};
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
        writeln!(
            f,
            "{}, made at {}, {:.3} s since 1970; a wait is a stall from {} on",
            self.schema,
            moment(process.monotonic_ns),
            process.wall_clock,
            seconds(self.stall_threshold)
        )?;
        self.groups
            .iter()
            .try_for_each(|group| of_group(f, group))?;
        self.buses.iter().try_for_each(|bus| of_bus(f, bus))?;
        for library in &self.libraries {
            of_library(f, library)?;
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
            "environment: kernel {}, driver's build id {}, cpus {}, cpuset {}, open files {}, pid namespace {}, user namespace {}",
            process.kernel,
            known(process.build_id.as_ref()),
            process.cpus,
            process.cpuset,
            process.open_files,
            process.pid_namespace,
            process.user_namespace
        )
    }
}

fn of_library(f: &mut fmt::Formatter<'_>, library: &Library) -> fmt::Result {
    let name = &library.name;
    match &library.error {
        None => writeln!(
            f,
            "library {} (asked for as {name}): {}, interface {}, build id {}",
            library.path,
            library.version,
            known(library.interface.as_ref()),
            known(library.build_id.as_ref())
        ),
        Some(error) => writeln!(f, "library {name}: {error}"),
    }
}

fn of_group(f: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
    let Group {
        gid,
        sharers,
        health,
        enqueued,
        ended,
        full,
        ..
    } = group;
    write!(
        f,
        "group {gid}: {health}, {}, {} enqueued, {ended} ended, {} found no place",
        counted(sharers, "sharer"),
        counted(enqueued, "task"),
        counted(full, "append"),
    )?;
    match group.last_ended_exec {
        Some(exec) => writeln!(f, ", the last that ended was exec {exec}")?,
        None => writeln!(f)?,
    }
    for context in &group.contexts {
        writeln!(
            f,
            "  {} of rank {}: last enqueued sequence {}, last completed sequence {}",
            context.context,
            context.rank,
            some_number(context.last_enqueued),
            some_number(context.last_completed)
        )?;
    }
    of_worker(f, &group.worker)?;
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
    (group.latencies.iter()).try_for_each(|latency| of_latency(f, latency))?;
    history(f, group)
}

fn of_worker(f: &mut fmt::Formatter<'_>, worker: &Worker) -> fmt::Result {
    write!(
        f,
        "  worker {} (tid {}): {}",
        worker.name, worker.tid, worker.activity
    )?;
    if let Some(age) = worker.activity_age {
        write!(f, " for {}", seconds(age))?;
    }
    write!(
        f,
        ", {}, {}, {}, {}, {}, {}, {}, {} queued, {} places per rank, cpus {} of {} wanted",
        counted(worker.ticks, "tick"),
        counted(worker.steps, "step"),
        counted(worker.idle_ticks, "idle tick"),
        counted(worker.pauses, "pause"),
        counted(worker.yields, "yield"),
        counted(worker.sleeps, "sleep"),
        counted(worker.wakes, "wake"),
        worker.queued,
        worker.capacity,
        worker.cpus_granted,
        worker.cpus_wanted,
    )?;
    match worker.last_cpu {
        Some(cpu) => writeln!(f, ", last on cpu {cpu}")?,
        None => writeln!(f)?,
    }
    if let Some(call) = &worker.call {
        writeln!(f, "  inside {} for {}", call.function, seconds(call.age))?;
    }
    match &worker.longest_step {
        Some(call) => writeln!(
            f,
            "  longest step that was seen: {} for {} or longer",
            call.function,
            seconds(call.age)
        ),
        None => writeln!(f, "  longest step: not known, none was seen twice"),
    }
}

fn of_latency(f: &mut fmt::Formatter<'_>, latency: &Latency) -> fmt::Result {
    let micros = |seconds: f64| format!("{:.1} us", seconds * 1e6);
    writeln!(
        f,
        "  {} {} of {}: p50 {}, p90 {}, p99 {}, max {}, sum {}",
        latency.kind,
        latency.span,
        counted(latency.count, "task"),
        micros(latency.p50),
        micros(latency.p90),
        micros(latency.p99),
        micros(latency.max),
        micros(latency.sum)
    )
}

/// A value, or that it is not known.
fn known<T: fmt::Display>(value: Option<&T>) -> String {
    value.map_or_else(|| "not known".to_owned(), T::to_string)
}

/// A sequence number, or that there is none.
fn some_number(sequence: Option<u64>) -> String {
    sequence.map_or_else(|| "none".to_owned(), |sequence| sequence.to_string())
}

/// A time of the monotonic clock.
fn moment(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// An age, as exact as it is known.
fn age(exact: Option<f64>, least: f64) -> Option<String> {
    match exact {
        Some(age) => Some(seconds(age)),
        None if least > 0.0 => Some(format!("{} or longer", seconds(least))),
        None => None,
    }
}

fn history(f: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
    let skipped = group.history.len().saturating_sub(CHANGES);
    for change in group.history.iter().skip(skipped) {
        write!(
            f,
            "  at {} rank {} {} exec {}: {} -> {}",
            moment(change.monotonic_ns),
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
    if let Some(age) = age(task.age, task.least_age) {
        write!(f, " for {age}")?;
    }
    match task.ticks_in_state {
        Some(ticks) => write!(f, ", {} since the change", counted(ticks, "tick"))?,
        None => f.write_str(", ticks since the change not known")?,
    }
    match age(task.total_age, task.least_total_age) {
        Some(age) => write!(f, ", enqueued {age} ago")?,
        None => f.write_str(", enqueued not known when")?,
    }
    if let Some(status) = task.status {
        write!(f, ", status {status}")?;
    }
    if task.unread {
        f.write_str(", its context could not be read, as it was locked")?;
    }
    if task.behind {
        f.write_str(", others have the library before it")?;
    }
    if let Some(block) = &task.block {
        write!(
            f,
            ", block {} ({} of {}), {}, the last returned {}",
            block.id,
            block.place,
            block.of,
            counted(block.calls, "progress call"),
            block.last_return
        )?;
    }
    words(f, task)?;
    if let Some(barrier) = &task.barrier {
        of_barrier(f, barrier)?;
    }
    writeln!(f)
}

/// The start words that a task waits for, and those that it waits for no more.
fn words(f: &mut fmt::Formatter<'_>, task: &Task) -> fmt::Result {
    for word in &task.unfired {
        write!(
            f,
            ", stream {} not fired ({:#x} is {:#010x})",
            word.stream, word.address, word.word
        )?;
        if let Some(age) = age(word.age, word.least_age) {
            write!(f, " for {age}")?;
        }
    }
    for word in &task.fired {
        write!(
            f,
            ", stream {} fired, not known when ({:#x} is {:#010x})",
            word.stream, word.address, word.word
        )?;
    }
    Ok(())
}

fn of_barrier(f: &mut fmt::Formatter<'_>, barrier: &BarrierWait) -> fmt::Result {
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
    Ok(())
}

/// A set of ranks, or that there is none.
fn some(ranks: &str) -> &str {
    if ranks.is_empty() { "none" } else { ranks }
}

/// The ranks of a bus by state and evidence, with process ids where they are few, and where each was seen last.
fn peers(f: &mut fmt::Formatter<'_>, bus: &Bus) -> fmt::Result {
    let mut states: BTreeMap<(&str, &str), Vec<&Peer>> = BTreeMap::new();
    let mut seen: BTreeMap<Option<(u32, u32, u64)>, Vec<u32>> = BTreeMap::new();
    for peer in &bus.peers {
        let known = (&*peer.state, &*peer.evidence);
        states.entry(known).or_default().push(peer);
        let last = (peer.last_seen.as_ref()).map(|seen| (seen.slot, seen.generation, seen.exec));
        seen.entry(last).or_default().push(peer.rank);
    }
    for ((state, evidence), peers) in states {
        let ranks = ranges(peers.iter().map(|peer| peer.rank));
        write!(f, "  {state}: {}", named("rank", ranks))?;
        if peers.len() <= PIDS {
            let pids: Vec<String> = peers.iter().map(|peer| peer.pid.to_string()).collect();
            write!(f, " ({})", named("pid", pids.join(", ")))?;
        }
        writeln!(f, ": {evidence}")?;
    }
    for (last, peers) in seen {
        let ranks = named("rank", ranges(peers));
        match last {
            Some((slot, generation, exec)) => writeln!(
                f,
                "  last seen at barrier {slot} #{generation} for exec {exec}: {ranks}"
            )?,
            None => writeln!(f, "  not seen at a barrier: {ranks}")?,
        }
    }
    Ok(())
}

fn of_bus(f: &mut fmt::Formatter<'_>, bus: &Bus) -> fmt::Result {
    write!(
        f,
        "bus {}: rank {} of {}, layout version {}, {}",
        bus.job, bus.rank, bus.world, bus.layout, bus.phase
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
mod tests;
