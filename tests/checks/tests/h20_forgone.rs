//! H19-H21: executions that end before their rank has come to the barrier. The others are told at once, and all are in step afterwards.
#![allow(unsafe_code, reason = "start words are named by their address")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE};
use proxy_checks::script::{Script, sets};
use proxy_core::phone::barrier::RankSet;
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Gid, Poll, RunState, Status, Ticket};
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::bananaphone::{Bus, Within};
use proxy_os::{Context, DeviceWord, HostBarrier, Patience, ProxyQueue, Release, Settings};

/// Far from its end when a rank is told in time.
const FAR: Duration = Duration::from_secs(60);

fn task(bus: &Bus) -> TaskBarrier {
    let barrier = bus.barrier(0, RankSet::below(bus.world())).unwrap();
    TaskBarrier::new(barrier, vec![], Within::new(FAR, "FAR")).unwrap()
}

/// A rank's barrier task as the driver steps it.
struct Stepped<'a> {
    task: &'a TaskBarrier,
    exec: ExecId,
    arrived: bool,
    status: Option<Status>,
}

impl<'a> Stepped<'a> {
    fn new(task: &'a TaskBarrier, exec: u64) -> Self {
        Self {
            task,
            exec: ExecId(exec),
            arrived: false,
            status: None,
        }
    }

    fn step(&mut self) {
        if self.status.is_some() {
            return;
        }
        if !self.arrived {
            match self.task.arrive(self.exec) {
                BarrierPoll::Ready => self.arrived = true,
                other => return self.ends(other),
            }
            assert_eq!(self.task.signal(self.exec), Status::SUCCESS);
        }
        match self.task.release(self.exec) {
            BarrierPoll::Ready => self.status = Some(Status::SUCCESS),
            other => self.ends(other),
        }
    }

    fn ends(&mut self, answer: BarrierPoll) {
        if let BarrierPoll::Failed(status) = answer {
            // As the driver does with every task that it ends.
            self.task.cancel(self.exec);
            self.status = Some(status);
        }
    }
}

/// Steps all to their end; what each came to.
fn finish(tasks: &mut [Stepped<'_>]) -> Vec<Status> {
    let start = Instant::now();
    while tasks.iter().any(|task| task.status.is_none()) {
        assert!(start.elapsed() < AMPLE, "not told");
        tasks.iter_mut().for_each(Stepped::step);
        std::thread::yield_now();
    }
    tasks.iter().filter_map(|task| task.status).collect()
}

fn run(tasks: &[TaskBarrier], ranks: &[usize], exec: u64) -> Vec<Status> {
    let stepped = ranks.iter().map(|rank| Stepped::new(&tasks[*rank], exec));
    finish(&mut stepped.collect::<Vec<_>>())
}

const ALL: [usize; 3] = [0, 1, 2];

#[test]
fn h21_an_execution_that_ends_at_its_gate_fails_the_others_and_leaves_all_in_step() {
    let buses = bus::everybody(3);
    let tasks: Vec<_> = buses.iter().map(task).collect();
    let (mut exec, start) = (0, Instant::now());
    // The leader and the others; before they come to the barrier and while they wait there; once and several times in a row.
    for victim in ALL {
        let others: Vec<usize> = ALL.into_iter().filter(|rank| *rank != victim).collect();
        for (waiting, times) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
            let mut first: Vec<_> = others
                .iter()
                .map(|rank| Stepped::new(&tasks[*rank], exec + 1))
                .collect();
            if waiting {
                first.iter_mut().for_each(Stepped::step);
                assert!(first.iter().all(|task| task.status.is_none()));
            }
            for later in 1..=times {
                tasks[victim].cancel(ExecId(exec + later));
            }
            assert_eq!(finish(&mut first), [Status::PEER_CANCELLED; 2]);
            for later in 2..=times {
                let told = run(&tasks, &others, exec + later);
                assert_eq!(told, [Status::PEER_CANCELLED; 2], "{victim} {later}");
            }
            exec += times + 1;
            assert_eq!(run(&tasks, &ALL, exec), [Status::SUCCESS; 3], "{victim}");
        }
    }
    assert!(start.elapsed() < FAR / 2, "{:?}", start.elapsed());
}

#[test]
fn h21_an_execution_that_ends_while_another_is_at_the_barrier_fails_in_its_turn() {
    let buses = bus::everybody(3);
    let tasks: Vec<_> = buses.iter().map(task).collect();
    for (victim, fails) in [(0, false), (1, false), (0, true), (1, true)] {
        let others: Vec<usize> = ALL.into_iter().filter(|rank| *rank != victim).collect();
        let mut first = Stepped::new(&tasks[victim], 1);
        first.step();
        // Those after it are aborted, and perhaps it, too, in the order in which a driver comes to them or in the other.
        tasks[victim].cancel(ExecId(2));
        tasks[victim].cancel(ExecId(3));
        if fails {
            tasks[victim].cancel(ExecId(1));
            assert_eq!(run(&tasks, &others, 1), [Status::PEER_CANCELLED; 2]);
        } else {
            let rest = others.iter().map(|rank| Stepped::new(&tasks[*rank], 1));
            let mut all: Vec<_> = rest.chain([first]).collect();
            assert_eq!(finish(&mut all), [Status::SUCCESS; 3]);
        }
        for exec in [2, 3] {
            let told = run(&tasks, &others, exec);
            assert_eq!(told, [Status::PEER_CANCELLED; 2], "{victim} {exec}");
        }
        assert_eq!(run(&tasks, &ALL, 4), [Status::SUCCESS; 3], "{victim}");
    }
}

