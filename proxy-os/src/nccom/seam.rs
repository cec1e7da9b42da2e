//! The worker's ports: seam calls into the library, device words, barrier, black box.

use std::collections::HashMap;
use std::sync::Arc;

use proxy_core::port::{
    Barrier, BarrierPoll, Blocks, Change, DeviceWords, Drained, Flags, NextBlock, Observer, Seam,
};
use proxy_core::{BlockIndex, ContextId, ExecId, RunState, Status, Stream, TaskKind};

use crate::completion::Places;
use crate::context::{ContextData, ContextTable, HostBarrier};
use crate::latency::Stopwatch;
use crate::log::{self, Level};
use crate::memory::NoMemory;
use crate::queue::{Shared, place_of};
use crate::sys::counter::Counter;
use crate::sys::{clock, line};
use crate::trace::{Lane, What};
use crate::watch::SeamCall;
use crate::watchdog;

use super::turns::{Turn, Turns};

/// The ports of one worker.
#[derive(Debug)]
pub(crate) struct WorkerPorts {
    shared: Arc<Shared>,
    /// Contexts by place, as far as this worker has seen them, so that a tick takes no lock.
    contexts: Vec<Option<Known>>,
    turns: Turns,
    stopwatch: Stopwatch,
    /// Where tasks have ended since it was last asked.
    ended: Places,
    clock: Counter,
    /// When tasks were drained in this tick, if any were since its last start call: those that come together share a reading.
    drained: Option<u64>,
    /// Ticks so far, this one included.
    ticks: u64,
    /// The queue is traced, as of the tick's beginning.
    traced: bool,
    /// While the queue is traced: the block that each stream was last progressed on.
    selected: HashMap<Lane, BlockIndex>,
}

/// A context that the worker has seen.
#[derive(Debug)]
struct Known {
    id: ContextId,
    data: Arc<ContextData>,
    /// The line of its communicator.
    line: usize,
}

impl WorkerPorts {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self, NoMemory> {
        Ok(Self {
            shared,
            contexts: Vec::new(),
            turns: Turns::default(),
            stopwatch: Stopwatch::new()?,
            ended: Places::default(),
            clock: Counter::new(),
            drained: None,
            ticks: 0,
            traced: false,
            selected: HashMap::new(),
        })
    }

    /// Retires contexts that were dropped and are busy no more, and forgets all that are retired; whether dropped ones are still busy.
    /// Called between ticks: a retired context has no unfinished task, so the driver asks for it no more.
    pub(crate) fn forget_retired(&mut self) -> bool {
        let table: &ContextTable = &self.shared.contexts;
        let busy = table.retire_dropped(&self.shared.core);
        for place in &mut self.contexts {
            if place
                .as_ref()
                .is_some_and(|known| table.get(known.id).is_none())
            {
                *place = None;
            }
        }
        let Self {
            contexts, turns, ..
        } = self;
        turns.keep(|line| contexts.iter().flatten().any(|known| known.line == line));
        busy
    }

