//! H57, H59, H60, H69-H71: how ranks meet, who is kept out, and how a death is noticed.
//!
//! Failures of system calls are injected for a whole process, so those tests do their part in a child.
//!
//! Requirements: H57, H59, H60, H69, H70, H71.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, PROMPT, Role};
use proxy_checks::pace::at_most;
use proxy_checks::{messages, os};
use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::member::State;
use proxy_os::bananaphone::kill::{self, Point};
use proxy_os::bananaphone::{Bus, BusError, Fallback, JoinError, Phase, WaitError, Why, Within};
use proxy_os::sys::fault::{self, Call};

fn only(rank: u16) -> RankSet {
    RankSet::default().with(rank)
}

fn join_error(error: JoinError) -> WaitError {
    match error {
        JoinError::Wait(error) => error,
        other => panic!("{other}"),
    }
}

fn bus_error(error: BusError) -> WaitError {
    match error {
        BusError::Wait(error) => error,
        other => panic!("{other}"),
    }
}

/// A rank that joins, says so to rank 0, and then waits to be killed or for rank 0's word.
#[test]
fn child_peer() {
    let Some(role) = Role::of("child_peer") else {
        return;
    };
    let mut bus = role.connected();
    bus.send(0, 1, b"here", AMPLE).unwrap();
    match bus.recv(0, Some(2), AMPLE) {
        Ok(_) => {}
        Err(BusError::Wait(error)) => println!("told: {:?}", error.why),
        Err(error) => panic!("{error}"),
    }
}

/// Rank 0's part: waits for the peer, has it killed, and returns how long the news took.
fn notice_death(bus: &mut Bus, peer: u16, kill: impl FnOnce()) -> Duration {
    bus.recv(peer, Some(1), AMPLE).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let error = bus_error(bus.recv(peer, Some(3), AMPLE).unwrap_err());
            (Instant::now(), error)
        });
        std::thread::sleep(Duration::from_millis(20));
        kill();
        let start = Instant::now();
        let (told, error) = waiter.join().unwrap();
        assert_eq!(
            (error.why, error.dead, error.missing),
            (Why::PeerDead(peer), only(peer), only(peer))
        );
        told.saturating_duration_since(start)
    })
}

#[test]
fn h57_a_rank_in_other_namespaces_joins_and_is_watched() {
    // The hub inside or outside of them.
    for inside_first in [false, true] {
        let job = bus::job();
        let role = Role::new(&job, 1, 2, "");
        let start = || role.start_apart("child_peer");
        let early = inside_first.then(start);
        if inside_first && early.as_ref().is_some_and(Option::is_some) {
            while !has_hub(&job) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let mut bus = Bus::create(&bus::options(&job, 0, 2)).unwrap();
        let Some(mut apart) = early.unwrap_or_else(start) else {
            println!("SKIPPED: unshare --user --pid not available");
            return;
        };
        bus.connect(AMPLE).unwrap();
        assert_eq!(bus.is_hub(), !inside_first);
        let late = notice_death(&mut bus, 1, || apart.kill());
        assert!(late < Duration::from_secs(1), "{late:?}");
    }
}

fn has_hub(job: &str) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    sockets.contains(&format!("@bananaphone/{job}"))
}

#[test]
fn h57_no_path_of_another_process_is_named_in_the_bus() {
    fn sources(directory: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("//"));
                found.extend(
                    code.filter(|line| line.contains("/proc/"))
                        .map(str::to_owned),
                );
            }
        }
    }
    let bus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proxy-os/src/bananaphone");
    let mut found = Vec::new();
    sources(&bus, &mut found);
    assert!(!found.is_empty());
    assert!(
        found.iter().all(|line| line.contains("/proc/self/")),
        "{found:?}"
    );
}

#[test]
fn h59_without_process_descriptors_a_death_is_noticed_by_the_hang_up() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EMFILE] {
        Role::new(&bus::job(), 0, 3, &errno.to_string()).run("child_without_pidfd");
    }
}

