//! The worker's ports: seam calls into the library, device words, barrier, black box.

use std::collections::HashMap;
use std::sync::Arc;

use proxy_core::port::{
    Barrier, BarrierPoll, Blocks, Change, DeviceWords, Drained, Flags, Observer, Seam,
};
use proxy_core::{BlockIndex, ContextId, ExecId, RunState, Status, Stream, TaskKind};

use crate::context::{ContextData, ContextTable};
use crate::latency::Stopwatch;
use crate::log;
use crate::queue::{RANKS, Shared, TASKS};
use crate::sys::clock;
use crate::trace::{Lane, What};
use crate::watch::SeamCall;
use crate::watchdog;

/// The ports of one worker.
#[derive(Debug)]
pub(crate) struct WorkerPorts {
    shared: Arc<Shared>,
    /// Contexts by place, as far as this worker has seen them, so that a tick takes no lock.
    contexts: Vec<Option<(ContextId, Arc<ContextData>)>>,
    stopwatch: Stopwatch,
    /// The time, if it was read in this tick.
    now: Option<u64>,
    /// While the queue is traced: the block that each stream was last progressed on.
    selected: HashMap<Lane, BlockIndex>,
}

impl WorkerPorts {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            contexts: Vec::new(),
            stopwatch: Stopwatch::new(RANKS * TASKS),
            now: None,
            selected: HashMap::new(),
        }
    }

    /// Retires contexts that were dropped and are busy no more, and forgets all that are retired; whether dropped ones are still busy.
    /// Called between ticks: a retired context has no unfinished task, so the driver asks for it no more.
    pub(crate) fn forget_retired(&mut self) -> bool {
        let table: &ContextTable = &self.shared.contexts;
        let busy = table.retire_dropped(&self.shared.core);
        for place in &mut self.contexts {
            if place
                .as_ref()
                .is_some_and(|(id, _)| table.get(*id).is_none())
            {
                *place = None;
            }
        }
        busy
    }

    /// A tick begins.
    pub(crate) const fn tick(&mut self) {
        self.now = None;
    }

    /// The time of what happens now: read once for all that one tick does before its next start or stop call, the calls that
    /// may take long whatever they answer, as a clock costs more than what is timed. While the queue is traced, which has
    /// times of its own, always.
    fn now(&mut self) -> u64 {
        if self.shared.trace.get().is_some() {
            self.now = None;
        }
        *self.now.get_or_insert_with(clock::monotonic_ns)
    }

    fn data(&self, id: ContextId) -> Option<&ContextData> {
        find(&self.contexts, id)
    }

    /// Notes in the trace whose progress call follows, and that its stream goes to another block. Out of line: nobody traces, as a rule.
    #[cold]
    fn trace_progress(&mut self, context: ContextId, stream: Stream, block: BlockIndex) {
        let Some(data) = find(&self.contexts, context) else {
            return;
        };
        self.shared.trace.inside(data.rank, TaskKind::Network);
        let lane = data.lane(context, stream);
        if self.selected.insert(lane, block) != Some(block)
            && let Some((id, _)) = data.blocks.get(usize::from(block.0))
        {
            self.shared.trace.note(|| What::Selected(lane, *id));
        }
    }

    /// Notes in the trace that a stream is stopped.
    fn trace_stop(&mut self, context: ContextId, stream: Stream) {
        if let Some(data) = find(&self.contexts, context) {
            let lane = data.lane(context, stream);
            self.selected.remove(&lane);
            self.shared.trace.note(|| What::Stopped(lane));
        }
    }
}

type Contexts = [Option<(ContextId, Arc<ContextData>)>];

fn find(contexts: &Contexts, id: ContextId) -> Option<&ContextData> {
    match contexts.get(id.index() as usize) {
        Some(Some((found, data))) if *found == id => Some(data),
        _ => None,
    }
}

/// Logs an error of a call and hands it on.
fn failed(data: &ContextData, call: &str, status: Status) -> Status {
    if !status.is_success() {
        let dev = data.rank.0;
        let path = data.comm.library_path().display();
        log::error(format_args!(
            "[nec_dev {dev}] {call} ret:{}: {status}, library {path}",
            status.0
        ));
    }
    status
}