    /// Where tasks have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Places {
        std::mem::take(&mut self.ended)
    }

    /// A tick begins.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.drained = None;
        self.ticks = self.ticks.wrapping_add(1);
        self.traced = self.shared.trace.get().is_some();
    }

    /// The time of what happens now. While the queue is traced by the clock itself, as all else in a trace is.
    #[inline]
    fn now(&mut self) -> u64 {
        match self.traced {
            true => clock::monotonic_ns(),
            false => self.clock.now(),
        }
    }

    fn data(&self, id: ContextId) -> Option<&ContextData> {
        find(&self.contexts, id).map(|known| &*known.data)
    }

    /// Keeps a context within reach that the worker sees for the first time.
    #[cold]
    fn meet(&mut self, id: ContextId) {
        let Some(data) = self.shared.contexts.get(id) else {
            return;
        };
        let place = id.index() as usize;
        if self.contexts.len() <= place {
            self.contexts.resize_with(place + 1, || None);
        }
        let line = self.turns.line(&data.comm);
        self.contexts[place] = Some(Known { id, data, line });
    }

    /// How the task of a slot stands with its communicator. One that does not know its context is told by what it does next.
    fn turn(&self, context: ContextId, slot: u32) -> Turn {
        find(&self.contexts, context).map_or(Turn::Filed, |known| self.turns.of(known.line, slot))
    }

    /// Files the lists of one block on one stream of the task whose turn it is.
    fn file(&mut self, context: ContextId, stream: Stream, block: BlockIndex) -> Status {
        let Some(known) = find(&self.contexts, context) else {
            return Status::STALE_CONTEXT;
        };
        let data = &*known.data;
        let Some((id, sets)) = data.blocks.get(usize::from(block.0)) else {
            return Status::INVALID;
        };
        let Some(set) = sets.get(usize::from(stream.0)) else {
            return Status::INVALID;
        };
        if self.shared.trace.get().is_some() {
            self.trace_start(data, data.lane(context, stream), *id);
        }
        data.note.selected(0);
        data.note.returned(Status::SUCCESS);
        data.note.enter(SeamCall::Start);
        let status = data.comm.start(stream.0.into(), *id, set);
        data.note.leave();
        if !status.is_success() {
            return self.failed(context, "failed to start network proxy ret:", status);
        }
        self.turns.file(known.line, true);
        status
    }

    /// The turn of a task has come that was started while others were before it: files all of its lists, or none.
    #[cold]
    fn file_all(&mut self, context: ContextId, slot: u32) -> Status {
        let Some(known) = find(&self.contexts, context) else {
            return Status::STALE_CONTEXT;
        };
        let (line, blocks) = (known.line, known.data.blocks.len() as u16);
        let first = known.data.blocks.first();
        let streams = first.map_or(0, |(_, sets)| sets.len() as u8);
        for stream in 0..streams {
            for block in 0..blocks {
                let status = self.file(context, Stream(stream), BlockIndex(block));
                if !status.is_success() {
                    let begun = stream + u8::from(block > 0);
                    (0..begun).for_each(|stream| {
                        self.stop(context, slot, Stream(stream));
                    });
                    self.turns.file(line, false);
                    return status;
                }
            }
        }
        Status::SUCCESS
    }

    /// The host barrier of a context.
    fn barrier(&self, context: ContextId) -> Option<&dyn HostBarrier> {
        self.data(context)?.barrier.as_deref()
    }

    /// Logs an error of a call and hands it on.
    #[cold]
    fn failed(&self, context: ContextId, call: &str, status: Status) -> Status {
        if let Some(data) = self.data(context) {
            let dev = data.rank.0;
            let path = data.comm.library_path().display();
            log::error(format_args!(
                "[nec_dev {dev}] {call}{}: {status}, library {path}",
                status.0
            ));
        }
        status
    }

    /// Notes in the trace that a block of a stream is registered.
    #[cold]
    fn trace_start(&self, data: &ContextData, lane: Lane, block: u32) {
        self.shared.trace.inside(data.rank, TaskKind::Network);
        self.shared.trace.note(|| What::Started(lane, block));
    }

    /// Notes in the trace, before a progress call, whose it is, and whether its stream goes to another block.
    #[cold]
    fn trace_progress(&mut self, context: ContextId, stream: Stream, block: BlockIndex) {
        if let Some(data) = self.data(context) {
            self.shared.trace.inside(data.rank, TaskKind::Network);
        }
        self.trace_selection(context, stream, block);
    }

    /// Notes in the trace, after a progress call, whether its stream has drained the block.
    #[cold]
    fn trace_drained(&self, context: ContextId, stream: Stream, block: BlockIndex, flags: &Flags) {
        if flags.done
            && let Some(data) = self.data(context)
            && let Some((id, _)) = data.blocks.get(usize::from(block.0))
        {
            let lane = data.lane(context, stream);
            self.shared.trace.note(|| What::Drained(lane, *id));
        }
    }

    /// Notes in the trace that a stream goes to another block.
    fn trace_selection(&mut self, context: ContextId, stream: Stream, block: BlockIndex) {
        let Some(known) = find(&self.contexts, context) else {
            return;
        };
        let data = &*known.data;
        let lane = data.lane(context, stream);
        if self.selected.insert(lane, block) != Some(block)
            && let Some((id, _)) = data.blocks.get(usize::from(block.0))
        {
            self.shared.trace.note(|| What::Selected(lane, *id));
        }
    }

    /// Notes in the trace that a stream is stopped.
    #[cold]
    fn trace_stop(&mut self, context: ContextId, stream: Stream) {
        if let Some(known) = find(&self.contexts, context) {
            let data = &*known.data;
            let lane = data.lane(context, stream);
            self.selected.remove(&lane);
            self.shared.trace.inside(data.rank, TaskKind::Network);
            self.shared.trace.note(|| What::Stopped(lane));
        }
    }
}

fn find(contexts: &[Option<Known>], id: ContextId) -> Option<&Known> {
    match contexts.get(id.index() as usize) {
        Some(Some(known)) if known.id == id => Some(known),
        _ => None,
    }
}

impl Seam for WorkerPorts {
    fn start(
        &mut self,
        context: ContextId,
        slot: u32,
        stream: Stream,
        block: BlockIndex,
    ) -> Status {
        self.drained = None;
        match self.turn(context, slot) {
            Turn::Behind => Status::SUCCESS,
            Turn::Begins | Turn::Filed => self.file(context, stream, block),
        }
    }

    #[inline(always)]
    fn progress(
        &mut self,
        context: ContextId,
        slot: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        let Some(known) = find(&self.contexts, context) else {
            return Status::STALE_CONTEXT;
        };
        match self.turns.of(known.line, slot) {
            Turn::Filed => {}
            Turn::Behind => {
                flags.done = false;
                return Status::SUCCESS;
            }
            Turn::Begins => {
                let status = self.file_all(context, slot);
                if !status.is_success() {
                    return status;
                }
            }
        }
        if self.traced {
            self.trace_progress(context, stream, block);
        }
        let Some(data) = self.data(context) else {
            return Status::STALE_CONTEXT;
        };
        let Some((id, _)) = data.blocks.get(usize::from(block.0)) else {
            return Status::INVALID;
        };
        data.note.progress();
        let status = data.comm.progress(stream.0.into(), *id, flags);
        data.note.progress();
        if !status.is_success() {
            data.note.returned(status);
            return self.failed(context, "ncclNetworkProxyProgress returns ", status);
        }
        if self.traced {
            self.trace_drained(context, stream, block, flags);
        }
        status
    }

