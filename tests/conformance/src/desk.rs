//! The ports of one case: a function answers each call, start words stand in a small table, calls are written down.

use core::cell::Cell;

use heapless::Vec;
use proxy_core::port::{Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, Observer, Seam};
use proxy_core::{BlockIndex, ContextId, Driver, ExecId, Queue, Status, Stream, TaskKind};

/// The queue of a case: two ranks with four places each, three contexts.
pub(crate) type Small = Queue<2, 4, 3>;
/// Its worker's side.
pub(crate) type Worker = Driver<2, 4>;

/// Calls that are kept; no case makes more.
const CALLS: usize = 48;

/// State changes that are kept; no case makes more.
const CHANGES: usize = 32;

/// A call across a port. The context is left out: a case that has two tells them apart by stream or execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Start of a block on a stream.
    Start(u8, u16),
    /// Progress of a stream with a block selected.
    Progress(u8, u16),
    /// Stop of a stream.
    Stop(u8),
    /// Arrival of an execution at the barrier.
    Arrive(u64),
    /// The leader's semaphores.
    Signal(u64),
    /// Question for the release.
    Release(u64),
    /// The barrier is given up.
    Cancel(u64),
}

/// What a call is answered with; each takes what it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) idle: bool,
    pub(crate) done: bool,
    pub(crate) poll: BarrierPoll,
}

/// Success, nothing moves, nothing ends.
pub(crate) const IDLE: Answer = Answer {
    status: Status::SUCCESS,
    idle: true,
    done: false,
    poll: BarrierPoll::Pending,
};
/// Success, and all that was asked for is complete.
pub(crate) const ENDS: Answer = Answer {
    status: Status::SUCCESS,
    idle: false,
    done: true,
    poll: BarrierPoll::Ready,
};

/// A failure of any call.
pub(crate) const fn fails(status: Status) -> Answer {
    Answer {
        status,
        poll: BarrierPoll::Failed(status),
        ..IDLE
    }
}

/// The ports and their record.
pub(crate) struct Desk<F> {
    library: F,
    words: [[[Cell<u32>; 4]; 2]; 3],
    pub(crate) calls: Vec<Call, CALLS>,
    pub(crate) changes: Vec<Change, CHANGES>,
    /// More was called or changed than is kept: what is kept is not the whole.
    pub(crate) overflowed: bool,
}

impl<F: FnMut(Call) -> Answer> Desk<F> {
    pub(crate) fn new(library: F) -> Self {
        Self {
            library,
            words: [const { [const { [const { Cell::new(0) }; 4] }; 2] }; 3],
            calls: Vec::new(),
            changes: Vec::new(),
            overflowed: false,
        }
    }

    fn call(&mut self, call: Call) -> Answer {
        self.overflowed |= self.calls.push(call).is_err();
        (self.library)(call)
    }

    /// Whether the calls so far are exactly these.
    pub(crate) fn called(&self, expected: &[Call]) -> bool {
        !self.overflowed && self.calls.as_slice() == expected
    }

    /// Whether the states that tasks went into so far are exactly these.
    pub(crate) fn went(&self, expected: &[proxy_core::RunState]) -> bool {
        !self.overflowed
            && self
                .changes
                .iter()
                .map(|change| change.to)
                .eq(expected.iter().copied())
    }
}

impl<F> Desk<F> {
    fn word(&self, context: ContextId, kind: TaskKind, stream: Stream) -> Option<&Cell<u32>> {
        let place = usize::try_from(context.index()).ok()?;
        let kinds = self.words.get(place)?;
        let kind = match kind {
            TaskKind::Network => 0,
            TaskKind::Barrier => 1,
        };
        kinds.get(kind)?.get(usize::from(stream.0))
    }

    /// The device writes a word.
    pub(crate) fn fire(&self, context: ContextId, kind: TaskKind, stream: u8, value: u32) {
        if let Some(word) = self.word(context, kind, Stream(stream)) {
            word.set(value);
        }
    }
}

impl<F: FnMut(Call) -> Answer> Seam for Desk<F> {
    fn start(&mut self, _: ContextId, _: u32, stream: Stream, block: BlockIndex) -> Status {
        self.call(Call::Start(stream.0, block.0)).status
    }

    fn progress(
        &mut self,
        _: ContextId,
        _: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        let answer = self.call(Call::Progress(stream.0, block.0));
        flags.idle &= answer.idle;
        flags.done &= answer.done;
        answer.status
    }

    fn stop(&mut self, _: ContextId, _: u32, stream: Stream) -> Status {
        self.call(Call::Stop(stream.0)).status
    }
}

impl<F> DeviceWords for Desk<F> {
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.word(context, kind, stream).map_or(0, Cell::get)
    }

    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        let word = self.word(context, kind, stream);
        let same = word.filter(|word| word.get() == seen);
        same.map(|word| word.set(new)).is_some()
    }
}

impl<F: FnMut(Call) -> Answer> Barrier for Desk<F> {
    fn arrive(&mut self, _: ContextId, exec: ExecId) -> BarrierPoll {
        self.call(Call::Arrive(exec.0)).poll
    }

    fn signal(&mut self, _: ContextId, exec: ExecId) -> Status {
        self.call(Call::Signal(exec.0)).status
    }

    fn release(&mut self, _: ContextId, exec: ExecId) -> BarrierPoll {
        self.call(Call::Release(exec.0)).poll
    }

    fn cancel(&mut self, _: ContextId, exec: ExecId) {
        self.call(Call::Cancel(exec.0));
    }
}

impl<F> Blocks for Desk<F> {}

impl<F> Observer for Desk<F> {
    fn changed(&mut self, change: &Change) {
        self.overflowed |= self.changes.push(*change).is_err();
    }
}