/// The barrier knows of no execution that has not come to it: one that is given up takes the place of the one before it.
#[test]
fn h21_an_execution_that_ends_before_an_earlier_one_fails_both_and_leaves_all_in_step() {
    let buses = bus::everybody(3);
    let tasks: Vec<_> = buses.iter().map(task).collect();
    for victim in ALL {
        let others: Vec<usize> = ALL.into_iter().filter(|rank| *rank != victim).collect();
        tasks[victim].cancel(ExecId(2));
        assert_eq!(run(&tasks, &others, 1), [Status::PEER_CANCELLED; 2]);
        let late = others.iter().map(|rank| Stepped::new(&tasks[*rank], 2));
        let mut all: Vec<_> = late.chain([Stepped::new(&tasks[victim], 1)]).collect();
        assert_eq!(finish(&mut all), [Status::MPMD; 3], "{victim}");
        assert_eq!(run(&tasks, &ALL, 3), [Status::SUCCESS; 3], "{victim}");
    }
}

/// A barrier that one context after another has.
#[derive(Debug)]
struct Shared(Arc<TaskBarrier>);

impl HostBarrier for Shared {
    fn arrive(&self, exec: ExecId) -> BarrierPoll {
        self.0.arrive(exec)
    }

    fn signal(&self, exec: ExecId) -> Status {
        self.0.signal(exec)
    }

    fn release(&self, exec: ExecId) -> BarrierPoll {
        self.0.release(exec)
    }

    fn cancel(&self, exec: ExecId) {
        self.0.cancel(exec);
    }
}

/// A worker with one rank, whose barrier task waits for `word`.
fn worker(
    rank: usize,
    task: &Arc<TaskBarrier>,
    word: &'static AtomicU32,
) -> (Arc<ProxyQueue>, Context) {
    let gid = Gid(2000 + u32::try_from(rank).unwrap());
    let queue = ProxyQueue::start(gid, &Settings::default()).unwrap();
    // SAFETY: the word is static.
    let word = unsafe { DeviceWord::new(word.as_ptr()) };
    let builder = Script::open().context(u32::try_from(rank).unwrap());
    let builder = builder
        .block(1, sets(1, 1))
        .barrier(Box::new(Shared(Arc::clone(task))), vec![word]);
    let context = queue.context(builder).unwrap();
    (queue, context)
}

/// Waits until a barrier task waits for its device.
fn at_its_gate(queue: &ProxyQueue, ticket: Ticket) {
    let start = Instant::now();
    while queue.poll(ticket) != Ok(Poll::Pending(RunState::WaitingDeviceTrigger)) {
        assert!(start.elapsed() < AMPLE);
        std::thread::yield_now();
    }
}

/// What becomes of a worker whose task is ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worker {
    Ended,
    GoesOn,
}

/// Two ranks with a worker each: `ends` the task of one at its gate while the other is at the barrier, the leader or not; then both
/// meet at the next execution.
fn ends_at_its_gate(words: &'static [AtomicU32; 2], ends: impl Fn(&ProxyQueue, Ticket) -> Worker) {
    let buses = bus::everybody(2);
    let tasks: Vec<_> = buses.iter().map(|bus| Arc::new(task(bus))).collect();
    for (round, doomed) in [0, 1, 0].into_iter().enumerate() {
        let other = 1 - doomed;
        let exec = ExecId(10 * round as u64);
        let mut workers: Vec<_> = (0..2)
            .map(|rank| worker(rank, &tasks[rank], &words[rank]))
            .collect();
        let tickets: Vec<_> = workers
            .iter()
            .map(|(_, context)| context.enqueue(exec).unwrap().barrier.unwrap())
            .collect();
        // The device of the one fires, that of the other does not.
        fire(&words[other]);
        at_its_gate(&workers[doomed].0, tickets[doomed]);
        let start = Instant::now();
        let after = ends(&workers[doomed].0, tickets[doomed]);
        let status = workers[other]
            .0
            .consume(tickets[other], Patience::until(AMPLE));
        assert_eq!(status, Ok(Status::PEER_CANCELLED));
        assert!(start.elapsed() < FAR / 2, "{:?}", start.elapsed());
        if after == Worker::Ended {
            workers[doomed] = worker(doomed, &tasks[doomed], &words[doomed]);
        }
        let exec = ExecId(exec.0 + 1);
        let next: Vec<_> = workers
            .iter()
            .map(|(_, context)| context.enqueue(exec).unwrap().barrier.unwrap())
            .collect();
        words.iter().for_each(fire);
        for ((queue, _), ticket) in workers.iter().zip(next) {
            let status = queue.consume(ticket, Patience::until(AMPLE));
            assert_eq!(status, Ok(Status::SUCCESS));
        }
    }
}

#[test]
fn h21_a_worker_that_is_aborted_at_the_gate_of_a_barrier_keeps_nobody_waiting() {
    static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    ends_at_its_gate(&WORDS, |queue, _| {
        queue.release(Release::Abort, AMPLE).unwrap();
        Worker::Ended
    });
}

#[test]
fn h21_one_task_that_is_aborted_at_the_gate_of_a_barrier_keeps_nobody_waiting() {
    static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    ends_at_its_gate(&WORDS, |queue, ticket| {
        queue.abort(ticket, AMPLE).unwrap();
        Worker::GoesOn
    });
}

/// What a device writes, once the word is armed.
fn fire(word: &AtomicU32) {
    // Release pairs with the worker's acquire, as a device's write would.
    word.store(7, Ordering::Release);
}
