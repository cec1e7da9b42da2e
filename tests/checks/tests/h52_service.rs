//! The service of reports among others: another one that is ending, a process without room for a connection, signals in the middle of a wait.
//!
//! Requirements: H52, H65.
#![allow(unsafe_code, reason = "sockets and signals are C calls")]

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::os;
use proxy_checks::pace::until;
use proxy_checks::service::{self, beginning, own_namespace, reports, turn};
use proxy_checks::stub::Scratch;
use proxy_os::diagnosis::{FetchError, Options, Service, fetch, fetch_all};
use proxy_os::log::Level;
use proxy_os::sys::fault::{self, Call};
use proxy_os::sys::thread;

/// Calls of [`counts`].
static COUNTED: AtomicU32 = AtomicU32::new(0);

extern "C" fn counts(_: libc::c_int) {
    // Relaxed: read on the thread that it has interrupted, or until it changes.
    COUNTED.fetch_add(1, Ordering::Relaxed);
}

fn counted() -> u32 {
    COUNTED.load(Ordering::Relaxed)
}

/// Sets what a signal does; returns what it did.
fn set_action(signal: libc::c_int, action: &libc::sigaction) -> libc::sigaction {
    // SAFETY: all zeros is a valid action.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both actions are valid.
    let answer = unsafe { libc::sigaction(signal, action, &raw mut before) };
    assert_eq!(answer, 0);
    before
}

/// The action that does nothing but count.
fn counting() -> libc::sigaction {
    // SAFETY: all zeros is a valid action: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = counts as extern "C" fn(libc::c_int) as usize;
    action
}

fn raise(signal: libc::c_int) {
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// A service that writes a report into the directory when the signal comes.
fn on_signal(signal: libc::c_int, scratch: &Scratch) -> Service {
    let options = Options {
        signal: Some(signal),
        directory: Some(scratch.path(".")),
        ..Options::default()
    };
    Service::start(options).unwrap()
}

#[test]
fn h52_a_service_that_starts_while_another_ends_has_the_signal_and_gives_it_back() {
    let _turn = turn();
    let signal = libc::SIGUSR1;
    let found = set_action(signal, &counting());
    let before = counted();
    let [first, second] = [Scratch::new(), Scratch::new()];
    let service = on_signal(signal, &first);
    service::hold(true);
    raise(signal);
    until("a report is being written", || {
        !beginning("report: ").is_empty()
    });
    let joins = thread::joins();
    std::thread::scope(|scope| {
        let ending = scope.spawn(move || drop(service));
        until("its end is waited for", || thread::joins() > joins);
        // The thread of the first is held, so its end gives up after two seconds.
        let service = on_signal(signal, &second);
        service::hold(false);
        ending.join().unwrap();
        let ours = set_action(signal, &counting());
        assert_ne!(ours.sa_sigaction, counting().sa_sigaction, "it is taken");
        set_action(signal, &ours);
        raise(signal);
        assert_eq!(counted(), before + 2, "each signal is handed on once");
        until("the second hears it", || reports(&second).len() == 1);
        drop(service);
    });
    let given_back = set_action(signal, &found);
    assert_eq!(given_back.sa_sigaction, counting().sa_sigaction);
}

#[test]
fn h52_the_services_handler_put_back_after_its_end_does_not_call_itself() {
    let _turn = turn();
    let signal = libc::SIGUSR1;
    let found = set_action(signal, &counting());
    let before = counted();
    let scratch = Scratch::new();
    let service = on_signal(signal, &scratch);
    let ours = set_action(signal, &counting());
    set_action(signal, &ours);
    drop(service);
    // Somebody who has saved it puts it back.
    set_action(signal, &ours);
    raise(signal);
    let service = on_signal(signal, &scratch);
    raise(signal);
    until("the report of the signal", || reports(&scratch).len() == 1);
    drop(service);
    raise(signal);
    assert_eq!(counted(), before + 3, "each signal is handed on once");
    set_action(signal, &found);
}

#[test]
fn without_room_for_a_connection_the_service_looks_again_now_and_then() {
    /// Between two looks.
    const RETRY: Duration = Duration::from_millis(100);
    const LOOKS: u32 = 3;
    let _turn = turn();
    let service = Service::start(Options {
        socket: true,
        ..Options::default()
    });
    let service = service.unwrap();
    let since = Instant::now();
    fault::inject(Call::Accept, u32::MAX, libc::EMFILE);
    let looks = || u32::MAX - fault::left(Call::Accept);
    std::thread::scope(|scope| {
        let tool = scope.spawn(|| fetch(std::process::id()));
        until("it has looked again", || looks() >= LOOKS);
        let took = since.elapsed();
        fault::inject(Call::Accept, 0, 0);
        assert!(took >= RETRY * (LOOKS - 1), "{took:?}");
        // Let in with the next look.
        let report = tool.join().unwrap().unwrap();
        assert_eq!(report.process.pid, std::process::id());
    });
    let told =
        "tools wait for their reports: accept: Too many open files (os error 24); trying again";
    assert_eq!(beginning("tools wait"), [(Level::Warn, told.to_owned())]);
    drop(service);
}

#[test]
fn a_tool_waits_no_longer_than_until_all_have_answered() {
    let _turn = turn();
    let service = Service::start(Options {
        socket: true,
        ..Options::default()
    });
    let pid = std::process::id();
    let since = Instant::now();
    let answers = fetch_all(&[pid, pid]);
    let took = since.elapsed();
    for answer in answers {
        assert_eq!(answer.unwrap().process.pid, pid);
    }
    // What one that is silent is waited for.
    assert!(took < Duration::from_secs(2), "{took:?}");
    drop(service.unwrap());
}

/// Makes a call on this thread while another one sends it signals, which interrupt system calls and do nothing else.
fn among_signals<T>(call: impl FnOnce() -> T) -> T {
    let found = set_action(libc::SIGUSR2, &counting());
    let over = AtomicBool::new(false);
    // SAFETY: no arguments.
    let target = unsafe { libc::pthread_self() };
    let made = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Acquire pairs with the release below.
            while !over.load(Ordering::Acquire) {
                // SAFETY: the thread waits for this one.
                unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
                std::thread::yield_now();
            }
        });
        let made = call();
        over.store(true, Ordering::Release);
        made
    });
    set_action(libc::SIGUSR2, &found);
    made
}

