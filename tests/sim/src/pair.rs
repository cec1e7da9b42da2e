//! One queue with its driver, in lockstep with the oracle.
//!
//! Every operation is done to the real thing first. What is done while the worker is in the middle of a tick, by others or by a library
//! that calls back, is kept on a tape in its place; the oracle is then taken through the same tick along the tape and must
//! make the same calls, touch the same words, report the same changes and answer every operation the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use proxy_core::port::{Change, DeviceWords, Observer};
use proxy_core::{
    Bell, Cause, ContextError, ContextId, Driver, EnqueueError, ExecId, Next, OrderError, Poll,
    PollError, Queue, Shut, Spec, Status, Stream, TaskKind, Tick, Ticket,
};
use proxy_kit::oracle::{Answer, Call, Changed, Oracle, Stepped, Table, TaskId};

use crate::laws::{Law, Laws};
use crate::ports::Ports;
use crate::replay::{Replay, apply, replay, same};

/// Ranks of a simulated queue.
pub const RANKS: usize = 2;
/// Tasks of a rank.
pub const TASKS: usize = 4;
/// Contexts.
pub const CONTEXTS: usize = 3;

/// The queue under test.
pub type SimQueue = Queue<RANKS, TASKS, CONTEXTS>;
/// Its driver.
pub type SimDriver = Driver<RANKS, TASKS>;

/// An operation and what came of it.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A context is registered.
    Register(Spec, Result<ContextId, ContextError>),
    /// A context is retired.
    Retire(ContextId, Result<(), ContextError>),
    /// An execution, or a task of one kind.
    Enqueue(
        ContextId,
        Option<TaskKind>,
        ExecId,
        Result<(Vec<Ticket>, Bell), EnqueueError>,
    ),
    /// Words are armed.
    Arm(ContextId, TaskKind, Result<(), EnqueueError>),
    /// The device writes a word.
    Fire(ContextId, TaskKind, u8, u32),
    /// A ticket is polled.
    Poll(Ticket, Result<Poll, PollError>),
    /// The oldest task of a context and kind is asked for.
    Check(ContextId, TaskKind, Result<Poll, PollError>),
    /// A task is ordered to end early.
    Order(Ticket, Cause, Result<Bell, OrderError>),
    /// An ordered task is to have its code before the worker comes.
    Conclude(Ticket, bool),
    /// A context's words are given a fresh start.
    Reset(ContextId, Result<(), ContextError>),
    /// Appends are refused from here on.
    Shut(Shut, Bell),
    /// The worker wants to sleep.
    ArmBell(bool),
}

/// What happened inside one piece of the worker's work, in order.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Call(Call, Answer),
    Touch(ContextId, TaskKind, u8),
    Changed(Changed),
    Seen(Seen),
    Died,
}

/// A piece of work of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// One tick.
    Tick,
    /// Everything ends with this status.
    Abort(Status),
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worked {
    /// A tick.
    Ticked(Tick),
    /// So many tasks ended.
    Aborted(u32),
    /// The worker died inside a call, and perhaps again in the abort that follows; so many tasks ended by what came last.
    Died {
        /// Tasks.
        ended: u32,
        /// It died in the abort, too.
        again: bool,
    },
}

/// Who answers the calls of a worker.
pub trait Host {
    /// A queue of the host.
    fn pair(&mut self, group: usize) -> &mut Pair;

    /// Answers a call of a group's worker; others may act first. `None`: the worker dies in it.
    fn answer(&mut self, group: usize, call: Call) -> Option<Answer>;

    /// The worker is about to touch a start word; others may act first.
    fn touch(&mut self, group: usize);

    /// A step of a task, as the oracle confirmed it.
    fn stepped(&mut self, group: usize, work: Work, step: Stepped, calls: &[(Call, Answer)]);
}

/// A queue, its driver, its words, and the prediction of all three.
#[derive(Debug)]
pub struct Pair {
    pub(crate) queue: Rc<SimQueue>,
    /// Absent while the worker is inside.
    pub(crate) driver: Option<Box<SimDriver>>,
    pub(crate) words: Rc<RefCell<Table>>,
    pub(crate) oracle: Oracle,
    pub(crate) tape: Option<Vec<Item>>,
    pub(crate) tasks: HashMap<Ticket, TaskId>,
    pub(crate) laws: Laws,
    pub(crate) wrong: Option<String>,
}

impl Default for Pair {
    fn default() -> Self {
        Self {
            queue: Rc::default(),
            driver: Some(Box::default()),
            words: Rc::default(),
            oracle: Oracle::new(RANKS, TASKS),
            tape: None,
            tasks: HashMap::new(),
            laws: Laws::default(),
            wrong: None,
        }
    }
}

/// The words for those who arm, which are not the worker.
struct Desk(Rc<RefCell<Table>>);

impl DeviceWords for Desk {
    fn load(&self, context: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.0.borrow().get(context, kind, stream.0)
    }

