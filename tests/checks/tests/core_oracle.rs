//! Queue and driver against the oracle: every result, every call in order, every start word, over random and over all short
//! sequences of operations.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proxy_core::port::BarrierPoll;
use proxy_core::{
    Appended, Arming, Bell, ContextId, Driver, EnqueueError, ExecId, Polarity, Queue, Rank, Shut,
    Spec, Status, StopAt, TaskKind, Ticket,
};
use proxy_kit::oracle::{Answer, Event, Library, Mood, Oracle, Recorder, Table, TaskId, XorShift};

const RANKS: usize = 3;
const TASKS: usize = 4;
const CONTEXTS: usize = 4;

/// One thing that is done to both sides. Contexts are numbered by their specs.
#[derive(Debug, Clone, Copy)]
enum Op {
    Enqueue(usize),
    Append(usize, TaskKind),
    Arm(usize, TaskKind),
    Fire(usize, TaskKind, u8, u32),
    Tick(Mood),
    Poll(TaskId),
    Check(usize, TaskKind),
    ArmBell,
    Retire(usize),
    Register(usize),
    Shut(Shut),
    AbortAll(Mood),
}

/// The driver and its oracle.
struct Pair {
    queue: Queue<RANKS, TASKS, CONTEXTS>,
    driver: Driver<RANKS, TASKS>,
    words: Rc<RefCell<Table>>,
    oracle: Oracle,
    specs: Vec<Spec>,
    contexts: Vec<ContextId>,
    tickets: Vec<Ticket>,
    sequences: BTreeMap<(u32, u32), usize>,
    execs: u64,
}

