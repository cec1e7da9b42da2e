//! H23-H25: how long a library stays mapped, and who is called when it or the process ends.
//!
//! Requirements: H23, H24, H25.
#![allow(unsafe_code, reason = "calls of the library and unloading are unsafe")]

use std::io::Write;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use proxy_checks::child;
use proxy_checks::script::sets;
use proxy_checks::stub::{Scratch, Stub};
use proxy_core::{ExecId, Gid, Rank};
use proxy_os::nccom::{self, Comm, Hold, Library, ProxyComm, UnloadError};
use proxy_os::sys::{exit, thread};
use proxy_os::{Context, ContextBuilder, Group, ProxyQueue, Release, Released, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

/// The first call after the exit hook.
fn late(log: &[String]) -> Option<&String> {
    log.iter().find(|line| line.starts_with("late"))
}

fn load(stub: &Stub) -> Arc<Library> {
    Library::load(stub.path.as_os_str()).expect("the stub loads")
}

/// One progress call; the stub looks at the communicator only when it blocks.
fn progress(library: &Library, comm: &AtomicI32) -> (i32, bool, bool) {
    let comm = Comm::new(comm.as_ptr().cast()).expect("an address");
    let (mut idle, mut done) = (true, true);
    // SAFETY: the stub's communicator is any address of an int that outlives the call.
    let status = unsafe { library.network_proxy_progress(comm, 0, 0, &mut idle, &mut done) };
    (status.0, idle, done)
}

#[test]
fn h23_nothing_is_called_after_the_exit_hook() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &[]);
    child::run(
        "child_that_never_shuts_down",
        &scratch.path(""),
        &scratch.path(""),
    );
    let log = stub.log();
    assert_eq!(late(&log), None);
    assert!(
        log.contains(&"call NetworkProxyProgress".to_owned()),
        "{log:?}"
    );
    let hooks: Vec<_> = log.iter().filter(|line| line.ends_with("hook")).collect();
    assert_eq!(hooks, ["own hook", "exit hook"]);
    assert!(!log.contains(&"call FiniPlugin".to_owned()), "{log:?}");
}

/// Leaves everything alive in statics and in a thread, and returns.
#[test]
fn child_that_never_shuts_down() {
    static KEPT: OnceLock<Hold> = OnceLock::new();
    static COMM: AtomicI32 = AtomicI32::new(1);
    extern "C" fn own_hook() {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .open("libstub.so.log");
        log.and_then(|mut log| writeln!(log, "own hook"))
            .expect("the stub's log");
    }
    if !child::is("child_that_never_shuts_down") {
        return;
    }
    let library = nccom::shared("./libstub.so".as_ref()).expect("the stub loads");
    exit::at_exit(own_hook).expect("room for a hook");
    let kept = KEPT.get_or_init(|| Hold::new(library, "a static"));
    let called = Arc::new(OnceLock::new());
    let ready = Arc::clone(&called);
    let body = move || {
        progress(kept, &COMM);
        ready.get_or_init(|| ());
        // Alive until the process ends.
        loop {
            std::thread::park();
        }
    };
    drop(
        thread::spawn(|_| thread::ThreadName::new("kept"), None, Box::new(body)).expect("a thread"),
    );
    called.wait();
}

#[test]
fn h23_a_worker_left_running_calls_nothing_after_the_exit_hook() {
    let log = log_of_a_worker_left_running(&[]);
    let at = |event: &str| log.iter().position(|line| line == event);
    assert_eq!(late(&log), None);
    assert!(at("call NetworkProxyProgress").is_some(), "{log:?}");
    assert!(at("call StopNetworkProxy").is_some(), "{log:?}");
    assert!(at("call StopNetworkProxy") < at("exit hook"), "{log:?}");
}

