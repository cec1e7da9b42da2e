//! Every op is right: the data of every rank has gone through driver, library, sockets and devices.

mod common;

use common::{command, run, start_command};

const OPS: [&str; 6] = ["allr", "allg", "redsct", "alltoall", "sendrecv", "permute"];

/// Each op on 2, 3, 4 and 8 ranks: no, one and 4 MiB of elements, and sizes between. Streams and blocks take turns.
fn sizes_of(op: &str) {
    let place = OPS.iter().position(|other| *other == op).expect("an op");
    for (turn, ranks) in [2, 3, 4, 8].into_iter().enumerate() {
        let (streams, blocks) = (1 + (place + turn) % 4, 1 + (place * 2 + turn) % 3);
        let args = format!(
            "{op} -r {ranks} -b 0 -e 4mb -f 128 -d fp32 -n 2 -w 1 -c random --streams {streams} --blocks {blocks}"
        );
        run(&args).assert_checked(&args, &[0, 4, 512, 65_536]);
        let args = format!(
            "{op} -r {ranks} -b 4mb -e 4mb -n 1 -w 0 -d int32 -c random --streams {streams} --blocks {blocks}"
        );
        run(&args).assert_checked(&args, &[4 << 20]);
    }
}

#[test]
fn allr_at_all_sizes() {
    sizes_of("allr");
}

#[test]
fn allg_at_all_sizes() {
    sizes_of("allg");
}

#[test]
fn redsct_at_all_sizes() {
    sizes_of("redsct");
}

#[test]
fn alltoall_at_all_sizes() {
    sizes_of("alltoall");
}

#[test]
fn sendrecv_at_all_sizes() {
    sizes_of("sendrecv");
}

#[test]
fn permute_at_all_sizes() {
    sizes_of("permute");
}

/// The next executions are enqueued, started and launched while one is under way, with a barrier each and without; the data is compared after
/// several of them.
#[test]
fn several_executions_in_flight() {
    for op in OPS {
        for (in_flight, options) in [
            ("2", ""),
            ("63", "--streams 2 --blocks 2"),
            ("7", "--no-barrier --streams 3"),
        ] {
            let args =
                format!("{op} -r 3 -b 1kb -e 64kb -f 64 -d int32 -n 40 -w 2 -c random {options}");
            let mut command = command(&args);
            command.env("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", in_flight);
            start_command(command)
                .finish()
                .assert_checked(&args, &[1024, 65_536]);
        }
    }
}

/// The deadline is of each execution, from its turn on: of 63 in flight the last one waits for longer than that.
#[test]
fn a_deadline_is_not_of_all_executions_in_flight_together() {
    let args = "allr -r 3 -b 32mb -e 32mb -n 70 -w 0 --timeout 3";
    let mut command = command(args);
    command.env("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "63");
    let outcome = start_command(command).finish();
    outcome.assert(0, &[]);
}

/// Sizes that no number of ranks, streams and blocks divides.
#[test]
fn every_number_of_streams_with_every_number_of_blocks() {
    for op in OPS {
        for streams in 1..=4 {
            for blocks in 1..=3 {
                let args = format!(
                    "{op} -r 3 -b 0 -e 4094 -i 2047 -d int8 -n 2 -w 0 -c random --streams {streams} --blocks {blocks}"
                );
                run(&args).assert_checked(&args, &[0, 2047, 4094]);
            }
        }
    }
}

#[test]
fn every_element_type() {
    for op in OPS {
        for dtype in [
            "uint8", "int8", "uint16", "int16", "fp16", "bf16", "uint32", "int32", "fp32",
        ] {
            let args = format!("{op} -r 4 -b 4 -e 16kb -f 64 -d {dtype} -n 1 -w 1 -c random");
            run(&args).assert_checked(&args, &[4, 256, 16_384]);
        }
    }
}

#[test]
fn both_polarities_with_and_without_early_completion_on_inputs_of_ones() {
    for polarity in ["specification", "header"] {
        for early in [0, 1] {
            let args = format!(
                "allr -r 2 -b 64kb -e 64kb -c all_ones --polarity {polarity} --early-completion {early} --streams 2 --blocks 2"
            );
            run(&args).assert_checked(&args, &[65_536]);
        }
    }
}

#[test]
fn the_long_names_of_ops() {
    for op in ["all_reduce", "all_gather", "reduce_scatter"] {
        let outcome = run(&format!("{op} -r 2 -b 1kb -e 1kb -n 1 -c random"));
        outcome.assert_checked(op, &[1024]);
        assert!(
            outcome.stdout.starts_with(&format!("{op}: 2 ranks")),
            "{outcome:?}"
        );
    }
}

/// The most ranks that are accepted, each with three threads.
#[test]
fn sixty_four_ranks() {
    for op in ["allr", "alltoall"] {
        let args = format!("{op} -r 64 -b 1kb -e 1kb -n 1 -w 0 -c random");
        run(&args).assert_checked(&args, &[1024]);
    }
}

/// Two jobs at the same time do not meet each other.
#[test]
fn two_jobs_at_once() {
    let args = "allg -r 3 -b 4 -e 4kb -f 32 -c random";
    let jobs = [start_command(command(args)), start_command(command(args))];
    for job in jobs {
        job.finish().assert_checked(args, &[4, 128, 4096]);
    }
}

/// Every op on every number of ranks, streams and blocks: one element, 4 KiB and 4 MiB, each checked on all ranks.
#[test]
fn the_whole_grid_is_right() {
    for ranks in [2, 3, 4, 8] {
        for (streams, blocks) in
            (1..=4).flat_map(|streams| (1..=3).map(move |blocks| (streams, blocks)))
        {
            for op in ["allr", "allg", "redsct", "alltoall", "sendrecv", "permute"] {
                let shape = format!("{op} -r {ranks} --streams {streams} --blocks {blocks}");
                let outcome = run(&format!(
                    "{shape} -b 4 -e 4mb -f 1024 -d fp32 -c random -n 1 -w 0"
                ));
                outcome.assert(0, &[]);
                assert_eq!(
                    outcome.stdout.matches(" ok\n").count(),
                    3,
                    "{shape}: {outcome:?}"
                );
            }
        }
    }
}
