//! H55, H56, H72: ranks that are killed in the middle of everything.
//!
//! Each numbered point has three rounds; `PROXY_KILL_ROUNDS=100` makes them a hundred.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, PROMPT, Process, Role};
use proxy_checks::os;
use proxy_checks::pace::{at_most, until};
use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::member::State;
use proxy_os::bananaphone::kill::{self, Point};
use proxy_os::bananaphone::{Bus, BusError, Why};

/// The rank that dies.
const VICTIM: u16 = 2;
/// How long the others wait for a rank that died before anybody knew it.
const UNKNOWN: Duration = Duration::from_secs(1);
/// A hang, on a busy machine.
const HANG: Duration = Duration::from_secs(10);

/// World and victim of the rounds, in turn: the leader of the barrier, or a rank that is not; and two alone, which meet there without one.
const CASES: [(u16, u16); 5] = [(3, 0), (3, VICTIM), (2, 1), (3, VICTIM), (2, 0)];

/// Rounds at a time: most of their time is spent waiting for a deadline.
const LANES: usize = 3;

/// What lies in the directories in which something could be left behind, but for other tests' scratch.
fn entries() -> BTreeSet<PathBuf> {
    let list = |directory: &str| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let all = ["/dev/shm", "/run"].into_iter().flat_map(list);
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains("banana") || name.contains("check-")
    };
    all.chain(list("/tmp").into_iter().filter(is_ours))
        .collect()
}

/// Everything that ranks do together. Ends at the first error; panics when a message is not whole.
fn life(bus: &mut Bus) -> Result<(), BusError> {
    let (me, world) = (bus.rank(), bus.world());
    let mut barrier = bus.barrier(0, RankSet::below(world))?;
    let long = vec![me as u8; 3 * bus.capacity()];
    for round in 0..3 {
        bus.broadcast(1, &message(me, round), AMPLE)?;
        for from in (0..world).filter(|rank| *rank != me) {
            let (_, bytes) = bus.recv(from, Some(1), AMPLE)?;
            assert_eq!(bytes, message(from, round), "torn");
        }
        barrier.wait(round, AMPLE)?;
        for (rank, bytes) in (0..world).zip(bus.all_gather(&long, AMPLE)?) {
            assert!(bytes == vec![rank as u8; long.len()], "torn");
        }
    }
    Ok(())
}

/// A message that shows if any part of it is missing.
fn message(rank: u16, round: u64) -> Vec<u8> {
    let length = 200 + usize::from(rank) * 100 + round as usize;
    (0..length)
        .map(|index| (index * 31 + usize::from(rank)) as u8)
        .collect()
}

fn join_and_live(job: &str, rank: u16, world: u16) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let mut bus = Bus::create(&bus::options(job, rank, world)).map_err(|error| told(&error))?;
    bus.connect(UNKNOWN).map_err(|error| told(&error))?;
    life(&mut bus).map_err(|error| told(&error))
}

#[test]
fn child_that_dies() {
    let Some(role) = Role::of("child_that_dies") else {
        return;
    };
    let number: u32 = role.what.parse().unwrap();
    let point = Point::ALL.into_iter().find(|point| *point as u32 == number);
    kill::arm(point.unwrap());
    let ended = join_and_live(&role.job, role.rank, role.world);
    // Not every rank comes to every point.
    println!("lived: {ended:?}");
}

