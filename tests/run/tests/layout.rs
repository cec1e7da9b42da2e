//! Ranks that share a process, and ranks that share a worker: the same results, the same table, failures that name them.

mod common;

use common::{Outcome, Running, run, signal, start};

const OPS: [&str; 6] = ["allr", "allg", "redsct", "alltoall", "sendrecv", "permute"];

/// Ranks to a process and to a worker, for 6 ranks; the last process of the third has fewer ranks.
const SHAPES: [&str; 5] = [
    "--ranks-per-process 2",
    "--ranks-per-process 6",
    "--ranks-per-process 4 --ranks-per-proxy 2",
    "--ranks-per-process 3 --ranks-per-proxy 3",
    "--ranks-per-process 6 --ranks-per-proxy 4",
];

#[test]
fn every_op_is_right_however_ranks_share_processes_and_workers() {
    for (op, turn) in OPS.into_iter().zip(0..) {
        for shape in SHAPES {
            let (streams, blocks) = (1 + turn % 4, 1 + turn % 3);
            let args = format!(
                "{op} -r 6 -b 4 -e 256kb -f 256 -d fp32 -n 3 -w 1 -c random --streams {streams} --blocks {blocks} {shape}"
            );
            run(&args).assert_checked(&args, &[4, 1024, 262_144]);
        }
    }
}

/// Requirement H19: each of the ranks is at the barrier while the one worker goes on with the others.
#[test]
fn h19_one_worker_drives_thirty_two_ranks_with_the_host_barrier() {
    for op in ["allr", "permute"] {
        let args = format!(
            "{op} -r 32 --ranks-per-process 32 --ranks-per-proxy 32 -b 1kb -e 1kb -n 5 -w 1 -c random"
        );
        let outcome = run(&args);
        outcome.assert_checked(&args, &[1024]);
        assert!(
            !outcome.stdout.contains("no execution barrier"),
            "{outcome:?}"
        );
    }
}

/// Workers of a process, by the names of its threads: `proxy-<tid>`.
fn workers(pid: i32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let names = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let tid = |name: &String| name.trim().strip_prefix("proxy-")?.parse::<u32>().ok();
    names.filter(|name| tid(name).is_some()).count()
}

fn endless(options: &str) -> Running {
    let mut running = start(&format!("sendrecv -b 4 -e 1gb -i 4 -n 3 -w 0 {options}"));
    running.first_row();
    running
}

#[test]
fn processes_and_workers_are_as_many_as_asked_for() {
    for (options, wanted) in [
        ("-r 5 --ranks-per-process 4", &[4, 1][..]),
        ("-r 5 --ranks-per-process 4 --ranks-per-proxy 2", &[2, 1]),
        ("-r 5 --ranks-per-process 5 --ranks-per-proxy 3", &[2]),
        ("-r 3", &[1, 1, 1]),
    ] {
        let running = endless(options);
        let mut processes = running.processes();
        processes.retain(|(rank, _)| rank.is_some());
        processes.sort_unstable();
        let found: Vec<usize> = processes.iter().map(|(_, pid)| workers(*pid)).collect();
        assert_eq!(found, wanted, "{options}");
        signal(running.pid(), libc::SIGTERM);
        running.finish().assert(143, &["ended by signal 15"]);
    }
}

#[test]
fn a_killed_process_is_named_with_all_its_ranks() {
    let running = endless("-r 6 --ranks-per-process 3 --ranks-per-proxy 3");
    signal(running.rank(3), libc::SIGKILL);
    let outcome = running.finish();
    let named = "error: the process of ranks 3 to 5 was killed by signal 9 (SIGKILL)";
    outcome.assert(1, &[named]);
    one_error(&outcome);
}

#[test]
fn the_only_process_is_named_when_it_is_killed() {
    let running = endless("-r 4 --ranks-per-process 4");
    signal(running.rank(0), libc::SIGKILL);
    let named = "error: the process of ranks 0 to 3 was killed by signal 9 (SIGKILL)";
    running.finish().assert(1, &[named]);
}

#[test]
fn a_killed_launcher_or_an_interrupt_leaves_nothing() {
    let options = "-r 6 --ranks-per-process 3 --ranks-per-proxy 3";
    let running = endless(options);
    signal(running.pid(), libc::SIGKILL);
    assert_eq!(running.finish().code(), -libc::SIGKILL);
    let running = endless(options);
    signal(running.pid(), libc::SIGINT);
    running.finish().assert(130, &["ended by signal 2"]);
}

/// What one thread of several finds is told with its rank, not with that of its process.
#[test]
fn a_rank_that_goes_wrong_inside_a_process_is_named() {
    let shape = "-r 4 --ranks-per-process 4 --ranks-per-proxy 4 -b 1kb -e 1kb -n 2";
    let outcome = run(&format!("allg {shape} --fault 2:hang --timeout 2"));
    outcome.assert(
        1,
        &[
            "error: rank 2: 1024 bytes, iteration 7 of 7: the network task is still WAITING_DEVICE_TRIGGER after 2.",
            "driver: network task of execution 7 is WAITING_DEVICE_TRIGGER",
        ],
    );
    // The others' tasks on the same worker are not shown.
    let tasks = outcome.stderr.matches("driver: network task").count();
    assert_eq!(tasks, 1, "{outcome:?}");
    run(&format!("allr {shape} --fault 3:wrong -c all_ones"))
        .assert(1, &["wrong result of 1024 bytes on rank 3"]);
    run(&format!("allr {shape} --fault 1:execution"))
        .assert(1, &["MPMD execution is not supported"]);
    run(&format!("allr {shape} --fault 1:signature"))
        .assert(1, &["failed signature validation: mismatched collectives"]);
    run(&format!("allr {shape} --fault 1:exit")).assert(
        1,
        &["error: the process of ranks 0 to 3 ended with exit code 3"],
    );
}

#[test]
fn what_is_wrong_with_the_library_is_told_once_for_a_process_of_all_ranks() {
    let outcome = run("allr -r 4 --ranks-per-process 4 --library /nonexistent/libnccom.so");
    outcome.assert(
        1,
        &["error: --library /nonexistent/libnccom.so: cannot open the collectives library"],
    );
    one_error(&outcome);
}

#[test]
fn shapes_that_are_not_accepted_name_option_value_and_what_is() {
    for (args, parts) in [
        (
            "allr -r 4 --ranks-per-process 5",
            &["--ranks-per-process is 5, accepted: 1 to 4"][..],
        ),
        (
            "allr -r 4 --ranks-per-process 0",
            &["'0'", "--ranks-per-process", "accepted: 1 to 64"],
        ),
        (
            "allr -r 4 --ranks-per-process x",
            &["'x'", "--ranks-per-process", "accepted: 1 to 64"],
        ),
        (
            "allr -r 32 --ranks-per-proxy 32",
            &[
                "--ranks-per-proxy is 32, but ranks can share a worker only inside a process, and --ranks-per-process is 1",
                "accepted: 1; or --ranks-per-process 32",
            ],
        ),
        (
            "allr -r 12 --ranks-per-process 6 --ranks-per-proxy 4",
            &["--ranks-per-proxy is 4", "accepted: 1, 2, 3, 6"],
        ),
        (
            "allr -r 4 --ranks-per-proxy 65",
            &["'65'", "--ranks-per-proxy", "accepted: 1 to 64"],
        ),
    ] {
        let outcome = run(args);
        outcome.assert(2, parts);
        assert_eq!(outcome.stdout, "", "{args}");
        one_error(&outcome);
    }
}

fn one_error(outcome: &Outcome) {
    assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
}
