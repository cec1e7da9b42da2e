//! The outside of both sides: a library and a barrier whose answers are a function of mood and call number, and the ports that
//! give the same answers to the driver and write down what it called.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proxy_core::port::{Barrier, BarrierPoll, Blocks, Change, DeviceWords, Flags, Observer, Seam};
use proxy_core::{BlockIndex, ContextId, ExecId, RunState, Status, Stream, TaskKind};

use super::{Oracle, Outside};

/// A small random source (xorshift); equal seeds give equal numbers.
#[derive(Debug, Clone)]
pub struct XorShift(u64);

impl XorShift {
    /// A source; any seed will do.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // Spread the seed, which is often small, and keep it from 0, where xorshift stays.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `options`, which is not empty.
    pub fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        let count = u64::try_from(options.len()).unwrap();
        options[usize::try_from(self.below(count)).unwrap()]
    }
}

/// A call across a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Start of a block on a stream.
    Start(ContextId, Stream, BlockIndex),
    /// Progress of a stream with a block selected.
    Progress(ContextId, Stream, BlockIndex),
    /// Stop of a stream.
    Stop(ContextId, Stream),
    /// Arrival at the barrier.
    Arrive(ContextId, ExecId),
    /// The leader's semaphores.
    Signal(ContextId, ExecId),
    /// Question for the release.
    Release(ContextId, ExecId),
    /// The barrier is given up.
    Cancel(ContextId, ExecId),
}

/// A state change, as far as the oracle predicts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The context.
    pub context: ContextId,
    /// The kind.
    pub kind: TaskKind,
    /// The execution.
    pub exec: ExecId,
    /// State before.
    pub from: RunState,
    /// State after.
    pub to: RunState,
    /// The code.
    pub status: Status,
}

/// What is written down, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A call.
    Called(Call),
    /// A state change.
    Changed(Changed),
}

/// Everything that a call can be answered with; each call takes what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Of start, progress, stop and signal.
    pub status: Status,
    /// What progress ANDs into its idle flag.
    pub idle: bool,
    /// What progress ANDs into its done flag.
    pub done: bool,
    /// Of arrive and release.
    pub poll: BarrierPoll,
}

/// How the library answers during one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Every call alike.
    All(Answer),
    /// By call number, from a seed: mostly success, all pairs of flags, errors once in the given number of calls.
    Mixed {
        /// The seed.
        seed: u64,
        /// Calls per error.
        errors: u64,
    },
}

impl Mood {
    fn answer(self, number: u64) -> Answer {
        let (seed, errors) = match self {
            Self::All(answer) => return answer,
            Self::Mixed { seed, errors } => (seed, errors),
        };
        let mut random = XorShift::new(seed.wrapping_add(number.wrapping_mul(0x1_0001)));
        random.next();
        let status = if random.once_in(errors) {
            random.pick(&[Status::FAILURE, Status(4242), Status(-77), Status::TIMEOUT])
        } else {
            Status::SUCCESS
        };
        let poll = match random.below(errors) {
            0 => BarrierPoll::Failed(Status::HW_ERROR),
            other if other % 2 == 0 => BarrierPoll::Pending,
            _ => BarrierPoll::Ready,
        };
        Answer {
            status,
            idle: random.once_in(2),
            done: random.once_in(3),
            poll,
        }
    }
}

/// The library of one side: its mood and its record.
#[derive(Debug)]
pub struct Library {
    mood: Mood,
    calls: u64,
    /// What was called and reported, in order.
    pub events: Vec<Event>,
}

impl Library {
    /// A library with an empty record.
    #[must_use]
    pub const fn new(mood: Mood) -> Self {
        Self {
            mood,
            calls: 0,
            events: Vec::new(),
        }
    }

    /// Writes the call down and answers it.
    pub fn call(&mut self, call: Call) -> Answer {
        self.events.push(Event::Called(call));
        self.calls += 1;
        self.mood.answer(self.calls)
    }
}

impl Outside for Library {
    fn call(&mut self, _: &mut Oracle, call: Call) -> Answer {
        self.call(call)
    }

    fn changed(&mut self, change: Changed) {
        self.events.push(Event::Changed(change));
    }
}

/// Place of a start word: context index and generation, whether it is a barrier's, stream.
pub type WordPlace = (u32, u32, bool, u8);

/// Start words by place; what was never written is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table(BTreeMap<WordPlace, u32>);

fn place(context: ContextId, kind: TaskKind, stream: u8) -> WordPlace {
    let barrier = kind == TaskKind::Barrier;
    (context.index(), context.generation(), barrier, stream)
}

impl Table {
    /// A word.
    #[must_use]
    pub fn get(&self, context: ContextId, kind: TaskKind, stream: u8) -> u32 {
        let word = self.0.get(&place(context, kind, stream));
        word.copied().unwrap_or(0)
    }

    /// Writes a word.
    pub fn set(&mut self, context: ContextId, kind: TaskKind, stream: u8, value: u32) {
        self.0.insert(place(context, kind, stream), value);
    }

    /// Replaces a word that still is `seen`; says whether it was.
    pub fn swap(
        &mut self,
        context: ContextId,
        kind: TaskKind,
        stream: u8,
        seen: u32,
        new: u32,
    ) -> bool {
        let found = self.get(context, kind, stream) == seen;
        if found {
            self.set(context, kind, stream, new);
        }
        found
    }

    /// The words that are not 0.
    #[must_use]
    pub fn written(&self) -> Vec<(WordPlace, u32)> {
        let words = self.0.iter().filter(|(_, word)| **word != 0);
        words.map(|(place, word)| (*place, *word)).collect()
    }
}

/// The driver's side: the same library behind the core's ports, and its own words.
#[derive(Debug)]
pub struct Recorder {
    /// Mood and record.
    pub library: Library,
    /// The words, shared with whoever plays the device.
    pub words: Rc<RefCell<Table>>,
}

impl Seam for Recorder {
    fn start(&mut self, context: ContextId, _: u32, stream: Stream, block: BlockIndex) -> Status {
        self.library
            .call(Call::Start(context, stream, block))
            .status
    }

    fn progress(
        &mut self,
        context: ContextId,
        _: u32,
        stream: Stream,
        block: BlockIndex,
        flags: &mut Flags,
    ) -> Status {
        let answer = self.library.call(Call::Progress(context, stream, block));
        flags.idle &= answer.idle;
        flags.done &= answer.done;
        answer.status
    }

    fn stop(&mut self, context: ContextId, _: u32, stream: Stream) -> Status {
        self.library.call(Call::Stop(context, stream)).status
    }
}

impl DeviceWords for Recorder {
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.words.borrow().get(context, kind, stream.0)
    }

    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        let mut words = self.words.borrow_mut();
        words.swap(context, kind, stream.0, seen, new)
    }
}

impl Barrier for Recorder {
    fn arrive(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        self.library.call(Call::Arrive(context, exec)).poll
    }

    fn signal(&mut self, context: ContextId, exec: ExecId) -> Status {
        self.library.call(Call::Signal(context, exec)).status
    }

    fn release(&mut self, context: ContextId, exec: ExecId) -> BarrierPoll {
        self.library.call(Call::Release(context, exec)).poll
    }

    fn cancel(&mut self, context: ContextId, exec: ExecId) {
        self.library.call(Call::Cancel(context, exec));
    }
}

impl Blocks for Recorder {}

impl Observer for Recorder {
    fn changed(&mut self, change: &Change) {
        self.library.events.push(Event::Changed(Changed {
            context: change.context,
            kind: change.kind,
            exec: change.exec,
            from: change.from,
            to: change.to,
            status: change.status,
        }));
    }
}
