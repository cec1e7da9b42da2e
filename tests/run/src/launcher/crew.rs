//! The processes that this launcher has started: the first, then the others, and what comes from them.

use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::RawFd;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::nodes::Report;
use super::process::RankProcess;
use super::screen::Screen;
use crate::job::Start;
use crate::layout::name;
use crate::wire::Message;

/// The processes of some nodes, usually of all. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Crew<'a> {
    start: &'a Start,
    nodes: Range<u32>,
    debug: bool,
    processes: Vec<RankProcess>,
    /// The first process has found library and settings good, and all others have been started.
    pub(super) ready: bool,
    /// Ranks that are through.
    finished: HashSet<u32>,
    /// Warnings so far.
    warnings: HashSet<String>,
    /// Those that are not shown yet, and since when. What a failure brings with it, such as the deaths of those that end because of it, never
    /// is.
    held: Vec<(Instant, String)>,
}

impl<'a> Crew<'a> {
    /// Nothing is started yet. `debug` = everything that the processes write to standard error is shown.
    pub(super) fn new(start: &'a Start, nodes: Range<u32>, debug: bool) -> Self {
        Self {
            start,
            nodes,
            debug,
            processes: Vec::new(),
            ready: false,
            finished: HashSet::new(),
            warnings: HashSet::new(),
            held: Vec::new(),
        }
    }

    /// Starts the first process. What is wrong with library or settings is wrong for all, and is so told once.
    pub(super) fn begin(&mut self, screen: &mut Screen) -> Result<(), String> {
        let first = self.all().take(1);
        self.spawn(first, screen)
    }

    fn all(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        self.start.job.layout.processes(self.nodes.clone())
    }

    fn spawn(
        &mut self,
        processes: impl Iterator<Item = Range<u32>>,
        screen: &mut Screen,
    ) -> Result<(), String> {
        for ranks in processes {
            let name = name(&ranks);
            let started = RankProcess::spawn(ranks, self.start)
                .map_err(|error| format!("cannot start {name}: {error}"))?;
            if self.debug {
                screen.note(&format!("{name}: process {}", started.pid()));
            }
            self.processes.push(started);
        }
        Ok(())
    }

    /// What can become readable.
    pub(super) fn fds(&self) -> impl Iterator<Item = RawFd> {
        self.processes.iter().flat_map(RankProcess::fds)
    }

    /// Takes in everything that has come; starts the other processes when the first one is good.
    pub(super) fn hear(&mut self, screen: &mut Screen) -> Result<Vec<Report>, String> {
        let mut reports = Vec::new();
        for index in 0..self.processes.len() {
            self.hear_one(index, &mut reports, screen);
        }
        let good = |report: &Report| matches!(report, Report::Said(said) if said.message == Message::Ready);
        if !self.ready && reports.iter().any(good) {
            self.ready = true;
            let others = self.all().skip(1);
            self.spawn(others, screen)?;
        }
        Ok(reports)
    }

    fn hear_one(&mut self, index: usize, reports: &mut Vec<Report>, screen: &mut Screen) {
        let Some(process) = self.processes.get_mut(index) else {
            return;
        };
        // Before its pipes are read: what an ended process has said is all there.
        let ended = process.reap();
        let ranks = process.ranks().clone();
        if let Some(signal) = process.stop_news() {
            let ranks = ranks.clone();
            reports.push(Report::Stopped { ranks, signal });
        }
        for line in process.complaints() {
            // A warning of the driver that all ranks share is shown once.
            let warning = line.starts_with("proxy WARN") && self.warnings.insert(line.clone());
            let line = format!("{}: {line}", name(&ranks));
            if self.debug {
                screen.note(&line);
            } else if warning {
                self.held.push((Instant::now(), line));
            }
        }
        for message in process.messages() {
            reports.push(match message {
                Ok(said) => {
                    if said.message == Message::Finished {
                        self.finished.insert(said.rank);
                    }
                    Report::Said(said)
                }
                Err(what) => Report::Garbled {
                    ranks: ranks.clone(),
                    what,
                },
            });
        }
        let finished = ranks.clone().all(|rank| self.finished.contains(&rank));
        if let Some(status) = ended.filter(|status| !(finished && status.success())) {
            let status = status.into_raw();
            reports.push(Report::Died { ranks, status });
        }
    }

    /// Shows the driver's warnings that came `age` ago or earlier. Called when the run has got further since, so that they are no failure's.
    pub(super) fn show_warnings(&mut self, age: Duration, screen: &mut Screen) {
        let old = |(since, _): &mut (Instant, String)| since.elapsed() >= age;
        let shown = self.held.extract_if(.., old);
        shown.for_each(|(_, line)| screen.note(&line));
    }

    /// The ranks of these processes that have been started.
    pub(super) fn started(&self) -> Range<u32> {
        let mut ranks = self.processes.iter().map(RankProcess::ranks);
        let first = ranks.next().cloned().unwrap_or_default();
        first.start..ranks.next_back().map_or(first.end, |last| last.end)
    }

    /// Whether all that have been started have ended.
    pub(super) fn all_ended(&self) -> bool {
        let mut processes = self.processes.iter();
        processes.all(|process| process.status.is_some())
    }

    /// Shows what the process of a rank wrote last, if it is one of these and has not been shown all along.
    pub(super) fn show_last_words(&self, rank: u32, screen: &mut Screen) {
        let mut processes = self.processes.iter();
        let process = processes.find(|process| process.ranks().contains(&rank));
        let Some(process) = process.filter(|_| !self.debug) else {
            return;
        };
        let name = name(process.ranks());
        for line in &process.last_words {
            screen.note(&format!("{name}: {line}"));
        }
    }

    /// Ends them all.
    pub(super) fn end(&mut self) {
        self.processes.iter_mut().for_each(RankProcess::end);
    }
}
