//! Laws: what must hold whatever the oracle says, so that a mistake that driver and oracle share is seen, too.
//!
//! They look only at what crosses the ports, at what the device writes and at what producers get back, and know no state machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proxy_core::port::BarrierPoll;
use proxy_core::{Arming, ContextId, ExecId, Polarity, RunState, Spec, StopAt, Stream, TaskKind};
use proxy_kit::oracle::{Answer, Call, Changed};

type Context = (u32, u32);
type Kind = bool;

/// What must hold in every world and in every state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// Whatever was accepted ends, and is nowhere forgotten before.
    NoneLost,
    /// A task has one end, which is told once.
    NoneTwice,
    /// What library and barrier are called for is theirs to be called for, and it is its turn.
    CallsInOrder,
    /// What opens a gate was written by the device, and for this execution.
    NoGateEarly,
    /// A worker that has something to do is not let to sleep.
    NoSleepWithWork,
    /// An abort ends all there is, at once.
    AbortEndsAll,
    /// A task that is ordered to end does so when the worker comes by, with the code of its order, which is told once; with a verdict it is
    /// told before. No other task ends like that.
    OrdersEnd,
    /// A context goes, or is given fresh words, if and only if nothing of it is unfinished.
    RetiresAtRest,
    /// An id of a context that is gone is never that of another.
    NoIdTwice,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::NoneLost,
        Self::NoneTwice,
        Self::CallsInOrder,
        Self::NoGateEarly,
        Self::NoSleepWithWork,
        Self::AbortEndsAll,
        Self::OrdersEnd,
        Self::RetiresAtRest,
        Self::NoIdTwice,
    ];
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoneLost => "no task is lost",
            Self::NoneTwice => "no task ends twice",
            Self::CallsInOrder => "every seam call is legal, in order",
            Self::NoGateEarly => "no gate is passed early",
            Self::NoSleepWithWork => "no sleep with work",
            Self::AbortEndsAll => "everything ends after an abort",
            Self::OrdersEnd => "an ordered task ends as ordered, once",
            Self::RetiresAtRest => "contexts are retired and reset at rest",
            Self::NoIdTwice => "no id of a context is given out twice",
        })
    }
}

/// Progress of one barrier task as its calls tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Arriving,
    Arrived,
    Signalled,
}

/// What is known of one context.
#[derive(Debug, Clone, Default)]
struct Known {
    spec: Option<Spec>,
    /// Unfinished tasks by kind and execution. The same execution can be appended twice.
    open: BTreeMap<(Kind, ExecId), u32>,
    /// Starts without a stop, by stream.
    loaded: BTreeMap<u8, u32>,
    /// Words that the device has fired since they were last consumed.
    fresh: BTreeSet<(Kind, u8)>,
    barrier: BTreeMap<ExecId, Phase>,
}

impl Known {
    fn open_of(&self, kind: TaskKind) -> u32 {
        let barrier = kind == TaskKind::Barrier;
        let of_kind = self.open.iter().filter(|((found, _), _)| *found == barrier);
        of_kind.map(|(_, count)| count).sum()
    }

    fn is_balanced(&self) -> bool {
        self.spec.is_none_or(|spec| spec.stop_at == StopAt::End)
    }
}

/// The laws of one queue, and the first breach of one.
#[derive(Debug, Default)]
pub(crate) struct Laws {
    contexts: BTreeMap<Context, Known>,
    /// How often each was looked at.
    checked: BTreeMap<Law, u64>,
    breach: Option<String>,
}

const fn key(context: ContextId) -> Context {
    (context.index(), context.generation())
}

impl Laws {
    /// The first breach.
    #[must_use]
    pub(crate) fn breach(&self) -> Option<&str> {
        self.breach.as_deref()
    }

    /// How often each law was looked at.
    #[must_use]
    pub(crate) const fn checked(&self) -> &BTreeMap<Law, u64> {
        &self.checked
    }

    /// The same knowledge, with nothing looked at yet.
    pub(crate) fn copy(&self) -> Self {
        Self {
            contexts: self.contexts.clone(),
            checked: BTreeMap::new(),
            breach: self.breach.clone(),
        }
    }

    /// Looks at a law; `what` says what broke it.
    pub(crate) fn must(&mut self, law: Law, holds: bool, what: impl FnOnce() -> String) {
        *self.checked.entry(law).or_default() += 1;
        if !holds && self.breach.is_none() {
            self.breach = Some(format!("law: {law}: {}", what()));
        }
    }

    fn known(&mut self, context: ContextId) -> &mut Known {
        self.contexts.entry(key(context)).or_default()
    }

    /// A context was registered. No id is given out twice.
    pub(crate) fn registered(&mut self, context: ContextId, spec: Spec) {
        let fresh = !self.contexts.contains_key(&key(context));
        self.must(Law::NoIdTwice, fresh, || {
            format!("{context} was given out before")
        });
        self.known(context).spec = Some(spec);
    }

