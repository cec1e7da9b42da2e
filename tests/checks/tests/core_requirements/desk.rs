//! Ports for one test: a closure answers the calls, start words stand in a table, everything is written down.

use std::cell::RefCell;

use proxy_core::port::{Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, Observer, Seam};
use proxy_core::{BlockIndex, ContextId, ExecId, RunState, Status, Stream, TaskKind};
use proxy_kit::oracle::{Answer, Call, Table};

/// Nothing fails, nothing moves.
pub(crate) const IDLE: Answer = Answer {
    status: Status::SUCCESS,
    idle: true,
    done: false,
    poll: BarrierPoll::Pending,
};
/// Something moved.
pub(crate) const MOVES: Answer = Answer {
    idle: false,
    ..IDLE
};
/// All that was asked for is complete.
pub(crate) const ENDS: Answer = Answer {
    done: true,
    poll: BarrierPoll::Ready,
    ..MOVES
};
/// A failure.
pub(crate) const fn fails(status: Status) -> Answer {
    Answer { status, ..IDLE }
}

/// What happens to the words after each load; the device in between.
type Device = Box<dyn Fn(&mut Table, ContextId, u8)>;

/// The ports and their record.
pub(crate) struct Desk<F> {
    library: F,
    device: Device,
    pub(crate) words: RefCell<Table>,
    /// Streams whose word was loaded or swapped.
    pub(crate) touched: RefCell<Vec<u8>>,
    pub(crate) calls: Vec<Call>,
    pub(crate) changes: Vec<Change>,
    /// The observer unwinds when it is told of this state.
    pub(crate) unwinds_at: Option<RunState>,
}

impl<F: FnMut(Call) -> Answer> Desk<F> {
    pub(crate) fn new(library: F) -> Self {
        Self {
            library,
            device: Box::new(|_, _, _| {}),
            words: RefCell::default(),
            touched: RefCell::default(),
            calls: Vec::new(),
            changes: Vec::new(),
            unwinds_at: None,
        }
    }

    /// With a device that acts after each load of a word.
    pub(crate) fn with_device(
        mut self,
        device: impl Fn(&mut Table, ContextId, u8) + 'static,
    ) -> Self {
        self.device = Box::new(device);
        self
    }

    pub(crate) fn fire(&self, context: ContextId, stream: u8, value: u32) {
        let mut words = self.words.borrow_mut();
        words.set(context, TaskKind::Network, stream, value);
    }

    fn call(&mut self, call: Call) -> Answer {
        self.calls.push(call);
        (self.library)(call)
    }

    /// Calls into the library for a context, in order.
    pub(crate) fn calls_of(&self, context: ContextId) -> Vec<Call> {
        let of = |call: &&Call| match call {
            Call::Start(of, ..)
            | Call::Progress(of, ..)
            | Call::Stop(of, _)
            | Call::Arrive(of, _)
            | Call::Signal(of, _)
            | Call::Release(of, _)
            | Call::Cancel(of, _) => *of == context,
        };
        self.calls.iter().filter(of).copied().collect()
    }

    /// Executions in the order in which they passed their gate or began.
    pub(crate) fn entered(&self, state: RunState) -> Vec<u64> {
        let entered = self.changes.iter().filter(|change| change.to == state);
        entered.map(|change| change.exec.0).collect()
    }
}

impl<F: FnMut(Call) -> Answer> Seam for Desk<F> {
    fn start(&mut self, context: ContextId, _: u32, stream: Stream, block: BlockIndex) -> Status {
        self.call(Call::Start(context, stream, block)).status
    }

    fn progress(
        &mut self,
        context: ContextId,
        _: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        let answer = self.call(Call::Progress(context, stream, block));
        flags.idle &= answer.idle;
        flags.done &= answer.done;
        answer.status
    }

    fn stop(&mut self, context: ContextId, _: u32, stream: Stream) -> Status {
        self.call(Call::Stop(context, stream)).status
    }
}

impl<F> DeviceWords for Desk<F> {
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.touched.borrow_mut().push(stream.0);
        let mut words = self.words.borrow_mut();
        let word = words.get(context, kind, stream.0);
        (self.device)(&mut words, context, stream.0);
        word
    }

    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        self.touched.borrow_mut().push(stream.0);
        let mut words = self.words.borrow_mut();
        let found = words.get(context, kind, stream.0) == seen;
        if found {
            words.set(context, kind, stream.0, new);
        }
        found
    }
}

impl<F: FnMut(Call) -> Answer> Barrier for Desk<F> {
    fn arrive(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        self.call(Call::Arrive(context, exec)).poll
    }

    fn signal(&mut self, context: ContextId, exec: ExecId) -> Status {
        self.call(Call::Signal(context, exec)).status
    }

    fn release(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        self.call(Call::Release(context, exec)).poll
    }

    fn cancel(&mut self, context: ContextId, exec: ExecId) {
        self.call(Call::Cancel(context, exec));
    }
}

impl<F> Blocks for Desk<F> {}

impl<F> Observer for Desk<F> {
    fn changed(&mut self, change: &Change) {
        self.changes.push(*change);
        if self.unwinds_at == Some(change.to) {
            std::panic::resume_unwind(Box::new("observer"));
        }
    }
}
