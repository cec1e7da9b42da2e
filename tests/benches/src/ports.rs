//! Ports of a driver whose library is one function behind a pointer, as the seam's is, and whose device never fires.

use std::hint::black_box;

use proxy_core::port::{Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, Observer, Seam};
use proxy_core::{BlockIndex, ContextId, ExecId, Status, Stream, TaskKind};

/// A progress call as the library declares it: stream, block, and the two flags.
pub type Progress = fn(u32, u32, &mut bool, &mut bool) -> i32;

/// Nothing to do, and never done.
#[inline(never)]
pub fn idle(_: u32, _: u32, _: &mut bool, done: &mut bool) -> i32 {
    *done = false;
    0
}

/// Done at once.
#[inline(never)]
pub fn done(_: u32, _: u32, idle: &mut bool, _: &mut bool) -> i32 {
    *idle = false;
    0
}

/// The ports.
#[derive(Debug, Clone, Copy)]
pub struct OneCall(pub Progress);

impl Seam for OneCall {
    fn start(&mut self, _: ContextId, _: u32, _: Stream, _: BlockIndex) -> Status {
        Status::SUCCESS
    }

    #[inline]
    fn progress(
        &mut self,
        _: ContextId,
        _: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        let call = black_box(self.0);
        let answer = call(
            stream.0.into(),
            block.0.into(),
            &mut flags.idle,
            &mut flags.done,
        );
        Status(answer)
    }

    fn stop(&mut self, _: ContextId, _: u32, _: Stream) -> Status {
        Status::SUCCESS
    }
}

impl DeviceWords for OneCall {
    fn load(&self, _: ContextId, _: TaskKind, _: Stream) -> u32 {
        proxy_core::trigger::SENTINEL
    }

    fn compare_exchange(&self, _: ContextId, _: TaskKind, _: Stream, _: u32, _: u32) -> bool {
        true
    }
}

impl Barrier for OneCall {
    fn arrive(&mut self, _: ContextId, _: ExecId) -> BarrierPoll {
        BarrierPoll::Ready
    }

    fn signal(&mut self, _: ContextId, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&mut self, _: ContextId, _: ExecId) -> BarrierPoll {
        BarrierPoll::Ready
    }

    fn cancel(&mut self, _: ContextId, _: ExecId) {}
}

impl Blocks for OneCall {}

impl Observer for OneCall {
    fn changed(&mut self, change: &Change) {
        black_box(change);
    }
}
