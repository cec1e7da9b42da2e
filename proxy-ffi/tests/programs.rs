//! Programs of C and C++ against the shared library: misuse, and the examples, plain and under checkers.
//!
//! Requirements: H15, H36, H38, H44, H45, H46, H47, H73, H74, H76.
#![allow(
    clippy::disallowed_methods,
    reason = "programs are started as processes"
)]

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use common::{Scratch, command, finish, has, stand_in, start, succeed};

const C11: &[&str] = &["-std=c11"];
/// As the header promises: an embedder may have no newer language.
const C99: &[&str] = &["-std=c99", "-pedantic-errors"];
/// The C side under the sanitizers of addresses and of undefined behaviour.
const SANITIZED: &[&str] = &[
    "-std=c11",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
];

/// SIGABRT.
const ABORTED: i32 = 6;

const EXECUTIONS: &str =
    "execution 1: success (0)\nexecution 2: success (0)\nexecution 3: success (0)\n";

const SUMS: &str = "all_reduce: 2 ranks, 3 executions of 65536 elements, every sum is right\n";
const BUS: &str = "bus: 3 ranks, ring, all-gather and 100 barriers\n";

/// Runs an example with a stand-in; returns what it wrote.
fn example(source: &str, flags: &[&str], library: &str) -> String {
    let scratch = Scratch::new();
    let program = scratch.program("cc", &format!("examples/c/{source}.c"), flags);
    succeed(command(&program).arg(library))
}

