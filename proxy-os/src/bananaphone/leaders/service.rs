//! The thread: the only one that calls the link, whose calls may block.
//!
//! ```text
//!   machine 0                                     every other machine
//!   loop: poll -> all, answer <- each             loop: poll <-, wait for news up to the patience, answer ->
//! ```
//!
//! A machine other than 0 speaks only when it is asked, and then soon, whatever its worker does: so no machine waits in a receive while it has
//! something to say that another needs, in whatever order the machines come to their barriers, and silence is a sign of
//! trouble. While nothing is to be decided machine 0 asks now and then, for signs of life, and because some libraries give up a receive that lasts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::bootstrap::Link;
use super::desk::Desk;
use super::frame::{FRAME, Frame, What};
use super::round::{Leaf, Root};
use crate::log;
use crate::sys::clock;

/// Between two questions while nothing is to be decided.
const KEEPALIVE: Duration = Duration::from_millis(200);
/// How long an answer may wait for news: at first, and at most, as it grows with every answer without news. What machine 0's own worker says
/// meanwhile waits as long.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

/// The thread's own data.
pub(super) struct Service<L> {
    pub(super) desk: Arc<Desk>,
    pub(super) link: L,
    /// The peer numbers of the machines' leaders, by machine.
    pub(super) peers: Arc<[u32]>,
    pub(super) machine: u8,
    pub(super) channels: u16,
}

/// Why a machine is not heard any more.
enum End {
    /// It has said so.
    Bye,
    /// The link's error, or bytes that cannot be.
    Broken(String),
}

/// Ends the exchange also when the link panics.
struct Ending<'a>(&'a Desk, u8);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if self.0.ended().is_none() {
            self.0.end(self.1);
        }
    }
}

impl<L: Link> Service<L> {
    /// Serves until it is told to stop or machine 0 is gone.
    pub(super) fn run(&mut self) {
        let desk = Arc::clone(&self.desk);
        let _ending = Ending(&desk, self.machine);
        if self.machine == 0 {
            self.lead();
        } else if let Err(end) = self.follow() {
            self.report(0, &end);
            desk.end(0);
        }
    }

    fn machines(&self) -> u16 {
        self.peers.len() as u16
    }

    fn must_stop(&self) -> bool {
        // Acquire pairs with the release in `Leaders::stop`.
        self.desk.stop.load(Ordering::Acquire)
    }

    fn lead(&mut self) {
        let mut root = Root::new(self.machines(), self.channels);
        let mut patience = PATIENCE[0];
        loop {
            // Asked before, as the own worker may stop with the verdict that it is told here: the others have to hear it, too.
            let stops = self.must_stop();
            let news = root.settle(&self.desk);
            if stops {
                return self.take_leave(&mut root);
            }
            if !root.is_open() && !root.has_news() && self.rings(KEEPALIVE) {
                continue;
            }
            if news {
                patience = PATIENCE[0];
            }
            // Nobody shall wait for news while this machine has some, or none to wait for.
            let entries = root.next_entries();
            let quiet = root.is_open() && !root.has_news();
            let wait = if quiet { patience } else { Duration::ZERO };
            if self.round(&mut root, entries, wait) {
                patience = PATIENCE[0];
            } else {
                patience = (patience * 2).min(PATIENCE[1]);
            }
        }
    }

    /// Asks all, hears all. True = there was news.
    fn round(
        &mut self,
        root: &mut Root,
        entries: Vec<super::frame::Entry>,
        patience: Duration,
    ) -> bool {
        let mut frame = self.frame(What::Poll);
        frame.entries = entries;
        frame.patience_us = u32::try_from(patience.as_micros()).unwrap_or(u32::MAX);
        let poll = frame.encode();
        for machine in 1..self.machines() {
            if !root.is_gone(machine)
                && let Err(end) = self.send(machine, &poll)
            {
                self.report(machine, &end);
                root.bury(machine);
            }
        }
        let mut news = false;
        for machine in 1..self.machines() {
            if root.is_gone(machine) {
                continue;
            }
            match self.receive(machine, What::Answer) {
                Ok(answer) => {
                    for entry in &answer.entries {
                        news |= root.hear(machine, entry);
                    }
                }
                Err(end) => {
                    self.report(machine, &end);
                    root.bury(machine);
                    news = true;
                }
            }
        }
        news
    }

