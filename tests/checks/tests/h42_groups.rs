//! H42: however many threads create a group at once, it has one worker. In a program of its own, so that threads can be counted.

use std::sync::{Barrier, Mutex};
use std::time::Duration;

use proxy_core::Gid;
use proxy_os::{Group, Release, Released, Settings};

const PATIENCE: Duration = Duration::from_secs(20);
const THREADS: u32 = 16;
const ROUNDS: usize = 1000;
const GID: Gid = Gid(5);

/// Kernel ids of this process's threads that are named like a worker.
fn workers() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let worker = |tid: String| {
        // A thread that ends meanwhile has no name any more.
        let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).ok()?;
        // The watchdog and the report thread have words there.
        let number = name.trim_end().strip_prefix("proxy-")?;
        number.parse::<u32>().is_ok().then(|| tid.parse().ok())?
    };
    tasks
        .filter_map(|task| task.ok()?.file_name().into_string().ok())
        .filter_map(worker)
        .collect()
}

/// What is wrong while all hold a share, and what is wrong when all have given it up.
fn wrong(group: Option<&Group>) -> Option<String> {
    let workers_wanted: Vec<u32> = group.iter().map(|group| group.queue().tid()).collect();
    let (sharers, groups) = group.map_or((0, 0), |_| (THREADS, 1));
    let found = (workers(), Group::sharers(GID), Group::count());
    let wanted = (workers_wanted, sharers, groups);
    (found != wanted).then(|| format!("workers, sharers, groups: {found:?}, wanted {wanted:?}"))
}

#[test]
fn h42_sixteen_threads_share_one_worker_and_the_last_release_ends_it() {
    let gate = Barrier::new(THREADS as usize);
    // Collected, because a thread that panics would leave the others at the gate.
    let found = Mutex::new(Vec::new());
    let note = |round: usize, wrong: Option<String>| {
        let wrong = wrong.map(|what| format!("round {round}: {what}"));
        found.lock().unwrap().extend(wrong);
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    gate.wait();
                    let mut group = Group::acquire(GID, &Settings::default(), PATIENCE).ok();
                    let leads = gate.wait().is_leader();
                    if leads {
                        note(round, wrong(group.as_ref()));
                    }
                    gate.wait();
                    let released = group
                        .as_mut()
                        .map(|group| group.release(Release::Drain, PATIENCE));
                    let right = matches!(
                        released,
                        Some(Ok(Released::Ended | Released::Kept(1..THREADS)))
                    );
                    note(round, (!right).then(|| format!("{released:?}")));
                    gate.wait();
                    if leads {
                        note(round, wrong(None));
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(
        found.is_empty(),
        "{} findings, first {:?}",
        found.len(),
        found.first()
    );
}
