//! A run that is ended or goes wrong: one message that names the cause, the right exit code, and nothing left behind.
//!
//! Requirements: H30.

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{
    Running, command, command_through, compile, compile_over, library, run, signal, start,
    start_command,
};

/// Runs until it is ended: more sizes than anybody waits for.
const ENDLESS: &str = "allr -r 4 -b 4 -e 1gb -i 4 -n 3 -w 0";

fn endless(options: &str) -> Running {
    let mut running = start(&format!("{ENDLESS} {options}"));
    running.first_row();
    running
}

#[test]
fn a_killed_rank_is_named() {
    let running = endless("");
    signal(running.rank(2), libc::SIGKILL);
    let outcome = running.finish();
    outcome.assert(1, &["error: rank 2 was killed by signal 9 (SIGKILL)"]);
    // The others end because of it, and nobody is told that they are dead.
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
}

/// Each of those that die together may be the cause, and those that died later may have blamed the first before.
#[test]
fn ranks_that_are_killed_together_are_all_named() {
    for (options, killed, told) in [
        ("", &[1, 2][..], "ranks 1 to 2 were killed"),
        ("", &[3, 0], "ranks 0 and 3 were killed"),
        ("--nodes 2", &[0, 1, 3], "ranks 0 to 1 and 3 were killed"),
        (
            "--ranks-per-process 2",
            &[0, 2],
            "the processes of ranks 0 to 3 were killed",
        ),
        (
            "--ranks-per-process 2",
            &[2],
            "the process of ranks 2 to 3 was killed",
        ),
    ] {
        let running = endless(options);
        let pids: Vec<i32> = killed.iter().map(|rank| running.rank(*rank)).collect();
        // Stopped first, so that none can end because of another.
        for number in [libc::SIGSTOP, libc::SIGKILL] {
            pids.iter().for_each(|pid| signal(*pid, number));
        }
        let outcome = running.finish();
        outcome.assert(1, &[]);
        outcome.assert_one_message(&format!("error: {told} by signal 9 (SIGKILL)"));
    }
}

#[test]
fn a_killed_root_is_named() {
    let running = endless("-c random");
    signal(running.rank(0), libc::SIGKILL);
    running
        .finish()
        .assert(1, &["error: rank 0 was killed by signal 9 (SIGKILL)"]);
}

#[test]
fn a_rank_that_exits_is_named_with_its_code() {
    let outcome = run("permute -r 3 -b 1kb -e 1kb --fault 1:exit");
    outcome.assert(
        1,
        &["error: rank 1 ended with exit code 3 before it was finished"],
    );
}

/// The library is named by whoever runs its beginning and does not get out of there.
#[test]
fn what_ends_or_holds_up_a_rank_in_the_librarys_constructor_names_the_library() {
    for (name, body, told) in [
        (
            "crash",
            "kill(getpid(), SIGKILL)",
            "rank 0 was killed by signal 9 (SIGKILL)",
        ),
        (
            "exit",
            "_exit(0)",
            "rank 0 ended with exit code 0 before it was finished",
        ),
        (
            "hang",
            "for (;;) pause()",
            "rank 0 is silent: nothing was heard for ",
        ),
    ] {
        let text = format!(
            "#include <signal.h>\n#include <unistd.h>\n__attribute__((constructor)) static void begin(void) {{ {body}; }}"
        );
        let library = compile(name, &text);
        let path = library.display();
        let outcome = run(&format!("allr -r 2 -b 4 -e 4 --timeout 1 --library {path}"));
        let place = format!("while --library {path} was loaded");
        outcome.assert(1, &[&place]);
        outcome.assert_one_message(&format!("error: {told}"));
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn signals_end_all_ranks_and_tell_their_number() {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        let running = endless("");
        assert_eq!(running.processes().len(), 5);
        signal(running.pid(), number);
        let outcome = running.finish();
        outcome.assert(128 + number, &[]);
        outcome.assert_one_message(&format!("ended by signal {number}; all ranks are ended"));
    }
}

/// As under `nohup`.
#[test]
fn a_hang_up_that_is_ignored_ends_nothing() {
    let ignoring = ["env", "--ignore-signal=HUP"];
    let mut running = start_command(command_through(&ignoring, ENDLESS));
    running.first_row();
    signal(running.pid(), libc::SIGHUP);
    for _ in 0..20 {
        running.line();
    }
    signal(running.pid(), libc::SIGTERM);
    running.finish().assert(128 + libc::SIGTERM, &[]);
}

#[test]
fn no_rank_outlives_a_killed_launcher() {
    let running = endless("");
    signal(running.pid(), libc::SIGKILL);
    assert_eq!(running.finish().code(), -libc::SIGKILL);
}

/// The names of what a process has open.
fn open_files(pid: impl std::fmt::Display) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("descriptors")
        .flatten();
    entries
        .filter_map(|entry| {
            Some(
                fs::read_link(entry.path())
                    .ok()?
                    .to_string_lossy()
                    .into_owned(),
            )
        })
        .collect()
}