    /// A context was retired: nothing of it may be unfinished.
    pub(crate) fn retired(&mut self, context: ContextId) {
        let open = self.unfinished_of(context);
        self.must(Law::RetiresAtRest, open == 0, || {
            format!("{context} retired with {open} tasks")
        });
    }

    /// Tasks of these kinds were accepted.
    pub(crate) fn accepted(&mut self, context: ContextId, exec: ExecId, kinds: &[TaskKind]) {
        for kind in kinds {
            let barrier = *kind == TaskKind::Barrier;
            let known = self.known(context);
            *known.open.entry((barrier, exec)).or_default() += 1;
        }
    }

    /// The device wrote a word.
    pub(crate) fn fired(&mut self, context: ContextId, kind: TaskKind, stream: u8, value: u32) {
        let known = self.known(context);
        let (polarity, arming) = known
            .spec
            .map_or((Polarity::Specification, Arming::OnEnqueue), |spec| {
                (spec.polarity, spec.arming)
            });
        let counts = match polarity {
            Polarity::Specification => value != u32::MAX,
            Polarity::Header => value == u32::MAX,
        };
        if counts && !(arming == Arming::ByDevice && value == 0) {
            known.fresh.insert((kind == TaskKind::Barrier, stream));
        }
    }

    /// The words were given a fresh start: what the device had fired counts no more.
    pub(crate) fn reset(&mut self, context: ContextId) {
        self.known(context).fresh.clear();
    }

    /// The worker replaced `seen` by `new` in a word. Only what the device has fired may be consumed.
    pub(crate) fn swapped(
        &mut self,
        context: ContextId,
        kind: TaskKind,
        stream: u8,
        seen: u32,
        new: u32,
    ) {
        let known = self.known(context);
        let header = known
            .spec
            .is_some_and(|spec| spec.polarity == Polarity::Header);
        let consumes = if header { seen == u32::MAX } else { new == 0 };
        if consumes {
            let fired = known.fresh.remove(&(kind == TaskKind::Barrier, stream));
            self.must(Law::NoGateEarly, fired, || {
                format!(
                    "a gate opened on stream {stream} of {context}, whose word {seen:#x} no device wrote"
                )
            });
        }
    }

    /// A call across a port and its answer.
    pub(crate) fn called(&mut self, call: Call, answer: Answer) {
        match call {
            Call::Start(context, stream, block) => {
                self.of_network(call, context);
                let known = self.known(context);
                let loaded = known.loaded.entry(stream.0).or_default();
                let first = block.0 == 0;
                if first && answer.status.is_success() {
                    *loaded += 1;
                }
                let legal = first || *loaded > 0 || !known.is_balanced();
                self.must(Law::CallsInOrder, legal, || {
                    format!("{call:?} before the stream's first block")
                });
            }
            Call::Progress(context, stream, _) => {
                self.of_network(call, context);
                self.is_loaded(call, context, stream);
            }
            Call::Stop(context, stream) => {
                self.of_network(call, context);
                self.is_loaded(call, context, stream);
                let loaded = self.known(context).loaded.entry(stream.0).or_default();
                *loaded = loaded.saturating_sub(1);
            }
            Call::Arrive(context, exec) => self.barrier(call, context, exec, answer.poll),
            Call::Signal(context, exec)
            | Call::Release(context, exec)
            | Call::Cancel(context, exec) => self.barrier(call, context, exec, answer.poll),
        }
    }

    /// A call that the worker died in. What was told to stop is not told again; what was to be started counts as if it had not been.
    pub(crate) fn died_in(&mut self, call: Call) {
        if let Call::Stop(context, stream) = call {
            let loaded = self.known(context).loaded.entry(stream.0).or_default();
            *loaded = loaded.saturating_sub(1);
        }
    }

    /// The worker died once more when it was to stop everything: nobody does so any more.
    pub(crate) fn abandoned(&mut self) {
        for known in self.contexts.values_mut() {
            known.loaded.clear();
        }
    }

    fn of_network(&mut self, call: Call, context: ContextId) {
        let open = self.known(context).open_of(TaskKind::Network);
        self.must(Law::CallsInOrder, open > 0, || {
            format!("{call:?} without an unfinished task")
        });
    }

    fn is_loaded(&mut self, call: Call, context: ContextId, stream: Stream) {
        let known = self.known(context);
        let legal = !known.is_balanced() || known.loaded.get(&stream.0).is_some_and(|n| *n > 0);
        self.must(Law::CallsInOrder, legal, || {
            format!("{call:?} of a stream that is not started")
        });
    }

