//! H42: however many threads create a group at once, it has one worker. In a program of its own, so that threads can be counted.

use std::sync::Barrier;
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
        name.starts_with("proxy-").then(|| tid.parse().ok())?
    };
    tasks
        .filter_map(|task| task.ok()?.file_name().into_string().ok())
        .filter_map(worker)
        .collect()
}

#[test]
fn h42_sixteen_threads_share_one_worker_and_the_last_release_ends_it() {
    let gate = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    gate.wait();
                    let acquired = Group::acquire(GID, &Settings::default(), PATIENCE);
                    let mut group = acquired.expect("a group");
                    let leads = gate.wait().is_leader();
                    if leads {
                        assert_eq!(workers(), [group.queue().tid()], "round {round}");
                        assert_eq!(Group::sharers(GID), THREADS, "round {round}");
                        assert_eq!(Group::count(), 1, "round {round}");
                    }
                    gate.wait();
                    let released = group.release(Release::Drain, PATIENCE).expect("held");
                    assert!(matches!(
                        released,
                        Released::Ended | Released::Kept(1..THREADS)
                    ));
                    gate.wait();
                    if leads {
                        assert_eq!(workers(), [0; 0], "round {round}");
                        assert_eq!(
                            (Group::sharers(GID), Group::count()),
                            (0, 0),
                            "round {round}"
                        );
                    }
                }
            });
        }
    });
}
