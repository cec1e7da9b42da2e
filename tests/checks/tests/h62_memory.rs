//! H62, H63, H66, H68: memory that is not there, calls that are not there, words that lie.
//!
//! Limits and injected failures concern a whole process, so the tests do their part in a child.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, Role};
use proxy_checks::{messages, os};
use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::Geometry;
use proxy_os::bananaphone::{Bus, Fallback, JoinError, Options};
use proxy_os::sys::fault::{self, Call};

fn large(job: &str) -> Options {
    let mut options = bus::options(job, 0, 64);
    options.cells = 4096;
    options
}

/// Bytes of the segment of `large`.
fn wanted() -> u64 {
    Geometry::new(64, 8, 4096).unwrap().words() as u64 * 4
}

#[test]
fn h62_without_memory_the_bus_says_how_much_it_wanted() {
    for what in ["file size", "address space", "no space", "no memory"] {
        Role::new(&bus::job(), 0, 64, what).run("child_without_memory");
    }
}

#[test]
fn child_without_memory() {
    let Some(role) = Role::of("child_without_memory") else {
        return;
    };
    match role.what.as_str() {
        "file size" => os::limit(libc::RLIMIT_FSIZE, wanted() / 2),
        "address space" => os::limit(libc::RLIMIT_AS, os::address_space() + wanted() / 2),
        "no space" => fault::inject(Call::Reserve, 1, libc::ENOSPC),
        _ => fault::inject(Call::Reserve, 1, libc::ENOMEM),
    }
    let wanted = wanted();
    let error = Bus::create(&large(&role.job)).unwrap_err();
    assert_eq!(error, JoinError::NoSpace { wanted });
    os::limit(libc::RLIMIT_AS, libc::RLIM_INFINITY);
    // Alive, and nothing is left: the name is free again.
    let small = Bus::create(&bus::options(&role.job, 0, 1)).unwrap();
    small.connect(AMPLE).unwrap();
}

#[test]
fn h62_a_rank_that_cannot_reserve_its_ring_fails_for_all() {
    Role::new(&bus::job(), 0, 2, "").run("child_without_memory_for_the_second");
}

#[test]
fn child_without_memory_for_the_second() {
    let Some(role) = Role::of("child_without_memory_for_the_second") else {
        return;
    };
    let first = Bus::create(&bus::options(&role.job, 0, 2)).unwrap();
    fault::inject(Call::Reserve, 1, libc::ENOSPC);
    let wanted = Geometry::new(2, 8, 256).unwrap().words() as u64 * 4;
    let cause = JoinError::NoSpace { wanted };
    assert_eq!(
        Bus::create(&bus::options(&role.job, 1, 2)).unwrap_err(),
        cause
    );
    let (rank, cause) = (Some(1), Box::new(cause));
    assert_eq!(
        first.connect(AMPLE).unwrap_err(),
        JoinError::Peer { rank, cause }
    );
}

#[test]
fn h63_h68_without_memfd_an_unnamed_file_serves_and_is_announced() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        Role::new(&bus::job(), 0, 2, &errno.to_string()).run("child_without_memfd");
    }
}

#[test]
fn child_without_memfd() {
    let Some(role) = Role::of("child_without_memfd") else {
        return;
    };
    messages::collect();
    fault::inject(Call::MemfdCreate, u32::MAX, role.what.parse().unwrap());
    let mut bus = Bus::create(&bus::options(&role.job, 0, 2)).unwrap();
    let peer = Role::new(&role.job, 1, 2, "").start("child_gathers");
    bus.connect(AMPLE).unwrap();
    assert_eq!(bus.all_gather(&[0], AMPLE).unwrap(), [[0], [1]]);
    peer.succeed();
    for fallback in [Fallback::UnnamedFile, Fallback::Unsealed] {
        assert_eq!(bus.counters().of(fallback), 1);
        let counter = format!("counter {fallback}");
        assert_eq!(messages::with(&counter).len(), 1, "{counter}");
    }
}

#[test]
fn child_gathers() {
    let Some(role) = Role::of("child_gathers") else {
        return;
    };
    let mut bus = role.connected();
    let own = [bus.rank() as u8];
    assert_eq!(bus.all_gather(&own, AMPLE).unwrap(), [[0], [1]]);
}

#[test]
fn h63_without_any_memory_to_share_one_error_names_the_call() {
    Role::new(&bus::job(), 0, 1, "").run("child_without_anything");
}

