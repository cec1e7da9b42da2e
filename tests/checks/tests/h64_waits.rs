//! H64, H65: wake-ups across processes, and deadlines under a storm of signals.

use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, Role};
use proxy_checks::os;
use proxy_os::bananaphone::{BusError, Why};
use proxy_os::sys::clock::monotonic_ns;

/// Where this process has the segment.
fn address() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("memfd:bananaphone"));
    line.unwrap().split('-').next().unwrap().to_owned()
}

#[test]
fn h64_a_sleeper_in_another_process_is_woken() {
    let job = bus::job();
    let sleeper = Role::new(&job, 1, 2, "").start("child_sleeps_for_messages");
    let mut bus = bus::connected(&job, 0, 2);
    let (_, theirs) = bus.recv(1, None, AMPLE).unwrap();
    assert_ne!(
        address().into_bytes(),
        theirs,
        "both have it at the same address"
    );
    let mut latest = Duration::ZERO;
    for _ in 0..20 {
        // Long past spinning; a different part of its slice of sleep each time.
        std::thread::sleep(Duration::from_millis(33));
        bus.send(1, 0, &monotonic_ns().to_ne_bytes(), AMPLE)
            .unwrap();
        let mut late = [0; 8];
        bus.recv_into(1, None, &mut late, AMPLE).unwrap();
        latest = latest.max(Duration::from_nanos(u64::from_ne_bytes(late)));
    }
    // A lost wake-up would cost a slice of 100 ms, less what had passed of it.
    assert!(latest < Duration::from_millis(50), "{latest:?}");
    sleeper.succeed();
}

#[test]
fn child_sleeps_for_messages() {
    let Some(role) = Role::of("child_sleeps_for_messages") else {
        return;
    };
    let mut bus = role.connected();
    bus.send(0, 0, address().as_bytes(), AMPLE).unwrap();
    for _ in 0..20 {
        let mut sent = [0; 8];
        bus.recv_into(0, None, &mut sent, AMPLE).unwrap();
        let late = monotonic_ns() - u64::from_ne_bytes(sent);
        bus.send(0, 0, &late.to_ne_bytes(), AMPLE).unwrap();
    }
}

#[test]
fn h65_signals_neither_end_nor_lengthen_a_wait() {
    Role::new(&bus::job(), 0, 2, "").run("child_under_signals");
}

#[test]
fn child_under_signals() {
    let Some(role) = Role::of("child_under_signals") else {
        return;
    };
    let job = role.job.as_str();
    std::thread::scope(|scope| {
        let peer = scope.spawn(move || bus::connected(job, 1, 2));
        let mut bus = bus::connected(job, 0, 2);
        let mut peer = peer.join().unwrap();
        os::interrupt_every(Duration::from_millis(10));
        let start = Instant::now();
        let error = bus.recv(1, None, Duration::from_millis(100)).unwrap_err();
        let waited = start.elapsed();
        let BusError::Wait(error) = error else {
            panic!("{error}")
        };
        assert_eq!(error.why, Why::Deadline);
        assert!(
            waited >= Duration::from_millis(100) && waited < Duration::from_millis(200),
            "{waited:?}"
        );
        let start = Instant::now();
        let publisher = scope.spawn(move || {
            // Signals end this sleep, too.
            while start.elapsed() < Duration::from_millis(50) {
                std::thread::sleep(Duration::from_millis(1));
            }
            peer.send(0, 5, b"here", AMPLE).unwrap();
            peer
        });
        let received = bus.recv(1, None, Duration::from_millis(100)).unwrap();
        assert_eq!(received, (5, b"here".to_vec()));
        assert!(start.elapsed() >= Duration::from_millis(50));
        publisher.join().unwrap();
    });
}
