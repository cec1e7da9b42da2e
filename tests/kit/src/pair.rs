//! Queue and driver beside the oracle: whatever is done is done to both, and every result, every call in order and every start
//! word is compared. Who chooses what is done (all short sequences, random ones, a fuzzer) is not its concern.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proxy_core::driver::Next;
use proxy_core::ladder::{Budget, Ladder};
use proxy_core::port::BarrierPoll;
use proxy_core::{
    Appended, Bell, Cause, ContextError, ContextId, Driver, EnqueueError, ExecId, Queue, Shut,
    Spec, Status, TaskKind, Ticket,
};

use crate::oracle::{Answer, Library, Mood, Oracle, Recorder, Rungs, Table, TaskId};

const RANKS: usize = 3;
const TASKS: usize = 4;
/// Contexts of the queue.
pub const CONTEXTS: usize = 4;

/// One thing that is done to both sides. Contexts are numbered by their specs.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    /// One execution of a context.
    Enqueue(usize),
    /// A single task of a context.
    Append(usize, TaskKind),
    /// The start words of a context and kind are armed.
    Arm(usize, TaskKind),
    /// The device writes a start word: context, kind, stream, value.
    Fire(usize, TaskKind, u8, u32),
    /// One tick, with a library of this mood.
    Tick(Mood),
    /// A task's state is asked for.
    Poll(TaskId),
    /// The oldest unconsumed task of a context and kind.
    Check(usize, TaskKind),
    /// The worker wants to sleep.
    ArmBell,
    /// The start words of a context get a fresh start.
    Reset(usize),
    /// A context is forgotten.
    Retire(usize),
    /// A context is retired and registered again.
    Register(usize),
    /// The queue is closed.
    Shut(Shut),
    /// Everything is aborted, with a library of this mood.
    AbortAll(Mood),
    /// One task is ordered to end early.
    Order(TaskId, Cause),
    /// So is every unfinished task of a context.
    OrderContext(usize, Cause),
    /// An ordered task gets its code before the worker comes.
    Conclude(TaskId),
    /// A task's state is looked at without consuming it.
    Peek(TaskId),
}

/// The driver and its oracle. A difference between them is a panic.
#[derive(Debug)]
pub struct Pair {
    queue: Queue<RANKS, TASKS, CONTEXTS>,
    driver: Driver<RANKS, TASKS>,
    words: Rc<RefCell<Table>>,
    /// The prediction.
    pub oracle: Oracle,
    specs: Vec<Spec>,
    contexts: Vec<ContextId>,
    /// The tickets of all tasks so far, in order of their numbers.
    pub tickets: Vec<Ticket>,
    sequences: BTreeMap<(u32, u32), usize>,
    execs: u64,
    /// How the worker waits between ticks, on a core of its own and on a shared one, each with its oracle.
    ladders: [(Ladder, Rungs); 2],
    /// What stands for the time: operations so far.
    now: u64,
}

/// A worker's ladder with budgets that a short sequence of operations uses up.
fn ladder(dedicated: bool) -> (Ladder, Rungs) {
    let budget = Budget {
        dedicated,
        pause_ticks: 1,
        spin: 2,
    };
    (Ladder::new(budget), Rungs::new(budget))
}

impl Pair {
    /// Both sides with a context of each spec, at most [`CONTEXTS`].
    #[must_use]
    pub fn new(specs: &[Spec]) -> Self {
        let mut pair = Self {
            queue: Queue::new(),
            driver: Driver::new(),
            words: Rc::default(),
            oracle: Oracle::new(RANKS, TASKS),
            specs: specs.to_vec(),
            contexts: vec![ContextId::from_parts(0, 0); specs.len()],
            tickets: Vec::new(),
            sequences: BTreeMap::new(),
            execs: 0,
            ladders: [true, false].map(ladder),
            now: 0,
        };
        for number in 0..specs.len() {
            pair.register(number);
        }
        pair
    }

    fn register(&mut self, number: usize) {
        let spec = self.specs[number];
        let found = self.queue.register(&spec);
        let expected = self.oracle.register(spec, u32::try_from(CONTEXTS).unwrap());
        assert_eq!(found, expected);
        if let Ok(context) = found {
            self.contexts[number] = context;
        }
    }

    fn recorder(&self, mood: Mood) -> Recorder {
        Recorder {
            library: Library::new(mood),
            words: Rc::clone(&self.words),
        }
    }

    /// Does `op` to both sides and compares.
    pub fn run(&mut self, op: Op) {
        self.now += 1;
        match op {
            Op::Enqueue(number) => self.enqueue(number, None),
            Op::Append(number, kind) => self.enqueue(number, Some(kind)),
            Op::Arm(number, kind) => {
                let context = self.contexts[number];
                let words = self.recorder(quiet());
                let found = self.queue.arm(context, kind, &words);
                assert_eq!(found, self.oracle.arm(context, kind));
            }
            Op::Fire(number, kind, stream, value) => {
                let context = self.contexts[number];
                self.words.borrow_mut().set(context, kind, stream, value);
                self.oracle.fire(context, kind, stream, value);
            }
            Op::Tick(mood) => {
                let (mut ports, mut library) = (self.recorder(mood), Library::new(mood));
                let found = self.driver.tick(&self.queue, &mut ports);
                let expected = self.oracle.tick(&mut library);
                assert_eq!(ports.library.events, library.events);
                assert_eq!(found, expected);
                self.wait(found.next);
            }
            Op::AbortAll(mood) => {
                let (mut ports, mut library) = (self.recorder(mood), Library::new(mood));
                let status = Status::ABORTED;
                let found = self.driver.abort_all(&self.queue, status, &mut ports);
                let expected = self.oracle.abort_all(status, &mut library);
                assert_eq!(ports.library.events, library.events);
                assert_eq!(found, expected);
                assert_eq!(self.driver.active(), 0);
            }
            Op::Order(..) | Op::OrderContext(..) | Op::Conclude(_) | Op::Peek(_) => self.order(op),
            Op::Poll(task) => {
                if let Some(ticket) = self.tickets.get(task) {
                    assert_eq!(self.queue.poll(*ticket), self.oracle.poll(task));
                }
            }
            Op::Check(number, kind) => {
                let context = self.contexts[number];
                let found = self.queue.check(context, kind);
                assert_eq!(found, self.oracle.check(context, kind));
            }
            Op::ArmBell => self.sleep(),
            Op::Shut(by) => assert_eq!(self.queue.shut(by), self.oracle.shut(by)),
            Op::Reset(number) => self.reset_words(number),
            Op::Retire(number) => {
                let context = self.contexts[number];
                assert_eq!(self.queue.retire(context), self.oracle.retire(context));
            }
            Op::Register(number) => self.register_again(number),
        }
        let words = self.words.borrow().written();
        assert_eq!(words, self.oracle.table().written());
    }

