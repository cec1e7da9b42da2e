//! A kernel that refuses a worker something. In a program of its own: injected faults hit every thread of the process.
//!
//! Requirements: H45.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Status};
use proxy_os::sys::fault::{self, Call};
use proxy_os::{AcquireError, Group, Patience, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

/// One test at a time: what one injects must not hit another's worker.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first try to have a group fails with a message that begins like this and leaves nothing; the second succeeds.
fn fails_once(call: Call, gid: Gid, message: &str) {
    fault::inject(call, 1, libc::EAGAIN);
    match Group::acquire(gid, &Settings::default(), PATIENCE) {
        Err(AcquireError::Start(error)) => {
            assert!(error.to_string().starts_with(message), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fault::left(call), 0);
    assert_eq!(Group::sharers(gid), 0);
    let group = Group::acquire(gid, &Settings::default(), PATIENCE).expect("a group");
    assert_eq!(group.queue().gid(), gid);
}

#[test]
fn h45_a_failed_thread_creation_leaves_no_group_and_the_next_try_succeeds() {
    let _alone = alone();
    let message = "Failed to create worker thread: 11";
    fails_once(Call::ThreadCreate, Gid(77), message);
}

#[test]
fn h45_a_failed_doorbell_leaves_no_group_and_the_next_try_succeeds() {
    let _alone = alone();
    let message = "Failed to create the worker's doorbell: ";
    fails_once(Call::BellCreate, Gid(78), message);
}

/// A worker that cannot sleep keeps looking by itself: no wake-up is lost, and it sleeps again when the kernel lets it.
#[test]
fn h45_a_worker_whose_sleep_fails_still_drives_its_tasks() {
    let _alone = alone();
    let script = Script::open();
    let group = Group::acquire(Gid(79), &Settings::default(), PATIENCE).expect("a group");
    let builder = script.context(0).block(1, sets(1, 1));
    let context = group.queue().context(builder).expect("a context");
    for exec in 1..=3 {
        fault::inject(Call::BellWait, 5, libc::ENOMEM);
        let execution = context.enqueue(ExecId(exec)).expect("room");
        let queue = group.queue();
        let status = queue.consume(execution.network, Patience::until(PATIENCE));
        assert_eq!(status.expect("in time"), Status::SUCCESS);
        let since = Instant::now();
        while fault::left(Call::BellWait) > 0 {
            assert!(
                since.elapsed() < PATIENCE,
                "the worker never tried to sleep"
            );
            std::thread::yield_now();
        }
    }
}