/// Waits until the job's bus has its hub, or `process` has ended.
fn wait_for_hub(job: &str, process: Option<&mut Process>) {
    let mut process = process;
    let start = Instant::now();
    let name = format!("@bananaphone/{job}");
    while !std::fs::read_to_string("/proc/net/unix")
        .unwrap()
        .contains(&name)
    {
        if process.as_mut().is_some_and(|process| process.has_ended()) {
            return;
        }
        assert!(start.elapsed() < AMPLE, "no hub");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The victim dies at the point, being the hub or not; the others end in time; then the job starts afresh.
fn round(point: Point, (world, victim): (u16, u16), first: bool) {
    let job = bus::job();
    let role = Role::new(&job, victim, world, &(point as u32).to_string());
    let mut early = first.then(|| role.start("child_that_dies"));
    if first {
        wait_for_hub(&job, early.as_mut());
    }
    let others: Vec<u16> = (0..world).filter(|rank| *rank != victim).collect();
    std::thread::scope(|scope| {
        let live = |rank| {
            let job = &job;
            scope.spawn(move || {
                let start = Instant::now();
                let ended = join_and_live(job, rank, world);
                (ended, start.elapsed())
            })
        };
        let survivors: Vec<_> = others.iter().map(|rank| live(*rank)).collect();
        let victim_process = early.take().unwrap_or_else(|| {
            wait_for_hub(&job, None);
            role.start("child_that_dies")
        });
        let output = bus::text(&victim_process.output());
        for survivor in survivors {
            let (ended, time) = survivor.join().unwrap();
            assert!(time < UNKNOWN + HANG, "{point:?}: {ended:?} after {time:?}");
            if let Err(error) = ended {
                // Whatever it was doing, it says who.
                let victim = format!("rank {victim} ");
                let named = error.contains(&victim) || error.contains("missing {");
                assert!(named, "{point:?}: {error}\n{output}");
            }
        }
    });
    let afresh = |rank| {
        let mut bus = bus::connected(&job, rank, world);
        life(&mut bus).unwrap();
        // All have what they need before the first one leaves.
        bus.all_gather(&[], AMPLE).unwrap();
    };
    let afresh = &afresh;
    std::thread::scope(|scope| (0..world).for_each(|rank| drop(scope.spawn(move || afresh(rank)))));
}

/// Rounds of each point.
fn count() -> usize {
    let given = std::env::var("PROXY_KILL_ROUNDS");
    given.map_or(3, |text| text.parse().expect("a number of rounds"))
}

fn rounds(first: bool) {
    let before = entries();
    for point in Point::ALL {
        let cases = CASES.into_iter().cycle().take(count());
        std::thread::scope(|scope| {
            for lane in 0..LANES {
                let own = cases.clone().skip(lane).step_by(LANES);
                scope.spawn(move || own.for_each(|case| round(point, case, first)));
            }
        });
        println!("{point:?}: {} rounds", count());
    }
    assert_eq!(entries(), before);
}

#[test]
fn h55_a_hub_that_is_killed_anywhere_leaves_nothing_behind() {
    rounds(true);
}

#[test]
fn h55_a_rank_that_is_killed_anywhere_leaves_nothing_behind() {
    rounds(false);
}

/// The hub's rank knows from the member table that all are there, and leaves before the last one has said so to the hub. The two others
/// watch each other nevertheless.
#[test]
fn h55_a_rank_that_is_killed_when_the_hub_has_left_is_noticed() {
    let job = bus::job();
    let hub = Bus::create(&bus::options(&job, 0, 3)).unwrap();
    assert!(hub.is_hub());
    let mut watching = Role::new(&job, 1, 3, "").start("child_that_watches");
    let mut last = Role::new(&job, 2, 3, "stops").start("child_that_is_watched");
    hub.connect(AMPLE).unwrap();
    until("stopped", || os::is_stopped(last.id()));
    std::thread::scope(|scope| {
        scope.spawn(move || hub.cleanup());
        watching.await_line("the hub has left");
        os::signal(last.id(), libc::SIGCONT);
    });
    watching.await_line("the last rank is there");
    last.kill();
    watching.succeed();
}

/// A rank dies before it has told the hub that it is there. The bus will not be complete; the others watch each other nevertheless.
#[test]
fn h55_a_rank_that_is_killed_is_noticed_also_behind_one_that_died_while_it_came() {
    let job = bus::job();
    let hub = Bus::create(&bus::options(&job, 0, 4)).unwrap();
    let mut watching = Role::new(&job, 1, 4, "").start("child_that_watches");
    let mut watched = Role::new(&job, 2, 4, "").start("child_that_is_watched");
    let is_there = |rank: usize| hub.members().unwrap()[rank].0 == State::Joined;
    until("there", || is_there(1) && is_there(2));
    let dies = Role::new(&job, 3, 4, "dies").start("child_that_is_watched");
    assert_eq!(dies.output().status.signal(), Some(libc::SIGKILL));
    until("noticed", || hub.dead(PROMPT).unwrap().has(3));
    hub.cleanup();
    watching.await_line("the hub has left");
    watching.await_line("the last rank is there");
    watched.kill();
    watching.succeed();
}

#[test]
fn child_that_watches() {
    let Some(role) = Role::of("child_that_watches") else {
        return;
    };
    let why = |bus: &mut Bus, from| match bus.recv(from, Some(1), AMPLE) {
        Err(BusError::Wait(error)) => (error.why, error.elapsed),
        other => panic!("{other:?}"),
    };
    let mut bus = Bus::create(&bus::options(&role.job, role.rank, role.world)).unwrap();
    assert_eq!(why(&mut bus, 0).0, Why::PeerLeft(0));
    println!("the hub has left");
    bus.recv(2, Some(0), AMPLE).unwrap();
    println!("the last rank is there");
    let (why, elapsed) = why(&mut bus, 2);
    assert_eq!(why, Why::PeerDead(2));
    assert!(elapsed < at_most(Duration::from_secs(2)), "{elapsed:?}");
}

#[test]
fn child_that_is_watched() {
    let Some(role) = Role::of("child_that_is_watched") else {
        return;
    };
    // Before it tells the hub.
    match role.what.as_str() {
        "stops" => kill::arm_stop(Point::Joined),
        "dies" => kill::arm(Point::Joined),
        _ => {}
    }
    let mut bus = Bus::create(&bus::options(&role.job, role.rank, role.world)).unwrap();
    bus.send(1, 0, b"", AMPLE).unwrap();
    bus.recv(1, None, AMPLE).unwrap();
}

/// Two receivers and a publisher that dies at the point, in its third message.
fn dies_publishing(point: Point) {
    let job = bus::job();
    let role = Role::new(&job, VICTIM, 3, &(point as u32).to_string());
    let mut victim = role.start("child_that_dies_publishing");
    let ends = std::thread::scope(|scope| {
        let receive = |rank| {
            let job = &job;
            scope.spawn(move || {
                let mut bus = bus::connected(job, rank, 3);
                let mut whole = 0;
                loop {
                    match bus.recv(VICTIM, None, AMPLE) {
                        Ok((tag, bytes)) => {
                            assert!(
                                bytes == vec![tag as u8; bytes.len()] && bytes.len() > 9,
                                "torn"
                            );
                            whole += 1;
                        }
                        Err(error) => return (whole, error, Instant::now(), bus),
                    }
                }
            })
        };
        let threads = [receive(0), receive(1)];
        while !victim.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let dead = Instant::now();
        threads.map(|thread| {
            let (whole, error, told, bus) = thread.join().unwrap();
            let late = told.saturating_duration_since(dead);
            assert!(late < PROMPT, "{point:?}: {late:?}");
            (whole, error, bus)
        })
    });
    for (whole, error, _bus) in ends {
        let BusError::Wait(error) = error else {
            panic!("{error}")
        };
        assert_eq!(
            (error.why, error.dead),
            (Why::PeerDead(VICTIM), RankSet::default().with(VICTIM))
        );
        // A message that was published is received, also when its sender could not wake anybody any more.
        let published = if point == Point::Published { 1 } else { 0 };
        assert_eq!(whole, published, "{point:?}");
    }
}

#[test]
fn child_that_dies_publishing() {
    let Some(role) = Role::of("child_that_dies_publishing") else {
        return;
    };
    let mut bus = role.connected();
    let number: u32 = role.what.parse().unwrap();
    let point = Point::ALL.into_iter().find(|point| *point as u32 == number);
    // So that the receivers are asleep when it happens.
    std::thread::sleep(Duration::from_millis(30));
    kill::arm(point.unwrap());
    let size = if point == Some(Point::HalfSent) {
        5 * bus.capacity()
    } else {
        100
    };
    bus.broadcast(3, &vec![3; size], AMPLE).unwrap();
    panic!("alive");
}

#[test]
fn h56_a_publisher_that_dies_leaves_a_whole_message_or_none() {
    dies_publishing(Point::Prepared);
    dies_publishing(Point::Published);
    dies_publishing(Point::HalfSent);
}

#[test]
fn h72_what_was_reserved_and_not_committed_is_never_received() {
    for _ in 0..10 {
        dies_publishing(Point::Prepared);
    }
}

/// Message `index` of a run that both sides know.
fn numbered(index: u32) -> Vec<u8> {
    let mut state = u64::from(index).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    state ^= state >> 29;
    let length = if index.is_multiple_of(50) {
        0
    } else {
        (state % 4097) as usize
    };
    (0..length)
        .map(|byte| (state >> (byte % 8)) as u8 ^ byte as u8)
        .collect()
}

#[test]
fn h72_a_thousand_messages_of_random_length_keep_their_boundaries() {
    let job = bus::job();
    let sender = Role::new(&job, 1, 2, "").start("child_that_sends_a_thousand");
    let mut bus = bus::connected(&job, 0, 2);
    for index in 0..1000 {
        let (tag, bytes) = bus.recv(1, None, AMPLE).unwrap();
        assert_eq!(tag, index);
        assert_eq!(bytes, numbered(index));
    }
    bus.send(1, 0, b"", AMPLE).unwrap();
    sender.succeed();
}

#[test]
fn child_that_sends_a_thousand() {
    let Some(role) = Role::of("child_that_sends_a_thousand") else {
        return;
    };
    let mut bus = role.connected();
    for index in 0..1000 {
        bus.send(0, index, &numbered(index), AMPLE).unwrap();
    }
    bus.recv(0, None, AMPLE).unwrap();
}
