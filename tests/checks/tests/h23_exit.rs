//! H23, H25: every way in which a process can end, or its library be given back, while a worker is busy: the code is the caller's, and
//! the library is not called after its exit hook.
#![allow(
    unsafe_code,
    reason = "calls that end the process, and a stub that follows its communicator"
)]

use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use proxy_checks::child;
use proxy_checks::pace::until;
use proxy_checks::script::sets;
use proxy_checks::stub::{Scratch, Stub};
use proxy_core::{ExecId, Gid, Poll, Rank, RunState};
use proxy_os::nccom::{self, Comm, ProxyComm};
use proxy_os::report::Record;
use proxy_os::{Context, ContextBuilder, ProxyQueue, Release, Settings};

/// What the child ends with.
const CODE: i32 = 7;
/// A worker that is stuck is waited for a second, however many there are.
const BOUND: Duration = Duration::from_secs(15);
/// Tells the child how to end.
const WAY: &str = "PROXY_CHECKS_WAY";
const CHILD: &str = "child_that_ends_with_a_busy_worker";

/// Ends a child with a busy worker in a way; returns what happened in the stub.
fn ended(way: &str, switches: &[&str], code: i32) -> Vec<String> {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", switches);
    let mut command = child::command(CHILD);
    command.current_dir(scratch.path("")).env(WAY, way);
    let since = Instant::now();
    let output: Output = command.output().expect("this program can be started");
    let took = since.elapsed();
    let text = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert_eq!(status.code(), Some(code), "{way}: {status}\n{text}");
    assert_eq!(status.signal(), None);
    assert!(took < BOUND, "{way}: {took:?}");
    let log = stub.log();
    let late = log.iter().find(|line| line.starts_with("late"));
    assert_eq!(late, None, "{way}: {log:?}");
    assert!(
        count(&log, "call NetworkProxyProgress") > 0,
        "{way}: {log:?}"
    );
    log
}

fn count(log: &[String], event: &str) -> usize {
    log.iter().filter(|line| *line == event).count()
}

#[test]
fn h23_exit_from_any_thread_ends_the_worker_first_and_keeps_the_code() {
    for way in ["exit", "exit of another thread"] {
        let log = ended(way, &[], CODE);
        let at = |event: &str| log.iter().position(|line| line == event);
        assert!(at("call StopNetworkProxy").is_some(), "{way}: {log:?}");
        assert!(at("call StopNetworkProxy") < at("exit hook"), "{log:?}");
    }
}

#[test]
fn h23_exit_from_inside_a_callback_of_the_library_keeps_the_code() {
    let log = ended("exit inside stop", &["CALL_BACK"], CODE);
    // The other worker is stopped by the exit.
    assert_eq!(count(&log, "call StopNetworkProxy"), 2, "{log:?}");
    assert_eq!(count(&log, "exit hook"), 1, "{log:?}");
}

/// These end the process without the hooks of `exit`: nothing runs late, as nothing runs.
#[test]
fn h23_quick_exits_keep_the_code_and_run_no_hook() {
    for way in ["quick_exit", "_exit"] {
        let log = ended(way, &[], CODE);
        assert_eq!(count(&log, "exit hook"), 0, "{way}: {log:?}");
    }
}

/// Two workers are inside the library and come out of it when its exit hook has run: they make no other call.
#[test]
fn h23_a_worker_that_comes_out_of_the_library_after_its_exit_hook_makes_no_other_call() {
    for (way, code) in [("return while stuck", 0), ("exit while stuck", CODE)] {
        let log = ended(way, &["BLOCK"], code);
        let last = &log[log.len() - 2..];
        assert_eq!(last, ["exit hook", "unmapped"], "{way}: {log:?}");
        assert_eq!(count(&log, "call StopNetworkProxy"), 0, "{way}: {log:?}");
    }
}

type Kept = (Arc<ProxyQueue>, Context);

