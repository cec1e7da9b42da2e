//! What a rank may say after which fault, and what was counted.

use std::collections::BTreeMap;
use std::fmt;

use proxy_core::Status;

use crate::plan::{Fault, Kind, Round};
use crate::talk::Report;

/// How much later than by its deadline a failed execution may have told so, in milliseconds.
const SLACK: u64 = 20_000;

/// What is wrong with a report, in words. `None` = nothing.
pub(crate) fn judge(round: &Round, report: &Report) -> Option<String> {
    let verdict = wrong_of(round, report)?;
    Some(format!("rank {}: {verdict}", report.rank))
}

fn wrong_of(round: &Round, report: &Report) -> Option<String> {
    if let Some(wrong) = report.wrong.first() {
        return Some(wrong.clone());
    }
    let Some(fault) = round.fault.filter(|fault| fault.kind.hurts()) else {
        return undisturbed(round, report);
    };
    let Some(end) = &report.end else {
        return Some(format!("succeeded in all executions beside {}", fault.kind));
    };
    let status = Status(end.status);
    let together = &round.processes[round.process_of(fault.victim)];
    let crowd = together.len() > 1 && together.contains(&report.rank);
    if !names_the_cause(&fault, report.rank == fault.victim, crowd, status) {
        return Some(format!("ended with {status} beside {}", fault.kind));
    }
    let limit = u64::try_from(round.deadline.as_millis()).unwrap_or(u64::MAX);
    // A victim that was stopped has slept through its own deadline.
    if end.after > limit.saturating_add(SLACK) && report.rank != fault.victim {
        return Some(format!("ended with {status} after {} ms", end.after));
    }
    // The victim has passed the barrier of the execution before, so every rank has ended the one before that.
    if report.succeeded + 2 < fault.execution {
        let executions = report.succeeded;
        return Some(format!("only {executions} executions before the fault"));
    }
    mourned(&fault, report)
}

fn undisturbed(round: &Round, report: &Report) -> Option<String> {
    if let Some(end) = &report.end {
        let (status, after) = (Status(end.status), end.after);
        return Some(format!("ended with {status} after {after} ms undisturbed"));
    }
    (report.succeeded != round.executions || !report.dead.is_empty()).then(|| {
        let Report {
            succeeded, dead, ..
        } = report;
        format!("undisturbed, {succeeded} executions and dead {dead:?}")
    })
}

/// Whether the free of the communicator has named the dead, and no other.
fn mourned(fault: &Fault, report: &Report) -> Option<String> {
    let died: &[u32] = match fault.kind {
        Kind::Kill => &[fault.victim],
        // Its exit hook has told the others before it was dead, and they may have left by then.
        Kind::Exit if !report.dead.is_empty() => &[fault.victim],
        _ => &[],
    };
    (report.dead != died).then(|| format!("was told of {:?} as dead, not {died:?}", report.dead))
}

/// Whether a code says what has happened, for the victim itself, one of several ranks of its process (`crowd`, the victim included), or another.
fn names_the_cause(fault: &Fault, victim: bool, crowd: bool, status: Status) -> bool {
    // What a peer's end looks like: its sockets close, it leaves the bus, or it tells the barrier that it gives up.
    let by_peer = [
        Status::NETWORK_PROXY_FAILURE,
        Status::PEER_DEAD,
        Status::PEER_CANCELLED,
    ];
    let late = [Status::TIMEOUT, Status::BARRIER_TIMEOUT];
    let aborted = [Status::ABORTED, Status::CLOSED];
    match fault.kind {
        kind if kind.is_late() => by_peer.contains(&status) || late.contains(&status),
        Kind::Kill | Kind::Exit | Kind::StopBriefly => by_peer.contains(&status),
        // One of them may have ended and left the bus before the worker has come to the tasks of the others.
        kind if crowd && kind.is_shared() => aborted.contains(&status) || by_peer.contains(&status),
        _ if victim => status == Status::ABORTED,
        _ => by_peer.contains(&status),
    }
}

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    rounds: u64,
    executions: u64,
    ended: BTreeMap<i32, u64>,
    faults: BTreeMap<Kind, u64>,
    started: u64,
    slowest: u64,
}

impl Counts {
    /// Counts a round and what its ranks have told.
    pub(crate) fn round(&mut self, round: &Round, reports: &[Report], started: u64) {
        self.rounds += 1;
        self.started += started;
        if let Some(fault) = round.fault {
            *self.faults.entry(fault.kind).or_default() += 1;
        }
        for report in reports {
            self.executions += report.succeeded;
            if let Some(end) = &report.end {
                *self.ended.entry(end.status).or_default() += 1;
                self.slowest = self.slowest.max(end.after);
            }
        }
    }

    /// In one line.
    pub(crate) fn brief(&self) -> String {
        let faults: u64 = self.faults.values().sum();
        format!(
            "{} rounds, {} executions checked, {faults} faults",
            self.rounds, self.executions
        )
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended: u64 = self.ended.values().sum();
        let faults: u64 = self.faults.values().sum();
        writeln!(f, "rounds                 {:>8}", self.rounds)?;
        writeln!(f, "processes started      {:>8}", self.started)?;
        writeln!(f, "executions succeeded   {:>8}", self.executions)?;
        writeln!(f, "results checked        {:>8}", self.executions)?;
        writeln!(f, "executions that failed {ended:>8}")?;
        for (status, count) in &self.ended {
            writeln!(f, "  {count:>6} x {}", Status(*status))?;
        }
        writeln!(f, "slowest of them (ms)   {:>8}", self.slowest)?;
        writeln!(f, "faults                 {faults:>8}")?;
        for (kind, count) in &self.faults {
            writeln!(f, "  {count:>6} x {kind}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::talk::End;

    /// The round of a kind among the first, and a report of its victim's that fits.
    fn round(kind: Kind) -> (Round, Report) {
        let mut rounds = (0..).map(|number| Round::draw(1, number));
        let round = rounds.find(|round| round.fault.is_some_and(|fault| fault.kind == kind));
        let round = round.unwrap();
        let victim = round.fault.unwrap().victim;
        let report = Report {
            rank: victim,
            succeeded: round.fault.unwrap().execution - 1,
            end: Some(End {
                status: Status::ABORTED.0,
                after: 1,
            }),
            ..Report::default()
        };
        (round, report)
    }

    #[test]
    fn a_report_that_fits_the_fault_is_right_and_others_are_not() {
        let (aborted, report) = round(Kind::AbortTask);
        assert_eq!(judge(&aborted, &report), None);
        let with = |change: fn(&mut Report)| {
            let mut report = report.clone();
            change(&mut report);
            judge(&aborted, &report)
        };
        let timeout = |report: &mut Report| report.end.as_mut().unwrap().status = 5;
        assert!(with(timeout).unwrap().contains("ended with"));
        assert!(with(|report| report.end = None).is_some());
        assert!(with(|report| report.dead.push(1)).is_some());
        assert!(with(|report| report.wrong.push("x".to_owned())).is_some());
        let (calm, report) = round(Kind::StopBriefly);
        assert!(judge(&calm, &report).unwrap().contains("undisturbed"));
    }

    #[test]
    fn a_dead_rank_has_to_be_named() {
        let (killed, mut report) = round(Kind::Kill);
        let victim = report.rank;
        report.rank = 0;
        report.end.as_mut().unwrap().status = Status::PEER_DEAD.0;
        assert!(judge(&killed, &report).unwrap().contains("was told of []"));
        report.dead.push(victim);
        assert_eq!(judge(&killed, &report), None);
    }
}