/// The library's other way to have an end of its own: its thread-local on the worker is destroyed by that worker, whose thread
/// ends before the exit hook runs, and nothing is called later.
#[test]
fn h23_a_worker_left_running_destroys_the_librarys_thread_locals_first() {
    let log = log_of_a_worker_left_running(&["THREAD_LOCAL"]);
    let at = |event: &str| log.iter().position(|line| line == event);
    assert_eq!(late(&log), None);
    assert!(at("thread end").is_some(), "{log:?}");
    assert!(at("call StopNetworkProxy") < at("thread end"), "{log:?}");
    assert!(at("thread end") < at("exit hook"), "{log:?}");
}

/// What happens in a stub with these switches when a process ends without a word to its worker.
fn log_of_a_worker_left_running(switches: &[&str]) -> Vec<String> {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", switches);
    let child = "child_that_leaves_its_worker_running";
    child::run(child, &scratch.path(""), &scratch.path(""));
    stub.log()
}

/// A task that never ends keeps the worker calling the library, and nobody releases anything.
#[test]
fn child_that_leaves_its_worker_running() {
    static COMM: AtomicI32 = AtomicI32::new(1);
    static KEPT: OnceLock<(Arc<ProxyQueue>, Context)> = OnceLock::new();
    if !child::is("child_that_leaves_its_worker_running") {
        return;
    }
    let library = nccom::shared("./libstub.so".as_ref()).expect("the stub loads");
    let comm = Comm::new(COMM.as_ptr().cast()).expect("an address");
    // SAFETY: the stub looks at none of its arguments.
    let comm = unsafe { ProxyComm::new(library, comm, 2) };
    let queue = ProxyQueue::start(Gid(0), &Settings::default()).expect("a queue");
    let builder = ContextBuilder::new(comm, Rank(0)).block(1, sets(1, 1));
    let context = queue.context(builder).expect("a context");
    context.enqueue(ExecId(1)).expect("room");
    while std::fs::read_to_string("libstub.so.log").is_ok_and(|log| !log.contains("Progress")) {
        std::thread::yield_now();
    }
    KEPT.set((queue, context)).expect("kept once");
}

#[test]
fn h24_the_library_stays_mapped_and_its_thread_locals_are_destroyed_in_it() {
    const ROUNDS: usize = 100;
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &["THREAD_LOCAL"]);
    let mut mappings = Vec::new();
    for _ in 0..ROUNDS {
        let hold = Hold::new(load(&stub), "a worker");
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let (called, ready) = std::sync::mpsc::channel();
        let body = move || {
            progress(&hold, &AtomicI32::new(1));
            drop(hold);
            called.send(()).expect("the test waits");
            // Ended by the test, which drops the other end once no library is held.
            wait.recv().expect_err("nothing is sent");
        };
        let name = |_| thread::ThreadName::new("worker");
        let worker = thread::spawn(name, None, Box::new(body)).expect("a thread");
        ready.recv().expect("the worker has called");
        drop(release);
        assert_eq!(worker.join().expect("joinable"), thread::Exit::Returned);
        mappings.push(stub.mappings());
    }
    assert_eq!(stub.count("thread end"), ROUNDS);
    assert_eq!(stub.count("mapped"), 1);
    assert_eq!(stub.count("unmapped"), 0);
    assert!(mappings[0] > 0, "the library was unmapped");
    assert_eq!(mappings, vec![mappings[0]; ROUNDS]);
}