/// A run in progress holds pipes, sockets, the bus's memory and the like; nothing that has a name in a file system, but for what
/// this test itself has inherited.
#[test]
fn no_process_has_a_file_open_that_could_be_left_behind() {
    let (running, inherited) = (endless(""), open_files("self"));
    let nameless = |file: &String| {
        ["pipe:", "socket:", "anon_inode:", "/memfd:", "/dev/null"]
            .iter()
            .any(|kind| file.starts_with(kind))
    };
    for (_, pid) in running.processes() {
        let mut files = open_files(pid);
        assert!(files.len() > 3, "{files:?}");
        files.retain(|file| !nameless(file) && !inherited.contains(file));
        assert_eq!(files, Vec::<String>::new());
    }
    signal(running.pid(), libc::SIGTERM);
    running.finish();
}

#[test]
fn a_device_that_hangs_is_told_with_what_is_stuck() {
    let outcome = run("allg -r 3 -b 1kb -e 1kb -n 2 --fault 2:hang --timeout 2");
    outcome.assert(
        1,
        &[
            "error: rank 2: 1024 bytes, iteration 7 of 7: the network task is still WAITING_DEVICE_TRIGGER after 2.",
            "driver: network task of execution 7 is WAITING_DEVICE_TRIGGER",
            "device: execution 7 is unfinished at its deadline; stream 0 block 0 Receive lane step",
            "history: +",
        ],
    );
}

#[test]
fn the_environment_sets_the_deadline_unless_the_command_line_does() {
    let hang = |options: &str| {
        let mut command = command(&format!("sendrecv -r 2 -b 4 -e 4 --fault 0:hang {options}"));
        command.env(
            "NEURON_RT_EXEC_TIMEOUT",
            if options.is_empty() { "2" } else { "600" },
        );
        start_command(command).finish()
    };
    hang("").assert(1, &["error: rank 0", "WAITING_DEVICE_TRIGGER after 2."]);
    hang("--timeout 2").assert(1, &["error: rank 0", "WAITING_DEVICE_TRIGGER after 2."]);
}

/// The stand-in library, but for one rank, whose initialisation does this instead.
fn instead_on(rank: u32, name: &str, instead: &str) -> PathBuf {
    let real = library();
    let text = format!(
        r#"int pause(void);
void *dlopen(const char *, int);
void *dlsym(void *, const char *);
typedef int init(int, int, const void *, const char *, void **, const char *);
int neuronInitGlobalComm(int dev, int count, const void *info, const char *root, void **comm, const char *hint) {{
    init *real = (init *)dlsym(dlopen("{}", 2), "neuronInitGlobalComm");
    return dev == {rank} ? {instead} : real(dev, count, info, root, comm, hint);
}}
"#,
        real.display()
    );
    compile_over(&format!("{name}{rank}"), &text, &[real])
}

/// Nothing is stopped, and the rank's process lives: it is known by what it does not say while all others give up.
#[test]
fn a_rank_that_stays_in_the_library_is_named_when_the_others_give_up() {
    for rank in [0, 2] {
        let library = instead_on(rank, "staying", "({ for (;;) pause(); 0; })");
        let library = library.display();
        let outcome = run(&format!(
            "allr -r 4 -b 4 -e 4 --timeout 1 --library {library}"
        ));
        let told = format!("error: rank {rank} is silent: nothing was heard for ");
        outcome.assert(1, &[&told, " s, last before all ranks had met"]);
        assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
        assert!(outcome.stderr.starts_with(&told), "{outcome:?}");
    }
}

/// The others are inside the library's own start by then, where nothing but their end reaches them: the launcher ends them.
#[test]
fn h30_a_failed_initialisation_ends_all_ranks_long_before_the_librarys_timeout() {
    const TIMEOUT: Duration = Duration::from_secs(120);
    for rank in [0, 2] {
        let library = instead_on(rank, "failing", "4242");
        let since = Instant::now();
        let outcome = run(&format!(
            "allr -r 4 -b 4 -e 4 --timeout {} --library {}",
            TIMEOUT.as_secs(),
            library.display()
        ));
        let took = since.elapsed();
        outcome.assert(
            1,
            &[
                &format!("error: rank {rank}: "),
                "neuronInitGlobalComm",
                "4242",
            ],
        );
        assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
        assert!(took < TIMEOUT / 4, "{took:?}");
    }
}

