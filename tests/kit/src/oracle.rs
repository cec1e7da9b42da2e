//! The oracle: what queue and driver must answer, written for the reader instead of the machine.
//!
//! One thread, growing vectors, no atomics, no slots: tasks are a list, ranks are an ordered map, the words are a table. It follows the
//! specification with the project's decisions and predicts the result of every operation and the exact order of calls. What
//! the specification leaves to the implementation it leaves out: slot numbers, generations and sequence numbers.

mod ladder;
mod library;
mod machine;
mod orders;
mod tick;
mod words;

use std::collections::BTreeMap;

use proxy_core::trigger::FiredBeforeArm;
use proxy_core::{
    Arming, Bell, Cause, ContextError, ContextId, EnqueueError, ExecId, Poll, PollError, Rank,
    RunState, Shut, Spec, Status, TaskKind,
};

pub use ladder::Rungs;
pub use library::{
    Answer, Call, Changed, Event, Library, Mood, Recorder, Table, WordPlace, XorShift,
};
pub use machine::Stepped;

/// What the oracle predicts calls of: the library, the barrier, and all who act while a call runs.
///
/// A call hands the oracle out, so that whatever others do to the queue in the middle of a tick can be predicted in its place.
pub trait Outside {
    /// Answers a call.
    fn call(&mut self, oracle: &mut Oracle, call: Call) -> Answer;

    /// A state change, before others can see it.
    fn changed(&mut self, change: Changed);

    /// The worker is about to read or replace a start word.
    fn touch(&mut self, oracle: &mut Oracle, context: ContextId, kind: TaskKind, stream: u8) {
        let _ = (oracle, context, kind, stream);
    }

    /// A task has been stepped or aborted, whether its state changed or not.
    fn stepped(&mut self, step: Stepped) {
        let _ = step;
    }
}

use machine::{Active, Outcome};
use orders::answer;
use words::Words;

/// A task, by its place among all that were ever appended.
pub type TaskId = usize;

/// One task and all that is known of it.
#[derive(Debug, Clone)]
struct Task {
    context: ContextId,
    kind: TaskKind,
    exec: ExecId,
    rank: Rank,
    state: RunState,
    code: Status,
    consumed: bool,
    /// It is to be ended early.
    order: Option<Cause>,
    /// Its code is final although the worker has not ended it.
    verdict: bool,
}

/// The whole prediction.
#[derive(Debug, Clone)]
pub struct Oracle {
    tasks_per_rank: usize,
    /// Which rank each place belongs to.
    ranks: Vec<Option<Rank>>,
    contexts: BTreeMap<(u32, u32), Spec>,
    tasks: Vec<Task>,
    inbox: Vec<TaskId>,
    active: BTreeMap<Rank, Vec<Active>>,
    words: Words,
    armed_bell: bool,
    /// An order waits for the next tick.
    ordered: bool,
    closed: bool,
    dead: bool,
}

const fn key(context: ContextId) -> (u32, u32) {
    (context.index(), context.generation())
}

impl Oracle {
    /// An oracle for queues with this many ranks, and tasks per rank.
    #[must_use]
    pub fn new(ranks: usize, tasks_per_rank: usize) -> Self {
        Self {
            tasks_per_rank,
            ranks: vec![None; ranks],
            contexts: BTreeMap::new(),
            tasks: Vec::new(),
            inbox: Vec::new(),
            active: BTreeMap::new(),
            words: Words::default(),
            armed_bell: false,
            ordered: false,
            closed: false,
            dead: false,
        }
    }

    /// The id that the next registered context gets, in the first free place of the table.
    pub fn register(&mut self, spec: Spec, places: u32) -> Result<ContextId, ContextError> {
        self.give_place(spec.rank)?;
        let taken = |place: &u32| self.contexts.keys().any(|(index, _)| index == place);
        let place = (0..places)
            .find(|place| !taken(place))
            .ok_or(ContextError::TableFull { capacity: places })?;
        let generation = self.words.next_generation(place);
        self.contexts.insert((place, generation), spec);
        Ok(ContextId::from_parts(place, generation))
    }

