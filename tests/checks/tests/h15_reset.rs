//! H15 over the real worker: a device that fires for an execution that has ended does not start the next one.
#![allow(unsafe_code, reason = "words of the device are named by address")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets};
use proxy_core::trigger::{CONSUMED, SENTINEL};
use proxy_core::{ContextError, EnqueueError, ExecId, Gid, Poll, RunState, Status};
use proxy_os::{Context, DeviceWord, Execution, Patience, ProxyQueue, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

fn until_it_waits(context: &Context, execution: Execution) {
    let since = Instant::now();
    let waits = Ok(Poll::Pending(RunState::WaitingDeviceTrigger));
    while context.queue().poll(execution.network) != waits {
        assert!(since.elapsed() < PATIENCE, "the task does not wait");
        std::thread::yield_now();
    }
}

#[test]
fn h15_a_context_is_used_again_after_a_failed_start_whose_device_fired_late() {
    static WORD: AtomicU32 = AtomicU32::new(CONSUMED);
    let script = Script::with(&["start 1 -> ret=9"]);
    let queue = ProxyQueue::start(Gid(1), &Settings::default()).expect("a worker");
    // SAFETY: the word is static.
    let word = unsafe { DeviceWord::new(WORD.as_ptr()) };
    let builder = script.context(0).block(1, sets(1, 1));
    let context = queue.context(builder.device_wait(vec![word])).unwrap();
    let consume =
        |execution: Execution| queue.consume(execution.network, Patience::until(PATIENCE));

    let failed = context.enqueue(ExecId(1)).unwrap();
    assert_eq!(consume(failed), Ok(Status(9)));
    // Release, here and below, pairs with the acquire of the word's host side, as a device's write would.
    WORD.store(1, Ordering::Release);
    let refused = context.enqueue(ExecId(2));
    assert!(
        matches!(refused, Err(EnqueueError::FiredBeforeArm(_))),
        "{refused:?}"
    );

    assert_eq!(context.reset(), Ok(()));
    // Acquire pairs with the reset's swap.
    assert_eq!(WORD.load(Ordering::Acquire), CONSUMED);
    let second = context.enqueue(ExecId(2)).unwrap();
    until_it_waits(&context, second);
    assert_eq!(context.reset(), Err(ContextError::Busy { unfinished: 1 }));
    // Acquire, as above.
    assert_eq!(WORD.load(Ordering::Acquire), SENTINEL, "still armed");
    // Release, as above.
    WORD.store(2, Ordering::Release);
    assert_eq!(consume(second), Ok(Status::SUCCESS));
}
