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

/// From the SIGKILL of the last rank to the moment when the others all know that wait for it, each in another way.
fn kill() {
    const ROUNDS: u32 = 40;
    Figure::of_few((0..ROUNDS).map(kill_once).collect()).tell("kill");
}

/// How a rank waits for the one that dies, until it knows; what it was told.
type Waiting = fn(&mut Bus) -> String;
const VICTIM: u16 = 3;
const WAITERS: [Waiting; VICTIM as usize] = [
    |bus| {
        let refused = bus.recv(VICTIM, None, AMPLE);
        refused.expect_err("nobody sends").to_string()
    },
    |bus| {
        let two = [bus.rank(), VICTIM].into_iter().collect();
        let mut barrier = bus.barrier(0, two).expect("a slot");
        let refused = barrier.wait(0, AMPLE);
        refused.expect_err("one is missing").to_string()
    },
    |bus| {
        let refused = bus.all_gather(&[1; 8], AMPLE);
        refused.expect_err("nobody else gives").to_string()
    },
];

fn kill_once(round: u32) -> f64 {
    let (job, ranks) = (bus::job(&format!("kill-{round}")), VICTIM + 1);
    let mut victim = bus::start("victim", &job, VICTIM, ranks, 0);
    let here = Barrier::new(WAITERS.len() + 1);
    let waiter = |rank: u16, wait: Waiting| {
        let mut bus = Bus::create(&Options::new(job.as_str(), rank, ranks)).expect("joined");
        bus.connect(AMPLE).expect("all are there");
        here.wait();
        let told = wait(&mut bus);
        let known = Instant::now();
        // Nobody leaves before all know: another's leave would end a wait as well.
        here.wait();
        (known, told)
    };
    thread::scope(|scope| {
        let mut waiters = Vec::new();
        for (rank, wait) in (0..).zip(WAITERS) {
            let waiter = &waiter;
            waiters.push(scope.spawn(move || waiter(rank, wait)));
        }
        here.wait();
        // All are about to wait; long enough for them to be asleep.
        thread::sleep(Duration::from_millis(20));
        let begin = Instant::now();
        victim.kill().expect("it can be killed");
        here.wait();
        victim.wait().expect("it is ours");
        let known = waiters.into_iter().map(|waiter| {
            let (when, told) = waiter.join().expect("no panic");
            assert!(told.contains("dead"), "{told}");
            when.duration_since(begin).as_secs_f64() * 1e9
        });
        known.fold(0.0, f64::max)
    })
}
