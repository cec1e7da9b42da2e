//! The suite on the host, and the traffic between two of its threads.

use std::thread;
use std::time::{Duration, Instant};

use proxy_conformance::traffic::{Traffic, Worked, Worker, expected};
use proxy_conformance::{Tally, run_all};

/// What the suite had when this line was written; it only grows.
const CASES: u32 = 49;

#[test]
fn every_case_passes() {
    let mut names = std::collections::BTreeSet::new();
    let tally = run_all(|case, outcome| {
        assert!(
            names.insert(case.name),
            "two cases are called {}",
            case.name
        );
        if let Err(failure) = outcome {
            println!("{}: {failure:?}", case.name);
        }
    });
    println!("conformance: {tally:?}");
    assert_eq!(tally.failed, 0);
    assert!(tally.passed >= CASES, "cases went missing: {tally:?}");
}

#[test]
fn a_suite_runs_as_often_as_it_is_asked_to() {
    let first = run_all(|_, _| {});
    assert_eq!(first, run_all(|_, _| {}));
    assert_ne!(first, Tally::default());
}

/// Executions that cross; fewer where an interpreter runs them.
const COUNT: u32 = if cfg!(miri) { 40 } else { 20_000 };

/// Far more than the traffic takes: where it is over, a wake-up or a task was lost.
const LIMIT: Duration = Duration::from_secs(120);

/// Lets the other thread run; ends a test that would never end.
fn relax(since: Instant) {
    assert!(since.elapsed() < LIMIT, "the traffic stands still");
    thread::yield_now();
}

#[test]
fn traffic_between_two_threads_arrives_whole_and_once() {
    let (traffic, since) = (Traffic::new(), Instant::now());
    let (produced, worked) = thread::scope(|scope| {
        let worker = scope.spawn(|| work(&traffic, since));
        let produced = traffic.produce(COUNT, || relax(since));
        (produced, worker.join())
    });
    let produced = produced.expect("nothing is refused");
    let worked = worked.expect("the worker ends when the queue is closed");
    println!("conformance: {produced:?} {worked:?}");
    assert_eq!(
        (produced.consumed, produced.sum),
        (COUNT.into(), expected(COUNT))
    );
    assert_eq!(
        (worked.ended, worked.gates),
        (expected(COUNT), COUNT.into())
    );
    assert_eq!(worked.progressed, 2 * u64::from(COUNT));
    // Each ring answers a sleep; after the last sleep the close may ring.
    assert!(produced.rings <= worked.sleeps);
}

fn work(traffic: &Traffic, since: Instant) -> Worked {
    let mut worker = Worker::new();
    loop {
        if !worker.turn(traffic) {
            relax(since);
        }
        if let Some(worked) = worker.finished(traffic) {
            return worked;
        }
    }
}
