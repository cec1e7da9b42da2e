//! After its first execution a context costs no heap allocation, and an append to an awake worker no system call.
#![allow(unsafe_code, reason = "a global allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Poll, Status};
use proxy_os::{Patience, ProxyQueue, Settings};

/// Counts what the whole process allocates: producer, worker and consumer alike.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: a counter.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PATIENCE: Duration = Duration::from_secs(20);

/// One test, so that no other test's allocations are counted.
#[test]
fn executions_allocate_nothing_and_appends_to_an_awake_worker_make_no_system_call() {
    let script = Script::with(&["progress * -> done=1"]);
    let queue = ProxyQueue::start(Gid(1), &Settings::default()).unwrap();
    let context = queue
        .context(script.context(0).block(1, sets(1, 2)).block(2, sets(2, 2)))
        .unwrap();
    let run = |exec: u64| {
        let execution = context.enqueue(ExecId(exec)).unwrap();
        assert_eq!(
            queue.consume(execution.network, Patience::until(PATIENCE)),
            Ok(Status::SUCCESS)
        );
    };
    run(0);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for exec in 1..1000 {
        run(exec);
        assert!(
            queue
                .check(context.id(), proxy_core::TaskKind::Network)
                .is_err()
        );
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);

    let idle = Script::with(&["progress * -> idle=1 done=0"]);
    let keeps_awake = queue.context(idle.context(1).block(1, sets(1, 1))).unwrap();
    let held = keeps_awake.enqueue(ExecId(0)).unwrap();
    let rings = queue.counters().rings;
    for exec in 1000..2000 {
        run(exec);
    }
    assert_eq!(queue.counters().rings, rings, "each ring is a system call");
    assert!(matches!(queue.poll(held.network), Ok(Poll::Pending(_))));
}