    /// What the worker does after a tick that said `next`.
    fn wait(&mut self, next: Next) {
        for (ladder, rungs) in &mut self.ladders {
            let found = ladder.answer(next, || self.now);
            assert_eq!(found, rungs.answer(next, self.now), "after {next:?}");
        }
    }

    /// The worker arms the bell; if it may sleep, the next tick is one after it was woken.
    fn sleep(&mut self) {
        let armed = self.queue.arm_bell();
        assert_eq!(armed, self.oracle.arm_bell());
        for (ladder, rungs) in &mut self.ladders {
            if armed && rungs.slept() {
                ladder.woke();
            }
        }
    }

    /// The operations about early ends.
    fn order(&mut self, op: Op) {
        let ticket = |task: TaskId| self.tickets.get(task).copied();
        match op {
            Op::Order(task, cause) => {
                if let Some(ticket) = ticket(task) {
                    let expected = self.oracle.order(task, cause);
                    assert_eq!(self.queue.order(ticket, cause), expected);
                }
            }
            Op::OrderContext(number, cause) => {
                let context = self.contexts[number];
                let tasks = self.queue.tasks().filter(|task| task.context == context);
                let bells = tasks.filter_map(|task| self.queue.order(task.ticket, cause).ok());
                let found: Vec<Bell> = bells.collect();
                assert_eq!(found, self.oracle.order_context(context, cause));
            }
            Op::Conclude(task) => {
                if let Some(ticket) = ticket(task) {
                    assert_eq!(self.queue.conclude(ticket), self.oracle.conclude(task));
                }
            }
            Op::Peek(task) => {
                if let Some(ticket) = ticket(task) {
                    assert_eq!(self.queue.peek(ticket), self.oracle.peek(task));
                }
            }
            _ => unreachable!("{op:?} is not about early ends"),
        }
    }

    fn reset_words(&mut self, number: usize) {
        let context = self.contexts[number];
        let words = self.recorder(quiet());
        let found = self.queue.reset_words(context, &words);
        assert_eq!(found, self.oracle.reset_words(context));
    }

    fn register_again(&mut self, number: usize) {
        let retired = self.oracle.retire(self.contexts[number]);
        assert_eq!(self.queue.retire(self.contexts[number]), retired);
        if !matches!(retired, Err(ContextError::Busy { .. })) {
            self.register(number);
        }
    }

    fn enqueue(&mut self, number: usize, kind: Option<TaskKind>) {
        let context = self.contexts[number];
        self.execs += 1;
        let exec = ExecId(self.execs);
        let words = self.recorder(quiet());
        let (found, expected) = match kind {
            None => (
                self.queue.enqueue(context, exec, &words),
                self.oracle.enqueue(context, exec),
            ),
            Some(kind) => (
                self.queue.append(context, kind, exec, &words),
                self.oracle.append(context, kind, exec),
            ),
        };
        self.compare_appended(context, found, expected);
    }

    fn compare_appended(
        &mut self,
        context: ContextId,
        found: Result<Appended, EnqueueError>,
        expected: Result<(Vec<TaskId>, Bell), EnqueueError>,
    ) {
        let (found, (tasks, bell)) = match (found, expected) {
            (Ok(found), Ok(expected)) => (found, expected),
            (found, expected) => {
                assert_eq!(found.err(), expected.err());
                return;
            }
        };
        assert_eq!(found.bell, bell);
        let tickets: Vec<Ticket> = found.network.into_iter().chain(found.barrier).collect();
        assert_eq!(tickets.len(), tasks.len());
        for ticket in &tickets {
            assert!(!self.tickets.contains(ticket), "a ticket twice: {ticket}");
        }
        self.tickets.extend(tickets);
        let key = (context.index(), context.generation());
        let before = self.sequences.insert(key, found.sequence);
        assert!(before.is_none_or(|before| before < found.sequence));
    }

    /// Ends what is left: every task that was accepted has an end, and exactly one.
    pub fn finish(&mut self) {
        self.run(Op::AbortAll(quiet()));
        for task in 0..self.tickets.len() {
            self.run(Op::Poll(task));
            self.run(Op::Poll(task));
        }
    }
}

/// A mood in which every call is answered alike.
#[must_use]
pub const fn all(idle: bool, done: bool, status: Status, poll: BarrierPoll) -> Mood {
    Mood::All(Answer {
        status,
        idle,
        done,
        poll,
    })
}

/// Everything succeeds and ends at once.
#[must_use]
pub const fn quiet() -> Mood {
    all(true, true, Status::SUCCESS, BarrierPoll::Ready)
}
