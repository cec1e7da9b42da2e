//! The execution barrier of the main job: right results with and without it, and the same error on every rank where it fails.

mod common;

use common::{command, run, signal, start, start_command};

const OPS: [&str; 6] = ["allr", "allg", "redsct", "alltoall", "sendrecv", "permute"];

#[test]
fn every_op_is_right_with_and_without_it() {
    for ranks in [2, 4, 8] {
        for op in OPS {
            for option in ["", "--no-barrier"] {
                let args = format!(
                    "{op} -r {ranks} -b 4 -e 16kb -f 64 -d fp32 -n 3 -w 1 -c random --streams 2 --blocks 2 {option}"
                );
                let outcome = run(&args);
                outcome.assert_checked(&args, &[4, 256, 16_384]);
                assert_eq!(
                    outcome.stdout.contains("no execution barrier"),
                    !option.is_empty(),
                    "{outcome:?}"
                );
            }
        }
    }
}

#[test]
fn the_environment_leaves_it_out_too() {
    for (value, left_out) in [("0", false), ("1", true)] {
        let mut command = command("allr -r 2 -b 4 -e 4 -c random");
        command.env("NEURON_RT_DISABLE_EXECUTION_BARRIER", value);
        let outcome = start_command(command).finish();
        outcome.assert_checked(value, &[4]);
        let found = outcome.stdout.contains("no execution barrier");
        assert_eq!(found, left_out, "{value}: {outcome:?}");
    }
}

/// All ranks fail alike: each says on its own which rank is at another execution.
#[test]
fn another_execution_is_an_error_on_every_rank() {
    let args = "sendrecv -r 4 -b 4 -e 4 --fault 2:execution --debug";
    let outcome = run(args);
    outcome.assert(
        1,
        &["the barrier task ended with an error: MPMD execution is not supported"],
    );
    for rank in 0..4 {
        let told = outcome.stderr.lines().any(|line| {
            line.starts_with(&format!("rank {rank}: "))
                && line.contains("barrier 1 #")
                && line.contains("rank 2 is at another execution")
        });
        assert!(told, "rank {rank}: {outcome:?}");
    }
    // Without the barrier nobody notices.
    run(&format!("{args} --no-barrier")).assert(0, &[]);
}

/// Ranks 0 and 1 exchange with each other alone, so that nothing but the barrier tells them of rank 3's end.
#[test]
fn a_rank_that_dies_ends_the_barrier_of_the_others() {
    let outcome = run("sendrecv -r 4 -b 4 -e 4 --fault 3:exit --debug");
    outcome.assert(
        1,
        &["error: rank 3 ended with exit code 3 before it was finished"],
    );
    for rank in 0..2 {
        let told = outcome.stderr.lines().any(|line| {
            line.starts_with(&format!("rank {rank}: "))
                && line.contains("barrier 1 #")
                && line.contains(" is gone after ")
        });
        assert!(told, "rank {rank}: {outcome:?}");
    }
}

/// Executions of nothing but a few bytes, so that most of the time is spent at barriers; wherever the rank is killed, it is named.
#[test]
fn a_rank_killed_between_barriers_is_named() {
    for round in 0..8 {
        let mut running = start("sendrecv -r 4 -b 4 -e 1gb -i 4 -n 3 -w 0 --timeout 60");
        for _ in 0..=round {
            running.first_row();
        }
        signal(running.rank(round % 4), libc::SIGKILL);
        let outcome = running.finish();
        let named = format!("error: rank {} was killed by signal 9 (SIGKILL)", round % 4);
        outcome.assert(1, &[&named]);
    }
}
