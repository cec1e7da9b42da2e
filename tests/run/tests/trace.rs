//! Feature F4: `--trace` in the main job: one file with a track per rank and stream, also of a run that fails, or a refusal before anything runs.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Outcome, command_through, run, scratch, start_command};
use serde_json::Value;

const JOB: &str = "allr -r 4 -b 4kb -e 4kb -n 2 -w 1 -d fp32 -c random --streams 2 --blocks 2";

/// A folder with nothing in it, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = scratch(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("out.json")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> Vec<Value> {
    let file: Value = serde_json::from_slice(&fs::read(path).unwrap()).expect("JSON");
    assert_eq!(file["otherData"]["dropped_events"], 0);
    let Value::Array(events) = file["traceEvents"].clone() else {
        panic!("no events")
    };
    events
}

/// Names of tracks as `rank 2 / stream 0`.
fn tracks(events: &[Value]) -> BTreeSet<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let process = |pid: &Value| {
        let of = |event: &&Value| event["name"] == "process_name" && event["pid"] == *pid;
        text(&events.iter().find(of).expect("a name")["args"]["name"])
    };
    let threads = events.iter().filter(|event| event["name"] == "thread_name");
    threads
        .map(|event| {
            format!(
                "{} / {}",
                process(&event["pid"]),
                text(&event["args"]["name"])
            )
        })
        .collect()
}

/// Spans and instants of a rank with this beginning of their name.
fn count(events: &[Value], rank: u64, phase: &str, name: &str) -> usize {
    let of = |event: &&Value| {
        event["pid"] == rank
            && event["ph"] == phase
            && event["name"]
                .as_str()
                .is_some_and(|text| text.starts_with(name))
    };
    events.iter().filter(of).count()
}

#[test]
fn f4_every_rank_has_its_tracks_with_all_states_and_instants() {
    let folder = Folder::new("trace-tracks");
    let file = folder.file();
    run(&format!(
        "{JOB} --ranks-per-process 2 --trace {}",
        file.display()
    ))
    .assert(0, &[]);
    assert_eq!(folder.names(), ["out.json"], "the parts are gone");
    let events = read(&file);
    let mut expected: BTreeSet<String> = (0..4).map(|gid| format!("gid {gid} / worker")).collect();
    for rank in 0..4_u64 {
        let tracks = ["network tasks", "barrier tasks", "stream 0", "stream 1"];
        expected.extend(tracks.map(|track| format!("rank {rank} / {track}")));
        // Three executions of two streams with two blocks each.
        for (phase, name, wanted) in [
            ("X", "block ", 12),
            ("i", "start block ", 12),
            ("i", "stop", 6),
        ] {
            assert_eq!(
                count(&events, rank, phase, name),
                wanted,
                "rank {rank}: {name}"
            );
        }
        for (phase, name) in [("X", "PROGRESSING"), ("i", "semaphore")] {
            assert!(
                count(&events, rank, phase, name) >= 3,
                "rank {rank}: {name}"
            );
        }
        let waits = count(&events, rank, "X", "WAITING_DEVICE_TRIGGER");
        assert_eq!(
            count(&events, rank, "i", "device trigger"),
            waits,
            "rank {rank}"
        );
    }
    assert_eq!(tracks(&events), expected);
    let wakes = (0..4).map(|gid| count(&events, 1_000_000 + gid, "i", "wake"));
    assert!(
        wakes.sum::<usize>() >= 4,
        "each worker slept before its first task"
    );
    for event in events.iter().filter(|event| event["ph"] != "M") {
        assert!(
            event["ts"].is_number() && event["tid"].is_number(),
            "{event}"
        );
    }
}

#[test]
fn f4_workers_of_two_nodes_on_one_machine_are_told_apart() {
    let folder = Folder::new("trace-nodes");
    let file = folder.file();
    run(&format!("{JOB} --nodes 2 --trace {}", file.display())).assert(0, &[]);
    let workers: Vec<String> = tracks(&read(&file))
        .into_iter()
        .filter(|track| track.ends_with("worker"))
        .collect();
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1)]
        .map(|(gid, node)| format!("gid {gid}, node {node} / worker"));
    assert_eq!(workers, expected);
}

#[test]
fn f4_a_run_that_hangs_leaves_its_trace_with_the_state_it_hung_in() {
    let folder = Folder::new("trace-hang");
    let file = folder.file();
    let args = format!(
        "{JOB} --timeout 2 --fault 1:hang --trace {}",
        file.display()
    );
    run(&args).assert(1, &["rank 1"]);
    let events = read(&file);
    assert_eq!(folder.names(), ["out.json"]);
    // One wait of the device has no end.
    let waits = count(&events, 1, "X", "WAITING_DEVICE_TRIGGER");
    assert_eq!(count(&events, 1, "i", "device trigger") + 1, waits);
}

#[test]
fn f4_a_path_that_cannot_be_written_is_refused_before_anything_runs() {
    let folder = Folder::new("trace-refused");
    let missing = folder.0.join("missing/out.json");
    for (path, reason) in [
        (missing.as_path(), "No such file or directory"),
        (&folder.0, "it is no regular file"),
        (Path::new("/dev/full"), "it is no regular file"),
    ] {
        let outcome = run(&format!("{JOB} --trace {}", path.display()));
        let named = format!("--trace {}: {reason}", path.display());
        outcome.assert(2, &[&named, "; accepted: a file that can be written"]);
        assert_eq!(outcome.stdout, "");
    }
    assert_eq!(folder.names(), [""; 0]);
}

/// Runs a traced job whose file is on a disk of this size; `None` where that cannot be had.
fn on_a_disk_of(size: &str, job: &str) -> Option<Outcome> {
    let folder = Folder::new(&format!("trace-{size}"));
    let disk = folder.0.display().to_string();
    let mount = format!("mount -t tmpfs -o size={size} none {disk} && exec \"$@\"");
    let prefix = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &mount,
        "sh",
    ];
    let mut probe = Command::new(prefix[0]);
    probe.args(&prefix[1..]).arg("true");
    let can = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        println!("SKIPPED: mounts in a namespace not available");
        return None;
    }
    let args = format!("{job} --trace {}", folder.file().display());
    Some(start_command(command_through(&prefix, &args)).finish())
}

#[test]
fn f4_a_full_disk_is_refused_before_anything_runs() {
    let Some(outcome) = on_a_disk_of("16k", JOB) else {
        return;
    };
    outcome.assert(
        2,
        &["out.json: No space left on device", "room for 256 KiB"],
    );
    assert_eq!(outcome.stdout, "");
}

#[test]
fn f4_a_disk_that_becomes_full_is_an_error_of_the_run() {
    let job = "allr -r 2 -b 4kb -e 4kb -n 60 -d fp32 --streams 2 --blocks 2";
    if let Some(outcome) = on_a_disk_of("160k", job) {
        outcome.assert(1, &["--trace", "No space left on device"]);
    }
}

#[test]
fn f4_a_file_that_was_there_stays_when_the_run_leaves_no_trace() {
    let folder = Folder::new("trace-kept");
    let file = folder.file();
    fs::write(&file, "an older trace").unwrap();
    let args = format!(
        "{JOB} --library no-such-library.so --trace {}",
        file.display()
    );
    run(&args).assert(
        1,
        &["--library no-such-library.so", "no rank has left its part"],
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "an older trace");
    assert_eq!(folder.names(), ["out.json"]);
}