#[test]
fn child_without_pidfd() {
    let Some(role) = Role::of("child_without_pidfd") else {
        return;
    };
    messages::collect();
    let errno = role.what.parse().unwrap();
    fault::inject(Call::PeerPidfd, u32::MAX, libc::ENOPROTOOPT);
    fault::inject(Call::PidfdOpen, u32::MAX, errno);
    let mut bus = Bus::create(&bus::options(&role.job, 0, 3)).unwrap();
    assert!(bus.is_hub());
    let mut killed = Role::new(&role.job, 1, 3, "").start("child_peer");
    let other = Role::new(&role.job, 2, 3, "").start("child_told_of_a_death");
    bus.connect(AMPLE).unwrap();
    let late = notice_death(&mut bus, 1, || killed.kill());
    assert!(late < Duration::from_secs(1), "{late:?}");
    // The third rank, which is not the hub, has it from its own watch or the table.
    other.succeed();
    assert_eq!(bus.counters().of(Fallback::HangUp), 3);
    assert_eq!(messages::with("counter hang_up").len(), 1);
    let named: Vec<_> = bus.counters().named().collect();
    assert!(named.contains(&("hang_up", 3)), "{named:?}");
}

#[test]
fn child_told_of_a_death() {
    let Some(role) = Role::of("child_told_of_a_death") else {
        return;
    };
    let mut bus = role.connected();
    let error = bus_error(bus.recv(1, Some(9), AMPLE).unwrap_err());
    assert_eq!(error.why, Why::PeerDead(1));
}

#[test]
fn h60_the_number_of_a_peer_in_another_namespace_is_never_used() {
    let text = Role::new(&bus::job(), 0, 2, "").run("child_counts_uses_of_numbers");
    // The child's own harness may have begun the line.
    if let Some(begin) = text.find("SKIPPED:") {
        println!("{}", text[begin..].lines().next().unwrap_or_default());
    }
}

#[test]
fn child_counts_uses_of_numbers() {
    let Some(role) = Role::of("child_counts_uses_of_numbers") else {
        return;
    };
    fault::inject(Call::PeerPidfd, u32::MAX, libc::ENOPROTOOPT);
    fault::inject(Call::PidfdOpen, 10, libc::EPERM);
    let mut bus = Bus::create(&bus::options(&role.job, 0, 2)).unwrap();
    // Its own rank is of its own namespace, and counts once.
    assert_eq!(fault::left(Call::PidfdOpen), 9);
    let Some(mut apart) = Role::new(&role.job, 1, 2, "").start_apart("child_peer") else {
        println!("SKIPPED: unshare --user --pid not available");
        return;
    };
    bus.connect(AMPLE).unwrap();
    let late = notice_death(&mut bus, 1, || apart.kill());
    assert!(late < Duration::from_secs(1), "{late:?}");
    assert_eq!(fault::left(Call::PidfdOpen), 9);
}

#[test]
fn h60_a_number_that_was_given_away_is_not_taken_for_its_rank() {
    let job = bus::job();
    let hub = Role::new(&job, 0, 2, "").start("child_hub_by_numbers");
    while !has_hub(&job) {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Its own rank must be in before it is stopped.
    std::thread::sleep(Duration::from_millis(50));
    os::signal(hub.id(), libc::SIGSTOP);
    while !os::is_stopped(hub.id()) {
        std::thread::yield_now();
    }
    let number = (Point::Greeted as u32).to_string();
    let victim = Role::new(&job, 1, 2, &number).start("child_killed_while_joining");
    let pid = victim.id();
    assert_eq!(victim.output().status.signal(), Some(libc::SIGKILL));
    let heir = take_number(pid);
    os::signal(hub.id(), libc::SIGCONT);
    hub.succeed();
    match heir {
        Some(mut heir) => {
            heir.kill().unwrap();
            heir.wait().unwrap();
        }
        None => println!("SKIPPED: a chosen process id not available"),
    }
}

/// A process with this number, if the system lets us choose.
fn take_number(pid: u32) -> Option<std::process::Child> {
    for _ in 0..20 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().ok()?;
        if sleeper.id() == pid {
            return Some(sleeper);
        }
        sleeper.kill().ok()?;
        sleeper.wait().ok()?;
    }
    None
}

