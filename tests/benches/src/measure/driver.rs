//! The driver: append, done seen, tick, look, tasks in a row. The keys are those of `cc/original.cc`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use proxy_benches::ports::{OneCall, idle};
use proxy_benches::{clock, counting, machine};
use proxy_core::{Driver, ExecId, Queue, Rank, Spec, TaskKind, Ticket};

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
}

fn append_behind(key: &str, active: u32, what: &'static What) {
    let mut world = World::new(NEVER_SLEEP);
    let context = world.context(OURS, What::new(DONE));
    // 63 ranks of 64: the tasks of the last are ours.
    world.keep_active(active, active.min(OURS), what);
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

/// No worker at all, the slot included: the core's own append.
fn append_alone() {
    type Alone = Queue<1, 64, 1>;
    let mut rows = Vec::new();
    let words = OneCall(idle);
    for _ in 0..15 {
        let queue = Box::new(Alone::new());
        let context = queue.register(&Spec::new(Rank(0))).expect("a place");
        let begin = stamp();
        for exec in 0..60 {
            black_box(&queue.enqueue(context, ExecId(exec), &words));
        }
        rows.push((stamp() - begin) / 60);
    }
    Figure::of(rows).tell("append.alone");
}

/// From before the append to the sight of done.
pub(super) fn done() {
    machine::pin(0);
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
    let mut events = Vec::new();
    for exec in 0..2000 {
        clock::spin(pause + Duration::from_nanos(exec * 37 % 997));
        let begin = stamp();
        world.run(&context, exec);
        events.push(stamp() - begin);
    }
    Figure::of(events).tell(key);
}

/// A tick of the driver over idle tasks, per task.
pub(super) fn tick() {
    machine::pin(0);
    tick_of::<1, 8>("tick.1", 1);
    tick_of::<1, 256>("tick.256.1", 256);
    tick_of::<8, 32>("tick.256.8", 32);
    tick_of::<64, 4>("tick.256.64", 4);
    tick_of::<1, 4096>("tick.4096.1", 4096);
    tick_of::<8, 512>("tick.4096.8", 512);
    tick_of::<64, 64>("tick.4096.64", 64);
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
    let tasks = active as f64;
    Figure {
        p50: tick.p50 / tasks,
        p99: tick.p99 / tasks,
    }
    .tell(key);
}

/// Looks at statuses while the worker ticks them.
pub(super) fn look() {
    machine::pin(0);
    for active in [1, 16, 256, 4096] {
        let mut world = World::new(NEVER_SLEEP);
        let ours = world.context(OURS, What::new(IDLE));
        let first = world.context(0, What::new(IDLE));
        // The oldest of its rank; the others of rank 0 come behind it.
        let oldest = first.enqueue(ExecId(0)).expect("room").network;
        world.keep_active(active, active.min(OURS), What::new(IDLE));
        let tickets: Vec<Ticket> = world
            .queue
            .unfinished()
            .iter()
            .map(|task| task.ticket)
            .collect();
        let mut place = 1_usize;
        clock::each(2000, |_| {
            place = place
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let ticket = tickets[(place >> 33) % tickets.len()];
            black_box(&world.queue.poll(ticket));
        })
        .tell(&format!("poll.{active}"));
        clock::each(2000, |_| {
            black_box(&first.check(TaskKind::Network));
        })
        .tell(&format!("check.oldest.{active}"));
        clock::each(2000, |_| {
            black_box(&ours.check(TaskKind::Network));
        })
        .tell(&format!("check.none.{active}"));
        assert!(world.queue.poll(oldest).is_ok());
    }
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
