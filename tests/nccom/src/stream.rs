//! One stream of a communicator: op lists by basic block, the active block, and the pass that Progress runs.
//!
//! Start files a send list and a receive list under their block. Progress loads the requested block when no list is
//! active, runs one pass, and files lists that have drained back under their block. Stop drops everything.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::oplist::OpList;
use crate::peers::{Finished, Net, Peers};

/// The two lists of a block. A list is absent while it is active.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) send: Option<OpList>,
    pub(crate) receive: Option<OpList>,
}

impl Lists {
    const fn is_empty(&self) -> bool {
        self.send.is_none() && self.receive.is_none()
    }

    /// Whether a run has begun and not ended. Lists that only wait for the device have touched no connection.
    fn is_running(&self) -> bool {
        [&self.send, &self.receive]
            .into_iter()
            .flatten()
            .any(OpList::is_armed)
    }
}

/// The stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) peers: Peers,
    blocks: HashMap<u32, Lists>,
    active: Lists,
    /// Block of the active lists.
    current: u32,
    /// A block other than the current one that was asked for while lists were active.
    pending: Option<u32>,
    failed: bool,
    finished: Finished,
}

impl Stream {
    pub(crate) fn new(stream: u32, world: usize) -> Self {
        Self {
            peers: Peers::new(stream, world),
            blocks: HashMap::new(),
            active: Lists::default(),
            current: 0,
            pending: None,
            failed: false,
            finished: Finished::default(),
        }
    }

    /// Files the lists of a block. Nothing moves.
    pub(crate) fn start(&mut self, block: u32, lists: Lists) -> Result<()> {
        if self.blocks.contains_key(&block) {
            return Err(Error::invalid(format!(
                "block {block} has been started already, accepted: once until Stop"
            )));
        }
        if self.blocks.is_empty() {
            self.peers.sweep()?;
        }
        self.blocks.insert(block, lists);
        Ok(())
    }

    /// First half of a pass: selects the block and starts transfers. Between the halves the caller takes in new
    /// connections if [`Peers::wants_connections`].
    pub(crate) fn begin(&mut self, block: u32) -> Result<()> {
        if self.failed {
            return Err(Error::proxy_again());
        }
        self.select(block);
        self.finished.sends.clear();
        self.finished.receives.clear();
        self.finished.moved = false;
        for list in [&mut self.active.send, &mut self.active.receive]
            .into_iter()
            .flatten()
        {
            self.finished.moved |= list.advance(&mut self.peers)?;
        }
        Ok(())
    }

    /// Second half of a pass: moves bytes and raises completions. Returns what happened to (idle, done).
    pub(crate) fn end(&mut self, net: Net<'_>) -> Result<(bool, bool)> {
        self.peers.transfer(net, &mut self.finished)?;
        let had_work = !self.active.is_empty();
        let Finished {
            sends,
            receives,
            moved,
        } = &mut self.finished;
        if let (true, Some(home)) = (had_work, self.blocks.get_mut(&self.current)) {
            settle(&mut self.active.send, &mut home.send, sends, moved);
            settle(&mut self.active.receive, &mut home.receive, receives, moved);
        }
        let drained = self.active.is_empty();
        let switch = had_work && drained && self.pending.is_some();
        Ok((
            !self.finished.moved && !switch,
            drained && self.pending.is_none(),
        ))
    }

    /// Marks the stream as failed: Progress fails until Stop.
    pub(crate) const fn fail(&mut self) {
        self.failed = true;
    }

    /// Drops all lists. In the middle of a run the connections of the stream are dropped too, as half a message may be
    /// on its way; the peers see a reset.
    pub(crate) fn stop(&mut self, rank: u32) {
        if self.active.is_running() || self.failed {
            self.peers.abort(rank);
        }
        self.blocks.clear();
        self.active = Lists::default();
        self.pending = None;
        self.failed = false;
    }

    /// The block of a run that has begun and not ended.
    pub(crate) fn running(&self) -> Option<u32> {
        self.active.is_running().then_some(self.current)
    }

    fn select(&mut self, block: u32) {
        if !self.active.is_empty() {
            self.pending = (block != self.current).then_some(block);
            return;
        }
        self.pending = None;
        if let Some(lists) = self.blocks.get_mut(&block) {
            self.active = std::mem::take(lists);
            self.current = block;
        }
    }
}

/// Completes what is due on one list, and files it under its block again once it has drained.
fn settle(
    active: &mut Option<OpList>,
    home: &mut Option<OpList>,
    tickets: &[u64],
    moved: &mut bool,
) {
    let Some(list) = active else {
        return;
    };
    list.finish(tickets);
    *moved |= list.complete();
    if list.is_drained() {
        list.rewind();
        *home = active.take();
    }
}
