//! A kernel that refuses a worker something. In a program of its own: injected faults hit every thread of the process.
//!
//! Requirements: H45.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, Role};
use proxy_checks::messages;
use proxy_checks::script::{Script, sets};
use proxy_core::phone::member::State;
use proxy_core::{ExecId, Gid, Status};
use proxy_os::bananaphone::Bus;
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

/// A worker that cannot sleep keeps looking by itself: no wake-up is lost, and it sleeps again when the kernel lets it. It says so once,
/// however often it tries in vain.
#[test]
fn h05_h45_a_worker_whose_sleep_fails_still_drives_its_tasks_and_says_so_once() {
    let _alone = alone();
    messages::collect();
    let script = Script::open();
    let group = Group::acquire(Gid(79), &Settings::default(), PATIENCE).expect("a group");
    let builder = script.context(0).block(1, sets(1, 1));
    let context = group.queue().context(builder).expect("a context");
    for exec in 1..=3 {
        fault::inject(Call::BellWait, 500, libc::ENOMEM);
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
        let said = messages::with("gid 79: the worker cannot sleep");
        assert!(said.len() as u64 <= exec, "{said:?}");
        assert!(!said.is_empty());
    }
}

/// The kernel has no memory for a while to receive what the ranks and the hub tell each other: nobody is taken for dead for it, by
/// neither side, and the real death afterwards is noticed.
#[test]
fn h45_h56_a_receive_that_fails_for_a_while_is_nobodys_death() {
    const TEST: &str = "h45_h56_a_receive_that_fails_for_a_while_is_nobodys_death";
    if let Some(role) = Role::of(TEST) {
        fault::inject(Call::Receive, 20, libc::ENOMEM);
        let mut bus = role.connected();
        assert_eq!(fault::left(Call::Receive), 0, "the join met the failures");
        fault::inject(Call::Receive, 20, libc::ENOBUFS);
        bus.send(0, 1, b"here", bus::AMPLE)
            .expect("rank 0 is there");
        bus.recv(0, None, bus::AMPLE).expect("rank 0 answers");
        std::process::abort();
    }
    let _alone = alone();
    let job = bus::job();
    let mut bus = Bus::create(&bus::options(&job, 0, 2)).expect("joined");
    fault::inject(Call::Receive, 20, libc::ENOMEM);
    let peer = Role::new(&job, 1, 2, "").start(TEST);
    bus.connect(bus::AMPLE).expect("rank 1 comes");
    assert_eq!(fault::left(Call::Receive), 0, "the hub met the failures");
    let (_, said) = bus.recv(1, None, bus::AMPLE).expect("rank 1 speaks");
    assert_eq!(said, b"here");
    assert_eq!(bus.members().expect("a table")[1].0, State::Joined);
    bus.send(1, 1, b"", bus::AMPLE).expect("rank 1 is there");
    let output = peer.output();
    assert!(!output.status.success(), "{output:?}");
    let since = Instant::now();
    let dead = bus.dead(bus::AMPLE).expect("a table");
    assert_eq!(dead.iter().collect::<Vec<_>>(), [1]);
    assert!(since.elapsed() < Duration::from_secs(5), "asked in vain");
}
