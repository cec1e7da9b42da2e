//! What a run prints and writes.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Stdio;
use std::ptr;

use common::{command, run, scratch, start_command};
use serde_json::Value;

#[test]
fn a_table_in_a_pipe_is_plain_and_aligned() {
    let outcome = run("redsct -r 4 -b 1kb -e 2kb -f 2 -d bf16 -n 3 -t avg,p50,p99 --blocks 2");
    outcome.assert(0, &[]);
    assert_eq!(outcome.stderr, "");
    assert!(!outcome.stdout.contains(['\x1b', '\r']), "{outcome:?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "reduce_scatter: 4 ranks, 1 stream, 2 blocks");
    assert!(lines[1].starts_with("GB/s = 10^9 bytes per second"));
    let heads: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(
        heads,
        [
            "size(B)",
            "count(elems)",
            "type",
            "time:avg(us)",
            "time:p50(us)",
            "time:p99(us)",
            "algbw(GB/s)",
            "busbw(GB/s)"
        ]
    );
    let ends = |line: &str| {
        let bytes = line.as_bytes();
        (1..=bytes.len())
            .filter(|&end| {
                bytes[end - 1] != b' ' && bytes.get(end).is_none_or(|next| *next == b' ')
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(ends(lines[3]), ends(lines[2]));
    assert_eq!(ends(lines[4]), ends(lines[2]));
    assert_eq!(
        lines[3].split_whitespace().take(3).collect::<Vec<_>>(),
        ["1024", "512", "bf16"]
    );
    let average = lines[5]
        .strip_prefix("Avg bus bandwidth: ")
        .and_then(|rest| rest.strip_suffix("GB/s"))
        .expect("the footer");
    assert_eq!(average.split_once('.').expect("a fraction").1.len(), 4);
    assert_eq!(lines.len(), 6);
}

fn json(args: &str) -> Value {
    let path = scratch("results.json");
    let outcome = run(&format!("{args} --report-to-json-file {}", path.display()));
    outcome.assert(0, &[]);
    let text = fs::read_to_string(&path).expect("the results");
    fs::remove_file(&path).expect("the results");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_json_file_has_the_keys_of_the_table_and_bandwidths_that_fit_the_times() {
    let whole = json("allr -r 4 -b 1kb -e 4kb -f 4 -d fp32 -n 4 -t avg,p99.5 -c random --seed 11");
    let results = whole["results"].as_array().expect("a list");
    assert_eq!(results.len(), 2);
    for (result, bytes) in results.iter().zip([1024_u64, 4096]) {
        assert_eq!(result["size(B)"], bytes);
        assert_eq!(result["count(elems)"], bytes / 4);
        assert_eq!(result["type"], "fp32");
        assert_eq!(result["check"], "ok");
        let number = |key: &str| result[key].as_f64().expect(key);
        assert!(number("time:p99.5(us)") >= number("time:avg(us)"));
        let algbw = bytes as f64 / (number("time:avg(us)") * 1e3);
        assert!(
            (number("algbw(GB/s)") / algbw - 1.0).abs() < 1e-9,
            "{result}"
        );
        assert!(
            (number("busbw(GB/s)") / (algbw * 1.5) - 1.0).abs() < 1e-9,
            "{result}"
        );
    }
    assert_eq!(whole["info"]["op"], "all_reduce");
    assert_eq!(whole["info"]["ranks"], 4);
    assert_eq!(whole["info"]["barrier"], true);
    assert_eq!(whole["info"]["seed"], 11);
    assert_eq!(whole["info"]["check"], "random");
}

#[test]
fn a_seed_gives_the_same_data_and_another_seed_other_data() {
    let digests = |seed: u32| {
        let whole = json(&format!(
            "alltoall -r 3 -b 1kb -e 2kb -f 2 -n 1 -c random --seed {seed}"
        ));
        let results = whole["results"].as_array().expect("a list").iter();
        results
            .map(|result| result["digests"].clone())
            .collect::<Vec<_>>()
    };
    let first = digests(5);
    assert_eq!(first, digests(5));
    assert_ne!(first, digests(6));
    assert_eq!(first[0].as_array().expect("one per rank").len(), 3);
}

#[test]
fn a_run_that_fails_leaves_no_new_json_file_and_keeps_an_old_one() {
    let path = scratch("kept.json");
    let args = format!(
        "permute -r 2 -b 4 -e 4 --fault 1:exit --report-to-json-file {}",
        path.display()
    );
    run(&args).assert(1, &["rank 1 ended"]);
    assert!(!path.exists());
    fs::write(&path, "old").expect("a file");
    run(&args).assert(1, &["rank 1 ended"]);
    assert_eq!(fs::read_to_string(&path).expect("the file"), "old");
    fs::remove_file(&path).expect("the file");
}

#[test]
fn debug_shows_processes_and_settings_of_the_ranks() {
    let mut command = command("allr -r 2 -b 4 -e 4 --debug");
    command.env("NEURON_RT_LOG_LEVEL", "INFO");
    let outcome = start_command(command).finish();
    outcome.assert(
        0,
        &[
            "rank 0: process ",
            "rank 1: process ",
            "rank 1: NEURON_RT_DBG_EARLY_COMPLETION = ",
        ],
    );
}

/// A terminal: both ends.
#[allow(unsafe_code, reason = "openpty is a C call")]
fn terminal() -> (fs::File, fs::File) {
    let (mut ours, mut theirs) = (-1, -1);
    let (name, settings, size) = (ptr::null_mut(), ptr::null(), ptr::null());
    // SAFETY: two valid places for the descriptors; name, settings and size are not given.
    let opened = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, name, settings, size) };
    assert_eq!(opened, 0);
    // SAFETY: a fresh descriptor that nobody else owns.
    let ours = unsafe { fs::File::from_raw_fd(ours) };
    // SAFETY: as above.
    (ours, unsafe { fs::File::from_raw_fd(theirs) })
}

/// What the main job shows on a terminal, where its standard error leads.
fn shown(args: &str) -> String {
    let (mut ours, theirs) = terminal();
    let mut command = command(args);
    command
        .env("TERM", "xterm")
        .stdout(Stdio::null())
        .stderr(theirs);
    let mut child = command.spawn().expect("starts");
    // The only other holder of the terminal's end: when the run ends, reading does.
    drop(command);
    let mut text = Vec::new();
    // The end of a terminal is an error, after all that was shown.
    let _ = ours.read_to_end(&mut text);
    assert!(child.wait().expect("our child").success());
    String::from_utf8(text).expect("text")
}

#[test]
fn a_terminal_shows_progress_and_is_clean_afterwards() {
    let text = shown("allr -r 2 -b 4 -e 8 -f 2 -d fp32 -n 3 -w 2");
    assert!(
        text.contains("\r\x1b[Kallr 4: iteration 1 of 5"),
        "{text:?}"
    );
    assert!(text.ends_with("\r\x1b[K"), "{text:?}");
    assert_eq!(
        shown("allr -r 2 -b 4 -e 8 -f 2 -d fp32 --non-interactive"),
        ""
    );
}

#[test]
fn help_names_every_option_and_the_unit() {
    let outcome = run("--help");
    outcome.assert(0, &[]);
    for part in [
        "-r, --nworkers",
        "-b, --minbytes",
        "--report-to-json-file",
        "--early-completion",
        "--no-barrier",
        "10^9 bytes",
        "Exit codes",
    ] {
        assert!(
            outcome.stdout.contains(part),
            "no {part} in {}",
            outcome.stdout
        );
    }
}

/// What does not fit on the disk is an error with its name, whatever of a run it is.
#[test]
fn a_full_disk_is_told() {
    let run = "allr -r 2 -b 4 -e 4 -n 2";
    let full = |args: &str| {
        let file = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = command(args);
        command.stdout(file.expect("a full device"));
        let output = command.stderr(Stdio::piped()).output().expect("it starts");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let told = "error: cannot write standard output: No space left on device (os error 28)\n";
    for args in [run, "bus -r 2 -n 1 -w 0", "--help", "--version"] {
        assert_eq!(full(args), (Some(1), told.to_owned()), "{args}");
    }
    let outcome = common::run(&format!("{run} --report-to-json-file /dev/full"));
    outcome.assert(
        1,
        &["error: --report-to-json-file /dev/full: No space left on device"],
    );
    assert_eq!(outcome.rows().len(), 1, "{outcome:?}");
}

/// Whoever started it has closed its standard output: no run, as its table would be lost.
#[test]
fn a_standard_output_that_is_closed_is_told() {
    let through = ["sh", "-c", "exec \"$0\" \"$@\" >&-"];
    for args in [
        "allr -r 2 -b 4 -e 4 -n 2",
        "bus -r 2 -n 1 -w 0",
        "barrier -r 2",
        "--help",
    ] {
        let outcome = start_command(common::command_through(&through, args)).finish();
        outcome.assert(1, &[]);
        outcome.assert_one_message("error: cannot write standard output: Bad file descriptor");
    }
}

/// What is written to one that was opened for reading alone is lost without a word, too.
#[test]
fn a_standard_output_that_cannot_be_written_is_told() {
    for args in ["allr -r 2 -b 4 -e 4 -n 2", "bus -r 2 -n 1 -w 0", "--help"] {
        let mut command = command(args);
        command.stdout(fs::File::open("/dev/null").expect("a file"));
        let output = command.stderr(Stdio::piped()).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        let told = "error: cannot write standard output: Bad file descriptor (os error 9)\n";
        assert_eq!((output.status.code(), &*text), (Some(1), told), "{args}");
    }
}

/// A limit of a file's size, as of `ulimit -f`, is told as a full disk is, and is no signal: also of the bus's memory, which is a file.
#[test]
fn a_file_that_may_not_become_so_large_is_told() {
    let run = "allr -r 2 -b 4 -e 4 -n 1";
    let trace = format!("{run} --trace {}", scratch("limited-trace").display());
    let path = scratch("limited");
    for (args, code, told) in [
        (
            "--help",
            1,
            "error: cannot write standard output: File too large",
        ),
        ("bus -r 2 -n 1", 1, "error: rank 0: no room for the bus's "),
        (
            run,
            1,
            "error: rank 0: cannot meet the other ranks: no room for the bus's ",
        ),
        (&*trace, 2, "error: --trace "),
    ] {
        let through = ["sh", "-c", "ulimit -f 0; exec \"$0\" \"$@\" >\"$OUT\""];
        let mut command = common::command_through(&through, args);
        command.env("OUT", &path);
        let outcome = start_command(command).finish();
        outcome.assert(code, &[]);
        outcome.assert_one_message(told);
    }
    fs::remove_file(&path).expect("the file");
}

/// One write for each line: others write to the same terminal or file. What one write has written comes as one datagram.
#[test]
fn a_message_of_the_launcher_is_one_write() {
    let (ours, theirs) = UnixDatagram::pair().expect("a pair");
    let mut command = command("allr -r 2 -b 4 -e 4 --library /nonexistent/libnccom.so");
    command.stderr(OwnedFd::from(theirs)).stdout(Stdio::null());
    assert_eq!(command.status().expect("it starts").code(), Some(1));
    let mut bytes = [0; 4096];
    let length = ours.recv(&mut bytes).expect("a message");
    let text = String::from_utf8_lossy(&bytes[..length]);
    assert!(
        text.starts_with("error: --library /nonexistent/libnccom.so: "),
        "{text}"
    );
    assert!(
        text.ends_with('\n') && text.contains("libnccom.so.1"),
        "{text}"
    );
}

/// Nobody can be told, and the exit code is what it would be.
#[test]
fn a_standard_error_that_is_full_changes_no_exit_code() {
    for (args, code) in [
        ("allr -r 2 -b 4 -e 4 -n 2", 0),
        ("allr -r 2 -b 4 -e 4 --fault 1:exit", 1),
        ("allr -r 0", 2),
        ("rank 0", 2),
        ("latency-rank 0", 2),
    ] {
        let file = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = command(args);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(file.expect("a full device"));
        let status = command.status().expect("it starts");
        assert_eq!(status.code(), Some(code), "{args}");
    }
}

/// Where nothing more can be written, as its reader has stopped reading; the reader's end, and the writer's.
fn filled() -> (UnixStream, OwnedFd) {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("a socket");
    while theirs.write(&[b' '; 4096]).is_ok() {}
    while theirs.write(b" ").is_ok() {}
    theirs.set_nonblocking(false).expect("a socket");
    (ours, theirs.into())
}

/// Children of a process that have not ended.
fn children(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let tasks = tasks.flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    let pids: Vec<String> = lists
        .flat_map(|list| {
            let list = list.unwrap_or_default();
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    let runs = |pid: &&String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| state != 'Z')
    };
    pids.iter().filter(runs).count()
}

/// A pager at its first page, say: a signal ends the run all the same, when it waits for one of its readers or for both.
#[test]
fn a_reader_that_has_stopped_keeps_no_signal_away() {
    for (args, both) in [
        ("allr -r 2 -b 4 -e 4 -n 2", false),
        ("allr -r 2 -b 4 -e 4 -n 2", true),
        ("bus -r 2 -n 1 -w 0", false),
    ] {
        let (_reader, full) = filled();
        let mut command = command(args);
        let second = full.try_clone().expect("a descriptor");
        command.stderr(if both { second.into() } else { Stdio::null() });
        let mut child = command.stdout(full).spawn().expect("it starts");
        let pid = child.id();
        common::until("its ranks run", || children(pid) > 0);
        common::until("its ranks have ended", || children(pid) == 0);
        common::signal(pid.cast_signed(), libc::SIGTERM);
        let mut ended = None;
        common::until("it has ended", || {
            ended = child.try_wait().expect("our child");
            ended.is_some()
        });
        let code = ended.and_then(|status| status.code());
        assert_eq!(code, Some(143), "{args}, both: {both}");
    }
}

/// Requirement H31 for the user of the main job: every rank's worker drops the CPU, and it is told once.
#[test]
fn h31_a_warning_that_all_ranks_share_is_shown_once() {
    let mut command = command("allr -r 2 -b 64 -e 64 -n 1 -w 0");
    command.env("NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY", "0-9999");
    let output = command.output().expect("the main job starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    let warnings = text
        .lines()
        .filter(|line| line.contains("proxy WARN") && line.contains("9999"));
    assert_eq!(warnings.count(), 1, "{text}");
}
