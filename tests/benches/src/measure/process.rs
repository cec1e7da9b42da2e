//! Processes that come and go: the start of eight, and how soon a death is known.

use std::process::Child;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use proxy_benches::clock::Figure;
use proxy_os::bananaphone::{Bus, Options};

use super::bus::{self, AMPLE};

/// How often a job is started, ours and the peers'.
pub(crate) const JOINS: u32 = 15;

/// Both.
pub(super) fn all() {
    join();
    kill();
}

/// Spawn, join, barrier, leave, exit.
fn join() {
    let times = (0..JOINS)
        .map(|round| {
            let job = bus::job(&format!("join-{round}"));
            let begin = Instant::now();
            let children: Vec<Child> = (0..8)
                .map(|rank| bus::start("join", &job, rank, 8, 0))
                .collect();
            for mut child in children {
                assert!(
                    child.wait().is_ok_and(|status| status.success()),
                    "a rank failed"
                );
            }
            begin.elapsed().as_secs_f64() * 1e9
        })
        .collect();
    Figure::of_few(times).tell("join.8");
}

/// From the SIGKILL of rank 2 to the moment when ranks 0 and 1, which wait for it, both know.
fn kill() {
    const ROUNDS: u32 = 40;
    Figure::of_few((0..ROUNDS).map(kill_once).collect()).tell("kill");
}

fn kill_once(round: u32) -> f64 {
    let job = bus::job(&format!("kill-{round}"));
    let mut victim = bus::start("victim", &job, 2, 3, 0);
    let here = Barrier::new(3);
    let waiter = |rank: u16| {
        let mut bus = Bus::create(&Options::new(job.as_str(), rank, 3)).expect("joined");
        bus.connect(AMPLE).expect("all are there");
        here.wait();
        let error = bus.recv(2, None, AMPLE).expect_err("nobody sends");
        (Instant::now(), error.to_string())
    };
    thread::scope(|scope| {
        let waiters = [0, 1].map(|rank| {
            scope.spawn({
                let waiter = &waiter;
                move || waiter(rank)
            })
        });
        here.wait();
        // Both are about to wait; long enough for them to be asleep.
        thread::sleep(Duration::from_millis(20));
        let begin = Instant::now();
        victim.kill().expect("it can be killed");
        let known = waiters.map(|waiter| waiter.join().expect("no panic"));
        victim.wait().expect("it is ours");
        known
            .map(|(when, error)| {
                assert!(error.contains("dead"), "{error}");
                when.duration_since(begin).as_secs_f64() * 1e9
            })
            .into_iter()
            .fold(0.0, f64::max)
    })
}
