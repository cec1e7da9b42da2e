//! The launcher's loop: one poll over signals and pipes, one step per message.

use std::collections::HashSet;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::process::RankProcess;
use super::screen::{Screen, unwritten};
use super::verdict::{Cause, Verdict};
use crate::cli::Output;
use crate::job::Start;
use crate::layout::name;
use crate::report::Row;
use crate::size::Bytes;
use crate::sys::{self, Signals, readable};
use crate::table::Table;
use crate::wire::{Heard, Message, Said};

/// How a run ended.
#[derive(Debug)]
pub(super) enum End {
    /// Every rank is through.
    Done,
    /// A rank failed; the message names it.
    Failed(String),
    /// A signal came.
    Signalled(i32),
}

/// A run in progress. Dropping it ends all ranks.
#[derive(Debug)]
pub(super) struct Run<'a> {
    start: &'a Start,
    output: &'a Output,
    signals: &'a mut Signals,
    screen: &'a mut Screen,
    table: Table,
    processes: Vec<RankProcess>,
    /// One per rank of the job.
    ranks: Vec<Heard>,
    /// The first process has found library and settings good, and all others have been started.
    ready: bool,
    verdict: Verdict,
    since: Instant,
    /// Warnings shown so far.
    warnings: HashSet<String>,
    /// The rows so far.
    pub(super) rows: Vec<Row>,
}

impl<'a> Run<'a> {
    /// Nothing is started yet.
    pub(super) fn new(
        start: &'a Start,
        output: &'a Output,
        signals: &'a mut Signals,
        screen: &'a mut Screen,
    ) -> Self {
        let table = Table::new(&start.job, &output.stats);
        let ranks = (0..start.job.layout.ranks).map(|_| Heard::default());
        Self {
            start,
            output,
            signals,
            screen,
            table,
            processes: Vec::new(),
            ranks: ranks.collect(),
            ready: false,
            verdict: Verdict::default(),
            since: Instant::now(),
            warnings: HashSet::new(),
            rows: Vec::new(),
        }
    }

    /// Starts the ranks and sees them through. The first process goes first: what is wrong with library or settings is wrong for
    /// all, and is so told once.
    pub(super) fn drive(&mut self) -> End {
        let first = self.start.job.layout.processes().take(1);
        let ended = self.spawn(first).and_then(|()| self.listen());
        let end = ended.unwrap_or_else(End::Failed);
        self.processes.iter_mut().for_each(RankProcess::end);
        end
    }

    fn spawn(&mut self, processes: impl Iterator<Item = Range<u32>>) -> Result<(), String> {
        for ranks in processes {
            let name = name(&ranks);
            let started = RankProcess::spawn(ranks, self.start)
                .map_err(|error| format!("cannot start {name}: {error}"))?;
            if self.output.debug {
                self.screen
                    .note(&format!("{name}: process {}", started.pid()));
            }
            self.processes.push(started);
        }
        Ok(())
    }

    fn listen(&mut self) -> Result<End, String> {
        loop {
            self.wait(self.verdict.grace().or(self.time_to_join()?))?;
            while let Some(signal) = self.signals.next() {
                if signal != libc::SIGCHLD {
                    return Ok(End::Signalled(signal));
                }
            }
            for index in 0..self.processes.len() {
                self.hear(index)?;
            }
            self.show_rows()?;
            if let Some(failure) = self.failure() {
                return Ok(End::Failed(failure));
            }
            if self.ready && self.all_ended() && self.verdict.grace().is_none() {
                return Ok(End::Done);
            }
        }
    }