#[test]
fn h25_a_library_in_use_is_not_unloaded_and_the_holders_are_listed() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &["BLOCK"]);
    let comm = Arc::new(AtomicI32::new(0));
    let hold = Hold::new(load(&stub), "group 3, worker inside progress");
    let theirs = Arc::clone(&comm);
    let body = move || {
        progress(&hold, &theirs);
    };
    let name = |_| thread::ThreadName::new("worker");
    let worker = thread::spawn(name, None, Box::new(body)).expect("a thread");
    while stub.count("call NetworkProxyProgress") == 0 {
        std::thread::yield_now();
    }
    let other = load(&stub);
    // SAFETY: it is refused, as the assertions show.
    let refused = unsafe { nccom::unload(load(&stub)) }.expect_err("the library is in use");
    assert!(
        refused
            .to_string()
            .contains("group 3, worker inside progress"),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("1 more reference"),
        "{refused}"
    );
    let UnloadError::Busy(busy) = refused else {
        panic!("{refused}")
    };
    assert_eq!(busy.holders, ["group 3, worker inside progress"]);
    assert!(Arc::ptr_eq(&busy.library, &other));
    assert_eq!(
        (stub.count("call FiniPlugin"), stub.count("unmapped")),
        (0, 0)
    );
    // Release pairs with the stub's acquire load.
    comm.store(1, Ordering::Release);
    assert_eq!(worker.join().expect("joinable"), thread::Exit::Returned);
    drop(other);
    // SAFETY: the only thread that called the library has been joined; this test holds the last reference.
    unsafe { nccom::unload(busy.library) }.expect("nobody uses the library");
    let log = stub.log();
    // The exit hook and the destructor of an unloaded library run when it is unmapped, in either order.
    let mut end = log[log.len() - 3..].to_vec();
    end[1..].sort();
    assert_eq!(end, ["call FiniPlugin", "exit hook", "unmapped"]);
    assert_eq!(stub.mappings(), 0);
}

#[test]
fn h25_a_live_group_holds_its_library() {
    static COMM: AtomicI32 = AtomicI32::new(1);
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &[]);
    let settings = Settings::default();
    let mut group = Group::acquire(Gid(25), &settings, PATIENCE).expect("a group");
    let comm = Comm::new(COMM.as_ptr().cast()).expect("an address");
    // SAFETY: the stub looks at none of its arguments.
    let comm = unsafe { ProxyComm::new(load(&stub), comm, 2) };
    let builder = ContextBuilder::new(comm, Rank(1)).block(1, sets(1, 1));
    let context = group.queue().context(builder).expect("a context");
    // SAFETY: it is refused, as the assertions show.
    let refused = unsafe { nccom::unload(load(&stub)) }.expect_err("the group is alive");
    let UnloadError::Busy(busy) = refused else {
        panic!("{refused}")
    };
    assert_eq!(busy.holders.len(), 1, "{:?}", busy.holders);
    assert!(
        busy.holders[0].contains("communicator"),
        "{:?}",
        busy.holders
    );
    assert_eq!(stub.count("call FiniPlugin"), 0);
    drop(context);
    let released = group.release(Release::Drain, PATIENCE);
    assert_eq!(released, Ok(Released::Ended));
    // SAFETY: the group's worker has ended, and this thread has called nothing but the loader.
    unsafe { nccom::unload(busy.library) }.expect("nobody uses the library");
    assert_eq!(stub.mappings(), 0);
}

#[test]
fn h25_an_unloaded_library_is_loaded_afresh() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &[]);
    let name = stub.path.as_os_str();
    let first = nccom::shared(name).expect("the stub loads");
    // SAFETY: this thread is the only one that has called the library, and the stub has no thread-locals.
    unsafe { nccom::unload(first) }.expect("nobody uses the library");
    let again = nccom::shared(name).expect("the stub loads again");
    assert_eq!(progress(&again, &AtomicI32::new(1)), (0, true, false));
    assert_eq!((stub.count("mapped"), stub.count("unmapped")), (2, 1));
}

#[test]
fn h25_loading_and_unloading_from_many_threads_keeps_one_mapping() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &[]);
    let unloaded = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let library = nccom::shared(stub.path.as_os_str()).expect("the stub loads");
                    assert_eq!(progress(&library, &AtomicI32::new(1)).0, 0);
                    // SAFETY: the stub has no thread-locals, and nobody calls it without a reference.
                    if unsafe { nccom::unload(library) }.is_ok() {
                        *unloaded.lock().expect("no panic") += 1;
                    }
                }
            });
        }
    });
    assert_eq!(stub.count("unmapped"), *unloaded.lock().expect("no panic"));
    assert_eq!(stub.count("unmapped"), stub.count("call FiniPlugin"));
}
