//! An image that is linked and weighed, never run: every call of an embedder, with ports behind one pointer each, so that
//! the linker can neither leave out nor compute in advance what a real embedder would take.
#![no_std]

use core::sync::atomic::Ordering;

use proxy_core::phone::Word;
use proxy_core::port::{Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, Observer, Seam};
use proxy_core::{
    BlockIndex, ContextId, Driver, ExecId, Queue, Rank, Shut, Spec, Status, Stream, TaskKind,
    Ticket,
};

#[cfg(target_arch = "arm")]
use cortex_m as _;

/// Ports that keep nothing but a word; each call changes it, so that none can be left out.
#[derive(Debug)]
pub struct Ports<'a>(pub &'a Word);

impl Ports<'_> {
    #[inline(never)]
    fn call(&self, code: u32) -> u32 {
        // Relaxed: the word is there to be written.
        self.0.swap(code, Ordering::Relaxed)
    }

    fn status(&self, code: u32) -> Status {
        Status(i32::from_ne_bytes(self.call(code).to_ne_bytes()))
    }

    fn poll(&self, code: u32) -> BarrierPoll {
        match self.call(code) {
            0 => BarrierPoll::Pending,
            1 => BarrierPoll::Ready,
            _ => BarrierPoll::Failed(self.status(code)),
        }
    }
}

impl Seam for Ports<'_> {
    fn start(&mut self, _: ContextId, _: u32, stream: Stream, _: BlockIndex) -> Status {
        self.status(stream.0.into())
    }

    fn progress(
        &mut self,
        _: ContextId,
        _: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        flags.done &= self.call(block.0.into()) == 0;
        flags.idle &= self.call(stream.0.into()) == 0;
        self.status(2)
    }

    fn stop(&mut self, _: ContextId, _: u32, stream: Stream) -> Status {
        self.status(stream.0.into())
    }
}

impl DeviceWords for Ports<'_> {
    fn load(&self, _: ContextId, _: TaskKind, stream: Stream) -> u32 {
        self.call(stream.0.into())
    }

    fn compare_exchange(&self, _: ContextId, _: TaskKind, _: Stream, seen: u32, new: u32) -> bool {
        self.call(new) == seen
    }
}

impl Barrier for Ports<'_> {
    fn arrive(&mut self, _: ContextId, _: ExecId) -> BarrierPoll {
        self.poll(4)
    }

    fn signal(&mut self, _: ContextId, _: ExecId) -> Status {
        self.status(5)
    }

    fn release(&mut self, _: ContextId, _: ExecId) -> BarrierPoll {
        self.poll(6)
    }

    fn cancel(&mut self, _: ContextId, _: ExecId) {
        self.call(7);
    }
}

impl Blocks for Ports<'_> {}

impl Observer for Ports<'_> {
    fn changed(&mut self, change: &Change) {
        self.call(change.slot);
    }
}

/// Everything that an embedder calls, once; the answers decide what is called next.
pub fn everything<const RANKS: usize, const TASKS: usize, const CONTEXTS: usize>(
    queue: &Queue<RANKS, TASKS, CONTEXTS>,
    driver: &mut Driver<RANKS, TASKS>,
    word: &Word,
) {
    let mut ports = Ports(word);
    let spec = Spec {
        streams: ports.call(0).to_ne_bytes()[0],
        barrier: ports.call(1) == 0,
        ..Spec::new(Rank(ports.call(2)))
    };
    let Ok(context) = queue.register(&spec) else {
        return;
    };
    let appended = queue.enqueue(context, ExecId(1), &ports);
    let ticket = appended.ok().and_then(|appended| appended.network);
    let tick = driver.tick(queue, &mut ports);
    ports.call(tick.done);
    let polled = queue.poll(ticket.unwrap_or(Ticket::from_parts(0, 0)));
    ports.call(u32::from(polled.is_ok()));
    let checked = queue.check(context, TaskKind::Barrier);
    ports.call(u32::from(checked.is_ok()));
    if queue.arm_bell() {
        let ended = driver.abort_all(queue, Status::ABORTED, &mut ports);
        ports.call(ended);
    }
    let _ = queue.shut(Shut::Closed);
    ports.call(u32::from(queue.retire(context).is_ok()));
}

/// Stops here; nothing in the core panics, so it weighs nothing.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