    fn stop(&mut self, context: ContextId, slot: u32, stream: Stream) -> Status {
        if self.turn(context, slot) != Turn::Filed {
            return Status::SUCCESS;
        }
        if self.traced {
            self.trace_stop(context, stream);
        }
        let Some(data) = self.data(context) else {
            return Status::STALE_CONTEXT;
        };
        data.note.enter(SeamCall::Stop);
        let status = data.comm.stop(stream.0.into());
        data.note.leave();
        if !status.is_success() {
            return self.failed(context, "failed to stop network proxy ret:", status);
        }
        status
    }
}

impl DeviceWords for WorkerPorts {
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.data(context)
            .map_or(proxy_core::trigger::CONSUMED, |data| {
                data.load(kind, stream)
            })
    }

    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        self.data(context)
            .is_some_and(|data| data.exchange(kind, stream, seen, new))
    }
}

impl Barrier for WorkerPorts {
    fn arrive(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        match self.barrier(context) {
            Some(barrier) => barrier.arrive(exec),
            None => BarrierPoll::Failed(Status::BARRIER_MISUSE),
        }
    }

    fn signal(&mut self, context: ContextId, exec: ExecId) -> Status {
        if let Some(data) = self.data(context) {
            self.shared.trace.inside(data.rank, TaskKind::Barrier);
        }
        match self.barrier(context) {
            Some(barrier) => barrier.signal(exec),
            None => Status::BARRIER_MISUSE,
        }
    }

    fn release(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        match self.barrier(context) {
            Some(barrier) => barrier.release(exec),
            None => BarrierPoll::Failed(Status::BARRIER_MISUSE),
        }
    }

    fn cancel(&mut self, context: ContextId, exec: ExecId) {
        if let Some(barrier) = self.barrier(context) {
            barrier.cancel(exec);
        }
    }
}

/// Blocks run in order of the list; how the device of the original chooses is not documented.
impl Blocks for WorkerPorts {
    fn next(&mut self, context: ContextId, drained: BlockIndex, blocks: u16) -> NextBlock {
        match drained.0.checked_add(1) {
            Some(next) if next < blocks => {
                if let Some(data) = self.data(context) {
                    data.note.selected(next);
                }
                NextBlock::Block(BlockIndex(next))
            }
            _ => NextBlock::End,
        }
    }
}

impl Observer for WorkerPorts {
    fn drained(&mut self, task: Drained) {
        let appended = match (task.appended, self.drained) {
            (0, Some(time)) => time,
            (0, None) => {
                let now = self.now();
                self.drained = Some(now);
                now
            }
            (time, _) => time,
        };
        self.stopwatch.drained(task.slot, appended);
        let context = task.context;
        if find(&self.contexts, context).is_none() {
            self.meet(context);
        }
        if task.kind == TaskKind::Network
            && let Some(known) = find(&self.contexts, context)
        {
            let turn = self.turns.join(known.line, task.slot);
            known.data.comm.note_turn(turn);
        }
    }

    #[inline]
    fn changed(&mut self, change: &Change) {
        let now = self.now();
        let shared = &*self.shared;
        (shared.recorder).record(now, self.ticks.wrapping_sub(1), change);
        shared.trace.changed(now, change);
        (self.stopwatch).changed(change, now, &shared.latencies, shared.chart.as_ref());
        if change.to == RunState::Done {
            self.ended.add(place_of(change.slot));
            if change.kind == TaskKind::Network
                && let Some(known) = find(&self.contexts, change.context)
            {
                let turn = self.turns.leave(known.line, change.slot);
                known.data.comm.note_turn(turn);
            }
            if !change.status.is_success() {
                shared.watch.count_failure(change.status);
                shared.failed(change);
                watchdog::nudge();
            }
        }
        if log::passes(Level::Debug) {
            tell_run(change);
        }
    }

    #[inline(always)]
    fn soon(&self, address: *const ()) {
        line::fetch(address);
    }
}

/// The message of the specification (section 3) for a barrier task that is past its gate.
#[cold]
fn tell_run(change: &Change) {
    let before = matches!(change.from, RunState::Init | RunState::WaitingDeviceTrigger);
    let waits = change.to == RunState::WaitingDeviceTrigger;
    if change.kind == TaskKind::Barrier && before && !waits && change.status != Status::ABORTED {
        let (rank, context, exec) = (change.rank.0, change.context, change.exec);
        log::debug(format_args!(
            "[nec_dev {rank}] run enc_barrier_proxy_task for enc_{context}, {exec}"
        ));
    }
}