#[test]
fn h73_h74_h76_misuse_is_an_error_each_time_and_never_a_crash() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let program = scratch.program("cc", "tests/c/misuse.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

#[test]
fn h74_callbacks_threads_and_unknown_codes_are_answered() {
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let library = scratch.library("tests/c/hooked_library.c");
        let program = scratch.program("cc", "tests/c/threads.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

#[test]
fn h73_an_exception_of_the_library_ends_the_process_as_the_header_says() {
    let scratch = Scratch::new();
    let library = scratch.library("tests/c/hooked_library.c");
    let program = scratch.program("c++", "tests/c/throws.cpp", &["-std=c++11"]);
    let output = finish(start(command(&program).arg(&library)));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(ABORTED), "{text}");
    assert!(text.contains("cannot catch foreign exceptions"), "{text}");
    let header =
        std::fs::read_to_string(common::package("include/enc_proxy.h")).expect("the header");
    assert!(header.contains("must not throw"));
}

#[test]
fn h36_h46_aborts_by_scope_end_tasks_whether_the_worker_obeys_or_is_stuck() {
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let library = scratch.library("tests/c/hooked_library.c");
        let program = scratch.program("cc", "tests/c/abort.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

#[test]
fn h73_h74_h76_every_function_answers_in_a_child_in_a_callback_beside_a_destroy_and_to_bad_structs()
{
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let library = scratch.library("tests/c/hooked_library.c");
        let program = scratch.program("cc", "tests/c/every.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

#[test]
fn every_function_of_the_header_is_among_those() {
    let header = std::fs::read_to_string(common::package("include/enc_proxy.h"));
    let program = std::fs::read_to_string(common::package("tests/c/every.c"));
    let (header, program) = (header.expect("the header"), program.expect("the program"));
    let declared = header
        .lines()
        .filter_map(|line| line.strip_prefix("NRT_STATUS "));
    let names: Vec<&str> = declared
        .filter_map(|line| Some(line.split_once('(')?.0))
        .collect();
    assert!(names.len() > 60, "{names:?}");
    for name in names {
        assert!(program.contains(&format!(", {name},")), "{name}");
    }
}

#[test]
fn h38_h44_global_comms_are_set_up_used_and_freed_in_order() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let program = scratch.program("cc", "tests/c/glb_comm.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

#[test]
fn a_barrier_of_global_comms_spans_machines() {
    let Some(library) = stand_in("PROXY_NCCOM_LIB") else {
        return;
    };
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let program = scratch.program("cc", "tests/c/machines.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

#[test]
fn h15_h46_reports_name_what_hangs_and_a_reset_context_goes_on() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let program = scratch.program("cc", "tests/c/report.c", flags);
        let folder = scratch.path("reports");
        std::fs::create_dir(&folder).expect("a fresh folder");
        assert_eq!(succeed(command(&program).arg(&library).arg(folder)), "ok\n");
    }
}

#[test]
fn h39_h48_messages_go_to_the_function_that_was_set_and_nowhere_else() {
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let library = scratch.library("tests/c/hooked_library.c");
        let program = scratch.program("cc", "tests/c/log.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

#[test]
fn f18_errors_are_told_with_their_group_and_no_call_runs_once_the_handler_is_gone() {
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let library = scratch.library("tests/c/hooked_library.c");
        let program = scratch.program("cc", "tests/c/errors.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

#[test]
fn h07_h34_settings_act_where_they_are_used_and_what_the_program_sets_beats_the_environment() {
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let program = scratch.program("cc", "tests/c/settings.c", flags);
        assert_eq!(succeed(&mut command(&program)), "ok\n");
    }
}

#[test]
fn a_communicator_without_room_for_its_handle_is_not_joined() {
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let library = scratch.library("tests/c/hooked_library.c");
        let program = scratch.program("cc", "tests/c/full.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

/// Not linked with it: what a program is linked with is not unloaded.
#[test]
fn the_library_stays_mapped_after_a_dlclose() {
    let scratch = Scratch::new();
    let flags = ["-std=c11", "-Wl,--as-needed"];
    let program = scratch.program("cc", "tests/c/unload.c", &flags);
    assert_eq!(succeed(&mut command(&program)), "it is there\n");
}

#[test]
fn f05_f06_every_counter_and_histogram_is_had_by_its_name_in_both_forms() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let program = scratch.program("cc", "tests/c/metrics.c", flags);
        assert_eq!(succeed(command(&program).arg(&library)), "ok\n");
    }
}

/// Not under the C side's sanitizers, which have taken the address space themselves.
#[test]
fn h45_h47_limits_of_memory_and_files_are_errors_and_no_signal() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    let scratch = Scratch::new();
    let program = scratch.program("cc", "tests/c/limits.c", C11);
    let file = scratch.path("file");
    assert_eq!(succeed(command(&program).arg(&library).arg(file)), "ok\n");
}

/// From the limit of the main thread's stack the C library takes the size of every new thread's.
#[test]
fn h45_examples_run_with_the_smallest_stacks() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    for (source, wanted) in [("1_context", EXECUTIONS), ("3_bus", BUS)] {
        let scratch = Scratch::new();
        let program = scratch.program("cc", &format!("examples/c/{source}.c"), C11);
        let mut shell = command(Path::new("sh"));
        shell.args(["-c", "ulimit -s 64 && exec \"$0\" \"$1\""]);
        assert_eq!(succeed(shell.arg(&program).arg(&library)), wanted);
    }
}

#[test]
fn a_bus_tells_who_is_on_it() {
    for flags in [C11, SANITIZED] {
        let scratch = Scratch::new();
        let program = scratch.program("cc", "tests/c/members.c", flags);
        assert_eq!(succeed(&mut command(&program)), "ok\n");
    }
}

#[test]
fn the_readme_quotes_the_first_example() {
    let readme = std::fs::read_to_string(common::package("../README.md")).expect("the README");
    let source =
        std::fs::read_to_string(common::package("examples/c/1_context.c")).expect("the example");
    let quoted = readme.lines().filter(|line| line.starts_with("MUST("));
    let quoted: Vec<&str> = quoted.collect();
    assert_eq!(quoted.len(), 9);
    let places = quoted.iter().map(|line| source.find(line));
    let places: Vec<usize> = places
        .map(|place| place.expect("a line of the example"))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn example_1_runs_three_executions_against_either_library() {
    for variable in ["PROXY_SCRIPTED_LIB", "PROXY_NCCOM_LIB"] {
        let Some(library) = stand_in(variable) else {
            continue;
        };
        assert_eq!(example("1_context", C11, &library), EXECUTIONS);
    }
}

#[test]
fn example_1_is_clean_under_sanitizers() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    assert_eq!(example("1_context", SANITIZED, &library), EXECUTIONS);
}

/// Runs an example under valgrind, its children too; returns what it wrote. `None` = valgrind is not available.
fn under_valgrind(source: &str, library: &str) -> Option<String> {
    if !has("valgrind") {
        return None;
    }
    let scratch = Scratch::new();
    let program = scratch.program("cc", &format!("examples/c/{source}.c"), C11);
    let mut checked = command(Path::new("valgrind"));
    // What is reachable at the end is a library that stays mapped.
    checked.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
    checked.args([
        "--errors-for-leak-kinds=definite,indirect",
        "--trace-children=yes",
    ]);
    Some(succeed(checked.arg(&program).arg(library)))
}

#[test]
fn example_1_is_clean_under_valgrind() {
    if let Some(library) = stand_in("PROXY_SCRIPTED_LIB")
        && let Some(text) = under_valgrind("1_context", &library)
    {
        assert_eq!(text, EXECUTIONS);
    }
}

#[test]
fn example_2_is_clean_under_valgrind() {
    if let Some(library) = stand_in("PROXY_NCCOM_LIB")
        && let Some(text) = under_valgrind("2_all_reduce", &library)
    {
        assert_eq!(text, SUMS);
    }
}

#[test]
fn example_3_is_clean_under_valgrind() {
    if let Some(text) = under_valgrind("3_bus", "") {
        assert_eq!(text, BUS);
    }
}

#[test]
fn example_4_is_clean_under_valgrind() {
    if let Some(library) = stand_in("PROXY_SCRIPTED_LIB")
        && let Some(text) = under_valgrind("4_hang", &library)
    {
        assert!(text.ends_with("execution 812: aborted by its owner (-1)\n"));
    }
}

#[test]
fn example_2_reduces_and_every_byte_is_right() {
    let Some(library) = stand_in("PROXY_NCCOM_LIB") else {
        return;
    };
    for flags in [C11, SANITIZED] {
        assert_eq!(example("2_all_reduce", flags, &library), SUMS);
    }
}

#[test]
fn the_examples_are_c99() {
    let scratch = Scratch::new();
    for source in ["1_context", "2_all_reduce", "3_bus", "4_hang"] {
        scratch.program("cc", &format!("examples/c/{source}.c"), C99);
    }
}

/// Each rank meets the fault; the user is told once.
#[test]
fn example_2_tells_one_fault_once() {
    let scratch = Scratch::new();
    let program = scratch.program("cc", "examples/c/2_all_reduce.c", C99);
    let output = finish(start(command(&program).arg("/dev/null")));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.matches("enc_proxy_library_open(").count(), 1, "{text}");
    assert!(text.contains("\"/dev/null\": it is a device"), "{text}");
}

#[test]
fn example_3_meets_on_the_bus() {
    for flags in [C11, SANITIZED] {
        assert_eq!(example("3_bus", flags, ""), BUS);
    }
}

#[test]
fn example_4_names_what_hangs_and_aborts_it() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    for flags in [C11, SANITIZED] {
        let text = example("4_hang", flags, &library);
        for part in [
            "enc_proxy_consume: the task is still WAITING_DEVICE_TRIGGER after",
            "health 0\n",
            "group 0, rank 0, network task exec 812 has waited for ",
            " for the device on stream 0 (word at 0x",
            "is still 0xffffffff",
            "enc_proxy_group_release: 1 task is unfinished after",
            "execution 812: aborted by its owner (-1)\n",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }
}

#[test]
fn example_5_owns_its_handles() {
    let Some(library) = stand_in("PROXY_SCRIPTED_LIB") else {
        return;
    };
    for standard in ["-std=c++11", "-std=c++20"] {
        let scratch = Scratch::new();
        let program = scratch.program("c++", "examples/c/5_raii.cpp", &[standard]);
        assert_eq!(succeed(command(&program).arg(&library)), EXECUTIONS);
    }
}
