//! The launcher's loop: one poll over signals, pipes and other nodes, one step per message.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::nodes::{Door, Report};
use super::screen::{Screen, unwritten};
use super::verdict::{Cause, Verdict};
use crate::cli::Output;
use crate::job::Start;
use crate::layout::list;
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

/// A run in progress. Dropping it ends the ranks.
#[derive(Debug)]
pub(super) struct Run<'a> {
    start: &'a Start,
    output: &'a Output,
    signals: &'a mut Signals,
    screen: &'a mut Screen,
    table: Table,
    crew: Crew<'a>,
    /// The other nodes, if they have launchers of their own.
    door: Option<&'a mut Door>,
    /// The other nodes' processes have ended well.
    over: u32,
    /// One per rank of the job.
    ranks: Vec<Heard>,
    verdict: Verdict,
    since: Instant,
    /// When something last came from a rank or another node.
    heard: Instant,
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
        door: Option<&'a mut Door>,
    ) -> Self {
        let table = Table::new(&start.job, &output.stats);
        let layout = start.job.layout;
        let ranks = (0..layout.ranks).map(|_| Heard::default());
        let nodes = if door.is_some() {
            0..1
        } else {
            0..layout.nodes
        };
        Self {
            start,
            output,
            signals,
            screen,
            table,
            crew: Crew::new(start, nodes, output.debug),
            door,
            over: 0,
            ranks: ranks.collect(),
            verdict: Verdict::default(),
            since: Instant::now(),
            heard: Instant::now(),
            rows: Vec::new(),
        }
    }

    /// Starts the ranks and sees them through.
    pub(super) fn drive(&mut self) -> End {
        let ended = self.crew.begin(self.screen).and_then(|()| self.listen());
        let end = ended.unwrap_or_else(End::Failed);
        self.crew.end();
        end
    }

    fn listen(&mut self) -> Result<End, String> {
        loop {
            let left = match self.time_to_join()? {
                None => self.time_to_hear()?,
                left => left,
            };
            self.wait(self.verdict.grace().or(left))?;
            while let Some(signal) = self.signals.next() {
                if signal != libc::SIGCHLD {
                    return Ok(End::Signalled(signal));
                }
            }
            self.hear()?;
            self.show_rows()?;
            if let Some(failure) = self.failure() {
                return Ok(End::Failed(failure));
            }
            if self.crew.ready && self.all_ended() && self.verdict.grace().is_none() {
                self.crew.show_warnings(self.screen);
                return Ok(End::Done);
            }
        }
    }

    /// Time left for the ranks to meet, which has the deadline of an execution; `None` when they have met.
    fn time_to_join(&self) -> Result<Option<Duration>, String> {
        let late = (0..).zip(&self.ranks).filter(|(_, heard)| !heard.joined);
        let late = list(late.map(|(rank, _)| rank));
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
                "after {waited} s these ranks have not met the others: {late}"
            ));
        }
        Ok(Some(left))
    }

    /// Time left for anybody to say something once all have met. Each rank has its own deadline and says so when it has passed; this is for
    /// when nobody can any more, because all are stopped, say, or the other nodes are.
    fn time_to_hear(&self) -> Result<Option<Duration>, String> {
        let limit = self.start.job.silence();
        let left = limit.saturating_sub(self.heard.elapsed());
        if left.is_zero() && self.verdict.grace().is_none() {
            let who = match self.crew.all_ended() {
                true => "the launchers of the other nodes",
                false => "any rank",
            };
            return Err(format!(
                "nothing was heard from {who} for {} s",
                limit.as_secs()
            ));
        }
        Ok(Some(left))
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<(), String> {
        let others = self.door.iter().flat_map(|door| door.fds());
        let fds = self.crew.fds().chain(others).chain([self.signals.fd()]);
        let mut fds: Vec<_> = fds.map(readable).collect();
        sys::poll(&mut fds, timeout).map_err(|error| format!("cannot wait for the ranks: {error}"))
    }

    /// Takes in everything that has come from ranks and other nodes.
    fn hear(&mut self) -> Result<(), String> {
        for report in self.crew.hear(self.screen)? {
            self.heard = Instant::now();
            self.take(report);
        }
        let others = self
            .door
            .as_mut()
            .map_or_else(Vec::new, |door| door.reports());
        for (ranks, report) in others {
            self.heard = Instant::now();
            match report {
                Report::Ended => self.over += 1,
                Report::Gone(text) => self.verdict.process(&ranks, Cause::Lost(text)),
                report => self.take(report),
            }
        }
        Ok(())
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Said(said) => self.said(said),
            Report::Garbled { ranks, what } => {
                self.verdict.process(&ranks, Cause::Garbled(what));
            }
            Report::Died { ranks, status } => {
                let status = ExitStatus::from_raw(status);
                self.verdict.process(&ranks, Cause::Died(status));
            }
            // Only other nodes say that.
            Report::Ended | Report::Gone(_) => {}
        }
    }

    fn said(&mut self, Said { rank, message }: Said) {
        let Some(heard) = self.ranks.get_mut(rank as usize) else {
            return;
        };
        match message {
            Message::Ready | Message::Finished => {}
            Message::Joined => heard.joined = true,
            Message::Iteration(iteration) => self.show_progress(iteration),
            Message::Size(result) => heard.results.push_back(result),
            Message::Failed(failure) => self.verdict.told(rank, failure),
        }
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
            self.crew.show_warnings(self.screen);
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
        let others = self
            .door
            .as_ref()
            .map_or(0, |_| self.start.job.layout.nodes - 1);
        self.crew.all_ended() && self.over == others
    }

    /// The message, once all failures that belong together are in. The process's own last words are shown before it.
    fn failure(&mut self) -> Option<String> {
        let over = self.verdict.grace()?.is_zero() || self.all_ended();
        let all = self.crew.ready.then_some(self.start.job.layout.ranks);
        let (ranks, message) = over.then(|| self.verdict.message(all)).flatten()?;
        self.crew.show_last_words(ranks.start, self.screen);
        Some(message)
    }
}
