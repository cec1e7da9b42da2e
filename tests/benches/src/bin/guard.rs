//! One operation at a time, for an instruction counter: `guard ROW`.
//!
//! `cargo xtask guard` runs each row under valgrind's callgrind, which counts only inside [`measured`], and compares the
//! count of one operation with `tests/benches/limits.txt`. Counts do not depend on the machine's load.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use proxy_benches::contexts::{self, What};
use proxy_benches::ports::{OneCall, done, idle};
use proxy_core::{Driver, ExecId, Queue, Rank, Spec, TaskKind, Ticket};
use proxy_os::bananaphone::{Barrier, Bus, Options, Progress};

const RANKS: usize = 64;
const TASKS: usize = 128;
type Core = Queue<RANKS, TASKS, 256>;
type Worker = Driver<RANKS, TASKS>;

static QUEUE: Core = Queue::new();
const AMPLE: Duration = Duration::from_secs(30);

/// The only function whose instructions are counted, with all that it calls. Not a tail call, so that it is left again.
#[inline(never)]
fn measured<T>(body: impl FnOnce() -> T) -> T {
    black_box(body())
}

/// Name, operations that one run measures, and the run.
type Row = (&'static str, u32, fn());

const ROWS: [Row; 18] = [
    ("call", 100, call),
    ("enqueue", 60, enqueue),
    ("enqueue_pair", 60, enqueue_pair),
    ("empty_tick", 100, empty_tick),
    ("tick_64_idle", 100, tick_64_idle),
    ("task_life_in_ticks", 60, task_life),
    ("task_life_in_passes", 60, task_life_in_passes),
    ("poll_pending", 100, poll_pending),
    ("poll_done", 60, poll_done),
    ("check_1", 100, check_1),
    ("check_126", 100, check_126),
    ("barrier_2_ranks", 100, barrier),
    ("ring_send_recv_8", 100, ring),
    ("pass_0", 100, || whole_pass(0)),
    ("pass_1", 100, || whole_pass(1)),
    ("pass_8", 100, || whole_pass(8)),
    ("pass_64", 100, || whole_pass(64)),
    ("life_in_passes", 8, life),
];

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let Some((_, operations, run)) = ROWS.iter().find(|(name, ..)| *name == wanted) else {
        let names: Vec<&str> = ROWS.iter().map(|(name, ..)| *name).collect();
        eprintln!("guard: row {wanted:?}, accepted: {}", names.join(", "));
        return ExitCode::FAILURE;
    };
    run();
    println!("operations {operations}");
    ExitCode::SUCCESS
}

/// What a measurement itself costs.
fn call() {
    for number in 0..100 {
        measured(|| black_box(number));
    }
}

fn worker() -> Box<Worker> {
    Box::new(Driver::new())
}

fn spec(barrier: bool) -> Spec {
    Spec {
        barrier,
        ..Spec::new(Rank(0))
    }
}

/// Appends `count` executions and returns the tickets of their network tasks; each append is measured if asked for.
fn append(count: u64, barrier: bool, counted: bool) -> Vec<Ticket> {
    let context = QUEUE.register(&spec(barrier)).expect("a free place");
    let words = OneCall(idle);
    (0..count)
        .map(|exec| {
            let enqueue = || QUEUE.enqueue(context, ExecId(exec), &words);
            let appended = if counted {
                measured(enqueue)
            } else {
                enqueue()
            };
            appended.expect("room").network.expect("a network task")
        })
        .collect()
}

fn enqueue() {
    append(60, false, true);
}

fn enqueue_pair() {
    append(60, true, true);
}

fn empty_tick() {
    let mut worker = worker();
    let mut ports = OneCall(idle);
    for _ in 0..100 {
        let _ = measured(|| worker.tick(&QUEUE, &mut ports));
    }
}

fn tick_64_idle() {
    append(64, false, false);
    let mut worker = worker();
    let mut ports = OneCall(idle);
    // Drained, started, and idle from the third tick on.
    for _ in 0..3 {
        let _ = worker.tick(&QUEUE, &mut ports);
    }
    for _ in 0..100 {
        let tick = measured(|| worker.tick(&QUEUE, &mut ports));
        assert_eq!(tick.stepped, 64);
    }
}

/// All that the worker does for a task of one block, over its life: 60 tasks, three ticks.
fn task_life() {
    append(60, false, false);
    let mut worker = worker();
    let mut ports = OneCall(done);
    let mut ended = 0;
    while ended < 60 {
        ended += measured(|| worker.tick(&QUEUE, &mut ports)).done;
    }
}