    /// A rank without a place takes the first that nobody needs: one whose rank has neither contexts nor statuses to be consumed,
    /// or else one whose rank has statuses only, which are given up.
    fn give_place(&mut self, rank: Rank) -> Result<(), ContextError> {
        if self.ranks.contains(&Some(rank)) {
            return Ok(());
        }
        let has_contexts = |rank| self.contexts.values().any(|spec| spec.rank == rank);
        let has_statuses = |rank| {
            let mut tasks = self.tasks.iter();
            tasks.any(|task| task.rank == rank && !task.consumed)
        };
        let unused = |place: &Option<Rank>| place.is_none_or(|rank| !has_contexts(rank));
        let empty = |place: &Option<Rank>| place.is_none_or(|rank| !has_statuses(rank));
        let mut places = self.ranks.iter();
        let place = places
            .position(|place| unused(place) && empty(place))
            .or_else(|| self.ranks.iter().position(unused))
            .ok_or(ContextError::TooManyRanks {
                capacity: u32::try_from(self.ranks.len()).unwrap(),
            })?;
        if let Some(before) = self.ranks[place].replace(rank) {
            self.give_up_retired(before);
        }
        Ok(())
    }

    /// Forgets a context that has no unfinished task.
    pub fn retire(&mut self, context: ContextId) -> Result<(), ContextError> {
        self.at_rest(context)?;
        self.contexts.remove(&key(context));
        Ok(())
    }

    /// Gives the start words of a context that has no unfinished task a fresh start.
    pub fn reset_words(&mut self, context: ContextId) -> Result<(), ContextError> {
        let spec = self.at_rest(context)?;
        for kind in [TaskKind::Network, TaskKind::Barrier] {
            self.words.reset(context, kind, &spec);
        }
        Ok(())
    }

    fn at_rest(&self, context: ContextId) -> Result<Spec, ContextError> {
        let spec = self.contexts.get(&key(context)).copied();
        let spec = spec.ok_or(ContextError::Unknown)?;
        let unfinished = |task: &&Task| task.context == context && task.state != RunState::Done;
        match self.tasks.iter().filter(unfinished).count() {
            0 => Ok(spec),
            unfinished => Err(ContextError::Busy {
                unfinished: u32::try_from(unfinished).unwrap(),
            }),
        }
    }

    fn spec(&self, context: ContextId) -> Result<Spec, EnqueueError> {
        let spec = self.contexts.get(&key(context)).copied();
        spec.ok_or(EnqueueError::UnknownContext)
    }

    /// One execution: its network task and, if the context has one, its barrier task.
    pub fn enqueue(
        &mut self,
        context: ContextId,
        exec: ExecId,
    ) -> Result<(Vec<TaskId>, Bell), EnqueueError> {
        let spec = self.spec(context)?;
        let mut kinds = vec![TaskKind::Network];
        if spec.barrier {
            kinds.push(TaskKind::Barrier);
        }
        self.append_all(context, &spec, exec, &kinds)
    }

    /// A task of one kind.
    pub fn append(
        &mut self,
        context: ContextId,
        kind: TaskKind,
        exec: ExecId,
    ) -> Result<(Vec<TaskId>, Bell), EnqueueError> {
        let spec = self.spec(context)?;
        if kind == TaskKind::Barrier && !spec.barrier {
            return Err(EnqueueError::NoSuchKind(kind));
        }
        self.append_all(context, &spec, exec, &[kind])
    }

    fn append_all(
        &mut self,
        context: ContextId,
        spec: &Spec,
        exec: ExecId,
        kinds: &[TaskKind],
    ) -> Result<(Vec<TaskId>, Bell), EnqueueError> {
        if self.dead {
            return Err(EnqueueError::WorkerDied);
        }
        if self.closed {
            return Err(EnqueueError::Closed);
        }
        if !self.has_room(spec.rank, kinds.len()) {
            self.give_up_retired(spec.rank);
        }
        if !self.has_room(spec.rank, kinds.len()) {
            return Err(EnqueueError::Full {
                rank: spec.rank,
                capacity: u32::try_from(self.tasks_per_rank).unwrap(),
            });
        }
        if spec.arming == Arming::OnEnqueue {
            self.arm_all(context, spec, kinds)?;
        }
        let mut ids = Vec::new();
        for kind in kinds {
            ids.push(self.tasks.len());
            self.inbox.push(self.tasks.len());
            self.tasks.push(Task {
                context,
                kind: *kind,
                exec,
                rank: spec.rank,
                state: RunState::Init,
                code: Status::SUCCESS,
                consumed: false,
                order: None,
                verdict: false,
            });
        }
        Ok((ids, self.ring()))
    }

