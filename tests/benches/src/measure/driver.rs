//! The driver: append, done seen, tick, look, tasks in a row. The keys are those of `cc/original.cc`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use proxy_benches::ports::{OneCall, idle};
use proxy_benches::{clock, contexts, counting, machine};
use proxy_core::{Driver, ExecId, Poll, PollError, Queue, Rank, Spec, TaskKind, Ticket};
use proxy_os::queue::Context;

use super::floor;
use super::world::{DONE, IDLE, What, World};
use clock::{Figure, stamp};

/// Longer than any of these takes.
const NEVER_SLEEP: Duration = Duration::from_secs(600);
/// The rank of the tasks that are timed; the others are below it.
const OURS: u32 = 63;

/// Appends while the worker has so many active tasks.
pub(super) fn append() {
    machine::pin(0);
    for active in [1, 16, 256, 4096] {
        append_behind(&format!("append.idle.{active}"), active, What::new(IDLE));
    }
    append_behind("append.busy.16", 16, What::microsecond());
    append_alone();
    append_handle();
}

/// Uses every slot of a rank, and so every page that comes with them, once.
fn warm_up(world: &World, context: &Context) {
    (0..256).for_each(|exec| world.run(context, exec));
}

fn append_behind(key: &str, active: u32, what: &'static What) {
    let mut world = World::new(NEVER_SLEEP);
    let context = world.context(OURS, What::new(DONE));
    // 63 ranks of 64: the tasks of the last are ours.
    world.keep_active(active, active.min(OURS), what);
    warm_up(&world, &context);
    let mut events = Vec::new();
    for exec in 0..4000 {
        clock::spin(Duration::from_nanos(exec * 37 % 997));
        let begin = stamp();
        let execution = context.enqueue(ExecId(exec)).expect("room");
        events.push(stamp() - begin);
        world.wait(execution.network);
    }
    Figure::of(events).tell(key);
}

/// Appends in a row that is timed together; there are slots for all.
const ROW: u64 = 60;

/// No worker at all, the slot included: the core's own append.
fn append_alone() {
    type Alone = Queue<1, 64, 1>;
    let words = OneCall(idle);
    let row = |_| {
        let queue = Box::new(Alone::new());
        let context = queue.register(&Spec::new(Rank(0))).expect("a place");
        let begin = stamp();
        for exec in 0..ROW {
            black_box(&queue.enqueue(context, ExecId(exec), &words));
        }
        clock::ns(stamp() - begin) / ROW as f64
    };
    Figure::of_few((0..15).map(row).collect()).tell("append.alone");
}

/// The same through what a user holds, to a queue as it is shipped whose worker is awake and looks at something else.
fn append_handle() {
    let mut worker = contexts::by_hand();
    let context = worker
        .queue()
        .context(contexts::builder(0, What::new(DONE)));
    let context = context.expect("a context");
    let row = |_| {
        let begin = stamp();
        for exec in 0..ROW {
            black_box(&context.enqueue(ExecId(exec)));
        }
        let each = clock::ns(stamp() - begin) / ROW as f64;
        let mut consumed = 0;
        while consumed < ROW {
            worker.pass();
            while matches!(context.check(TaskKind::Network), Ok(Poll::Done(_))) {
                consumed += 1;
            }
        }
        each
    };
    Figure::of_few((0..15).map(row).collect()).tell("append.handle");
}

/// From before the append to the sight of done.
pub(super) fn done() {
    machine::pin(0);
    // Beside what is compared with it: it may have changed since the floors were measured.
    floor::round_trip();
    {
        let mut world = World::new(NEVER_SLEEP);
        world.keep_active(1, 1, What::new(IDLE));
        until_done("done.spin", &world, Duration::from_micros(2));
    }
    let spinning = World::new(NEVER_SLEEP);
    until_done("done.prespin", &spinning, Duration::from_micros(2));
    drop(spinning);
    until_done(
        "done.asleep",
        &World::new(Duration::ZERO),
        Duration::from_micros(100),
    );
}

fn until_done(key: &str, world: &World, pause: Duration) {
    let context = world.context(OURS, What::new(DONE));
    warm_up(world, &context);
    let mut events = Vec::new();
    for exec in 0..2000 {
        clock::spin(pause + Duration::from_nanos(exec * 37 % 997));
        let begin = stamp();
        world.run(&context, exec);
        events.push(stamp() - begin);
    }
    Figure::of(events).tell(key);
}

/// A tick of the core over idle tasks, per task; and the pass around it.
pub(super) fn tick() {
    machine::pin(0);
    tick_of::<1, 8>("tick.1", 1);
    tick_of::<1, 256>("tick.256.1", 256);
    tick_of::<8, 32>("tick.256.8", 32);
    tick_of::<64, 4>("tick.256.64", 4);
    tick_of::<1, 4096>("tick.4096.1", 4096);
    tick_of::<8, 512>("tick.4096.8", 512);
    tick_of::<64, 64>("tick.4096.64", 64);
    pass_over(1).tell("pass.1");
    let pass = pass_over(64);
    pass.tell("pass.64");
    pass.each_of(64).tell("pass.64.each");
}

