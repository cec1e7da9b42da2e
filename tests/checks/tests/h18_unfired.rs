//! A task that waits for its device says for which stream, where the word is, what it holds, and for how long.
//!
//! Requirements: H18.
#![allow(unsafe_code, reason = "words of the device are named by address")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Poll, RunState, Status, Stream};
use proxy_os::{DeviceWord, Patience, ProxyQueue, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn h18_the_stream_that_has_not_fired_is_named_with_address_value_and_age() {
    static WORDS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];
    // SAFETY: the words are static.
    let words = WORDS
        .iter()
        .map(|word| unsafe { DeviceWord::new(word.as_ptr()) })
        .collect();
    let script = Script::open();
    let queue = ProxyQueue::start(Gid(1), &Settings::default()).unwrap();
    let context = queue
        .context(script.context(5).block(1, sets(1, 4)).device_wait(words))
        .unwrap();
    let execution = context.enqueue(ExecId(812)).unwrap();
    for fired in [0, 1, 3] {
        // Release pairs with the worker's acquire, as a device's write would.
        WORDS[fired].store(7, Ordering::Release);
    }
    let since = Instant::now();
    while queue.poll(execution.network) != Ok(Poll::Pending(RunState::WaitingDeviceTrigger)) {
        assert!(since.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    let unfired = queue.unfired();
    assert_eq!(unfired.len(), 1, "{unfired:?}");
    let stuck = unfired[0];
    assert_eq!((stuck.stream, stuck.word), (Stream(2), 0xFFFF_FFFF));
    assert_eq!(stuck.address, WORDS[2].as_ptr().addr());
    assert_eq!(stuck.task.ticket, execution.network);
    assert!(
        stuck
            .waited
            .is_some_and(|waited| waited <= since.elapsed() + PATIENCE)
    );
    let text = stuck.to_string();
    let address = format!(
        "word at {:#x} is still 0xffffffff after",
        WORDS[2].as_ptr().addr()
    );
    assert!(
        text.starts_with("rank 5, network task exec 812: waits for the device on stream 2, "),
        "{text}"
    );
    assert!(text.contains(&address), "{text}");
    let later = queue.unfired()[0].waited;
    assert!(
        later >= stuck.waited,
        "the age grows: {:?} then {later:?}",
        stuck.waited
    );
    WORDS[2].store(7, Ordering::Release);
    assert_eq!(
        queue.consume(execution.network, Patience::until(PATIENCE)),
        Ok(Status::SUCCESS)
    );
    assert_eq!(queue.unfired(), []);
}