#[test]
fn child_without_anything() {
    let Some(role) = Role::of("child_without_anything") else {
        return;
    };
    fault::inject(Call::MemfdCreate, 1, libc::ENOSYS);
    fault::inject(Call::UnnamedFile, 1, libc::EOPNOTSUPP);
    let error = Bus::create(&bus::options(&role.job, 0, 1)).unwrap_err();
    let unsupported = JoinError::Unsupported {
        call: "memfd_create",
        errno: libc::ENOSYS,
    };
    assert_eq!(error, unsupported);
    assert!(error.to_string().contains("memfd_create"));
}

#[test]
fn h68_every_fallback_is_announced_once_and_counted_by_name() {
    Role::new(&bus::job(), 0, 2, "").run("child_with_fallbacks");
}

#[test]
fn child_with_fallbacks() {
    let Some(role) = Role::of("child_with_fallbacks") else {
        return;
    };
    messages::collect();
    fault::inject(Call::AddSeals, 1, libc::EINVAL);
    // Neither the control part nor what comes next can be reserved.
    fault::inject(Call::Reserve, 2, libc::EOPNOTSUPP);
    fault::inject(Call::FutexWait, 3, libc::EPERM);
    let mut bus = Bus::create(&bus::options(&role.job, 0, 2)).unwrap();
    let start = Instant::now();
    assert!(bus.recv(1, None, Duration::from_millis(50)).is_err());
    assert!(start.elapsed() >= Duration::from_millis(50));
    let taken = [
        (Fallback::Unsealed, 1),
        (Fallback::Unreserved, 2),
        (Fallback::Polling, 3),
    ];
    for (fallback, times) in taken {
        assert_eq!(bus.counters().of(fallback), times, "{fallback}");
        let counter = format!("counter {fallback}");
        assert_eq!(messages::with(&counter).len(), 1, "{counter}");
    }
}

#[test]
fn h66_a_segment_full_of_lies_gives_errors_and_nothing_worse() {
    Role::new(&bus::job(), 0, 3, "").run("child_with_a_liar");
}

/// The segment's file, as the hub of this process has it open.
fn segment_file() -> std::fs::File {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut paths = open.map(|entry| entry.path());
    let is_ours = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:bananaphone"))
    };
    let path = paths.find(is_ours).expect("the hub's descriptor");
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

#[test]
fn child_with_a_liar() {
    let Some(role) = Role::of("child_with_a_liar") else {
        return;
    };
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut told, start) = (0, Instant::now());
    for round in 0..60 {
        let job = format!("{}-{round}", role.job);
        let mut options: Vec<_> = (0..3).map(|rank| bus::options(&job, rank, 3)).collect();
        options.iter_mut().for_each(|options| options.cells = 8);
        let mut buses: Vec<_> = std::thread::scope(|scope| {
            let join = |options| scope.spawn(move || Bus::create(options).unwrap());
            let threads: Vec<_> = options.iter().map(join).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut barrier = buses[0].barrier(0, RankSet::below(3)).unwrap();
        let (file, short) = (segment_file(), Duration::from_millis(2));
        let words = file.metadata().unwrap().size() / 4;
        for _ in 0..40 {
            for _ in 0..1 + random() % 200 {
                // Small numbers, numbers near the limits, and any numbers.
                let value = match random() % 3 {
                    0 => random() as u32 % 16,
                    1 => u32::MAX - random() as u32 % 16,
                    _ => random() as u32,
                };
                file.write_all_at(&value.to_ne_bytes(), random() % words * 4)
                    .unwrap();
            }
            let (bus, rest) = buses.split_first_mut().unwrap();
            let outcomes = [
                bus.send(1, 1, &[7; 100], short).is_err(),
                bus.broadcast(1, &[7; 1000], short).is_err(),
                bus.recv(2, None, short).is_err(),
                rest[0].recv(0, None, short).is_err(),
                rest[1].all_gather(&[1; 500], short).is_err(),
                barrier.wait(random(), short).is_err(),
                bus.members().is_err(),
                bus.connect(short).is_err(),
            ];
            told += outcomes.iter().filter(|is_err| **is_err).count();
        }
    }
    assert!(told > 1000, "{told}");
    assert!(start.elapsed() < AMPLE * 2, "{:?}", start.elapsed());
}
