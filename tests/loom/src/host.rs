//! The ports that the models give to a driver: start words in memory, a library and a barrier that answer at once.

use proxy_core::port::{Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, Observer, Seam};
use proxy_core::{BlockIndex, ContextId, ExecId, RunState, Status, Stream, TaskKind};

use crate::rt::{Arc, AtomicU32, Ordering};

/// A call into the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// One start.
    Start,
    /// One progress.
    Progress,
    /// One stop.
    Stop,
}

/// One start word, shared by every context and kind of a model.
#[derive(Debug)]
pub struct Word {
    value: AtomicU32,
    load: Ordering,
    swap: Ordering,
}

impl Word {
    /// A word with a value and the orderings that the port asks for.
    #[must_use]
    pub fn new(value: u32) -> Arc<Self> {
        Arc::new(Self {
            value: AtomicU32::new(value),
            load: Ordering::Acquire,
            swap: Ordering::AcqRel,
        })
    }

    /// A word whose host side acquires nothing, for a twin.
    #[must_use]
    pub fn volatile(value: u32) -> Arc<Self> {
        Arc::new(Self {
            value: AtomicU32::new(value),
            load: Ordering::Relaxed,
            swap: Ordering::Release,
        })
    }

    /// The device's store, for models in which the host does not swap the word meanwhile.
    pub fn fire(&self, value: u32) {
        // Release pairs with the acquire in `load`: what the device wrote before is visible to the host.
        self.value.store(value, Ordering::Release);
    }

    /// The device's store, where the host may swap the word meanwhile. A store that follows another thread's swap has no place in
    /// loom's order of modifications, and loom would show readers the older value for ever; a swap has one.
    pub fn fire_again(&self, value: u32) {
        // Pairs with the acquire in `load` and with the swaps of `compare_exchange`.
        self.value.swap(value, Ordering::AcqRel);
    }
}

impl DeviceWords for Word {
    fn load(&self, _: ContextId, _: TaskKind, _: Stream) -> u32 {
        // Pairs with the release in `fire`.
        self.value.load(self.load)
    }

    fn compare_exchange(&self, _: ContextId, _: TaskKind, _: Stream, seen: u32, new: u32) -> bool {
        // Acquire-release pairs with `fire` and with other calls of this.
        self.value
            .compare_exchange(seen, new, self.swap, Ordering::Relaxed)
            .is_ok()
    }
}

/// The ports of one driver.
pub struct Host<F> {
    word: Arc<Word>,
    library: F,
    /// Executions in the order in which they ended, with their codes.
    pub ended: Vec<(ExecId, Status)>,
    /// Executions in the order of their first step.
    pub begun: Vec<ExecId>,
}

impl<F> std::fmt::Debug for Host<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("begun", &self.begun)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<F: FnMut(Call) -> Status> Host<F> {
    /// Ports over `word` and a library that answers with `library`.
    pub const fn new(word: Arc<Word>, library: F) -> Self {
        Self {
            word,
            library,
            ended: Vec::new(),
            begun: Vec::new(),
        }
    }
}

impl<F: FnMut(Call) -> Status> Seam for Host<F> {
    fn start(&mut self, _: ContextId, _: u32, _: Stream, _: BlockIndex) -> Status {
        (self.library)(Call::Start)
    }

    fn progress(
        &mut self,
        _: ContextId,
        _: u32,
        _: Stream,
        _: BlockIndex,
        _: &mut Flags,
    ) -> Status {
        (self.library)(Call::Progress)
    }

    fn stop(&mut self, _: ContextId, _: u32, _: Stream) -> Status {
        (self.library)(Call::Stop)
    }
}

impl<F> DeviceWords for Host<F> {
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.word.load(context, kind, stream)
    }

    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        self.word.compare_exchange(context, kind, stream, seen, new)
    }
}

impl<F> Barrier for Host<F> {
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

impl<F> Blocks for Host<F> {}

impl<F> Observer for Host<F> {
    fn changed(&mut self, change: &Change) {
        if change.from == RunState::Init {
            self.begun.push(change.exec);
        }
        if change.to == RunState::Done {
            self.ended.push((change.exec, change.status));
        }
    }
}

/// Start words for contexts that have none.
#[derive(Debug, Clone, Copy)]
pub struct NoWords;

impl DeviceWords for NoWords {
    fn load(&self, _: ContextId, _: TaskKind, _: Stream) -> u32 {
        0
    }

    fn compare_exchange(&self, _: ContextId, _: TaskKind, _: Stream, _: u32, _: u32) -> bool {
        true
    }
}

/// Ports for contexts without start words, whose library answers success.
#[must_use]
pub fn plain() -> Host<impl FnMut(Call) -> Status> {
    Host::new(Word::new(0), |_| Status::SUCCESS)
}
