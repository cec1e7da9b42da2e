//! The ports: all that the core knows of the outside.
//!
//! A port is passed to [`Driver::tick`](crate::Driver::tick) and never stored. It is called on the worker's thread only, returns
//! at once ("not yet" is an ordinary answer), and must not call back into the driver; the one exception to *at once* is a
//! library that takes its time inside a seam call, which delays the tasks of this worker and nothing else.

use crate::id::{BlockIndex, ContextId, ExecId, Rank, Stream};
use crate::status::{RunState, Status, TaskKind};

/// The flags of one progress call, both seeded true by the caller; the library ANDs into them.
///
/// The specification starts them at false, but AND with false never becomes true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Flags {
    /// Nothing moved.
    pub idle: bool,
    /// The selected block of the stream has drained.
    pub done: bool,
}

impl Flags {
    /// What a call starts with.
    pub const SEED: Self = Self {
        idle: true,
        done: true,
    };
}

/// The three calls into the collective library (specification section 4: seams B1, B2, B3).
///
/// The driver makes them for each task by itself: start, progress, stop, in this order. `slot` is that of the task's ticket, and tells executions
/// of one context apart. A library keeps one set of lists for a block and frees those of a whole stream in a stop, so where tasks of one communicator
/// are in flight at the same time, the port lets them have it one after the other, in the order in which they were
/// [`drained`](Observer::drained): whose turn has not come is told that nothing moves.
pub trait Seam {
    /// Registers the op lists of one block on one stream (`ncclStartNetworkProxy`). Nothing moves yet.
    fn start(&mut self, context: ContextId, slot: u32, stream: Stream, block: BlockIndex)
    -> Status;

    /// One tick of one stream with `block` selected (`ncclNetworkProxyProgress`).
    fn progress(
        &mut self,
        context: ContextId,
        slot: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status;

    /// Frees every block of the stream (`ncclStopNetworkProxy`).
    fn stop(&mut self, context: ContextId, slot: u32, stream: Stream) -> Status;
}

/// The start words in host memory, shared with the device. Also called by the thread that arms.
pub trait DeviceWords {
    /// Reads a word with acquire ordering, so that what the device wrote before it is visible.
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32;

    /// Replaces `seen` by `new` with acquire-release ordering; `false` and no change if the word has another value.
    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool;

    /// The time of an append, in the shell's unit. The core only hands it to [`Observer::drained`]; 0 where nobody wants to know,
    /// because reading a clock costs more than the append.
    fn append_time(&self) -> u64 {
        0
    }
}

/// Answer of a barrier phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BarrierPoll {
    /// Not yet; ask again next tick.
    Pending,
    /// The phase is complete.
    Ready,
    /// The barrier has failed for this execution; the task ends with this code.
    Failed(Status),
}

/// The host's execution barrier, in phases that never wait (the original blocks its worker from the first to the last).
pub trait Barrier {
    /// Announces this rank's arrival for `exec`; on a leader, ready only when all it gathers have arrived.
    fn arrive(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll;

    /// Raises the done semaphores, on a leader; does nothing elsewhere. Called once, between arrival and release.
    fn signal(&mut self, context: ContextId, exec: ExecId) -> Status;

    /// Whether this rank has been released.
    fn release(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll;

    /// The task ends without a release: peers must not be left waiting for it. Called once for each such task, wherever it ends: before its
    /// arrival (aborted at its gate), at the barrier, or after one of the answers above has failed it, which peers know already.
    fn cancel(&mut self, context: ContextId, exec: ExecId);
}

/// Which block comes next. In the original the device decides, by means that are not documented; here it is a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NextBlock {
    /// Select this block from the next tick on.
    Block(BlockIndex),
    /// The task has no further block.
    End,
}

/// The order in which a task's blocks run.
pub trait Blocks {
    /// The block after `drained` of a context with `blocks` blocks; by default in order of the list. Block 0 is the first. An
    /// index beyond the list ends the task with [`Status::INVALID`].
    fn next(&mut self, context: ContextId, drained: BlockIndex, blocks: u16) -> NextBlock {
        let _ = context;
        match drained.0.checked_add(1) {
            Some(next) if next < blocks => NextBlock::Block(BlockIndex(next)),
            _ => NextBlock::End,
        }
    }
}

/// One state change of one task, as the driver reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Change {
    /// The task's rank.
    pub rank: Rank,
    /// The task's context.
    pub context: ContextId,
    /// The task's kind.
    pub kind: TaskKind,
    /// The execution it belongs to.
    pub exec: ExecId,
    /// Slot number of its ticket.
    pub slot: u32,
    /// State before.
    pub from: RunState,
    /// State after.
    pub to: RunState,
    /// The code, which counts with [`RunState::Done`].
    pub status: Status,
}

/// A task that was taken from the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Drained {
    /// The task's context.
    pub context: ContextId,
    /// The task's kind.
    pub kind: TaskKind,
    /// Slot number of its ticket.
    pub slot: u32,
    /// What [`DeviceWords::append_time`] said when it was appended.
    pub appended: u64,
}

/// Is told what the driver does, on the worker's thread. The black box listens here.
pub trait Observer {
    /// A task was taken from the inbox, in order of arrival; its first step follows. A shell makes the context's data reachable here, so that no
    /// later call has to. Must not unwind, as [`soon`](Self::soon) must not: it, and what was taken with it, is on no list yet and would never
    /// end.
    fn drained(&mut self, task: Drained) {
        let _ = task;
    }

    /// One state change, before it is published. Must not block: it is on the tick's path.
    fn changed(&mut self, change: &Change);

    /// The driver is about to read and write the line at `address`, which another thread has written last: a shell may have it fetched
    /// meanwhile, to be written. A hint, on the path of every drain. Must not unwind.
    fn soon(&self, address: *const ()) {
        let _ = address;
    }
}

/// All ports of a driver in one value.
pub trait Ports: Seam + DeviceWords + Barrier + Blocks + Observer {}

impl<P: Seam + DeviceWords + Barrier + Blocks + Observer> Ports for P {}
