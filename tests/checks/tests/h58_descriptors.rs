//! H58: ranks at their limit of open files, when the bus's memory is handed to them, and later.

use std::fs::File;
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, PROMPT, Role};
use proxy_checks::pace::at_most;
use proxy_checks::{messages, os};
use proxy_core::phone::barrier::RankSet;
use proxy_os::bananaphone::{Bus, BusError, Fallback, JoinError, Why};

/// Takes every descriptor that this process may still have.
fn fill() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn h58_a_rank_without_room_for_the_descriptor_says_so_on_both_sides() {
    let job = bus::job();
    let bus = Bus::create(&bus::options(&job, 0, 2)).unwrap();
    let full = Role::new(&job, 1, 2, "").start("child_without_room");
    let start = Instant::now();
    let error = bus.connect(AMPLE).unwrap_err();
    let cause = Box::new(JoinError::FdNotDelivered { limit: 64 });
    let rank = Some(1);
    assert_eq!(error, JoinError::Peer { rank, cause });
    assert!(start.elapsed() < Duration::from_secs(5));
    full.succeed();
}

#[test]
fn child_without_room() {
    let Some(role) = Role::of("child_without_room") else {
        return;
    };
    os::limit(libc::RLIMIT_NOFILE, 64);
    let mut files = fill();
    // Room for the socket and nothing else.
    files.pop();
    let before = files.len();
    let start = Instant::now();
    let error = Bus::create(&bus::options(&role.job, 1, 2)).unwrap_err();
    assert_eq!(error, JoinError::FdNotDelivered { limit: 64 });
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    // All that was taken is given back: there is room for exactly one again.
    files.extend(fill());
    assert_eq!(files.len(), before + 1);
}

/// The others' descriptors come when the last rank has joined. A rank that has no room for them by then goes on without, says so, and still
/// hears of the end of the only other process, which is the hub's.
#[test]
fn h58_a_rank_that_has_no_room_later_goes_on_and_says_so() {
    let job = bus::job();
    let hub = Role::new(&job, 0, 3, "").start("child_hub_of_two_ranks");
    let start = Instant::now();
    while !std::fs::read_to_string("/proc/net/unix")
        .unwrap()
        .contains(&format!("@bananaphone/{job}"))
    {
        assert!(start.elapsed() < AMPLE, "no hub");
        std::thread::sleep(Duration::from_millis(1));
    }
    Role::new(&job, 1, 3, "").run("child_that_fills_up");
    assert!(!hub.output().status.success(), "killed");
}

#[test]
fn child_hub_of_two_ranks() {
    let Some(role) = Role::of("child_hub_of_two_ranks") else {
        return;
    };
    let mut bus = Bus::create(&bus::options(&role.job, 0, 3)).unwrap();
    assert!(bus.is_hub());
    bus.recv(1, Some(1), AMPLE).unwrap();
    let mut last = bus::connected(&role.job, 2, 3);
    last.recv(1, Some(2), AMPLE).unwrap();
    os::signal(std::process::id(), libc::SIGKILL);
}

#[test]
fn child_that_fills_up() {
    let Some(role) = Role::of("child_that_fills_up") else {
        return;
    };
    messages::collect();
    let mut bus = Bus::create(&bus::options(&role.job, 1, 3)).unwrap();
    os::limit(libc::RLIMIT_NOFILE, 64);
    let mut files = fill();
    bus.send(0, 1, b"full", AMPLE).unwrap();
    bus.connect(AMPLE).unwrap();
    let start = Instant::now();
    while bus.counters().of(Fallback::Unwatched) == 0 {
        assert!(start.elapsed() < AMPLE, "not said");
        std::thread::yield_now();
    }
    // It is counted first and told then.
    while messages::with("counter unwatched").is_empty() {
        assert!(start.elapsed() < AMPLE, "not told");
        std::thread::yield_now();
    }
    let said = messages::with("counter unwatched");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].1.contains("0 of 1 descriptors"), "{said:?}");
    // Nothing more is open than before, and nothing less.
    assert!(fill().is_empty());
    files.pop();
    assert_eq!(fill().len(), 1);
    bus.send(2, 2, b"die", AMPLE).unwrap();
    for rank in [2, 0] {
        let error = match bus.recv(rank, None, AMPLE).unwrap_err() {
            BusError::Wait(error) => error,
            other => panic!("{other}"),
        };
        assert_eq!(error.why, Why::PeerDead(rank));
        assert!(
            error.elapsed < at_most(Duration::from_secs(1)),
            "{:?}",
            error.elapsed
        );
        let both = RankSet::default().with(0).with(2);
        assert_eq!(
            (error.dead, error.missing),
            (both, RankSet::default().with(rank))
        );
    }
}
