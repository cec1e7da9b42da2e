//! A queue that finds no memory is an error that says for what, and nothing is left of it; the process lives.
//!
//! Limits and injected failures concern a whole process, so the tests do their part in a child.
//!
//! Requirements: H45.

use std::collections::BTreeSet;
use std::time::Duration;

use proxy_checks::bus::Role;
use proxy_checks::script::{Script, sets};
use proxy_checks::{os, pace};
use proxy_core::{ExecId, Gid, Status};
use proxy_os::memory::NoMemory;
use proxy_os::sys::fault::{self, Call};
use proxy_os::trace::TraceError;
use proxy_os::{AcquireError, Group, Patience, ProxyQueue, Release, Settings, StartError};

const PATIENCE: Duration = Duration::from_secs(20);
const GID: Gid = Gid(450);
/// What a queue and its worker map, in this order.
const PARTS: [&str; 5] = [
    "the queue",
    "the black box",
    "the latencies",
    "the driver",
    "the worker's stopwatch",
];
/// Smaller than any of them.
const STEP: u64 = 32 << 10;

fn run(test: &str) {
    let text = Role::new("memory", 0, 1, "").run(test);
    // The child's own harness may have begun the line.
    if let Some(begin) = text.find("SKIPPED:") {
        println!("{}", text[begin..].lines().next().unwrap_or_default());
    }
}

/// What a start that failed must leave as it was: descriptors, threads, bytes of address space, groups, shares.
fn held() -> [u64; 5] {
    let mapped = match pace::has_sanitizer() {
        true => 0,
        false => os::address_space(),
    };
    let counted = [
        os::descriptors(),
        os::threads(),
        Group::count(),
        Group::sharers(GID) as usize,
    ];
    let [descriptors, threads, groups, sharers] = counted.map(|count| count as u64);
    [descriptors, threads, mapped, groups, sharers]
}

fn acquire() -> Result<Group, AcquireError> {
    Group::acquire(GID, &Settings::default(), PATIENCE)
}

fn refused() -> NoMemory {
    match acquire() {
        Err(AcquireError::Start(StartError::Memory(error))) => error,
        other => panic!("{other:?}"),
    }
}

/// The group can be had, and works.
fn works() {
    let mut group = acquire().expect("a group");
    let script = Script::open();
    let builder = script.context(0).block(1, sets(1, 1));
    let context = group.queue().context(builder).expect("a context");
    let ticket = context.enqueue(ExecId(1)).expect("room").network;
    let code = group.queue().consume(ticket, Patience::until(PATIENCE));
    assert_eq!(code, Ok(Status::SUCCESS));
    group.release(Release::Drain, PATIENCE).expect("released");
}

#[test]
fn h45_each_mapping_of_a_queue_that_fails_is_named_with_its_bytes_and_the_kernels_error() {
    run("child_whose_mappings_fail");
}

#[test]
fn child_whose_mappings_fail() {
    if Role::of("child_whose_mappings_fail").is_none() {
        return;
    }
    // What the first try of a process makes for good.
    fault::inject_after(Call::MapMemory, 4, 1, libc::ENOMEM);
    refused();
    let before = held();
    for (after, part) in (0..).zip(PARTS) {
        fault::inject_after(Call::MapMemory, after, 1, libc::EAGAIN);
        let error = refused();
        assert_eq!(fault::left(Call::MapMemory), 0);
        assert_eq!((error.what, error.error.raw_os_error()), (part, Some(11)));
        let begin = format!("Failed to allocate {} bytes for {part}: ", error.bytes);
        assert!(error.to_string().starts_with(&begin), "{error}");
        assert!(error.bytes as u64 > STEP, "{error}");
        assert_eq!(held(), before, "{part}");
    }
    // One more than there are: the next one is another's.
    fault::inject_after(Call::MapMemory, 5, 1, libc::EAGAIN);
    works();
    assert_eq!(fault::left(Call::MapMemory), 1);
}

#[test]
fn h45_at_any_limit_of_the_address_space_a_queue_says_what_had_no_room() {
    run("child_at_limits_of_its_address_space");
}

#[test]
fn child_at_limits_of_its_address_space() {
    if Role::of("child_at_limits_of_its_address_space").is_none() || is_beyond_limits() {
        return;
    }
    fault::inject_after(Call::MapMemory, 4, 1, libc::ENOMEM);
    refused();
    let (before, own) = (held(), os::address_space());
    let mut met = BTreeSet::new();
    for room in (0..1024).map(|step| step * STEP) {
        os::limit(libc::RLIMIT_AS, own + room);
        let tried = acquire();
        os::limit(libc::RLIMIT_AS, libc::RLIM_INFINITY);
        assert_eq!(held(), before, "{tried:?}");
        match tried {
            Err(AcquireError::Start(StartError::Memory(error))) => {
                assert_eq!(error.error.raw_os_error(), Some(libc::ENOMEM), "{error}");
                met.insert(error.what);
            }
            // The last thing to be had, as its stack is mapped then.
            Err(AcquireError::Start(StartError::Thread(error))) => {
                assert_eq!(error.raw_os_error(), Some(libc::EAGAIN), "{error}");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(met, PARTS.into());
    works();
}

/// Whether no limit of the address space can be set.
fn is_beyond_limits() -> bool {
    let is_beyond = pace::has_sanitizer();
    if is_beyond {
        println!("SKIPPED: a limit of the address space not available (a sanitizer has it)");
    }
    is_beyond
}

#[test]
fn h45_a_trace_for_which_there_is_no_memory_is_refused_and_a_smaller_one_is_not() {
    run("child_without_memory_for_a_trace");
}

#[test]
fn child_without_memory_for_a_trace() {
    if Role::of("child_without_memory_for_a_trace").is_none() || is_beyond_limits() {
        return;
    }
    let queue = ProxyQueue::start(GID, &Settings::default()).expect("a queue");
    os::limit(libc::RLIMIT_AS, os::address_space() + (64 << 20));
    let events = 1 << 24;
    match queue.start_trace(events) {
        Err(TraceError::Memory(error)) => {
            assert_eq!(error.what, "the trace");
            assert!(error.bytes > 1 << 29, "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(queue.trace().is_none());
    queue.start_trace(16).expect("a small one");
    queue.release(Release::Drain, PATIENCE).expect("released");
}
