//! The launcher's loop: one poll over signals and pipes, one step per message.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::process::RankProcess;
use super::screen::Screen;
use super::verdict::{Cause, Verdict};
use crate::cli::Output;
use crate::job::Start;
use crate::report::Row;
use crate::size::Bytes;
use crate::sys::{self, Signals, readable};
use crate::table::Table;
use crate::wire::Message;

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
    ranks: Vec<RankProcess>,
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
        Self {
            start,
            output,
            signals,
            screen,
            table,
            ranks: Vec::new(),
            verdict: Verdict::default(),
            since: Instant::now(),
            warnings: HashSet::new(),
            rows: Vec::new(),
        }
    }

    /// Starts the ranks and sees them through. Rank 0 goes first: what is wrong with library or settings is wrong for all,
    /// and is so told once.
    pub(super) fn drive(&mut self) -> End {
        let ended = self.spawn(0).and_then(|()| self.listen());
        let end = ended.unwrap_or_else(End::Failed);
        self.ranks.iter_mut().for_each(RankProcess::end);
        end
    }

    fn spawn(&mut self, rank: u32) -> Result<(), String> {
        let started = RankProcess::spawn(rank, self.start)
            .map_err(|error| format!("cannot start rank {rank}: {error}"))?;
        if self.output.debug {
            self.screen
                .note(&format!("rank {rank}: process {}", started.pid()));
        }
        self.ranks.push(started);
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
            for index in 0..self.ranks.len() {
                self.hear(index)?;
            }
            self.show_rows()?;
            if let Some(failure) = self.failure() {
                return Ok(End::Failed(failure));
            }
            if self.ranks.len() == self.start.job.ranks as usize
                && self.all_ended()
                && self.verdict.grace().is_none()
            {
                return Ok(End::Done);
            }
        }
    }

    /// Time left for the ranks to meet, which has the deadline of an execution; `None` when they have met.
    fn time_to_join(&self) -> Result<Option<Duration>, String> {
        let late = self.ranks.iter().filter(|process| !process.joined);
        let late: Vec<String> = late.map(|process| process.rank().to_string()).collect();
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
        let pipes = self.ranks.iter().flat_map(RankProcess::fds);
        let mut fds: Vec<_> = pipes.chain([self.signals.fd()]).map(readable).collect();
        sys::poll(&mut fds, timeout).map_err(|error| format!("cannot wait for the ranks: {error}"))
    }

    /// Takes in everything that one rank has said, and whether it has ended.
    fn hear(&mut self, index: usize) -> Result<(), String> {
        let Some(process) = self.ranks.get_mut(index) else {
            return Ok(());
        };
        // Before its pipes are read: what an ended process has said is all there.
        let ended = process.reap();
        let rank = process.rank();
        for line in process.complaints() {
            // A warning of the driver that all ranks share is shown once.
            let warning = line.starts_with("proxy WARN") && self.warnings.insert(line.clone());
            if self.output.debug || warning {
                self.screen.note(&format!("rank {rank}: {line}"));
            }
        }
        let messages = process.messages();
        for message in messages {
            self.take(index, message)?;
        }
        let finished = self
            .ranks
            .get(index)
            .is_some_and(|process| process.finished);
        if let Some(status) = ended.filter(|status| !(finished && status.success())) {
            self.verdict.add(rank, Cause::Died(status));
        }
        Ok(())
    }

    fn take(&mut self, index: usize, message: Result<Message, String>) -> Result<(), String> {
        let Some(process) = self.ranks.get_mut(index) else {
            return Ok(());
        };
        let rank = process.rank();
        match message {
            Ok(Message::Ready) if rank == 0 => {
                for other in 1..self.start.job.ranks {
                    self.spawn(other)?;
                }
            }
            Ok(Message::Ready) => {}
            Ok(Message::Joined) => process.joined = true,
            Ok(Message::Iteration(iteration)) => self.show_progress(iteration),
            Ok(Message::Size(result)) => process.results.push_back(result),
            Ok(Message::Finished) => process.finished = true,
            Ok(Message::Failed(failure)) => self.verdict.add(rank, Cause::Told(failure)),
            Err(what) => self.verdict.add(rank, Cause::Garbled(what)),
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
        let all_started = self.ranks.len() == job.ranks as usize;
        while all_started && self.ranks.iter().all(|process| !process.results.is_empty()) {
            let results: Vec<_> = self
                .ranks
                .iter_mut()
                .filter_map(|process| process.results.pop_front())
                .collect();
            let row = Row::new(job, &self.output.stats, &results);
            let line = self.table.row(job, &row);
            let head = self.rows.is_empty().then(|| self.table.head());
            for line in head.into_iter().chain([line]) {
                self.screen
                    .line(&line)
                    .map_err(|error| format!("cannot write the table: {error}"))?;
            }
            row.complaints()
                .for_each(|complaint| self.screen.note(&complaint));
            self.rows.push(row);
        }
        Ok(())
    }

    fn all_ended(&self) -> bool {
        self.ranks.iter().all(|process| process.status.is_some())
    }

    /// The message, once all failures that belong together are in. The rank's own last words are shown before it.
    fn failure(&mut self) -> Option<String> {
        let over = self.verdict.grace()?.is_zero() || self.all_ended();
        let (rank, message) = over
            .then(|| self.verdict.message(self.ranks.len()))
            .flatten()?;
        let process = self.ranks.iter().find(|process| process.rank() == rank)?;
        if !self.output.debug {
            for line in &process.last_words {
                self.screen.note(&format!("rank {rank}: {line}"));
            }
        }
        Some(message)
    }
}