impl Pair {
    fn new(specs: &[Spec]) -> Self {
        let mut pair = Self {
            queue: Queue::new(),
            driver: Driver::new(),
            words: Rc::default(),
            oracle: Oracle::new(TASKS),
            specs: specs.to_vec(),
            contexts: vec![ContextId::from_parts(0, 0); specs.len()],
            tickets: Vec::new(),
            sequences: BTreeMap::new(),
            execs: 0,
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
    fn run(&mut self, op: Op) {
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
            Op::ArmBell => assert_eq!(self.queue.arm_bell(), self.oracle.arm_bell()),
            Op::Shut(by) => assert_eq!(self.queue.shut(by), self.oracle.shut(by)),
            Op::Retire(number) => {
                let context = self.contexts[number];
                assert_eq!(self.queue.retire(context), self.oracle.retire(context));
            }
            Op::Register(number) => {
                if self.oracle.retire(self.contexts[number]).is_err() {
                    return;
                }
                assert_eq!(self.queue.retire(self.contexts[number]), Ok(()));
                self.register(number);
            }
        }
        let words = self.words.borrow().written();
        assert_eq!(words, self.oracle.table().written());
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
    fn finish(&mut self) {
        self.run(Op::AbortAll(quiet()));
        for task in 0..self.tickets.len() {
            self.run(Op::Poll(task));
            self.run(Op::Poll(task));
        }
    }
}

const fn all(idle: bool, done: bool, status: Status, poll: BarrierPoll) -> Mood {
    Mood::All(Answer {
        status,
        idle,
        done,
        poll,
    })
}

/// Everything succeeds and ends at once.
const fn quiet() -> Mood {
    all(true, true, Status::SUCCESS, BarrierPoll::Ready)
}

fn random_spec(random: &mut XorShift) -> Spec {
    let small = |random: &mut XorShift, below| u8::try_from(random.below(below)).unwrap();
    Spec {
        rank: random.pick(&[Rank(9), Rank(2), Rank(5)]),
        streams: if random.once_in(8) {
            0
        } else {
            1 + small(random, 4)
        },
        blocks: u16::from(1 + small(random, 3)),
        skip: random.once_in(8),
        device_wait: random.once_in(2),
        barrier: random.once_in(2),
        barrier_triggers: small(random, 3),
        polarity: random.pick(&[Polarity::Specification, Polarity::Header]),
        arming: random.pick(&[Arming::OnEnqueue, Arming::Explicit, Arming::ByDevice]),
        stop_at: random.pick(&[StopAt::End, StopAt::Switch]),
    }
}

fn random_op(random: &mut XorShift, contexts: usize, tasks: usize) -> Op {
    let kind = random.pick(&[TaskKind::Network, TaskKind::Barrier]);
    let number = usize::try_from(random.below(u64::try_from(contexts).unwrap())).unwrap();
    let errors = random.pick(&[12, 30, 1000]);
    let mixed = Mood::Mixed {
        seed: random.next(),
        errors,
    };
    match random.below(100) {
        0..20 => Op::Enqueue(number),
        20..25 => Op::Append(number, kind),
        25..30 => Op::Arm(number, kind),
        30..45 => {
            let stream = u8::try_from(random.below(4)).unwrap();
            let value = random.pick(&[0, 1, 7, u32::MAX]);
            Op::Fire(number, kind, stream, value)
        }
        45..80 => Op::Tick(mixed),
        80..87 => {
            Op::Poll(usize::try_from(random.below(1 + u64::try_from(tasks).unwrap())).unwrap())
        }
        87..94 => Op::Check(number, kind),
        94..96 => Op::ArmBell,
        96 => Op::Retire(number),
        97..99 => Op::Register(number),
        _ if random.once_in(4) => Op::Shut(random.pick(&[Shut::Closed, Shut::Dead])),
        _ => Op::AbortAll(mixed),
    }
}

/// Runs `check`, and names what was run if it fails.
fn named(what: impl Fn() -> String, check: impl FnOnce()) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    if let Err(panic) = outcome {
        eprintln!("{}", what());
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn random_sequences_agree() {
    for seed in 1..=20_000 {
        let trace = RefCell::new(Vec::new());
        let what = || format!("seed {seed}: {:#?}", trace.borrow());
        named(what, || {
            let mut random = XorShift::new(seed);
            let count = random.pick(&[1, 2, CONTEXTS]);
            let specs: Vec<Spec> = (0..count).map(|_| random_spec(&mut random)).collect();
            let mut pair = Pair::new(&specs);
            for _ in 0..60 {
                let op = random_op(&mut random, count, pair.tickets.len());
                trace.borrow_mut().push(op);
                pair.run(op);
            }
            pair.finish();
        });
    }
}

/// All sequences of `length` operations of `alphabet`.
fn exhaust(specs: &[Spec], alphabet: &[Op], length: u32) {
    let sequences = alphabet.len().pow(length);
    for number in 0..sequences {
        let op = |at| alphabet[number / alphabet.len().pow(at) % alphabet.len()];
        let what = || format!("{specs:#?}: {:#?}", (0..length).map(op).collect::<Vec<_>>());
        named(what, || {
            let mut pair = Pair::new(specs);
            (0..length).for_each(|at| pair.run(op(at)));
            pair.finish();
        });
    }
}

const NETWORK: TaskKind = TaskKind::Network;
const BARRIER: TaskKind = TaskKind::Barrier;

#[test]
fn all_short_sequences_with_triggers_and_barrier_agree() {
    let spec = Spec {
        device_wait: true,
        barrier: true,
        barrier_triggers: 1,
        ..Spec::new(Rank(3))
    };
    let alphabet = [
        Op::Enqueue(0),
        Op::Fire(0, NETWORK, 0, 1),
        Op::Fire(0, BARRIER, 0, 7),
        Op::Tick(quiet()),
        Op::Tick(all(true, false, Status::SUCCESS, BarrierPoll::Pending)),
        Op::Tick(all(false, false, Status::FAILURE, BarrierPoll::Ready)),
        Op::Check(0, NETWORK),
    ];
    exhaust(&[spec], &alphabet, 6);
}

#[test]
fn all_short_sequences_of_explicit_arming_agree() {
    let spec = Spec {
        device_wait: true,
        arming: Arming::Explicit,
        streams: 2,
        ..Spec::new(Rank(3))
    };
    let alphabet = [
        Op::Enqueue(0),
        Op::Arm(0, NETWORK),
        Op::Fire(0, NETWORK, 0, 0),
        Op::Fire(0, NETWORK, 1, 5),
        Op::Tick(quiet()),
        Op::Register(0),
        Op::AbortAll(quiet()),
    ];
    exhaust(&[spec], &alphabet, 6);
}

#[test]
fn all_short_sequences_of_blocks_and_stops_agree() {
    let spec = Spec {
        streams: 2,
        blocks: 3,
        stop_at: StopAt::Switch,
        ..Spec::new(Rank(3))
    };
    let alphabet = [
        Op::Enqueue(0),
        Op::Tick(quiet()),
        Op::Tick(all(false, false, Status::SUCCESS, BarrierPoll::Ready)),
        Op::Tick(Mood::Mixed {
            seed: 4,
            errors: 1_000_000,
        }),
        Op::Tick(Mood::Mixed { seed: 9, errors: 3 }),
        Op::ArmBell,
        Op::Poll(0),
    ];
    exhaust(&[spec], &alphabet, 6);
}

/// The comparison itself can fail: what a tick calls is really looked at.
#[test]
fn a_wrong_prediction_is_noticed() {
    let mut pair = Pair::new(&[Spec::new(Rank(0))]);
    pair.run(Op::Enqueue(0));
    let mut library = Library::new(quiet());
    let _ = pair.oracle.tick(&mut library);
    let calls = library
        .events
        .iter()
        .filter(|event| matches!(event, Event::Called(_)));
    assert_eq!(calls.count(), 1, "one stream, one block: one start");
    let behind = std::panic::AssertUnwindSafe(|| pair.run(Op::Tick(quiet())));
    assert!(std::panic::catch_unwind(behind).is_err());
}
