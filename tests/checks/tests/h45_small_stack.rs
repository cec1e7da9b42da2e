//! A process whose limit of stacks is tiny (`ulimit -s 64`), from which the C library takes the size of a new thread's: workers and the bus's
//! threads have room all the same, and where one cannot be had an error says so.
//!
//! Requirements: H45.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proxy_checks::bus::{self, Role, text};
use proxy_checks::script::{Script, sets};
use proxy_checks::{child, os, pace};
use proxy_core::{ExecId, Gid, Status};
use proxy_os::log::Level;
use proxy_os::{
    AcquireError, Group, Patience, Release, Settings, StartError, is_worker_thread, log,
};

const PATIENCE: Duration = Duration::from_secs(20);
const CHILD: &str = "child_with_small_stacks";
/// What a function that the worker calls takes of its stack: half of what it is to have.
const DEEP: usize = 1 << 20;

/// The same child by way of a shell that sets the limit, and with so small a stack for its test's own thread.
fn with_small_stacks(name: &str, kib: &str) -> Command {
    let plain = child::command(name);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -s \"$0\" && exec \"$@\"", kib]);
    command.arg(plain.get_program()).args(plain.get_args());
    let given = plain.get_envs().filter_map(|(name, to)| Some((name, to?)));
    command
        .envs(given)
        .env("RUST_MIN_STACK", (64 << 10).to_string());
    command
}

#[test]
fn h45_with_the_smallest_stacks_a_queue_starts_and_a_bus_is_joined() {
    if pace::has_sanitizer() {
        println!("SKIPPED: small stacks not available (a sanitizer takes more)");
        return;
    }
    let mut command = with_small_stacks(CHILD, "64");
    command.stdin(Stdio::null());
    let output = command.output().expect("a shell");
    assert!(
        output.status.success(),
        "{}\n{}",
        output.status,
        text(&output)
    );
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// On the worker alone, as the other threads here have small stacks.
fn sink(_: Level, message: &str) {
    if is_worker_thread() {
        deep(message);
    }
}

/// As an embedder's may be: not modest.
#[inline(never)]
fn deep(message: &str) {
    let room = [1_u8; DEEP];
    assert_eq!(black_box(&room).len(), DEEP, "{message}");
    // Relaxed: read after the task's end, which orders it.
    CALLS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn child_with_small_stacks() {
    if !child::is(CHILD) {
        return;
    }
    log::set_sink(sink);
    let mut group = Group::acquire(Gid(460), &Settings::default(), PATIENCE).expect("a group");
    let script = Script::with(&["progress 1 -> ret=7"]);
    let builder = script.context(0).block(1, sets(1, 1));
    let context = group.queue().context(builder).expect("a context");
    for (exec, code) in [(1, Status(7)), (2, Status::SUCCESS)] {
        let ticket = context.enqueue(ExecId(exec)).expect("room").network;
        let ended = group.queue().consume(ticket, Patience::until(PATIENCE));
        assert_eq!(ended, Ok(code));
    }
    // Relaxed: as above.
    assert!(CALLS.load(Ordering::Relaxed) > 0, "the sink ran");
    let everybody = bus::everybody(2);
    assert_eq!(everybody.len(), 2);
    drop((everybody, context));
    group.release(Release::Drain, PATIENCE).expect("released");
}

#[test]
fn h45_a_worker_whose_stack_has_no_room_is_an_error_of_the_start() {
    let text = Role::new("stacks", 0, 1, "").run("child_without_room_for_a_stack");
    // The child's own harness may have begun the line.
    if let Some(begin) = text.find("SKIPPED:") {
        println!("{}", text[begin..].lines().next().unwrap_or_default());
    }
}

#[test]
fn child_without_room_for_a_stack() {
    if Role::of("child_without_room_for_a_stack").is_none() {
        return;
    }
    if pace::has_sanitizer() {
        println!("SKIPPED: a limit of the address space not available (a sanitizer has it)");
        return;
    }
    // The first size at which the queue's own memory is there.
    let room = (1..).map(|step| step << 20);
    let error = room.map_while(|room| {
        os::limit(libc::RLIMIT_AS, os::address_space() + room);
        let tried = Group::acquire(Gid(461), &Settings::default(), PATIENCE);
        os::limit(libc::RLIMIT_AS, libc::RLIM_INFINITY);
        match tried {
            Err(AcquireError::Start(StartError::Memory(_))) => Some(None),
            Err(AcquireError::Start(error)) => Some(Some(error)),
            other => panic!("{other:?}"),
        }
    });
    let error = error.flatten().next().expect("an error");
    let text = error.to_string();
    assert!(
        text.starts_with("Failed to create worker thread: 11 ("),
        "{text}"
    );
    assert_eq!(Group::count(), 0);
}
