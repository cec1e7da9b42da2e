//! Ports and a task for the tests of the two machines: every answer is a field, every call is one letter of a record.

use core::cell::Cell;
use std::format;
use std::string::String;

use crate::board::Slot;
use crate::context::Spec;
use crate::id::{BlockIndex, ContextId, ExecId, Stream};
use crate::port::{
    Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, NextBlock, Observer, Seam,
};
use crate::status::{RunState, Status, TaskKind};
use crate::task::Task;
use crate::trigger::{Arming, Arms, CONSUMED, Gate, Polarity, SENTINEL};

/// A context that exists nowhere.
const CONTEXT: ContextId = ContextId::from_parts(3, 1);

/// A task of `kind`, as the driver makes it from a drained slot.
pub(super) fn task(kind: TaskKind, spec: Spec) -> Task {
    let slot = Slot::new();
    let claimed = slot.claim(kind).unwrap();
    Task {
        context: CONTEXT,
        exec: ExecId(9),
        spec,
        live: slot.publish(claimed),
        slot: 0,
    }
}

/// The gate of that task, with one word that the device arms itself. Each `pass` is a new look.
pub(super) const fn gate(arms: &Arms, kind: TaskKind, pass: u32) -> Gate<'_> {
    Gate {
        arms,
        pass,
        context: CONTEXT,
        kind,
        streams: 1,
        polarity: Polarity::Specification,
        arming: Arming::ByDevice,
    }
}

/// The answers, and the record: `S` start, `P` progress, `X` stop (with stream and block); `A` arrive, `G` signal, `R` release,
/// `C` cancel; `!` consume of the word.
#[derive(Debug, Clone)]
pub(super) struct Fake {
    pub(super) fired: bool,
    /// Of the third start of all.
    pub(super) third_start: Status,
    /// Of the progress of stream 1.
    pub(super) second_progress: Status,
    pub(super) idle: bool,
    pub(super) done: bool,
    pub(super) next: Option<NextBlock>,
    pub(super) arrive: BarrierPoll,
    pub(super) signal: Status,
    pub(super) release: BarrierPoll,
    pub(super) stop: Status,
    pub(super) record: String,
    pub(super) consumed: Cell<bool>,
}

impl Fake {
    /// Nothing has fired, nothing moves, nothing fails.
    pub(super) const fn quiet() -> Self {
        Self {
            fired: false,
            third_start: Status::SUCCESS,
            second_progress: Status::SUCCESS,
            idle: true,
            done: false,
            next: None,
            arrive: BarrierPoll::Pending,
            signal: Status::SUCCESS,
            release: BarrierPoll::Pending,
            stop: Status::SUCCESS,
            record: String::new(),
            consumed: Cell::new(false),
        }
    }

    /// The record so far, which begins anew.
    pub(super) fn take_record(&mut self) -> String {
        let consumed = self.consumed.take();
        let record = core::mem::take(&mut self.record);
        let record = record.trim_end();
        format!("{}{record}", if consumed { "!" } else { "" })
    }

    fn write(&mut self, call: &str) {
        self.record.push_str(call);
        self.record.push(' ');
    }
}

impl Seam for Fake {
    fn start(&mut self, _: ContextId, _: u32, stream: Stream, block: BlockIndex) -> Status {
        self.write(&format!("S{}{}", stream.0, block.0));
        if self.record.matches('S').count() == 3 {
            self.third_start
        } else {
            Status::SUCCESS
        }
    }

    fn progress(
        &mut self,
        _: ContextId,
        _: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        assert_eq!(*flags, Flags::SEED, "both flags are seeded true");
        self.write(&format!("P{}{}", stream.0, block.0));
        flags.idle &= self.idle;
        flags.done &= self.done;
        if stream.0 == 1 {
            self.second_progress
        } else {
            Status::SUCCESS
        }
    }

    fn stop(&mut self, _: ContextId, _: u32, stream: Stream) -> Status {
        self.write(&format!("X{}", stream.0));
        self.stop
    }
}

impl DeviceWords for Fake {
    fn load(&self, _: ContextId, _: TaskKind, _: Stream) -> u32 {
        if self.fired { 1 } else { SENTINEL }
    }

    fn compare_exchange(
        &self,
        _: ContextId,
        _: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        assert_eq!((stream.0, seen, new), (0, 1, CONSUMED), "only a consume");
        self.consumed.set(true);
        true
    }
}

impl Barrier for Fake {
    fn arrive(&mut self, _: ContextId, exec: ExecId) -> BarrierPoll {
        assert_eq!(exec, ExecId(9));
        self.write("A");
        self.arrive
    }

    fn signal(&mut self, _: ContextId, _: ExecId) -> Status {
        self.write("G");
        self.signal
    }

    fn release(&mut self, _: ContextId, _: ExecId) -> BarrierPoll {
        self.write("R");
        self.release
    }

    fn cancel(&mut self, _: ContextId, _: ExecId) {
        self.write("C");
    }
}

impl Blocks for Fake {
    fn next(&mut self, _: ContextId, drained: BlockIndex, _: u16) -> NextBlock {
        self.next
            .unwrap_or(NextBlock::Block(BlockIndex(drained.0 ^ 1)))
    }
}

impl Observer for Fake {
    fn changed(&mut self, _: &Change) {}
}

/// What a row of a table expects: target, whether it moved, code, record.
pub(super) type Row = (RunState, bool, Status, &'static str);