    /// Arrive, then signal, then release; after a cancel nothing.
    fn barrier(&mut self, call: Call, context: ContextId, exec: ExecId, poll: BarrierPoll) {
        let known = self.known(context);
        let open = known.open.get(&(true, exec)).copied().unwrap_or(0);
        if open != 1 {
            // The same execution twice: whose call it is cannot be told.
            self.must(Law::CallsInOrder, open > 0, || {
                format!("{call:?} without an unfinished task")
            });
            return;
        }
        let phase = known.barrier.entry(exec).or_insert(Phase::Arriving);
        let legal = match call {
            Call::Arrive(..) => *phase == Phase::Arriving,
            Call::Signal(..) => *phase == Phase::Arrived,
            Call::Release(..) => *phase == Phase::Signalled,
            _ => true,
        };
        match call {
            Call::Arrive(..) if poll == BarrierPoll::Ready => *phase = Phase::Arrived,
            Call::Signal(..) => *phase = Phase::Signalled,
            _ => {}
        }
        self.must(Law::CallsInOrder, legal, || {
            format!("{call:?} out of order")
        });
    }

    /// A state change of a task. DONE comes once per task, and a context without unfinished tasks has nothing started.
    pub(crate) fn changed(&mut self, change: &Changed) {
        if change.to != RunState::Done {
            return;
        }
        let context = change.context;
        let barrier = change.kind == TaskKind::Barrier;
        let known = self.known(context);
        let open = known.open.entry((barrier, change.exec)).or_default();
        let was_open = *open > 0;
        *open = open.saturating_sub(1);
        if barrier {
            known.barrier.remove(&change.exec);
        }
        self.must(Law::NoneTwice, was_open, || {
            format!("{change:?} of a task that was over")
        });
        let known = self.known(context);
        let left: u32 = known.loaded.values().sum();
        let settled = left == 0 || known.open_of(TaskKind::Network) > 0 || !known.is_balanced();
        self.must(Law::CallsInOrder, settled, || {
            format!("{context} is at rest and {left} of its streams were never stopped")
        });
    }

    /// Unfinished tasks of all contexts.
    #[must_use]
    pub(crate) fn unfinished(&self) -> u32 {
        let counts = self.contexts.values().flat_map(|known| known.open.values());
        counts.sum()
    }

    /// Unfinished tasks of one context.
    #[must_use]
    pub(crate) fn unfinished_of(&self, context: ContextId) -> u32 {
        let known = self.contexts.get(&key(context));
        known.map_or(0, |known| known.open.values().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy_core::{BlockIndex, Rank, Status};

    const OK: Answer = Answer {
        status: Status::SUCCESS,
        idle: true,
        done: true,
        poll: BarrierPoll::Ready,
    };

    /// A context with one network task.
    fn begun() -> (Laws, ContextId) {
        let mut laws = Laws::default();
        let context = ContextId::from_parts(0, 1);
        let spec = Spec {
            device_wait: true,
            ..Spec::new(Rank(0))
        };
        laws.registered(context, spec);
        laws.accepted(context, ExecId(1), &[TaskKind::Network]);
        (laws, context)
    }

    fn done(context: ContextId) -> Changed {
        Changed {
            context,
            kind: TaskKind::Network,
            exec: ExecId(1),
            from: RunState::Progressing,
            to: RunState::Done,
            status: Status::SUCCESS,
        }
    }

    fn broken(laws: &Laws, law: Law) -> bool {
        let begin = format!("law: {law}: ");
        laws.breach()
            .is_some_and(|breach| breach.starts_with(&begin))
    }

    #[test]
    fn a_task_that_is_as_it_should_be_breaks_no_law() {
        let (mut laws, context) = begun();
        laws.called(Call::Start(context, Stream(0), BlockIndex(0)), OK);
        laws.fired(context, TaskKind::Network, 0, 7);
        laws.swapped(context, TaskKind::Network, 0, 7, 0);
        laws.called(Call::Progress(context, Stream(0), BlockIndex(0)), OK);
        laws.called(Call::Stop(context, Stream(0)), OK);
        laws.changed(&done(context));
        laws.retired(context);
        assert_eq!((laws.breach(), laws.unfinished()), (None, 0));
    }

    #[test]
    fn each_law_notices_its_breach() {
        let (mut laws, context) = begun();
        laws.registered(context, Spec::new(Rank(0)));
        assert!(broken(&laws, Law::NoIdTwice));

        let (mut laws, context) = begun();
        laws.retired(context);
        assert!(broken(&laws, Law::RetiresAtRest));

        let (mut laws, context) = begun();
        laws.changed(&done(context));
        assert_eq!(laws.breach(), None);
        laws.changed(&done(context));
        assert!(broken(&laws, Law::NoneTwice));

        let (mut laws, context) = begun();
        laws.called(Call::Stop(context, Stream(0)), OK);
        assert!(broken(&laws, Law::CallsInOrder));

        let (mut laws, context) = begun();
        laws.swapped(context, TaskKind::Network, 0, 7, 0);
        assert!(broken(&laws, Law::NoGateEarly));
    }
}
