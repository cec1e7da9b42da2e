//! `bus` and `barrier`: tables of positive numbers with units, and refusals as for the other verbs.

mod common;

use std::time::{Duration, Instant};

use common::{Outcome, run, signal, start};

/// Operation, ranks, size and n of each row, after a look at the header and at the times.
fn rows(outcome: &Outcome) -> Vec<(String, u32, String, u32)> {
    outcome.assert(0, &[]);
    assert_eq!(outcome.stderr, "");
    let mut lines = outcome.stdout.lines().skip(1);
    let units = lines.next().expect("units");
    assert!(units.contains("us = microseconds"), "{outcome:?}");
    let heads: Vec<&str> = lines.next().expect("heads").split_whitespace().collect();
    assert_eq!(
        heads,
        ["operation", "ranks", "size(B)", "p50(us)", "p99(us)", "n"]
    );
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let time = |index: usize| cells[index].parse::<f64>().expect("a time");
        assert!(time(3) > 0.0 && time(4) >= time(3), "{outcome:?}");
        let number = |index: usize| cells[index].parse::<u32>().expect("a number");
        (
            cells[0].to_owned(),
            number(1),
            cells[2].to_owned(),
            number(5),
        )
    };
    lines.map(row).collect()
}

#[test]
fn the_bus_has_round_trips_and_all_gathers() {
    for ranks in [2, 3, 8] {
        let found = rows(&run(&format!("bus -r {ranks} -n 50 -w 5")));
        let trips = ["8", "128", "4096", "65536"].map(|size| ("round_trip", 2, size));
        let gathers = ["8", "4096", "65536"].map(|size| ("all_gather", ranks, size));
        let wanted: Vec<_> = trips
            .into_iter()
            .chain(gathers)
            .map(|(operation, ranks, size)| (operation.to_owned(), ranks, size.to_owned(), 50))
            .collect();
        assert_eq!(found, wanted);
    }
}

/// The whole is bounded: fewer of what moves much.
#[test]
fn large_all_gathers_of_many_ranks_are_fewer() {
    let found = rows(&run("bus -r 32 -n 300 -w 1"));
    assert_eq!(found.last().map(|row| row.3), Some(16), "{found:?}");
    assert_eq!(found.first().map(|row| row.3), Some(300), "{found:?}");
}

#[test]
fn the_barrier_has_a_row_for_each_number_of_ranks() {
    for (ranks, counts) in [(2, &[2][..]), (3, &[2, 3]), (8, &[2, 4, 8])] {
        let found = rows(&run(&format!("barrier -r {ranks} -n 50 -w 5")));
        let wanted: Vec<_> = counts
            .iter()
            .map(|count| ("barrier".to_owned(), *count, "-".to_owned(), 50))
            .collect();
        assert_eq!(found, wanted);
    }
}

#[test]
fn what_is_not_accepted_is_told() {
    for (args, part) in [
        ("bus -r 1", "accepted: 2 to 64"),
        ("barrier", "--nworkers <N>"),
        ("bus -r 2 -n 0", "accepted: 1 to"),
        ("barrier -r 2 -d fp32", "unexpected argument '-d'"),
    ] {
        let outcome = run(args);
        outcome.assert(2, &[part]);
        assert_eq!(outcome.stdout, "", "{args}");
    }
}

/// One message, which names the rank; and no rank is left when the launcher is killed.
#[test]
fn a_killed_rank_or_launcher_ends_all() {
    let args = "barrier -r 4 -n 1000000";
    let running = start(args);
    signal(running.wait_for_rank(2), libc::SIGKILL);
    let outcome = running.finish();
    outcome.assert(1, &["error: rank 2 was killed by signal 9 (SIGKILL)"]);
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    let running = start(args);
    running.wait_for_rank(3);
    signal(running.pid(), libc::SIGKILL);
    assert_eq!(running.finish().code(), -libc::SIGKILL);
}

/// As the main job's: one message, the exit code of the signal, and nobody left.
#[test]
fn a_signal_ends_all_with_one_message() {
    for (args, number) in [
        ("barrier -r 4 -n 1000000", libc::SIGINT),
        ("bus -r 4 -n 1000000", libc::SIGTERM),
        ("barrier -r 4 -n 1000000", libc::SIGHUP),
    ] {
        let running = start(args);
        running.wait_for_rank(3);
        signal(running.pid(), number);
        let outcome = running.finish();
        assert_eq!(outcome.code(), 128 + number, "{args}: {outcome:?}");
        outcome.assert_one_message(&format!("ended by signal {number}; all ranks are ended"));
        assert_eq!(outcome.stdout, "", "{args}");
    }
}

/// As with the other ops.
#[test]
fn options_may_stand_before_the_verb() {
    for args in [
        "-r 2 -n 10 bus",
        "--timeout 60 -r2 barrier -n 10",
        "-n 10 --nworkers=2 bus",
    ] {
        let found = rows(&run(args));
        assert!(!found.is_empty(), "{args}");
    }
    let outcome = run("-r 2 -d fp32 bus");
    outcome.assert(2, &["unexpected argument '-d'"]);
}

/// Requirement H08: more processes than CPUs meet often, because who waits gives its CPU away.
#[test]
fn h08_five_processes_meet_a_thousand_times_within_seconds() {
    // Where no caller names the library, it is built here: not part of the time.
    common::library();
    let since = Instant::now();
    let found = rows(&run("barrier -r 5 -n 1000 -w 5"));
    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{:?}",
        since.elapsed()
    );
    assert!(
        found
            .iter()
            .any(|(name, ranks, _, n)| (name.as_str(), *ranks, *n) == ("barrier", 5, 1000)),
        "{found:?}"
    );
}
