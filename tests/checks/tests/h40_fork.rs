//! H40, H41: a forked child is told so by every call, can drop everything and exit; the parent goes on.
#![allow(unsafe_code, reason = "fork, waitpid and _exit are C calls")]

use std::time::{Duration, Instant};

use proxy_checks::child;
use proxy_checks::pace::at_most;
use proxy_checks::script::{Script, sets};
use proxy_checks::service::reports;
use proxy_checks::stub::Scratch;
use proxy_core::phone::barrier::RankSet;
use proxy_core::{ContextError, EnqueueError, ExecId, Gid, PollError, Status, TaskKind};
use proxy_os::bananaphone::{Bus, BusError, JoinError, Options};
use proxy_os::diagnosis::{Options as Reports, ServeError, Service, fetch};
use proxy_os::sys::thread;
use proxy_os::{
    AbortError, AcquireError, BuildError, ConsumeError, Context, Group, Patience, ProxyQueue,
    Release, ReleaseError, Settings, StartError,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Forks by the raw system call or the C library's; the child runs `body` and leaves with its answer. Returns the exit code.
fn forked(raw: bool, body: impl FnOnce() -> i32) -> i32 {
    let pid = if raw {
        // SAFETY: the child only runs `body`, which is written for a process with one thread of many.
        (unsafe { libc::syscall(libc::SYS_fork) }) as libc::pid_t
    } else {
        // SAFETY: as above.
        unsafe { libc::fork() }
    };
    if pid == 0 {
        let code = body();
        // SAFETY: ends the process; no destructor is wanted.
        unsafe { libc::_exit(code) };
    }
    assert!(pid > 0, "fork");
    wait(pid)
}

/// The exit code of a child that ends within the patience; one that does not is killed and told apart.
fn wait(pid: libc::pid_t) -> i32 {
    let since = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the kernel to write.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if ended == pid {
            return match libc::WIFEXITED(status) {
                true => libc::WEXITSTATUS(status),
                false => 1000 + libc::WTERMSIG(status),
            };
        }
        if since.elapsed() > PATIENCE {
            // SAFETY: our own child, not reaped yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::yield_now();
    }
}

/// What a child finds; the number of the first thing that is not as it should be, or 0.
fn first_wrong(found: &[bool]) -> i32 {
    let wrong = found.iter().position(|right| !right);
    wrong.map_or(0, |at| i32::try_from(at).unwrap() + 1)
}

struct Parent {
    group: Group,
    context: Context,
    busy: Context,
    script: Script,
}

impl Parent {
    /// A group with a worker that is busy with a task for ever.
    fn new(gid: u32) -> Self {
        let (script, idle) = (
            Script::open(),
            Script::with(&["progress * -> idle=1 done=0"]),
        );
        let group = Group::acquire(Gid(gid), &Settings::default(), PATIENCE).unwrap();
        let make = |script: &Script| {
            let builder = script.context(0).block(1, sets(1, 1));
            group.queue().context(builder).unwrap()
        };
        let (context, busy) = (make(&script), make(&idle));
        busy.enqueue(ExecId(0)).unwrap();
        Self {
            group,
            context,
            busy,
            script,
        }
    }

    /// The parent's next hundred tasks complete.
    fn goes_on(&self) {
        for exec in 1..=100 {
            let ticket = self.context.enqueue(ExecId(exec)).unwrap().network;
            let code = self
                .group
                .queue()
                .consume(ticket, Patience::until(PATIENCE));
            assert_eq!(code, Ok(Status::SUCCESS));
        }
    }
}

/// Every call of a child, and then the drop of every handle.
fn calls_in_child(parent: Parent) -> i32 {
    let since = Instant::now();
    let joins = thread::joins();
    let Parent {
        mut group,
        context,
        busy,
        script,
    } = parent;
    let queue = std::sync::Arc::clone(group.queue());
    let ticket = queue.unfinished()[0].ticket;
    let builder = || script.context(0).block(1, sets(1, 1));
    let found = [
        context.enqueue(ExecId(1)) == Err(EnqueueError::Forked),
        context.append(TaskKind::Network, ExecId(1)) == Err(EnqueueError::Forked),
        context.arm(TaskKind::Network) == Err(EnqueueError::Forked),
        context.check(TaskKind::Network) == Err(PollError::Forked),
        queue.poll(ticket) == Err(PollError::Forked),
        queue.consume(ticket, Patience::default()) == Err(ConsumeError::Poll(PollError::Forked)),
        queue.abort(ticket, PATIENCE) == Err(AbortError::Forked),
        context.abort(PATIENCE) == Err(AbortError::Forked),
        queue.abort_tasks(PATIENCE) == Err(AbortError::Forked),
        Group::abort_all(PATIENCE).is_empty(),
        queue.release(Release::Abort, PATIENCE) == Err(ReleaseError::Forked),
        group.release(Release::Drain, PATIENCE) == Err(ReleaseError::Forked),
        matches!(
            queue.context(builder()),
            Err(BuildError::Context(ContextError::Forked))
        ),
        matches!(
            Group::acquire(Gid(9), &Settings::default(), PATIENCE),
            Err(AcquireError::Forked)
        ),
        matches!(
            ProxyQueue::start(Gid(9), &Settings::default()),
            Err(StartError::Forked)
        ),
        matches!(context.retire(), Err((_, ContextError::Forked))),
        {
            drop((busy, group, queue));
            true
        },
        since.elapsed() < at_most(Duration::from_millis(200)),
        thread::joins() == joins,
    ];
    first_wrong(&found)
}

/// In a process of its own: a child keeps only the thread that forked, and other tests' locks must not be among what it loses.
fn in_own_process(name: &str) -> bool {
    if child::is(name) {
        return true;
    }
    let output = child::command(name).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    false
}

#[test]
fn h40_a_forked_child_is_told_so_by_every_call() {
    if !in_own_process("h40_a_forked_child_is_told_so_by_every_call") {
        return;
    }
    for raw in [false, true] {
        let parent = Parent::new(40 + u32::from(raw));
        // Taken apart in the child only, whose copy it is.
        let copy = std::mem::ManuallyDrop::new(parent);
        let code = forked(raw, || {
            // SAFETY: the child's copy of the value is moved once, and never used again.
            calls_in_child(unsafe { std::ptr::read(&raw const *copy) })
        });
        assert_eq!(code, 0, "number of the first call that answers wrong");
        let mut parent = std::mem::ManuallyDrop::into_inner(copy);
        parent.goes_on();
        assert!(parent.group.release(Release::Abort, PATIENCE).is_ok());
    }
}

#[test]
fn h40_a_child_drops_a_queue_that_serves_reports_and_asks_its_parent_for_none() {
    if !in_own_process("h40_a_child_drops_a_queue_that_serves_reports_and_asks_its_parent_for_none")
    {
        return;
    }
    let signal = libc::SIGUSR1;
    let scratch = Scratch::new();
    let settings = Settings::builder()
        .report(true)
        .report_signal(signal.unsigned_abs())
        .report_directory(Some(scratch.path(".")))
        .from_lookup(|_| None)
        .unwrap();
    for raw in [false, true] {
        let queue = ProxyQueue::start(Gid(43), &settings).unwrap();
        let code = forked(raw, || {
            let since = Instant::now();
            let joins = thread::joins();
            // SAFETY: no pointers.
            let raised = unsafe { libc::raise(signal) };
            // SAFETY: the child's copy of the value is moved once, and never used again.
            drop(unsafe { std::ptr::read(&raw const queue) });
            let found = [
                raised == 0,
                thread::joins() == joins,
                since.elapsed() < at_most(Duration::from_millis(200)),
                matches!(Service::start(Reports::default()), Err(ServeError::Forked)),
            ];
            first_wrong(&found)
        });
        assert_eq!(code, 0, "number of the first thing that is wrong");
        // The service looks at the signal's bell before it answers.
        assert_eq!(fetch(std::process::id()).unwrap().reason, "a tool asked");
        assert_eq!(reports(&scratch).len(), 0, "of its child's signal");
    }
}

#[test]
fn h40_a_child_of_a_child_and_a_child_of_one_that_never_used_it() {
    if !in_own_process("h40_a_child_of_a_child_and_a_child_of_one_that_never_used_it") {
        return;
    }
    let settings = Settings::default();
    let fresh = forked(false, || {
        let started = ProxyQueue::start(Gid(1), &settings);
        first_wrong(&[started.is_ok_and(|queue| queue.release(Release::Drain, PATIENCE).is_ok())])
    });
    assert_eq!(fresh, 0, "a parent that never used it has no claim on it");
    let parent = Parent::new(41);
    let enqueue = || parent.context.enqueue(ExecId(1)) == Err(EnqueueError::Forked);
    assert_eq!(
        forked(false, || forked(false, || first_wrong(&[enqueue()]))),
        0
    );
    parent.goes_on();
}

#[test]
fn h40_a_forked_child_of_a_process_on_a_bus_is_told_so() {
    if !in_own_process("h40_a_forked_child_of_a_process_on_a_bus_is_told_so") {
        return;
    }
    let options = |rank| Options::new(format!("h40-{}", std::process::id()), rank, 2);
    let mut first = Bus::create(&options(0)).unwrap();
    let mut second = Bus::create(&options(1)).unwrap();
    let ranks: RankSet = (0..2).collect();
    let mut barrier = first.barrier(0, ranks).unwrap();
    let mut other = second.barrier(0, ranks).unwrap();
    let code = forked(false, || {
        let since = Instant::now();
        let joins = thread::joins();
        let short = Duration::from_secs(5);
        let found = [
            first.send(1, 7, b"no", short) == Err(BusError::Forked),
            first.recv(1, None, short) == Err(BusError::Forked),
            first.all_gather(b"no", short) == Err(BusError::Forked),
            first.connect(short) == Err(JoinError::Forked),
            matches!(first.barrier(1, ranks), Err(BusError::Forked)),
            barrier.wait(1, short) == Err(BusError::Forked),
            {
                barrier.arrive(1, short);
                barrier.poll() == Err(BusError::Forked)
            },
            barrier.gather() == Err(BusError::Forked),
            barrier.pass() == Err(BusError::Forked),
            barrier.cancel() == Err(BusError::Forked),
            barrier.forgo(1) == Err(BusError::Forked),
            matches!(Bus::create(&options(1)), Err(JoinError::Forked)),
            {
                first.hangup();
                // SAFETY: the child's copies are moved once, and never used again.
                drop(unsafe { std::ptr::read(&raw const first) });
                // SAFETY: as above.
                drop(unsafe { std::ptr::read(&raw const second) });
                true
            },
            since.elapsed() < at_most(Duration::from_millis(200)),
            thread::joins() == joins,
        ];
        first_wrong(&found)
    });
    assert_eq!(code, 0, "number of the first call that answers wrong");
    // Nothing of the child's has reached the barrier.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| other.wait(1, PATIENCE));
        assert_eq!(barrier.wait(1, PATIENCE), Ok(()));
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
    for round in 0..100_u32 {
        second
            .send(0, round, &round.to_ne_bytes(), PATIENCE)
            .unwrap();
        let (tag, bytes) = first.recv(1, None, PATIENCE).unwrap();
        assert_eq!((tag, bytes), (round, round.to_ne_bytes().to_vec()));
    }
}

#[test]
fn h41_a_child_that_exits_normally_does_so_promptly_with_0_and_joins_nobody() {
    if !in_own_process("h41_a_child_that_exits_normally_does_so_promptly_with_0_and_joins_nobody") {
        return;
    }
    extern "C" fn no_join() {
        if thread::joins() != JOINS.load(std::sync::atomic::Ordering::Relaxed) {
            // SAFETY: ends the process.
            unsafe { libc::_exit(77) };
        }
    }
    static JOINS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // Registered first, so that it runs after the driver's own hook.
    proxy_os::sys::exit::at_exit(no_join).unwrap();
    let parent = Parent::new(42);
    JOINS.store(thread::joins(), std::sync::atomic::Ordering::Relaxed);
    let since = Instant::now();
    let code = forked(false, || {
        // SAFETY: ends the child with all its exit hooks, as a return from `main` does.
        unsafe { libc::exit(0) }
    });
    assert_eq!(code, 0);
    assert!(
        since.elapsed() < Duration::from_secs(2),
        "{:?}",
        since.elapsed()
    );
    parent.goes_on();
    // This process joins at its end, and is not the one that is looked at.
    JOINS.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    drop(parent);
    JOINS.store(thread::joins(), std::sync::atomic::Ordering::Relaxed);
}