    fn compare_exchange(
        &self,
        context: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        let mut words = self.0.borrow_mut();
        words.swap(context, kind, stream.0, seen, new)
    }
}

impl Pair {
    /// What is wrong, if anything is: a difference to the oracle, or a breach of a law.
    #[must_use]
    pub fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref().or(self.laws.breach())
    }

    fn must(&mut self, checked: Result<(), String>) {
        if let Err(what) = checked {
            self.wrong.get_or_insert(what);
        }
    }

    /// Active tasks; 0 while the worker is inside.
    #[must_use]
    pub fn active(&self) -> usize {
        self.driver.as_ref().map_or(0, |driver| driver.active())
    }

    /// Whether the worker is inside the driver.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.driver.is_none()
    }

    /// Registers a context.
    pub fn register(&mut self, spec: Spec) -> Result<ContextId, ContextError> {
        let found = self.queue.register(&spec);
        if let Ok(context) = found {
            self.laws.registered(context, spec);
        }
        self.note(Seen::Register(spec, found));
        found
    }

    /// Retires a context.
    pub fn retire(&mut self, context: ContextId) -> Result<(), ContextError> {
        let found = self.queue.retire(context);
        if found.is_ok() {
            self.laws.retired(context);
        }
        self.note(Seen::Retire(context, found));
        found
    }

    /// Appends an execution, or one task.
    pub fn enqueue(
        &mut self,
        context: ContextId,
        kind: Option<TaskKind>,
        exec: ExecId,
    ) -> Result<(Vec<(TaskKind, Ticket)>, Bell), EnqueueError> {
        let words = Desk(Rc::clone(&self.words));
        let found = match kind {
            None => self.queue.enqueue(context, exec, &words),
            Some(kind) => self.queue.append(context, kind, exec, &words),
        };
        let found = found.map(|appended| {
            let network = appended.network.map(|ticket| (TaskKind::Network, ticket));
            let barrier = appended.barrier.map(|ticket| (TaskKind::Barrier, ticket));
            let tickets: Vec<_> = network.into_iter().chain(barrier).collect();
            (tickets, appended.bell)
        });
        if let Ok((tickets, _)) = &found {
            let kinds: Vec<TaskKind> = tickets.iter().map(|(kind, _)| *kind).collect();
            self.laws.accepted(context, exec, &kinds);
        }
        let bare = found.clone().map(|(tickets, bell)| {
            let tickets = tickets.into_iter().map(|(_, ticket)| ticket).collect();
            (tickets, bell)
        });
        self.note(Seen::Enqueue(context, kind, exec, bare));
        found
    }

    /// Arms the words of a kind.
    pub fn arm(&mut self, context: ContextId, kind: TaskKind) -> Result<(), EnqueueError> {
        let words = Desk(Rc::clone(&self.words));
        let found = self.queue.arm(context, kind, &words);
        self.note(Seen::Arm(context, kind, found));
        found
    }

    /// The device writes a word.
    pub fn fire(&mut self, context: ContextId, kind: TaskKind, stream: u8, value: u32) {
        self.words.borrow_mut().set(context, kind, stream, value);
        self.laws.fired(context, kind, stream, value);
        self.note(Seen::Fire(context, kind, stream, value));
    }

    /// State of a task.
    pub fn poll(&mut self, ticket: Ticket) -> Result<Poll, PollError> {
        let found = self.queue.poll(ticket);
        self.note(Seen::Poll(ticket, found));
        found
    }

    /// State of the oldest task of a context and kind.
    pub fn check(&mut self, context: ContextId, kind: TaskKind) -> Result<Poll, PollError> {
        let found = self.queue.check(context, kind);
        self.note(Seen::Check(context, kind, found));
        found
    }

    /// Orders the worker to end a task early.
    pub fn order(&mut self, ticket: Ticket, cause: Cause) -> Result<Bell, OrderError> {
        let found = self.queue.order(ticket, cause);
        self.note(Seen::Order(ticket, cause, found));
        found
    }

    /// Gives an ordered task its code before the worker comes to it.
    pub fn conclude(&mut self, ticket: Ticket) -> bool {
        let found = self.queue.conclude(ticket);
        self.note(Seen::Conclude(ticket, found));
        found
    }

    /// Gives a context's start words a fresh start.
    pub fn reset(&mut self, context: ContextId) -> Result<(), ContextError> {
        let words = Desk(Rc::clone(&self.words));
        let found = self.queue.reset_words(context, &words);
        if found.is_ok() {
            self.laws.reset(context);
        }
        self.note(Seen::Reset(context, found));
        found
    }

    /// Refuses appends.
    pub fn shut(&mut self, by: Shut) -> Bell {
        let found = self.queue.shut(by);
        self.note(Seen::Shut(by, found));
        found
    }

    /// The worker wants to sleep. It may not if anything is unfinished.
    pub fn arm_bell(&mut self) -> bool {
        let found = self.queue.arm_bell();
        self.note(Seen::ArmBell(found));
        let at_rest = self.active() == 0 && self.queue.is_inbox_empty();
        let what = || "the bell is armed".to_owned();
        self.laws
            .must(Law::NoSleepWithWork, at_rest || !found, what);
        found
    }

    /// Predicts an operation: now, or in its place in the worker's work.
    fn note(&mut self, seen: Seen) {
        match &mut self.tape {
            Some(tape) => tape.push(Item::Seen(seen)),
            None => {
                let checked = apply(&mut self.oracle, &mut self.tasks, &seen);
                self.must(checked.and_then(|()| self.same_words()));
            }
        }
    }

    fn same_words(&self) -> Result<(), String> {
        let (found, predicted) = (self.words.borrow().written(), self.oracle.table().written());
        same("the start words", &found, &predicted)
    }
}