    fn has_room(&self, rank: Rank, wanted: usize) -> bool {
        // A task whose verdict was consumed keeps its place until the worker ends it.
        let placed =
            |task: &&Task| task.rank == rank && !(task.consumed && task.state == RunState::Done);
        self.tasks.iter().filter(placed).count() + wanted <= self.tasks_per_rank
    }

    /// A rank that is full, or that loses its place, gives up the statuses of retired contexts.
    fn give_up_retired(&mut self, rank: Rank) {
        for task in &mut self.tasks {
            let retired = !self.contexts.contains_key(&key(task.context));
            task.consumed |= task.rank == rank && task.state == RunState::Done && retired;
        }
    }

    fn arm_all(
        &mut self,
        context: ContextId,
        spec: &Spec,
        kinds: &[TaskKind],
    ) -> Result<(), EnqueueError> {
        for (at, kind) in kinds.iter().enumerate() {
            if let Err(error) = self.words.arm(context, *kind, spec) {
                for armed in &kinds[..at] {
                    self.words.disarm(context, *armed, spec);
                }
                return Err(EnqueueError::FiredBeforeArm(error));
            }
        }
        Ok(())
    }

    /// Arms the words of a context and kind.
    pub fn arm(&mut self, context: ContextId, kind: TaskKind) -> Result<(), EnqueueError> {
        let spec = self.spec(context)?;
        let armed: Result<(), FiredBeforeArm> = self.words.arm(context, kind, &spec);
        armed.map_err(EnqueueError::FiredBeforeArm)
    }

    /// The device writes a word.
    pub fn fire(&mut self, context: ContextId, kind: TaskKind, stream: u8, value: u32) {
        self.words.table.set(context, kind, stream, value);
    }

    /// The words as they must stand.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.words.table
    }

    /// State of one task.
    pub fn poll(&mut self, task: TaskId) -> Result<Poll, PollError> {
        let task = self.tasks.get_mut(task).ok_or(PollError::Unknown)?;
        if task.consumed {
            return Err(PollError::AlreadyConsumed);
        }
        Ok(answer(task))
    }

    /// State of the oldest unconsumed task of a context and kind.
    pub fn check(&mut self, context: ContextId, kind: TaskKind) -> Result<Poll, PollError> {
        if !self.contexts.contains_key(&key(context)) {
            return Err(PollError::Unknown);
        }
        let mut tasks = self.tasks.iter_mut();
        tasks
            .find(|task| Self::is_told(task, context, kind))
            .map_or(Err(PollError::Unknown), |task| Ok(answer(task)))
    }

    /// Refuses appends from now on.
    pub fn shut(&mut self, by: Shut) -> Bell {
        match by {
            Shut::Closed => self.closed = true,
            Shut::Dead => self.dead = true,
        }
        self.bell()
    }

    /// What an update that leaves the bell armed must do.
    fn bell(&self) -> Bell {
        if self.armed_bell {
            Bell::Ring
        } else {
            Bell::Quiet
        }
    }

    /// Whether the worker may sleep.
    pub fn arm_bell(&mut self) -> bool {
        let armed = self.inbox.is_empty() && !self.ordered && !self.closed && !self.dead;
        self.armed_bell |= armed;
        armed
    }

    /// An append rings once for each arm.
    fn ring(&mut self) -> Bell {
        if std::mem::take(&mut self.armed_bell) {
            Bell::Ring
        } else {
            Bell::Quiet
        }
    }

    fn settle<O: Outside>(&mut self, id: TaskId, outcome: Outcome, outside: &mut O) {
        let task = &mut self.tasks[id];
        outside.stepped(Stepped {
            kind: task.kind,
            from: task.state,
            to: outcome.to,
            moved: outcome.moved,
            ordered: task.order.is_some(),
        });
        if task.state != outcome.to {
            outside.changed(Changed {
                context: task.context,
                kind: task.kind,
                exec: task.exec,
                from: task.state,
                to: outcome.to,
                status: outcome.code,
            });
        }
        task.state = outcome.to;
        task.code = match task.order {
            Some(cause) if task.verdict => cause.status(),
            _ => outcome.code,
        };
    }
}
