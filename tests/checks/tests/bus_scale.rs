//! The bus at its full size, ranks as threads and processes mixed: how fast 64 join, and a soak of 128.
//!
//! The soak does 2000 barriers; `PROXY_BUS_SOAK=1000000` makes it the long one.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, Role};
use proxy_checks::child;
use proxy_checks::pace::at_most;
use proxy_core::phone::barrier::RankSet;
use proxy_os::bananaphone::{Bus, Within};

/// Runs `body` for some ranks, each a thread.
fn as_threads(ranks: std::ops::Range<u16>, body: impl Fn(u16) + Sync) {
    std::thread::scope(|scope| {
        for rank in ranks {
            let body = &body;
            scope.spawn(move || body(rank));
        }
    });
}

/// Joins, and leaves when every rank has seen that all are there: one that looks late must not find the first ones gone.
fn join(job: &str, rank: u16, world: u16) {
    let mut bus = bus::connected(job, rank, world);
    bus.all_gather(&[], bus::AMPLE).expect("all are there");
}

#[test]
fn sixty_four_ranks_join_within_a_second() {
    // 8 processes of 4 ranks each, and 32 in this one.
    let (job, world) = (bus::job(), 64);
    let mut children: Vec<_> = (32..world)
        .step_by(4)
        .map(|first| {
            let mut command = child::command("child_joins_on_a_word");
            Role::new(&job, first, world, "4").give(&mut command);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            // It has started; the start of processes is not the bus's.
            assert!(lines.any(|line| line.unwrap().contains("started")));
            (child, lines)
        })
        .collect();
    let start = Instant::now();
    for (child, _) in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    as_threads(0..32, |rank| join(&job, rank, world));
    for (mut child, lines) in children {
        // To the end, so that it can write all it wants.
        let written: Vec<_> = lines.map_while(Result::ok).collect();
        assert!(written.iter().any(|line| line.contains("connected")));
        assert!(child.wait().unwrap().success());
    }
    let time = start.elapsed();
    println!("64 ranks joined in {time:?}");
    assert!(time < at_most(Duration::from_secs(1)), "{time:?}");
}

#[test]
fn child_joins_on_a_word() {
    let Some(role) = Role::of("child_joins_on_a_word") else {
        return;
    };
    println!("started");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let ranks: u16 = role.what.parse().unwrap();
    as_threads(role.rank..role.rank + ranks, |rank| {
        join(&role.job, rank, role.world);
    });
    println!("connected");
}

fn barriers() -> u64 {
    std::env::var("PROXY_BUS_SOAK").map_or(2000, |text| text.parse().expect("a number of barriers"))
}

/// How long a barrier may take, with everything else that the machine does.
const PATIENT: Within = Within::new(Duration::from_secs(120), "PATIENT");

/// One rank of the soak: barriers with pauses now and then, and a gather that compares notes.
fn soak(job: &str, rank: u16, world: u16) {
    let mut bus = bus::connected(job, rank, world);
    let mut barrier = bus.barrier(0, RankSet::below(world)).unwrap();
    let mut state = u64::from(rank) << 32 | 1;
    for round in 0..barriers() {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        match state >> 33 {
            pause if pause % 1000 == 0 => std::thread::sleep(Duration::from_micros(pause % 3000)),
            pause if pause % 16 == 0 => std::thread::yield_now(),
            _ => {}
        }
        barrier
            .wait(round, PATIENT)
            .unwrap_or_else(|error| panic!("{error}"));
        if round % 500 == 0 {
            agree(&mut bus, round);
        }
    }
    bus.all_gather(&[], PATIENT).unwrap();
}

fn agree(bus: &mut Bus, round: u64) {
    let all = bus.all_gather(&round.to_ne_bytes(), PATIENT).unwrap();
    assert!(all.iter().all(|other| *other == round.to_ne_bytes()));
}

#[test]
fn a_full_bus_of_threads_and_processes_survives_a_soak() {
    let (job, world) = (bus::job(), 128);
    let children: Vec<_> = (64..world)
        .step_by(8)
        .map(|first| {
            let mut command = child::command("child_soaks");
            Role::new(&job, first, world, "8").give(&mut command);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let start = Instant::now();
    as_threads(0..64, |rank| soak(&job, rank, world));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let each = start.elapsed() / u32::try_from(barriers()).unwrap_or(u32::MAX);
    println!("{} barriers of 128 ranks, {each:?} each", barriers());
}

#[test]
fn child_soaks() {
    let Some(role) = Role::of("child_soaks") else {
        return;
    };
    let ranks: u16 = role.what.parse().unwrap();
    as_threads(role.rank..role.rank + ranks, |rank| {
        soak(&role.job, rank, role.world)
    });
}
