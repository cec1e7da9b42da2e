//! H50, H52: reports on request: by signal, which stays chained and is given back, to a tool, and after an error (features F1, F3).
#![allow(
    unsafe_code,
    reason = "signals are C calls, and a start word is named by its address"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::child;
use proxy_checks::script::{Script, sets};
use proxy_checks::stub::Scratch;
use proxy_core::{ExecId, Gid};
use proxy_os::diagnosis::{FetchError, Options, Report, ServeError, Service, fetch, served};
use proxy_os::{Patience, ProxyQueue, Release, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

/// A process has one service and one disposition per signal, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

static FORMER: AtomicU32 = AtomicU32::new(0);

extern "C" fn former(_: libc::c_int) {
    // Relaxed: the count is read after the signal was handled on this thread.
    FORMER.fetch_add(1, Ordering::Relaxed);
}

fn handler_of(signal: libc::c_int) -> usize {
    // SAFETY: all zeros is a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the action is valid to be written.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    action.sa_sigaction
}

/// Reports in a directory, waited for until there are `count`.
fn reports(scratch: &Scratch, count: usize) -> Vec<Report> {
    let since = Instant::now();
    loop {
        let files = std::fs::read_dir(scratch.path("."))
            .unwrap()
            .map(|file| file.unwrap().path());
        let whole: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect();
        if whole.len() >= count {
            let read = |path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            return whole.into_iter().map(read).collect();
        }
        assert!(
            since.elapsed() < PATIENCE,
            "{} of {count} reports",
            whole.len()
        );
        std::thread::yield_now();
    }
}

fn silent(_: proxy_os::log::Level, _: &str) {}

#[test]
fn h52_a_signal_asks_for_a_report_and_its_former_handler_is_called_and_given_back() {
    let _turn = TURN.lock();
    proxy_os::log::set_sink(silent);
    let signal = libc::SIGUSR1;
    // SAFETY: the handler only counts.
    unsafe {
        libc::signal(
            signal,
            former as extern "C" fn(libc::c_int) as libc::sighandler_t,
        )
    };
    let before = handler_of(signal);
    let first = FORMER.load(Ordering::Relaxed);
    let scratch = Scratch::new();
    let options = Options {
        signal: Some(signal),
        directory: Some(scratch.path(".")),
        ..Options::default()
    };
    let service = Service::start(options.clone()).unwrap();
    assert!(matches!(Service::start(options), Err(ServeError::Running)));
    assert_ne!(handler_of(signal), before);
    for round in 1..=2 {
        // SAFETY: no pointers.
        unsafe { libc::raise(signal) };
        assert_eq!(FORMER.load(Ordering::Relaxed), first + round);
        let reports = reports(&scratch, round as usize);
        assert!(
            reports
                .iter()
                .all(|report| report.reason == format!("signal {signal}"))
        );
    }
    drop(service);
    assert_eq!(handler_of(signal), before, "given back");
    // SAFETY: the default disposition, as at the start.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// What [`chains`] has hooked over.
static OVER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static CHAINED: AtomicU32 = AtomicU32::new(0);

extern "C" fn chains(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut std::ffi::c_void,
) {
    // Relaxed: as for `former`.
    if CHAINED.fetch_add(1, Ordering::Relaxed) > 100 {
        // A circle, which the counts show.
        return;
    }
    let over = OVER.load(Ordering::Relaxed);
    // SAFETY: the kernel gave this number as the service's handler, which takes three arguments.
    let over = unsafe { std::mem::transmute::<usize, WithInfo>(over) };
    over(signal, info, context);
}

type WithInfo = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut std::ffi::c_void);

/// Sets a handler with three arguments; returns what was there.
fn set_handler(signal: libc::c_int, handler: usize) -> libc::sigaction {
    // SAFETY: all zeros is a valid action.
    let [mut action, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: both actions are valid, and the handler is one of this file's.
    let answer = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
    assert_eq!(answer, 0);
    before
}

#[test]
fn h52_a_handler_left_in_the_embedders_chain_makes_no_circle_when_the_service_comes_back() {
    let _turn = TURN.lock();
    proxy_os::log::set_sink(silent);
    let signal = libc::SIGUSR2;
    // SAFETY: the handler only counts.
    unsafe {
        libc::signal(
            signal,
            former as extern "C" fn(libc::c_int) as libc::sighandler_t,
        )
    };
    let before = handler_of(signal);
    let scratch = Scratch::new();
    let options = Options {
        signal: Some(signal),
        directory: Some(scratch.path(".")),
        ..Options::default()
    };
    let counts = || [&FORMER, &CHAINED].map(|count| count.load(Ordering::Relaxed));
    let [former, chained] = counts();
    // SAFETY: no pointers.
    let raise = || assert_eq!(unsafe { libc::raise(signal) }, 0);

    let service = Service::start(options.clone()).unwrap();
    let ours = set_handler(signal, chains as WithInfo as usize);
    OVER.store(ours.sa_sigaction, Ordering::Relaxed); // read on this thread
    drop(service);
    raise();
    assert_eq!(counts(), [former + 1, chained + 1], "the chain is whole");
    for round in 1..=2 {
        let service = Service::start(options.clone()).unwrap();
        raise();
        assert_eq!(counts(), [former + 1 + round, chained + 1 + round]);
        assert_eq!(reports(&scratch, round as usize).len(), round as usize);
        drop(service);
        assert_eq!(handler_of(signal), chains as WithInfo as usize);
    }
    // The embedder puts back what it has found, which is ours.
    set_handler(signal, ours.sa_sigaction);
    let service = Service::start(options).unwrap();
    raise();
    assert_eq!(counts(), [former + 4, chained + 3]);
    assert_eq!(reports(&scratch, 3).len(), 3);
    drop(service);
    assert_eq!(handler_of(signal), before, "given back");
    // SAFETY: the default disposition, as at the start.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// What a handler with three arguments was given: the signal, its origin, whether there is a context.
static GIVEN: Mutex<Option<(i32, i32, bool)>> = Mutex::new(None);

extern "C" fn takes_three(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut std::ffi::c_void,
) {
    // SAFETY: the kernel's information of this signal, or null.
    let code = unsafe { info.as_ref() }.map_or(0, |info| info.si_code);
    // The thread that is interrupted is in `raise`, so it does not hold the lock.
    *GIVEN.lock().unwrap() = Some((signal, code, !context.is_null()));
}

#[test]
fn h52_a_former_handler_with_three_arguments_gets_all_three() {
    /// Sent by `tgkill`, as `raise` does.
    const SI_TKILL: i32 = -6;
    let _turn = TURN.lock();
    proxy_os::log::set_sink(silent);
    let signal = libc::SIGUSR1;
    set_handler(signal, takes_three as WithInfo as usize);
    let service = Service::start(Options {
        signal: Some(signal),
        ..Options::default()
    })
    .unwrap();
    // SAFETY: no pointers.
    unsafe { libc::raise(signal) };
    assert_eq!(*GIVEN.lock().unwrap(), Some((signal, SI_TKILL, true)));
    drop(service);
    assert_eq!(handler_of(signal), takes_three as WithInfo as usize);
    // SAFETY: the default disposition, as at the start.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Set by the C library in whatever it passes to the kernel, and so in a disposition that was put back.
const RESTORER: libc::c_int = 0x0400_0000;

/// What every signal of this process does: handler, flags.
fn dispositions() -> Vec<(usize, libc::c_int)> {
    (1..=libc::SIGRTMAX())
        .map(|signal| {
            // SAFETY: all zeros is a valid action.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: the action is valid to be written; of the C library's own signals nothing is written.
            unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
            (action.sa_sigaction, action.sa_flags & !RESTORER)
        })
        .collect()
}

#[test]
fn h52_without_being_asked_no_signal_is_touched_and_afterwards_all_are_as_before() {
    let _turn = TURN.lock();
    let before = dispositions();
    let script = Script::open();
    let run = |settings: &Settings, during: &dyn Fn()| {
        let queue = ProxyQueue::start(Gid(703), settings).unwrap();
        let builder = script.context(0).block(1, sets(1, 1));
        let context = queue.context(builder).unwrap();
        let ticket = context.enqueue(ExecId(1)).unwrap().network;
        queue.consume(ticket, Patience::until(PATIENCE)).unwrap();
        during();
        queue.release(Release::Drain, PATIENCE).unwrap();
    };
    run(&Settings::default(), &|| assert_eq!(dispositions(), before));
    assert_eq!(dispositions(), before);
    let signal = libc::SIGUSR2.unsigned_abs();
    let asked = Settings::builder().report_signal(signal);
    let asked = asked.from_lookup(|_| None).unwrap();
    run(&asked, &|| {
        let changed: Vec<usize> = (1..)
            .zip(dispositions().iter().zip(&before))
            .filter_map(|(signal, (now, before))| (now != before).then_some(signal))
            .collect();
        assert_eq!(
            changed,
            [libc::SIGUSR2 as usize],
            "the one that was asked for"
        );
    });
    assert_eq!(dispositions(), before);
}

#[test]
fn a_signal_that_cannot_be_caught_is_refused_and_leaves_nothing() {
    let _turn = TURN.lock();
    let options = Options {
        socket: true,
        signal: Some(libc::SIGKILL),
        ..Options::default()
    };
    let error = Service::start(options).unwrap_err();
    let expected = "signal 9 cannot be taken: Invalid argument (os error 22); accepted: a signal that can be caught";
    assert_eq!(error.to_string(), expected);
    assert!(matches!(
        fetch(std::process::id()),
        Err(FetchError::NotServed(_))
    ));
}

#[test]
fn a_tool_of_the_same_user_gets_the_report_while_the_worker_is_stuck() {
    let _turn = TURN.lock();
    let script = Script::with(&["progress 1 -> block"]);
    let settings = Settings::builder().report(true).from_env().unwrap();
    let queue = ProxyQueue::start(Gid(701), &settings).unwrap();
    let context = queue
        .context(script.context(2).block(1, sets(1, 1)))
        .unwrap();
    let _ticket = context.enqueue(ExecId(77)).unwrap();
    let pid = std::process::id();
    assert!(served().contains(&pid));
    let since = Instant::now();
    loop {
        let report = fetch(pid).unwrap();
        let group = report.groups.iter().find(|group| group.gid == 701).unwrap();
        if group.worker.activity == "inside the library" {
            assert_eq!(group.tasks[0].exec, 77);
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{report}");
    }
    script.release();
    queue.release(Release::Abort, PATIENCE).unwrap();
    drop(context);
    drop(queue);
    assert!(
        matches!(fetch(pid), Err(FetchError::NotServed(_))),
        "gone with its queue"
    );
}

/// What a process of another user gets: its own tool's word, and what the service sends to one that asks all the same.
fn as_another_user(pid: u32, name: &[u8]) -> libc::c_int {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: no pointers.
    if unsafe { libc::setuid(NOBODY) } != 0 {
        return 77;
    }
    if !matches!(fetch(pid), Err(FetchError::Foreign(_))) {
        return 1;
    }
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    // The first byte stays 0: a name of the abstract kind.
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let length = (2 + 1 + name.len()) as libc::socklen_t;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0) };
    // SAFETY: the address is valid for its length.
    if unsafe { libc::connect(fd, (&raw const address).cast(), length) } != 0 {
        return 2;
    }
    // Refused perhaps before it is sent.
    // SAFETY: valid for its length.
    unsafe { libc::send(fd, c"report".as_ptr().cast(), 6, libc::MSG_NOSIGNAL) };
    let mut answer = [0_u8; 16];
    // SAFETY: valid for its length.
    let got = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
    if got > 0 { 3 } else { 0 }
}

#[test]
fn f03_another_user_gets_no_report_whatever_tool_it_has() {
    let _turn = TURN.lock();
    proxy_os::log::set_sink(silent);
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: a second user not available");
        return;
    }
    let options = Options {
        socket: true,
        ..Options::default()
    };
    let service = Service::start(options).unwrap();
    let pid = std::process::id();
    assert!(fetch(pid).is_ok(), "the same user");
    let list = std::fs::read_to_string("/proc/net/unix").unwrap();
    let names = list.lines().filter_map(|line| line.rsplit_once(" @"));
    let mut own = names.filter(|(_, name)| {
        name.starts_with("proxy-report/") && name.ends_with(&format!("/{pid}"))
    });
    let name = own.next().expect("the socket is listed").1.as_bytes();
    // SAFETY: the child runs the function above and leaves without a destructor; the C library's allocator works in it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = as_another_user(pid, name);
        // SAFETY: no pointers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: a child of this process; the status is valid to be written.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    match libc::WEXITSTATUS(status) {
        77 => println!("SKIPPED: a second user not available"),
        code => assert_eq!(
            code, 0,
            "1 = its tool did not see whose it is, 2 = no connection, 3 = the service answered"
        ),
    }
    assert!(fetch(pid).is_ok(), "and goes on for the same user");
    drop(service);
}

/// A process that serves reports and is stopped; ended when it is dropped.
struct Stopped(std::process::Child);

const SERVES: &str = "f03_serves_reports_until_it_is_killed";

impl Stopped {
    fn new() -> Self {
        let mut command = child::command(SERVES);
        let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        let stopped = Self(child);
        let since = Instant::now();
        while fetch(stopped.0.id()).is_err() {
            assert!(since.elapsed() < PATIENCE, "it serves");
            std::thread::yield_now();
        }
        // SAFETY: no pointers; the child has not been waited for, so its number is its own.
        unsafe { libc::kill(stopped.0.id().cast_signed(), libc::SIGSTOP) };
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn f03_serves_reports_until_it_is_killed() {
    if child::is(SERVES) {
        let options = Options {
            socket: true,
            ..Options::default()
        };
        let _service = Service::start(options).unwrap();
        // Its parent kills it; without one it ends by itself.
        std::thread::sleep(PATIENCE);
    }
}

#[test]
fn f03_silent_processes_are_asked_together_and_hide_no_other() {
    let _turn = TURN.lock();
    let service = Service::start(Options {
        socket: true,
        ..Options::default()
    });
    let service = service.unwrap();
    let silent: Vec<Stopped> = (0..3).map(|_| Stopped::new()).collect();
    let mut pids: Vec<u32> = silent.iter().map(|process| process.0.id()).collect();
    pids.extend([std::process::id(), 2_147_483_647]);
    let since = Instant::now();
    let answers = proxy_os::diagnosis::fetch_all(&pids);
    let took = since.elapsed();
    assert_eq!(answers.len(), 5);
    for (answer, pid) in answers[..3].iter().zip(&pids) {
        assert!(
            matches!(answer, Err(FetchError::Silent(of)) if of == pid),
            "{answer:?}"
        );
    }
    assert_eq!(answers[3].as_ref().unwrap().process.pid, std::process::id());
    assert!(matches!(answers[4], Err(FetchError::NotServed(_))));
    // Two seconds together; one after the other would be six.
    assert!(took < Duration::from_secs(5), "{took:?}");
    drop(service);
}

#[test]
fn h50_a_task_that_fails_leaves_a_report_with_the_cause() {
    let _turn = TURN.lock();
    proxy_os::log::set_sink(silent);
    let scratch = Scratch::new();
    let settings = Settings::builder().report_directory(Some(scratch.path(".")));
    let queue = ProxyQueue::start(Gid(702), &settings.from_env().unwrap()).unwrap();
    let script = Script::with(&["progress 1 -> ret=7"]);
    let context = queue
        .context(script.context(4).block(1, sets(1, 1)))
        .unwrap();
    let _ticket = context.enqueue(ExecId(5)).unwrap();
    let report = reports(&scratch, 1).remove(0);
    assert!(
        report.reason.contains("network task exec 5"),
        "{}",
        report.reason
    );
    assert!(
        report.reason.ends_with("; failed: queue full (7)"),
        "{}",
        report.reason
    );
    let group = report.groups.iter().find(|group| group.gid == 702).unwrap();
    assert_eq!(group.errors[0].status, 7);
    queue.release(Release::Abort, PATIENCE).unwrap();
}