/// Does a piece of work with a group's worker, then takes the oracle through it. A worker that dies in it is buried.
pub fn work<H: Host>(host: &mut H, group: usize, work: Work) -> Worked {
    let worked = attempt(host, group, work);
    match worked {
        Some(Worked::Died { .. }) => bury(host, group),
        Some(worked) => worked,
        None => DIED,
    }
}

/// Before it is buried.
pub(crate) const DIED: Worked = Worked::Died {
    ended: 0,
    again: false,
};

/// `None`: the driver itself panicked.
fn attempt<H: Host>(host: &mut H, group: usize, work: Work) -> Option<Worked> {
    let pair = host.pair(group);
    let queue = Rc::clone(&pair.queue);
    let words = Rc::clone(&pair.words);
    let mut driver = pair.driver.take().expect("one worker, which is not inside");
    pair.tape = Some(Vec::new());
    let done = {
        let mut ports = Ports::new(&mut *host, group, words);
        catch_unwind(AssertUnwindSafe(|| match work {
            Work::Tick => Worked::Ticked(driver.tick(&queue, &mut ports)),
            Work::Abort(status) => Worked::Aborted(driver.abort_all(&queue, status, &mut ports)),
        }))
    };
    let pair = host.pair(group);
    pair.driver = Some(driver);
    let tape = pair.tape.take().unwrap_or_default();
    let worked = match done {
        Ok(worked) => worked,
        Err(payload) if payload.is::<Death>() => DIED,
        Err(payload) => {
            let what = format!("the driver panicked: {}", text_of(&*payload));
            pair.must(Err(what));
            return None;
        }
    };
    if let Worked::Ticked(tick) = worked {
        let awake = tick.next != Next::Sleep || pair.active() == 0;
        let what = || format!("{tick:?} with active tasks");
        pair.laws.must(Law::NoSleepWithWork, awake, what);
    }
    let (predicted, steps, checked) = replay(pair, tape, work);
    pair.must(checked);
    let checked = same("the worker's work", &worked, &predicted);
    pair.must(checked.and_then(|()| pair.same_words()));
    for (step, calls) in steps {
        host.stepped(group, work, step, &calls);
    }
    Some(worked)
}

/// What the shell does for a worker that died: nothing is accepted any more, and every task ends: by an abort, whose calls may be its
/// death once more, and then without any call.
fn bury<H: Host>(host: &mut H, group: usize) -> Worked {
    let _ = host.pair(group).shut(Shut::Dead);
    let ended = match attempt(host, group, Work::Abort(Status::WORKER_DIED)) {
        Some(Worked::Aborted(ended)) => Some(ended),
        _ => None,
    };
    let pair = host.pair(group);
    let (ended, again) = match ended {
        Some(ended) => (ended, false),
        None => (fail(pair), true),
    };
    pair.must(same("tasks left by a dead worker", &pair.active(), &0));
    Worked::Died { ended, again }
}

/// Every task ends without a call.
fn fail(pair: &mut Pair) -> u32 {
    let mut reported = Told(Vec::new());
    let mut driver = pair.driver.take().expect("it was put back");
    let found = driver.fail_all(&pair.queue, Status::WORKER_DIED, &mut reported);
    pair.driver = Some(driver);
    let mut replay = Replay::new(Vec::new(), &mut pair.tasks);
    let predicted = pair.oracle.fail_all(Status::WORKER_DIED, &mut replay);
    let told = replay.told;
    pair.laws.abandoned();
    for change in &reported.0 {
        pair.laws.changed(change);
    }
    let counts = same("tasks that end with their worker", &found, &predicted);
    pair.must(counts.and_then(|()| same("their changes", &reported.0, &told)));
    found
}

/// Keeps changes.
struct Told(Vec<Changed>);

impl Observer for Told {
    fn changed(&mut self, change: &Change) {
        self.0.push(changed(change));
    }
}

/// What the oracle predicts of a change.
pub(crate) const fn changed(change: &Change) -> Changed {
    Changed {
        context: change.context,
        kind: change.kind,
        exec: change.exec,
        from: change.from,
        to: change.to,
        status: change.status,
    }
}

/// The payload by which a simulated worker dies.
pub(crate) struct Death;

fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a text".to_owned())
}