/// Wherever it is stopped: in the middle of an execution, in the barrier between two sizes, while it checks a result; and however the ranks are
/// placed.
#[test]
fn a_rank_that_is_stopped_is_named_first_and_alone() {
    for (options, rank, told) in [
        ("", 1, "rank 1 is silent"),
        ("", 0, "rank 0 is silent"),
        ("-c random", 3, "rank 3 is silent"),
        ("--no-barrier", 2, "rank 2 is silent"),
        ("--nodes 2", 3, "rank 3 is silent"),
        ("--nodes 2", 2, "rank 2 is silent"),
        ("--ranks-per-process 2", 2, "ranks 2 to 3 are silent"),
    ] {
        let running = endless(&format!("{options} --timeout 1"));
        signal(running.rank(rank), libc::SIGSTOP);
        let outcome = running.finish();
        outcome.assert(1, &[" s ago, last at ", " bytes, iteration "]);
        outcome.assert_one_message(&format!("error: {told}: stopped by signal 19 (SIGSTOP) "));
    }
}

#[test]
fn ranks_that_are_stopped_together_are_all_named() {
    let running = endless("--timeout 1");
    for rank in [0, 1, 3] {
        signal(running.rank(rank), libc::SIGSTOP);
    }
    let outcome = running.finish();
    outcome.assert(1, &[]);
    outcome.assert_one_message("error: ranks 0 to 1 and 3 are silent: stopped by signal 19 ");
}

/// Whatever it has come to: its process has just been started.
#[test]
fn a_rank_that_is_stopped_before_it_meets_the_others_is_named_first_and_alone() {
    let running = start("allr -r 4 -b 4 -e 4 -n 1000000 --timeout 1");
    signal(running.wait_for_rank(2), libc::SIGSTOP);
    let outcome = running.finish();
    outcome.assert(1, &[]);
    outcome.assert_one_message("error: rank 2 is silent: stopped by signal 19 (SIGSTOP) ");
}

#[test]
fn a_rank_that_goes_on_before_a_deadline_is_no_failure() {
    let mut running = endless("--timeout 60");
    let stopped = running.rank(1);
    signal(stopped, libc::SIGSTOP);
    signal(stopped, libc::SIGCONT);
    for _ in 0..20 {
        running.line();
    }
    signal(running.pid(), libc::SIGTERM);
    running.finish().assert(128 + libc::SIGTERM, &[]);
}

/// Also where expected results are computed between two sizes.
#[test]
fn a_run_whose_ranks_are_all_stopped_ends_all_the_same() {
    // Of ranks that are threads of one process, the process is that of the first.
    for (options, processes) in [("", 2), ("--ranks-per-process 2", 1)] {
        let running = start(&format!(
            "allr -r 2 -b 4 -e 4mb -f 2 -n 100000 --timeout 2 {options}"
        ));
        // All are there before the first is stopped: the others are started when it is ready.
        let all: Vec<i32> = (0..processes)
            .map(|rank| running.wait_for_rank(rank))
            .collect();
        for process in all {
            signal(process, libc::SIGSTOP);
        }
        let outcome = running.finish();
        outcome.assert(1, &[]);
        outcome
            .assert_one_message("error: ranks 0 to 1 are silent: stopped by signal 19 (SIGSTOP) ");
    }
}

#[test]
fn ranks_with_different_collectives_are_told_so() {
    let outcome = run("redsct -r 5 -b 4 -e 8 -f 2 -d fp32 --fault 3:signature");
    outcome.assert(
        1,
        &["failed signature validation: mismatched collectives between the peers; this rank has redsct of fp32, sizes 4 to 8 * 2, 1 stream, 1 block"],
    );
    assert_eq!(outcome.stderr.matches("error:").count(), 1, "{outcome:?}");
}

#[test]
fn a_wrong_result_is_shown_with_rank_element_and_both_values() {
    let outcome = run("allr -r 3 -b 2 -e 4 -i 2 -d int16 -c all_ones --fault 1:wrong");
    outcome.assert(
        1,
        &[
            "wrong result of 4 bytes on rank 1, iteration 1: element 1 is 259, expected 3",
            "error: 2 of 2 sizes have wrong results - test failed",
        ],
    );
    assert!(
        !outcome.stderr.contains("on rank 0") && !outcome.stderr.contains("on rank 2"),
        "{outcome:?}"
    );
    for (size, cells) in outcome.rows() {
        assert_eq!(
            cells.last().map(String::as_str),
            Some("WRONG"),
            "{size}: {outcome:?}"
        );
    }
}

/// A reader that goes away, such as `head`, ends the run as it ends any program of a pipe, and is told nothing.
#[test]
fn a_closed_standard_output_ends_the_run_without_a_word() {
    let mut running = endless("");
    running.close_stdout();
    let outcome = running.finish();
    outcome.assert(128 + libc::SIGPIPE, &[]);
    assert_eq!(outcome.stderr, "");
}