#[test]
fn child_hub_by_numbers() {
    let Some(role) = Role::of("child_hub_by_numbers") else {
        return;
    };
    fault::inject(Call::PeerPidfd, u32::MAX, libc::ENOPROTOOPT);
    let bus = Bus::create(&bus::options(&role.job, 0, 2)).unwrap();
    let error = join_error(bus.connect(AMPLE).unwrap_err());
    assert_eq!(error.why, Why::PeerDead(1));
}

#[test]
fn child_killed_while_joining() {
    let Some(role) = Role::of("child_killed_while_joining") else {
        return;
    };
    let number: u32 = role.what.parse().unwrap();
    let point = Point::ALL.into_iter().find(|point| *point as u32 == number);
    kill::arm(point.unwrap());
    role.connected();
}

#[test]
fn h69_strangers_neither_stall_nor_spin_nor_fail_the_start() {
    Role::new(&bus::job(), 0, 3, "").run("child_with_strangers");
}

#[test]
fn child_with_strangers() {
    let Some(role) = Role::of("child_with_strangers") else {
        return;
    };
    let job = role.job.as_str();
    let bus = Bus::create(&bus::options(job, 0, 3)).unwrap();
    drop(os::stranger(job, b""));
    let _three = os::stranger(job, b"abc");
    let _eight = os::stranger(job, b"GET / HT");
    let silent: Vec<_> = (0..3).map(|_| os::stranger(job, b"")).collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let peer = |rank| move || drop(bus::connected(job, rank, 3));
        let peers = [scope.spawn(peer(1)), scope.spawn(peer(2))];
        bus.connect(AMPLE).unwrap();
        for peer in peers {
            peer.join().unwrap();
        }
    });
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    let cpu = os::cpu_time();
    while bus.counters().strangers < 6 {
        assert!(start.elapsed() < AMPLE, "{:?}", bus.counters());
        std::thread::sleep(Duration::from_millis(20));
    }
    // They are given their second, and no more.
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    let cpu = os::cpu_time() - cpu;
    assert!(cpu < Duration::from_millis(100), "{cpu:?}");
    assert_eq!(bus.counters().strangers, 6);
    drop(silent);
}

#[test]
fn h70_a_rank_that_is_stopped_while_it_joins_is_late_and_not_dead() {
    std::thread::scope(|scope| {
        for point in [
            Point::Connected,
            Point::Greeted,
            Point::Welcomed,
            Point::Mapped,
        ] {
            scope.spawn(move || {
                let job = bus::job();
                let mut bus = Bus::create(&bus::options(&job, 0, 2)).unwrap();
                let number = (point as u32).to_string();
                let late = Role::new(&job, 1, 2, &number).start("child_stopped_while_joining");
                let start = Instant::now();
                while !os::is_stopped(late.id()) {
                    assert!(start.elapsed() < AMPLE, "{point:?}");
                    std::thread::sleep(Duration::from_millis(1));
                }
                let error = join_error(bus.connect(Duration::from_secs(2)).unwrap_err());
                assert_eq!(
                    (error.why, error.dead),
                    (Why::Deadline, RankSet::default()),
                    "{point:?}"
                );
                os::signal(late.id(), libc::SIGCONT);
                bus.connect(AMPLE).unwrap();
                bus.all_gather(&[], AMPLE).unwrap();
                late.succeed();
            });
        }
    });
}

#[test]
fn child_stopped_while_joining() {
    let Some(role) = Role::of("child_stopped_while_joining") else {
        return;
    };
    let number: u32 = role.what.parse().unwrap();
    let point = Point::ALL.into_iter().find(|point| *point as u32 == number);
    kill::arm_stop(point.unwrap());
    // It leaves no sooner than the other has seen it.
    role.connected().all_gather(&[], AMPLE).unwrap();
}

