//! F13: budgets of a bus's waits may be as large as can be: they cost a CPU, and hide neither a deadline nor a death.
//!
//! Requirements: H56, H65.

use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, Role};
use proxy_checks::pace::at_most;
use proxy_core::phone::barrier::RankSet;
use proxy_os::bananaphone::{Bus, BusError};

/// Far longer than a death takes to be seen, far shorter than the deadline.
const SEEN: Duration = Duration::from_secs(8);
const SHORT: Duration = Duration::from_millis(50);

/// Rank 0, who never sleeps when it waits.
fn tireless(job: &str) -> Bus {
    let mut options = bus::options(job, 0, 2);
    (options.spins, options.yields) = (Some(u32::MAX), Some(u32::MAX));
    Bus::create(&options).expect("joined")
}

/// A wait that a silent rank 1 does not end.
fn wait(bus: &mut Bus, what: &str, within: Duration) -> Result<(), BusError> {
    match what {
        "receive" => bus.recv(1, Some(7), within).map(drop),
        "all-gather" => bus.all_gather(b"part", within).map(drop),
        _ => {
            let mut barrier = bus.barrier(0, RankSet::below(2))?;
            barrier.wait(1, within)
        }
    }
}

/// Rank 1: waits to be killed.
#[test]
fn child_that_is_silent() {
    if let Some(role) = Role::of("child_that_is_silent") {
        let mut bus = role.connected();
        let _ = bus.recv(0, None, 4 * AMPLE);
    }
}

#[test]
fn f13_h56_no_budget_of_a_bus_hides_a_death() {
    for what in ["receive", "all-gather", "barrier"] {
        let job = bus::job();
        let peer = Role::new(&job, 1, 2, "").start("child_that_is_silent");
        let mut bus = tireless(&job);
        bus.connect(AMPLE).expect("both are there");
        let since = Instant::now();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(&mut bus, what, AMPLE));
            // In the wait or before it: it must be seen in both.
            drop(peer);
            waiter
                .join()
                .expect("no panic")
                .expect_err("rank 1 is dead");
        });
        let took = since.elapsed();
        assert!(took < at_most(SEEN).min(AMPLE), "{what}: {took:?}");
    }
}

#[test]
fn f13_h65_no_budget_of_a_bus_outlasts_a_deadline() {
    for what in ["receive", "all-gather", "barrier"] {
        let job = bus::job();
        let _peer = Role::new(&job, 1, 2, "").start("child_that_is_silent");
        let mut bus = tireless(&job);
        bus.connect(AMPLE).expect("both are there");
        let since = Instant::now();
        wait(&mut bus, what, SHORT).expect_err("rank 1 is silent");
        let took = since.elapsed();
        assert!(took >= SHORT && took < at_most(SEEN), "{what}: {took:?}");
    }
}