impl Seam for WorkerPorts {
    fn start(&mut self, context: ContextId, stream: Stream, block: BlockIndex) -> Status {
        self.now = None;
        let Some(data) = self.data(context) else {
            return Status::STALE_CONTEXT;
        };
        let Some((id, sets)) = data.blocks.get(usize::from(block.0)) else {
            return Status::INVALID;
        };
        let Some(set) = sets.get(usize::from(stream.0)) else {
            return Status::INVALID;
        };
        let lane = data.lane(context, stream);
        self.shared.trace.inside(data.rank, TaskKind::Network);
        self.shared.trace.note(|| What::Started(lane, *id));
        self.shared.watch.enter(SeamCall::Start);
        let status = data.comm.start(stream.0.into(), *id, set);
        self.shared.watch.leave();
        failed(data, "failed to start network proxy", status)
    }

    fn progress(
        &mut self,
        context: ContextId,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        if self.shared.trace.get().is_some() {
            self.trace_progress(context, stream, block);
        }
        let Some(data) = self.data(context) else {
            return Status::STALE_CONTEXT;
        };
        let Some((id, _)) = data.blocks.get(usize::from(block.0)) else {
            return Status::INVALID;
        };
        self.shared.watch.enter(SeamCall::Progress);
        let status = data.comm.progress(stream.0.into(), *id, flags);
        self.shared.watch.leave();
        data.note.write(block.0, status);
        if status.is_success() {
            if flags.done {
                let lane = data.lane(context, stream);
                self.shared.trace.note(|| What::Drained(lane, *id));
            }
            return status;
        }
        failed(data, "ncclNetworkProxyProgress returns an error", status)
    }

    fn stop(&mut self, context: ContextId, stream: Stream) -> Status {
        self.now = None;
        if self.shared.trace.get().is_some() {
            self.trace_stop(context, stream);
        }
        let Some(data) = self.data(context) else {
            return Status::STALE_CONTEXT;
        };
        self.shared.trace.inside(data.rank, TaskKind::Network);
        self.shared.watch.enter(SeamCall::Stop);
        let status = data.comm.stop(stream.0.into());
        self.shared.watch.leave();
        failed(data, "failed to stop network proxy", status)
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
        match self.data(context).and_then(|data| data.barrier.as_ref()) {
            Some(barrier) => barrier.arrive(exec),
            None => BarrierPoll::Failed(Status::BARRIER_MISUSE),
        }
    }

    fn signal(&mut self, context: ContextId, exec: ExecId) -> Status {
        let Some(data) = self.data(context) else {
            return Status::BARRIER_MISUSE;
        };
        let Some(barrier) = &data.barrier else {
            return Status::BARRIER_MISUSE;
        };
        self.shared.trace.inside(data.rank, TaskKind::Barrier);
        barrier.signal(exec)
    }

    fn release(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        match self.data(context).and_then(|data| data.barrier.as_ref()) {
            Some(barrier) => barrier.release(exec),
            None => BarrierPoll::Failed(Status::BARRIER_MISUSE),
        }
    }

    fn cancel(&mut self, context: ContextId, exec: ExecId) {
        if let Some(barrier) = self.data(context).and_then(|data| data.barrier.as_ref()) {
            barrier.cancel(exec);
        }
    }
}

/// Blocks run in order of the list; how the device of the original chooses is not documented.
impl Blocks for WorkerPorts {}

impl Observer for WorkerPorts {
    fn drained(&mut self, task: Drained) {
        let appended = match task.appended {
            0 => self.now(),
            time => time,
        };
        self.stopwatch.drained(task.slot, appended);
        let context = task.context;
        if self.data(context).is_some() {
            return;
        }
        let place = context.index() as usize;
        if self.contexts.len() <= place {
            self.contexts.resize_with(place + 1, || None);
        }
        self.contexts[place] = self
            .shared
            .contexts
            .get(context)
            .map(|data| (context, data));
    }

    fn changed(&mut self, change: &Change) {
        let now = self.now();
        let shared = &*self.shared;
        shared.recorder.record(now, change);
        shared.trace.changed(now, change);
        (self.stopwatch).changed(change, now, &shared.latencies, shared.chart.as_ref());
        if change.to == RunState::Done && !change.status.is_success() {
            shared.watch.count_failure(change.status);
            shared.failed(change);
            watchdog::nudge();
        }
    }
}
