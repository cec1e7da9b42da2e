//! H36, H37: a worker that is inside the library when its queue is released.

use std::path::Path;
use std::time::{Duration, Instant};

use proxy_checks::pace::{at_most, until};
use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Poll, Status};
use proxy_os::{ProxyQueue, Release, ReleaseError, Settings, left};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn h36_h37_a_stuck_release_names_the_call_and_its_age_and_the_worker_ends_by_itself() {
    let script = Script::with(&["progress 1 -> block"]);
    let settings = Settings::builder()
        .stall_threshold(Duration::from_millis(100))
        .from_lookup(|_| None)
        .unwrap();
    let queue = ProxyQueue::start(Gid(36), &settings).unwrap();
    let builder = script.context(0).block(1, sets(1, 1));
    let context = queue.context(builder).unwrap();
    let ticket = context.enqueue(ExecId(1)).unwrap().network;
    until("the watchdog has seen the call for a second", || {
        let inside = queue.dump().inside;
        inside.is_some_and(|inside| inside.age >= Duration::from_secs(1))
    });
    let since = Instant::now();
    let stuck = queue.release(Release::Abort, Duration::from_millis(500));
    let took = since.elapsed();
    assert!(took < at_most(Duration::from_millis(600)), "{took:?}");
    let Err(ReleaseError::Stuck {
        inside,
        waited,
        unfinished,
    }) = &stuck
    else {
        panic!("{stuck:?}");
    };
    assert_eq!(inside.call.to_string(), "neuronNetworkProxyProgress");
    assert!(
        inside.age >= Duration::from_millis(1500),
        "the call's age: {inside}"
    );
    assert!(
        *waited < Duration::from_millis(600),
        "the release's own time: {waited:?}"
    );
    assert_eq!(unfinished.len(), 1);
    assert_eq!(left::count(), 1, "the leak is counted");
    assert_eq!(queue.poll(ticket), Ok(Poll::Done(Status::ABORTED)));
    // Everything but the queue's own handles is dropped while the library still works on it.
    drop(context);
    let task = format!("/proc/self/task/{}", queue.tid());
    assert!(Path::new(&task).exists());
    script.release();
    until("the worker has ended by itself", || {
        !Path::new(&task).exists()
    });
    assert_eq!(left::count(), 0);
    assert_eq!(queue.release(Release::Abort, PATIENCE), Ok(()));
    assert_eq!(script.count(2), 1, "the stream was stopped at the end");
}
