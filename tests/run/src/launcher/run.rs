//! The launcher's loop: one poll over signals, pipes and other nodes, one step per message.

use std::io;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::nodes::{Door, Report};
use super::roll::Roll;
use super::screen::{Screen, unwritten_or_signal};
use super::verdict::{Cause, Finding, Verdict};
use crate::cli::Output;
use crate::job::Start;
use crate::report::Row;
use crate::size::Bytes;
use crate::sys::{self, Signals, readable};
use crate::table::{Table, describe};
use crate::wire::{Message, Said};

/// How old a warning is before a row shows that it was no failure's: rows that are shown now may be from before the failure.
const SETTLED: Duration = Duration::from_secs(1);

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
    /// Other nodes whose processes have ended, or whose launchers are gone.
    over: u32,
    roll: Roll<'a>,
    /// The lines above the table are there.
    headed: bool,
    verdict: Verdict,
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
            roll: Roll::new(&start.job),
            headed: false,
            verdict: Verdict::new(start.job.deadline()),
            heard: Instant::now(),
            rows: Vec::new(),
        }
    }

    /// Starts the ranks and sees them through.
    pub(super) fn drive(&mut self) -> End {
        let ended = self.crew.begin().and_then(|()| self.listen());
        let end = ended.unwrap_or_else(End::Failed);
        self.crew.end();
        end
    }

    fn listen(&mut self) -> Result<End, String> {
        loop {
            let left = self.time_to_hear()?;
            self.wait(self.verdict.grace().unwrap_or(left))?;
            if let Some(signal) = self.signals.ending() {
                return Ok(End::Signalled(signal));
            }
            self.hear()?;
            if let Err(unwritten) = self.show_rows() {
                return unwritten_or_signal(unwritten).map(End::Signalled);
            }
            if let Some(failure) = self.failure() {
                return Ok(End::Failed(failure));
            }
            if self.crew.ready && self.all_ended() && self.verdict.grace().is_none() {
                self.crew.show_warnings(Duration::ZERO, self.screen);
                return Ok(End::Done);
            }
        }
    }

    /// Time left for every rank to say something. Each has its own deadlines and says so when one has passed; this is for when one cannot any
    /// more, because it is stopped, say, or stays in the library, or its node's launcher is stopped.
    fn time_to_hear(&self) -> Result<Duration, String> {
        let limit = self.start.job.silence();
        let ranks = self.expected();
        let longest = self.roll.longest(ranks.clone());
        let left = limit.saturating_sub(longest.unwrap_or_else(|| self.heard.elapsed()));
        if !left.is_zero() || self.verdict.grace().is_some() {
            return Ok(left);
        }
        if let Some(text) = self.crew.unstarted() {
            return Err(text);
        }
        let open = self.roll.unheard(ranks.clone(), Duration::ZERO);
        let silent = self.roll.unheard(ranks, limit);
        let door = self.door.as_ref();
        let nodes = door.and_then(|door| door.silent(&open, &silent));
        Err(match nodes {
            Some(nodes) => format!("nothing was heard from {nodes} for {} s", limit.as_secs()),
            None => self.verdict.silence(&silent, &self.roll),
        })
    }

    /// The ranks that have been started.
    fn expected(&self) -> Range<u32> {
        if self.crew.ready {
            0..self.start.job.layout.ranks
        } else {
            self.crew.started()
        }
    }

    fn wait(&self, timeout: Duration) -> Result<(), String> {
        let others = self.door.iter().flat_map(|door| door.fds());
        let fds = self.crew.fds().chain(others).chain([self.signals.fd()]);
        let mut fds: Vec<_> = fds.map(readable).collect();
        sys::poll(&mut fds, Some(timeout))
            .map_err(|error| format!("cannot wait for the ranks: {error}"))
    }

    /// Takes in everything that has come from ranks and other nodes.
    fn hear(&mut self) -> Result<(), String> {
        let ready = self.crew.ready;
        for report in self.crew.hear(self.screen)? {
            self.heard = Instant::now();
            self.take(report);
        }
        if self.crew.ready && !ready {
            self.roll.begin(self.expected());
        }
        let others = self
            .door
            .as_mut()
            .map_or_else(Vec::new, |door| door.reports());
        for (ranks, report) in others {
            self.heard = Instant::now();
            match report {
                Report::Ended => self.over += 1,
                Report::Gone(text) => {
                    self.over += 1;
                    self.verdict.process(&ranks, Cause::Lost(text));
                }
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
            Report::Stopped { ranks, signal } => self.verdict.stopped(&ranks, signal),
            // Only other nodes say that.
            Report::Ended | Report::Gone(_) => {}
        }
    }

    fn said(&mut self, Said { rank, message }: Said) {
        match message {
            Message::Failed(failure) => return self.verdict.told(rank, failure),
            Message::Iteration(iteration) if rank == 0 => self.show_progress(iteration),
            _ => {}
        }
        self.roll.said(rank, message);
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

    /// Shows every size that all ranks are through with, under the lines that are there since all have met.
    fn show_rows(&mut self) -> io::Result<()> {
        let job = &self.start.job;
        if !self.headed && self.roll.have_met() {
            self.headed = true;
            self.screen.line(&describe(job))?;
        }
        while let Some(results) = self.roll.next_size() {
            let row = Row::new(job, &self.output.stats, &results);
            if self.verdict.grace().is_none() {
                self.crew.show_warnings(SETTLED, self.screen);
            }
            let line = self.table.row(job, &row);
            let head = self.rows.is_empty().then(|| self.table.head());
            for line in head.into_iter().chain([line]) {
                self.screen.line(&line)?;
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

    /// The message, once all failures that belong together are in. The last words of the process that it is about are shown before it.
    fn failure(&mut self) -> Option<String> {
        let over = self.verdict.grace()?.is_zero() || self.all_ended();
        let all = self.crew.ready.then_some(self.start.job.layout.ranks);
        let found = over.then(|| self.verdict.finding(all, &self.roll));
        let Finding { speaker, text } = found.flatten()?;
        // Who is silent while others complain is so because it, or one before it, does not get as far as its program.
        if speaker.is_none()
            && let Some(text) = self.crew.unstarted()
        {
            return Some(text);
        }
        if let Some(rank) = speaker {
            self.crew.show_last_words(rank, self.screen);
        }
        if let Some(door) = &mut self.door {
            door.speaker = speaker;
        }
        Some(text)
    }
}
