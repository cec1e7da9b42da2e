//! The processes that this launcher has started: the first, then the others, and what comes from them.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::nodes::Report;
use super::process::RankProcess;
use super::screen::Screen;
use crate::job::Start;
use crate::layout::name;
use crate::starter::Starter;
use crate::wire::Message;

/// The processes of some nodes, usually of all. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Crew<'a> {
    start: &'a Start,
    nodes: Range<u32>,
    debug: bool,
    processes: Vec<RankProcess>,
    /// Starts them. After them, as they have to end before it does.
    starter: Option<Starter>,
    /// Those that are not started yet, the first of which is on its way.
    starting: VecDeque<Range<u32>>,
    /// The first process has found library and settings good, and the others are started.
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
            starter: None,
            starting: VecDeque::new(),
            ready: false,
            finished: HashSet::new(),
            warnings: HashSet::new(),
            held: Vec::new(),
        }
    }

    /// Starts the first process. What is wrong with library or settings is wrong for all, and is so told once.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        let starter = Starter::new();
        self.starter = Some(starter.map_err(|error| format!("cannot start ranks: {error}"))?);
        self.starting.extend(self.all().take(1));
        self.start_next()
    }

    fn all(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        self.start.job.layout.processes(self.nodes.clone())
    }

    /// Sends the next process on its way, if one is left.
    fn start_next(&mut self) -> Result<(), String> {
        let (Some(ranks), Some(starter)) = (self.starting.front(), &mut self.starter) else {
            return Ok(());
        };
        let command = RankProcess::command(ranks, self.start);
        let ordered = command.and_then(|command| starter.start(command));
        ordered.map_err(|error| cannot_start(ranks, &error))
    }

    /// Takes over the processes that run by now.
    fn take_started(&mut self, screen: &mut Screen) -> Result<(), String> {
        while let Some(child) = self.starter.as_mut().and_then(Starter::next) {
            let Some(ranks) = self.starting.pop_front() else {
                return Ok(());
            };
            let adopted =
                child.and_then(|child| RankProcess::adopt(ranks.clone(), child, self.start));
            let started = adopted.map_err(|error| cannot_start(&ranks, &error))?;
            if self.debug {
                screen.note(&format!("{}: process {}", name(&ranks), started.pid()));
            }
            self.processes.push(started);
            self.start_next()?;
        }
        Ok(())
    }

    /// What holds up the start of the next process, if one is on its way: only a stop keeps it there for long.
    pub(super) fn unstarted(&self) -> Option<String> {
        let (underway, ranks) = (self.starter.as_ref()?.underway()?, self.starting.front()?);
        Some(format!(
            "{} was not started: its process has been on its way between fork and exec for {:.1} s, stopped by a signal, say",
            name(ranks),
            underway.as_secs_f64()
        ))
    }

    /// What can become readable.
    pub(super) fn fds(&self) -> impl Iterator<Item = RawFd> {
        let underway = self.starter.iter().map(Starter::fd);
        let processes = self.processes.iter().flat_map(RankProcess::fds);
        processes.chain(underway)
    }

    /// Takes in everything that has come; starts the other processes when the first one is good.
    pub(super) fn hear(&mut self, screen: &mut Screen) -> Result<Vec<Report>, String> {
        self.take_started(screen)?;
        let mut reports = Vec::new();
        for index in 0..self.processes.len() {
            self.hear_one(index, &mut reports, screen);
        }
        let good = |report: &Report| matches!(report, Report::Said(said) if said.message == Message::Ready);
        if !self.ready && reports.iter().any(good) {
            self.ready = true;
            self.starting.extend(self.all().skip(1));
            self.start_next()?;
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
        self.starting.is_empty() && processes.all(|process| process.status.is_some())
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

    /// Ends them all, also one that is on its way.
    pub(super) fn end(&mut self) {
        self.processes.iter_mut().for_each(RankProcess::end);
        if let Some(starter) = &mut self.starter {
            starter.abandon();
        }
        self.starting.clear();
    }
}

fn cannot_start(ranks: &Range<u32>, error: &io::Error) -> String {
    format!("cannot start {}: {error}", name(ranks))
}
