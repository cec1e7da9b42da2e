//! No writer of the driver ends the process it is part of: not at its limit of file sizes, where the kernel sends SIGXFSZ besides the error, and
//! not where nobody reads any more. What was not written is told or counted, and what the signals do in the process is as it was.
//!
//! Requirements: H47, H50.
#![allow(unsafe_code, reason = "limits and signals are C calls")]

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use proxy_checks::pace::until;
use proxy_checks::script::{Script, sets};
use proxy_checks::stub::Scratch;
use proxy_checks::{child, messages, os};
use proxy_core::{ExecId, Gid, Status};
use proxy_os::diagnosis::{Options, Report, Service, fetch};
use proxy_os::latency::HistogramConfig;
use proxy_os::{Context, Patience, ProxyQueue, Release, Settings, log};

const PATIENCE: Duration = Duration::from_secs(20);
const GID: Gid = Gid(471);
const FOLDER: &str = "PROXY_CHECKS_FOLDER";

/// Runs a test of this program as a child whose standard error is `stderr`, its folder in the environment.
fn run(name: &str, scratch: &Scratch, stderr: impl Into<Stdio>) {
    let mut command = child::command(name);
    command.env(FOLDER, scratch.path(".")).stderr(stderr);
    let output = command.output().expect("this program can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{text}", output.status);
}

fn folder() -> std::path::PathBuf {
    std::env::var_os(FOLDER).expect("a folder").into()
}

/// What a signal does in this process.
fn handler_of(signal: libc::c_int) -> usize {
    // SAFETY: all zeros is a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the action is valid to be written.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action.sa_sigaction
}

/// As a program of C has them: both end the process.
fn dangerous() {
    for signal in [libc::SIGXFSZ, libc::SIGPIPE] {
        // SAFETY: no handler is passed.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Both still end the process, and the calling thread would still be sent them.
fn still_dangerous() {
    let dispositions = [libc::SIGXFSZ, libc::SIGPIPE].map(handler_of);
    assert_eq!(dispositions, [libc::SIG_DFL; 2]);
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("procfs");
    for field in ["SigPnd", "ShdPnd", "SigBlk"] {
        let line = status.lines().find(|line| line.starts_with(field));
        let mask = line.and_then(|line| line.split_whitespace().nth(1));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let ours = 1 << (libc::SIGXFSZ - 1) | 1 << (libc::SIGPIPE - 1);
        assert_eq!(mask.expect("a mask") & ours, 0, "{field}");
    }
}

fn context(queue: &std::sync::Arc<ProxyQueue>, script: &Script) -> Context {
    let builder = script.context(0).block(1, sets(1, 1));
    queue.context(builder).expect("a context")
}

fn ended(context: &Context, exec: u64) -> Status {
    let ticket = context.enqueue(ExecId(exec)).expect("room").network;
    let code = context.queue().consume(ticket, Patience::until(PATIENCE));
    code.expect("a code")
}

#[test]
fn h47_h50_reports_charts_and_traces_at_the_limit_of_file_sizes_are_errors() {
    let scratch = Scratch::new();
    run("child_at_its_limit_of_files", &scratch, Stdio::inherit());
    let mut left = std::fs::read_dir(scratch.path(".")).expect("a folder");
    let partial = left.find(|file| {
        let path = file.as_ref().expect("an entry").path();
        path.extension().is_some_and(|end| end == "partial")
    });
    assert!(partial.is_none(), "{partial:?}");
}

/// Waits until a message with this part was written, and says so with its reason.
fn told(part: &str) {
    until(part, || {
        (messages::with(part).iter()).any(|(_, text)| text.contains("File too large"))
    });
}

#[test]
fn child_at_its_limit_of_files() {
    if !child::is("child_at_its_limit_of_files") {
        return;
    }
    messages::collect();
    dangerous();
    let chart = format!("10 4 0 0 {}/chart", folder().display());
    let chart: HistogramConfig = chart.parse().expect("a histogram");
    let settings = Settings::builder()
        .proxy_histogram(Some(chart))
        .from_lookup(|_| None)
        .expect("good settings");
    let options = Options {
        socket: true,
        directory: Some(folder()),
        every: Some(Duration::from_millis(20)),
        ..Options::default()
    };
    let mut trace = File::create(folder().join("trace")).expect("a file");
    os::limit(libc::RLIMIT_FSIZE, 0);
    let service = Service::start(options).expect("a service");
    let queue = ProxyQueue::start(GID, &settings).expect("a queue");
    queue.start_trace(64).expect("a trace");
    let failing = Script::with(&["progress 1 -> ret=7"]);
    let failing = context(&queue, &failing);
    assert_eq!(ended(&failing, 1), Status(7), "the library's own code");
    assert_eq!(ended(&failing, 2), Status::SUCCESS, "the worker works");
    told("the report could not be written to ");
    // The descriptor that a tool is answered with is a file, too.
    fetch(std::process::id()).expect_err("no report");
    told("a tool got no report: ");
    let written = queue
        .trace()
        .expect("started")
        .write_chrome(GID, &mut trace);
    let error = written.expect_err("no room");
    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    drop(failing);
    queue.release(Release::Drain, PATIENCE).expect("released");
    told("network times could not be written to ");
    still_dangerous();
    // With room everything is there again.
    os::limit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
    let report = fetch(std::process::id()).expect("a report");
    assert_eq!(report.process.pid, std::process::id());
    let written = queue
        .trace()
        .expect("started")
        .write_chrome(GID, &mut trace);
    written.expect("room");
    let file = folder().join(format!("proxy-report-{}.json", std::process::id()));
    until("a report at an interval", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Report::from_json(&text).is_ok()
    });
    drop(service);
}

#[test]
fn h47_messages_to_a_file_at_its_limit_are_counted_and_told_when_there_is_room() {
    let scratch = Scratch::new();
    let path = scratch.path("stderr");
    run(
        "child_with_a_full_log",
        &scratch,
        File::create(&path).expect("a file"),
    );
    let text = std::fs::read_to_string(&path).expect("text");
    let expected = "proxy ERROR: first\n\
        proxy WARN: standard error had no room for 2 messages\nproxy ERROR: last\n";
    assert_eq!(text, expected);
}

#[test]
fn child_with_a_full_log() {
    if !child::is("child_with_a_full_log") {
        return;
    }
    dangerous();
    log::error(format_args!("first"));
    os::limit(libc::RLIMIT_FSIZE, "proxy ERROR: first\n".len() as u64);
    for _ in 0..2 {
        log::error(format_args!("lost"));
    }
    still_dangerous();
    os::limit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
    log::error(format_args!("last"));
}

#[test]
fn h47_messages_and_traces_that_nobody_reads_raise_no_signal() {
    let scratch = Scratch::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    run("child_that_nobody_reads", &scratch, writer);
}

#[test]
fn child_that_nobody_reads() {
    if !child::is("child_that_nobody_reads") {
        return;
    }
    dangerous();
    log::error(format_args!("to nobody"));
    let queue = ProxyQueue::start(GID, &Settings::default()).expect("a queue");
    queue.start_trace(64).expect("a trace");
    assert_eq!(ended(&context(&queue, &Script::open()), 1), Status::SUCCESS);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let written = queue
        .trace()
        .expect("started")
        .write_chrome(GID, &mut writer);
    let error = written.expect_err("nobody reads");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    queue.release(Release::Drain, PATIENCE).expect("released");
    still_dangerous();
}