    /// Time left for the ranks to meet, which has the deadline of an execution; `None` when they have met.
    fn time_to_join(&self) -> Result<Option<Duration>, String> {
        let late = (0..).zip(&self.ranks).filter(|(_, heard)| !heard.joined);
        let late: Vec<String> = late.map(|(rank, _): (u32, _)| rank.to_string()).collect();
        if late.is_empty() {
            return Ok(None);
        }
        let left = self
            .start
            .job
            .deadline()
            .saturating_sub(self.since.elapsed());
        if left.is_zero() && self.verdict.grace().is_none() {
            let waited = self.start.job.timeout;
            return Err(format!(
                "after {waited} s these ranks have not met the others: {}",
                late.join(", ")
            ));
        }
        Ok(Some(left))
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<(), String> {
        let pipes = self.processes.iter().flat_map(RankProcess::fds);
        let mut fds: Vec<_> = pipes.chain([self.signals.fd()]).map(readable).collect();
        sys::poll(&mut fds, timeout).map_err(|error| format!("cannot wait for the ranks: {error}"))
    }

    /// Takes in everything that the ranks of one process have said, and whether it has ended.
    fn hear(&mut self, index: usize) -> Result<(), String> {
        let Some(process) = self.processes.get_mut(index) else {
            return Ok(());
        };
        // Before its pipes are read: what an ended process has said is all there.
        let ended = process.reap();
        let ranks = process.ranks().clone();
        for line in process.complaints() {
            // A warning of the driver that all ranks share is shown once.
            let warning = line.starts_with("proxy WARN") && self.warnings.insert(line.clone());
            if self.output.debug || warning {
                self.screen.note(&format!("{}: {line}", name(&ranks)));
            }
        }
        for message in process.messages() {
            match message {
                Ok(said) => self.take(said)?,
                Err(what) => self.verdict.process(&ranks, Cause::Garbled(what)),
            }
        }
        let own = self.ranks.get(ranks.start as usize..ranks.end as usize);
        let finished = own.is_some_and(|own| own.iter().all(|heard| heard.finished));
        if let Some(status) = ended.filter(|status| !(finished && status.success())) {
            self.verdict.process(&ranks, Cause::Died(status));
        }
        Ok(())
    }

    fn take(&mut self, Said { rank, message }: Said) -> Result<(), String> {
        let Some(heard) = self.ranks.get_mut(rank as usize) else {
            return Ok(());
        };
        match message {
            Message::Ready if !self.ready => {
                self.ready = true;
                self.spawn(self.start.job.layout.processes().skip(1))?;
            }
            Message::Ready => {}
            Message::Joined => heard.joined = true,
            Message::Iteration(iteration) => self.show_progress(iteration),
            Message::Size(result) => heard.results.push_back(result),
            Message::Finished => heard.finished = true,
            Message::Failed(failure) => self.verdict.told(rank, failure),
        }
        Ok(())
    }

    fn show_progress(&mut self, iteration: u32) {
        let job = &self.start.job;
        if let Some(bytes) = job.sizes.iter().nth(self.rows.len()) {
            let (size, all) = (Bytes(bytes), job.all_iterations());
            self.screen.progress(&format!(
                "{} {size}: iteration {iteration} of {all}",
                job.op.name()
            ));
        }
    }

    /// Shows every size that all ranks are through with.
    fn show_rows(&mut self) -> Result<(), String> {
        let job = &self.start.job;
        while self.ranks.iter().all(|heard| !heard.results.is_empty()) {
            let results: Vec<_> = self
                .ranks
                .iter_mut()
                .filter_map(|heard| heard.results.pop_front())
                .collect();
            let row = Row::new(job, &self.output.stats, &results);
            let line = self.table.row(job, &row);
            let head = self.rows.is_empty().then(|| self.table.head());
            for line in head.into_iter().chain([line]) {
                self.screen.line(&line).map_err(unwritten)?;
            }
            row.complaints()
                .for_each(|complaint| self.screen.note(&complaint));
            self.rows.push(row);
        }
        Ok(())
    }

    fn all_ended(&self) -> bool {
        let mut processes = self.processes.iter();
        processes.all(|process| process.status.is_some())
    }

    /// The message, once all failures that belong together are in. The process's own last words are shown before it.
    fn failure(&mut self) -> Option<String> {
        let over = self.verdict.grace()?.is_zero() || self.all_ended();
        let all = self.ready.then_some(self.start.job.layout.ranks);
        let (ranks, message) = over.then(|| self.verdict.message(all)).flatten()?;
        let mut processes = self.processes.iter();
        let process = processes.find(|process| process.ranks().contains(&ranks.start))?;
        if !self.output.debug {
            let name = name(process.ranks());
            for line in &process.last_words {
                self.screen.note(&format!("{name}: {line}"));
            }
        }
        Some(message)
    }
}