/// A busy worker: its task never ends.
fn busy(gid: u32, comm: Comm) -> Kept {
    let library = nccom::shared("./libstub.so".as_ref()).expect("the stub loads");
    // SAFETY: what the communicator points to is never freed; the stub looks at no other argument.
    let comm = unsafe { ProxyComm::new(library, comm, 2) };
    let queue = ProxyQueue::start(Gid(gid), &Settings::default()).expect("a queue");
    let builder = ContextBuilder::new(comm, Rank(0)).block(1, sets(1, 1));
    let context = queue.context(builder).expect("a context");
    context.enqueue(ExecId(1)).expect("room");
    // What stays: a call of a stub that returns is over before anybody has looked, above all where the worker never loses its core within one.
    until("it is progressed", || {
        let dump = queue.dump();
        let idle = |task: &Record| task.state == RunState::Idle;
        let inside = dump.inside.map(|inside| inside.call.to_string());
        inside.as_deref() == Some("neuronNetworkProxyProgress") || dump.tasks.iter().any(idle)
    });
    (queue, context)
}

extern "C" fn leave_with_code() {
    // SAFETY: ends the process; that is what is tested.
    unsafe { libc::exit(CODE) };
}

extern "C" fn nothing() {}

/// What communicators of a stub that blocks point to.
static SHUT: AtomicI32 = AtomicI32::new(0);

#[test]
fn child_that_ends_with_a_busy_worker() {
    static BACK: [extern "C" fn(); 2] = [leave_with_code, nothing];
    static KEPT: OnceLock<[Kept; 2]> = OnceLock::new();
    if !child::is(CHILD) {
        return;
    }
    let way = std::env::var(WAY).expect("a way");
    let comm = |place: usize| {
        let comm = match way.as_str() {
            "exit inside stop" => (&raw const BACK[place]).cast_mut().cast(),
            _ => SHUT.as_ptr().cast(),
        };
        Comm::new(comm).expect("an address")
    };
    let kept = KEPT.get_or_init(|| [busy(1, comm(0)), busy(2, comm(1))]);
    let code = CODE;
    match way.as_str() {
        // SAFETY: ends the process; that is what is tested.
        "exit" => unsafe { libc::exit(code) },
        "exit of another thread" => {
            // SAFETY: as above.
            let ending = std::thread::spawn(move || unsafe { libc::exit(code) });
            // This thread waits like a program that is at work.
            let _ = ending.join();
        }
        "exit inside stop" => {
            let released = kept[0].0.release(Release::Abort, BOUND * 4);
            unreachable!("the process has ended: {released:?}");
        }
        // SAFETY: as above.
        "quick_exit" => unsafe { quick_exit(code) },
        // SAFETY: as above.
        "_exit" => unsafe { libc::_exit(code) },
        "return while stuck" | "exit while stuck" => {
            until("both are inside the library", || {
                kept.iter().all(|(queue, _)| queue.dump().inside.is_some())
            });
            if way == "exit while stuck" {
                // SAFETY: as above.
                unsafe { libc::exit(code) }
            }
        }
        other => unreachable!("{other}"),
    }
}

unsafe extern "C" {
    fn quick_exit(code: libc::c_int) -> !;
}

/// Somebody else has opened the library, too, and closes it: the group's own opening keeps it.
#[test]
fn h25_a_dlclose_by_somebody_else_leaves_a_live_group_its_library() {
    static COMM: AtomicI32 = AtomicI32::new(0);
    let scratch = Scratch::new();
    let stub: Stub = scratch.stub("libstub.so", &[]);
    // SAFETY: the stub's constructor writes to its log and nothing else.
    let theirs = unsafe { libloading::Library::new(&stub.path) }.expect("the stub loads");
    let library = nccom::Library::load(stub.path.as_os_str()).expect("the stub loads");
    let comm = Comm::new(COMM.as_ptr().cast()).expect("an address");
    // SAFETY: the stub looks at none of its arguments.
    let comm = unsafe { ProxyComm::new(library, comm, 2) };
    let queue = ProxyQueue::start(Gid(2500), &Settings::default()).expect("a queue");
    let builder = ContextBuilder::new(comm, Rank(0)).block(1, sets(1, 1));
    let context = queue.context(builder).expect("a context");
    let ticket = context.enqueue(ExecId(1)).expect("room").network;
    until("it is progressed", || {
        stub.count("call NetworkProxyProgress") == 1
    });
    theirs.close().expect("it is open");
    assert_eq!(stub.count("unmapped"), 0);
    assert!(stub.mappings() > 0);
    let ticks = queue.counters().ticks;
    until("it is progressed after the close", || {
        queue.counters().ticks > ticks + 100
    });
    assert!(matches!(queue.poll(ticket), Ok(Poll::Pending(_))));
    assert_eq!(queue.release(Release::Abort, BOUND), Ok(()));
    assert_eq!(stub.count("call StopNetworkProxy"), 1);
}