    /// Tells the verdicts that stand, and says good-bye.
    fn take_leave(&mut self, root: &mut Root) {
        while root.has_news() {
            let entries = root.next_entries();
            self.round(root, entries, Duration::ZERO);
        }
        let bye = self.frame(What::Bye).encode();
        for machine in 1..self.machines() {
            if !root.is_gone(machine) {
                // Who is gone needs no farewell.
                let _ = self.send(machine, &bye);
            }
        }
    }

    fn follow(&mut self) -> Result<(), End> {
        let mut leaf = Leaf::new(self.machine.into(), self.channels);
        loop {
            let poll = self.receive(0, What::Poll)?;
            leaf.hear(&self.desk, &poll.entries);
            let patience = Duration::from_micros(poll.patience_us.into()).min(PATIENCE[1]);
            let until = Instant::now() + patience;
            let mut answer = self.frame(What::Answer);
            loop {
                if self.must_stop() {
                    let bye = self.frame(What::Bye).encode();
                    return self.send(0, &bye);
                }
                answer.entries = leaf.news(&self.desk);
                let left = until.saturating_duration_since(Instant::now());
                if !answer.entries.is_empty() || left.is_zero() || !self.rings(left) {
                    break;
                }
            }
            if answer.entries.is_empty() {
                answer.entries = leaf.news(&self.desk);
            }
            self.send(0, &answer.encode())?;
        }
    }

    /// Waits for the bell. False = it was silent so long.
    fn rings(&self, time: Duration) -> bool {
        self.desk.bell.wait(Some(time)).unwrap_or_else(|error| {
            log::error(format_args!("bananaphone: poll: {error}"));
            std::thread::sleep(time);
            false
        })
    }

    fn frame(&self, what: What) -> Frame {
        Frame {
            machine: self.machine.into(),
            what,
            patience_us: 0,
            world: (self.machines(), self.channels),
            entries: Vec::new(),
        }
    }

    fn send(&mut self, machine: u16, bytes: &[u8; FRAME]) -> Result<(), End> {
        let peer = self.peers[usize::from(machine)];
        let sent = self.link.send(peer, bytes);
        sent.map_err(|error| End::Broken(format!("cannot send to it: {error}")))
    }

    fn receive(&mut self, machine: u16, wanted: What) -> Result<Frame, End> {
        let mut bytes = [0; FRAME];
        let peer = self.peers[usize::from(machine)];
        self.desk.ask(machine as u8, clock::monotonic_ns());
        let received = self.link.recv(peer, &mut bytes);
        self.desk.hear();
        received.map_err(|error| End::Broken(format!("cannot receive from it: {error}")))?;
        let world = (self.machines(), self.channels);
        let frame = Frame::decode(&bytes, machine, world).map_err(End::Broken)?;
        match frame.what {
            What::Bye => Err(End::Bye),
            what if what == wanted => Ok(frame),
            other => Err(End::Broken(format!(
                "it sent a frame of kind {other:?}, accepted: {wanted:?}"
            ))),
        }
    }

    fn report(&self, machine: u16, end: &End) {
        let peer = self.peers[usize::from(machine)];
        match end {
            End::Bye => log::info(format_args!(
                "bananaphone: machine {machine} (rank {peer}) has stopped"
            )),
            End::Broken(why) => log::error(format_args!(
                "bananaphone: machine {machine} (rank {peer}) is gone: {why}"
            )),
        }
    }
}