#[test]
fn h65_a_signal_does_not_end_the_time_that_a_process_has_to_answer() {
    let _turn = turn();
    let pid = std::process::id();
    let silent = os::take_name(&service::name(own_namespace(), pid));
    // SAFETY: no pointers are passed.
    assert_eq!(unsafe { libc::listen(silent.as_raw_fd(), 1) }, 0);
    let since = Instant::now();
    let answer = among_signals(|| fetch(pid));
    let took = since.elapsed();
    assert!(
        matches!(answer, Err(FetchError::Silent(of)) if of == pid),
        "{answer:?}"
    );
    assert!(took >= Duration::from_secs(2), "{took:?}");
}

/// The thread of the service, once it has named itself.
fn report_thread() -> libc::pid_t {
    let mut found = None;
    until("the thread has its name", || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let mut paths = tasks.map(|task| task.unwrap().path());
        found = paths.find(|path| {
            let name = std::fs::read_to_string(path.join("comm"));
            name.is_ok_and(|name| name.trim() == "proxy-report")
        });
        found.is_some()
    });
    let path = found.unwrap();
    path.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Connects to the service and asks only after its thread was sent signals; whether it answers.
fn asked_after_signals(thread: libc::pid_t) -> bool {
    let before = os::descriptors();
    let tool = os::connected(&service::name(own_namespace(), std::process::id()));
    until("it is let in", || os::descriptors() == before + 2);
    let own = std::process::id();
    for _ in 0..20 {
        let heard = counted();
        // SAFETY: no pointers; the thread is one of this process.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, own, thread, libc::SIGUSR2) };
        assert_eq!(sent, 0);
        until("the signal is handled", || counted() > heard);
    }
    let fd = tool.as_raw_fd();
    // SAFETY: valid for its length.
    unsafe { libc::send(fd, c"report".as_ptr().cast(), 6, libc::MSG_NOSIGNAL) };
    let mut answer = [0_u8; 16];
    // SAFETY: valid for its length.
    let got = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
    got > 0 && answer.starts_with(b"report")
}

#[test]
fn h65_a_signal_does_not_end_the_time_that_a_tool_has_to_ask() {
    let _turn = turn();
    let found = set_action(libc::SIGUSR2, &counting());
    let service = Service::start(Options {
        socket: true,
        ..Options::default()
    });
    let service = service.unwrap();
    let thread = report_thread();
    // On a busy machine a tool may be late.
    assert!((0..5).any(|_| asked_after_signals(thread)));
    drop(service);
    set_action(libc::SIGUSR2, &found);
}