#[test]
fn h70_a_rank_that_is_killed_while_it_joins_is_dead_promptly() {
    for point in [Point::Welcomed, Point::Mapped] {
        let job = bus::job();
        let bus = Bus::create(&bus::options(&job, 0, 2)).unwrap();
        let number = (point as u32).to_string();
        let victim = Role::new(&job, 1, 2, &number).start("child_killed_while_joining");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| (bus.connect(AMPLE), Instant::now()));
            assert_eq!(victim.output().status.signal(), Some(libc::SIGKILL));
            let dead = Instant::now();
            let (ended, told) = waiter.join().unwrap();
            assert_eq!(join_error(ended.unwrap_err()).why, Why::PeerDead(1));
            assert!(told.saturating_duration_since(dead) < PROMPT);
        });
        assert_eq!(bus.members().unwrap()[1].0, State::Dead);
    }
}

#[test]
fn h71_a_rank_that_exits_before_it_publishes_is_named_promptly() {
    let job = bus::job();
    let exits = Role::new(&job, 2, 3, "").start("child_exits_before_it_publishes");
    std::thread::scope(|scope| {
        let gather = |rank| {
            let job = &job;
            scope.spawn(move || {
                let mut bus = bus::connected(job, rank, 3);
                bus.barrier(0, RankSet::below(3))
                    .unwrap()
                    .wait(0, AMPLE)
                    .unwrap();
                let start = Instant::now();
                let error = bus_error(bus.all_gather(b"mine", AMPLE).unwrap_err());
                (error, start.elapsed(), bus)
            })
        };
        let threads = [gather(0), gather(1)];
        let output = exits.output();
        assert!(output.status.success());
        for thread in threads {
            let (error, elapsed, _bus) = thread.join().unwrap();
            assert_eq!(
                (error.why, error.phase),
                (Why::PeerDead(2), Phase::AllGather)
            );
            // The exit of the child's test program takes a moment itself.
            assert!(elapsed < at_most(Duration::from_secs(1)), "{elapsed:?}");
        }
    });
}

#[test]
fn child_exits_before_it_publishes() {
    let Some(role) = Role::of("child_exits_before_it_publishes") else {
        return;
    };
    let bus = role.connected();
    bus.barrier(0, RankSet::below(3))
        .unwrap()
        .wait(0, AMPLE)
        .unwrap();
    // Without hanging up.
    std::process::exit(0);
}

#[test]
fn h71_a_rank_that_never_publishes_is_named_at_the_deadline() {
    let errors = bus::threads(3, |mut bus| {
        let error = (bus.rank() != 2).then(|| {
            let knob = Within::new(Duration::from_secs(1), "PROXY_BUS_TIMEOUT");
            bus_error(bus.all_gather(b"mine", knob).unwrap_err())
        });
        // Everybody stays until all have their answer.
        bus.barrier(0, RankSet::below(3))
            .unwrap()
            .wait(0, AMPLE)
            .unwrap();
        error
    });
    for (rank, error) in errors.into_iter().flatten().enumerate() {
        let text = error.to_string();
        assert_eq!(
            (error.why, error.missing),
            (Why::Deadline, only(2)),
            "{text}"
        );
        assert_eq!(
            (error.dead, error.left),
            (RankSet::default(), RankSet::default())
        );
        assert!(
            error.elapsed >= Duration::from_secs(1) && error.elapsed < Duration::from_millis(1200)
        );
        let begin = format!("rank {rank} of 3: all-gather: timed out after 1.");
        assert!(text.starts_with(&begin), "{text}");
        assert!(
            text.contains("deadline 1.000 s, set by PROXY_BUS_TIMEOUT"),
            "{text}"
        );
        assert!(text.contains("missing {2}"), "{text}");
    }
}