/// The whole pass of a worker as it is shipped, over so many idle tasks of a rank and context each.
fn pass_over(tasks: u32) -> Figure {
    let what = What::new(IDLE);
    let mut worker = contexts::by_hand_over(tasks, what);
    let pass = clock::each(4000, |_| worker.pass());
    what.set(DONE);
    worker.pass();
    assert_eq!(worker.queue().unfinished().len(), 0);
    pass
}

fn tick_of<const RANKS: usize, const TASKS: usize>(key: &str, per_rank: u64) {
    let queue = Box::new(Queue::<RANKS, TASKS, 64>::new());
    let mut driver = Box::new(Driver::<RANKS, TASKS>::new());
    let mut ports = OneCall(idle);
    for rank in (0..).take(RANKS) {
        let context = queue.register(&Spec::new(Rank(rank))).expect("a place");
        for exec in 0..per_rank {
            let _ = queue.enqueue(context, ExecId(exec), &ports).expect("room");
        }
    }
    let active = RANKS * per_rank as usize;
    for _ in 0..10 {
        let _ = driver.tick(&queue, &mut ports);
    }
    let ticks = if active > 1000 { 200 } else { 4000 };
    let tick = clock::each(ticks, |_| {
        black_box(&driver.tick(&queue, &mut ports));
    });
    tick.each_of(active).tell(key);
}

/// Looks at statuses while the worker ticks them.
pub(super) fn look() {
    machine::pin(0);
    for active in [1, 16, 256, 4096] {
        let mut world = World::new(NEVER_SLEEP);
        // All of a rank that has tasks of others as well, as every search goes over those, too.
        let [first, none, after] = [IDLE, IDLE, DONE].map(|what| world.context(0, What::new(what)));
        // The oldest of its rank; the others of rank 0 come behind it.
        let oldest = first.enqueue(ExecId(0)).expect("room").network;
        world.keep_active(active, active.min(OURS), What::new(IDLE));
        let order = drawn(&world);
        clock::each(order.len(), |number| {
            black_box(&world.queue.poll(order[number]));
        })
        .tell(&format!("poll.{active}"));
        clock::each(2000, |_| {
            black_box(&first.check(TaskKind::Network));
        })
        .tell(&format!("check.oldest.{active}"));
        clock::each(2000, |_| {
            black_box(&none.check(TaskKind::Network));
        })
        .tell(&format!("check.none.{active}"));
        if [1, 4096].contains(&active) {
            check_after(&world, &after).tell(&format!("check.after.{active}"));
        }
        assert!(world.queue.poll(oldest).is_ok());
    }
}

/// Unfinished tasks in an order that nobody foresees, always so many that to have drawn them costs the same for any number of tasks.
fn drawn(world: &World) -> Vec<Ticket> {
    let tasks = world.queue.unfinished();
    let mut place = 1_usize;
    let draw = |_| {
        place = place
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        tasks[(place >> 33) % tasks.len()].ticket
    };
    (0..4096).map(draw).collect()
}

/// The first look of a context behind a consume, which has to go over the slots of the rank. Timed singly, the timer included.
fn check_after(world: &World, context: &Context) -> Figure {
    let look = |exec| {
        world.run(context, exec);
        let begin = stamp();
        let answer = context.check(TaskKind::Network);
        let time = stamp() - begin;
        assert_eq!(answer, Err(PollError::Unknown));
        time
    };
    Figure::of((0..2000).map(look).collect())
}

/// Tasks in a row with so many in flight, in nanoseconds per task; and what they allocate.
pub(super) fn tasks() {
    machine::pin(0);
    for window in [1, 16, 64, 1024] {
        let world = World::new(NEVER_SLEEP);
        // 64 in flight per rank at most.
        let contexts: Vec<_> = (0..16.min(window))
            .map(|rank| world.context(rank, What::new(DONE)))
            .collect();
        let append = |exec: usize| {
            let context = &contexts[exec % contexts.len()];
            context.enqueue(ExecId(exec as u64)).expect("room").network
        };
        let mut flight: Vec<Ticket> = (0..window as usize).map(append).collect();
        let mut count = 0;
        let mut again = || {
            for ticket in &mut flight {
                world.wait(*ticket);
                *ticket = append(count);
                count += 1;
            }
            count
        };
        let (begin, end) = (stamp(), Instant::now() + Duration::from_millis(400));
        let mut tasks = 0;
        while Instant::now() < end {
            tasks = again();
        }
        let each = clock::ns(stamp() - begin) / tasks as f64;
        Figure::single(each).tell(&format!("tasks.{window}"));
        if window == 16 {
            allocations(|| {
                again();
            });
        }
        flight.into_iter().for_each(|ticket| world.wait(ticket));
    }
}

/// Heap allocations of a task, of which `tasks` runs 16: the median of 15 rows, as the watchdog's looks allocate now and then.
fn allocations(mut tasks: impl FnMut()) {
    const RUNS: u64 = 20;
    let mut rows: [u64; 15] = std::array::from_fn(|_| {
        let before = counting::allocations();
        (0..RUNS).for_each(|_| tasks());
        counting::allocations() - before
    });
    rows.sort_unstable();
    Figure::single(rows[7] as f64 / (RUNS * 16) as f64).tell("allocations");
}
