//! Standard error that nobody reads stops nothing: no worker, no deadline, no report. What it had no room for is counted, and told when
//! there is room again.
//!
//! Requirements: H47, H50.
#![allow(
    unsafe_code,
    reason = "a pipe's size is set by a C call, and a start word is named by its address"
)]

use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use proxy_checks::child;
use proxy_checks::pace::{at_most, until};
use proxy_checks::script::{Script, sets};
use proxy_checks::stub::Scratch;
use proxy_core::{ExecId, Gid, Status};
use proxy_os::diagnosis::Report;
use proxy_os::{Context, Patience, ProxyQueue, Release, Settings, log};

const CHILD: &str = "child_whose_standard_error_is_full";
const PATIENCE: Duration = Duration::from_secs(20);
const DEADLINE: Duration = Duration::from_millis(100);
/// A pipe's smallest size.
const PAGE: usize = 4096;
const FULL: &str = "proxy WARN: standard error had no room for ";

/// A pipe without room: what was read of it, and what is the child's.
fn full_pipe() -> (PipeReader, io::PipeWriter) {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    // SAFETY: no pointers are passed.
    let size = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, PAGE) };
    assert_eq!(usize::try_from(size), Ok(PAGE));
    writer
        .write_all(&[b'.'; PAGE - 1])
        .and_then(|()| writer.write_all(b"\n"))
        .expect("it fits");
    (reader, writer)
}

/// Ends a child that hangs, so that the test does not.
struct Bounded(Child);

impl Drop for Bounded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn h47_h50_standard_error_that_nobody_reads_stops_no_worker_no_deadline_and_no_report() {
    let (mut reader, writer) = full_pipe();
    let mut command = child::command(CHILD);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(writer);
    let mut child = Bounded(command.spawn().expect("this program can be started"));
    // The pipe's other end is the child's alone.
    drop(command);
    let out = child.0.stdout.take().expect("a pipe");
    let (send, lines) = std::sync::mpsc::channel();
    let told = std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.for_each(|line| drop(send.send(line)));
    });
    let mut heard = Vec::new();
    while !heard
        .iter()
        .any(|line: &String| line.ends_with("all went on"))
    {
        let line = lines.recv_timeout(at_most(3 * PATIENCE));
        heard.push(line.unwrap_or_else(|error| panic!("{error}: {heard:?}")));
    }
    let mut page = [0; PAGE];
    reader.read_exact(&mut page).expect("what fills it");
    assert!(page.starts_with(b"...") && page.ends_with(b".\n"));
    let mut stdin = child.0.stdin.take().expect("a pipe");
    stdin.write_all(b"there is room\n").expect("it reads");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).expect("text");
    assert!(child.0.wait().expect("a child").success(), "{rest}");
    told.join().expect("no panic");
    let (count, after) = rest
        .strip_prefix(FULL)
        .and_then(|rest| rest.split_once(" messages\n"))
        .unwrap_or_else(|| panic!("{rest}"));
    // Of the failure and of each deadline two at least.
    let count: u32 = count.parse().expect("a number");
    assert!(count >= 6, "{count}");
    assert_eq!(after, "proxy ERROR: said with room\n");
}

fn context(queue: &std::sync::Arc<ProxyQueue>, script: &Script, rank: u32) -> Context {
    let builder = script.context(rank).block(1, sets(1, 1));
    queue.context(builder).expect("a context")
}

/// One execution, and its code.
fn run(context: &Context, exec: u64) -> Status {
    let ticket = context.enqueue(ExecId(exec)).expect("room").network;
    let code = context.queue().consume(ticket, Patience::until(PATIENCE));
    code.expect("a code")
}

/// The reports in a directory.
fn reports(scratch: &Scratch) -> Vec<Report> {
    let files = std::fs::read_dir(scratch.path(".")).expect("a directory");
    let paths = files.map(|file| file.expect("a file").path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .filter_map(|path| Report::from_json(&std::fs::read_to_string(path).ok()?).ok())
        .collect()
}

#[test]
fn child_whose_standard_error_is_full() {
    if !child::is(CHILD) {
        return;
    }
    let scratch = Scratch::new();
    let settings = Settings::builder()
        .task_deadline(DEADLINE)
        .report_directory(Some(scratch.path(".")))
        .report_every(Duration::from_millis(20))
        .from_lookup(|_| None)
        .expect("good settings");
    let queue = ProxyQueue::start(Gid(470), &settings).expect("a queue");
    let failing = Script::with(&["progress 1 -> ret=7"]);
    let failing = context(&queue, &failing, 0);
    assert_eq!(run(&failing, 1), Status(7), "the library's own code");
    let idle = Script::with(&["progress * -> idle=1 done=0"]);
    let idle = context(&queue, &idle, 1);
    // The second one comes when the watchdog has spoken of the first.
    for exec in 1..=2 {
        let since = Instant::now();
        assert_eq!(run(&idle, exec), Status::TIMEOUT);
        let took = since.elapsed();
        assert!(
            took < DEADLINE + at_most(Duration::from_secs(2)),
            "{took:?}"
        );
    }
    assert_eq!(run(&failing, 2), Status::SUCCESS, "the worker works");
    for reason in ["failed: queue full (7)", "its deadline has passed"] {
        until(reason, || {
            reports(&scratch)
                .iter()
                .any(|report| report.reason.contains(reason))
        });
    }
    let interval = || {
        let found = reports(&scratch).into_iter();
        let mut found = found.filter(|report| report.reason == "interval");
        found.next().map(|report| report.process.monotonic_ns)
    };
    until("a report at an interval", || interval().is_some());
    let first = interval();
    until("the next one", || interval() > first);
    queue.release(Release::Drain, PATIENCE).expect("released");
    drop((failing, idle, queue));
    println!("\nall went on");
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("the test's word");
    log::error(format_args!("said with room"));
}