/// The same of a worker as it is shipped.
fn task_life_in_passes() {
    let mut worker = contexts::by_hand();
    let context = (worker.queue()).context(contexts::builder(0, What::new(contexts::DONE)));
    let context = context.expect("a context");
    for exec in 0..60 {
        context.enqueue(ExecId(exec)).expect("room");
    }
    for _ in 0..2 {
        measured(|| worker.pass());
    }
    assert_eq!(worker.queue().unfinished().len(), 0);
}

fn poll_pending() {
    let tickets = append(60, false, false);
    for ticket in tickets.iter().cycle().take(100) {
        let _ = measured(|| QUEUE.poll(*ticket)).expect("a live ticket");
    }
}

fn poll_done() {
    let tickets = append(60, false, false);
    let mut worker = worker();
    while worker.tick(&QUEUE, &mut OneCall(done)).done < 60 {}
    for ticket in tickets {
        let _ = measured(|| QUEUE.poll(ticket)).expect("a done task");
    }
}

/// A look for the only unconsumed task of its context and kind, among `others` of the same rank.
fn check(others: u64) {
    append(others, false, false);
    let context = QUEUE.register(&spec(false)).expect("a free place");
    let _ = QUEUE
        .enqueue(context, ExecId(0), &OneCall(idle))
        .expect("room");
    for _ in 0..100 {
        let _ = measured(|| QUEUE.check(context, TaskKind::Network)).expect("a live task");
    }
}

fn check_1() {
    check(0);
}

fn check_126() {
    check(125);
}

/// Both ranks of a bus in this thread: nobody sleeps.
fn buses() -> [Bus; 2] {
    let job = format!("guard-{}", std::process::id());
    let buses =
        [0, 1].map(|rank| Bus::create(&Options::new(job.as_str(), rank, 2)).expect("joined"));
    for bus in &buses {
        bus.connect(AMPLE).expect("both are there");
    }
    buses
}

fn barrier() {
    let buses = buses();
    let barrier = |bus: &Bus| {
        bus.barrier(0, [0, 1].into_iter().collect())
            .expect("a slot")
    };
    let [mut leader, mut other] = buses.each_ref().map(barrier);
    for exec in 0..100 {
        measured(|| pass(&mut leader, &mut other, exec));
    }
}

/// One generation: two arrivals, and the looks that end it.
fn pass(leader: &mut Barrier, other: &mut Barrier, exec: u64) {
    leader.arrive(exec, AMPLE);
    other.arrive(exec, AMPLE);
    assert_eq!(leader.poll().expect("an intact bus"), Progress::Complete);
    leader.pass().expect("an intact bus");
    assert!(matches!(other.poll(), Ok(Progress::Over(_))));
}

fn ring() {
    let [mut sender, mut receiver] = buses();
    let mut buffer = [0; 8];
    for number in 0..100_u64 {
        measured(|| {
            sender
                .send(1, 7, &number.to_ne_bytes(), AMPLE)
                .expect("room");
            receiver
                .recv_into(0, Some(7), &mut buffer, AMPLE)
                .expect("a message");
        });
        assert_eq!(u64::from_ne_bytes(buffer), number);
    }
}

/// A worker's whole pass over so many tasks whose library moves nothing.
fn whole_pass(tasks: u32) {
    let what = What::new(contexts::IDLE);
    let mut worker = contexts::by_hand_over(tasks, what);
    for _ in 0..100 {
        measured(|| worker.pass());
    }
    what.set(contexts::DONE);
    worker.pass();
    assert_eq!(worker.queue().unfinished().len(), 0);
}

/// Passes in the life of a task: so often the library was called for one network task of the shortest collective, of 2 elements on 4 ranks.
const LIFE: u32 = 127;

/// All that the worker does for 8 tasks of one block, from the drain to the end.
fn life() {
    let mut worker = contexts::by_hand();
    let what = What::new(contexts::IDLE);
    let context = worker.queue().context(contexts::builder(0, what));
    let context = context.expect("a context");
    for exec in 0..8 {
        context.enqueue(ExecId(exec)).expect("room");
    }
    for _ in 0..LIFE {
        measured(|| worker.pass());
    }
    what.set(contexts::DONE);
    measured(|| worker.pass());
    assert_eq!(worker.queue().unfinished().len(), 0);
}
