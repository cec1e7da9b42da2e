//! A kernel that refuses a worker. In a program of its own: injected faults hit every thread of the process.

use std::time::Duration;

use proxy_core::Gid;
use proxy_os::sys::fault::{self, Call};
use proxy_os::{AcquireError, Group, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_failed_thread_creation_leaves_no_group_and_the_next_try_succeeds() {
    fault::inject(Call::ThreadCreate, 1, libc::EAGAIN);
    match Group::acquire(Gid(77), &Settings::default(), PATIENCE) {
        Err(AcquireError::Start(error)) => assert!(
            error
                .to_string()
                .starts_with("Failed to create worker thread: 11"),
            "{error}"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(fault::left(Call::ThreadCreate), 0);
    assert_eq!(Group::sharers(Gid(77)), 0);
    let group = Group::acquire(Gid(77), &Settings::default(), PATIENCE).expect("a group");
    assert_eq!(group.queue().gid(), Gid(77));
}
