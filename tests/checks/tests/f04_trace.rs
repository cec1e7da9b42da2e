//! The trace of a queue as a file for a timeline (feature F4): every event of an execution is in it, where it belongs.
#![allow(unsafe_code, reason = "words of the device are named by address")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Poll, RunState, Status};
use proxy_os::trace::TraceError;
use proxy_os::{DeviceWord, Patience, ProxyQueue, Release, Settings};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// The file's events as `rank 2 / stream 0: block 1` in order of their beginning, metadata left out.
fn told(file: &Value) -> Vec<String> {
    let events = file["traceEvents"].as_array().unwrap();
    let named = |what: &str, event: &Value| {
        let same = |other: &&Value| {
            other["ph"] == "M"
                && other["name"] == what
                && other["pid"] == event["pid"]
                && (what == "process_name" || other["tid"] == event["tid"])
        };
        let found = events.iter().find(same).expect("every track has a name");
        found["args"]["name"].as_str().unwrap().to_owned()
    };
    let mut told: Vec<(f64, String)> = events
        .iter()
        .filter(|event| event["ph"] != "M")
        .map(|event| {
            let (process, thread) = (named("process_name", event), named("thread_name", event));
            let name = event["name"].as_str().unwrap();
            (
                event["ts"].as_f64().unwrap(),
                format!("{process} / {thread}: {name}"),
            )
        })
        .collect();
    told.sort_by(|one, other| one.0.total_cmp(&other.0));
    told.into_iter().map(|(_, text)| text).collect()
}

/// A queue that was traced while one execution of two streams and two blocks ran, and has ended.
fn traced_execution() -> Arc<ProxyQueue> {
    static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    // SAFETY: the words are static.
    let words = WORDS
        .iter()
        .map(|word| unsafe { DeviceWord::new(word.as_ptr()) });
    let script = Script::open();
    let queue = ProxyQueue::start(Gid(4), &Settings::default()).unwrap();
    assert!(queue.trace().is_none());
    queue.start_trace(4096).unwrap();
    let again = queue.start_trace(4096);
    assert!(matches!(again, Err(TraceError::AlreadyTraced)));
    let builder = script
        .context(2)
        .block(11, sets(11, 2))
        .block(12, sets(12, 2));
    let context = queue.context(builder.device_wait(words.collect())).unwrap();
    let execution = context.enqueue(ExecId(9)).unwrap();
    let since = Instant::now();
    while queue.poll(execution.network) != Ok(Poll::Pending(RunState::WaitingDeviceTrigger)) {
        assert!(since.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    for word in &WORDS {
        // Release pairs with the worker's acquire, as a device's write would.
        word.store(7, Ordering::Release);
    }
    let answer = queue.consume(execution.network, Patience::until(PATIENCE));
    assert_eq!(answer, Ok(Status::SUCCESS));
    queue.release(Release::Drain, PATIENCE).unwrap();
    queue
}

#[test]
fn f4_an_execution_of_two_streams_and_blocks_is_told_in_order() {
    let queue = traced_execution();
    let mut file = Vec::new();
    let trace = queue.trace().unwrap();
    trace.write_chrome(queue.gid(), &mut file).unwrap();
    let file: Value = serde_json::from_slice(&file).expect("the file is JSON");
    assert_eq!(file["otherData"]["dropped_events"], 0);
    assert_eq!(file["otherData"]["gid"], 4);
    let told = told(&file);
    let ranks: Vec<&str> = told
        .iter()
        .filter_map(|text| text.strip_prefix("rank 2 / "))
        .collect();
    let expected = [
        "stream 0: start block 11",
        "stream 0: start block 12",
        "stream 1: start block 11",
        "stream 1: start block 12",
        "network tasks: WAITING_DEVICE_TRIGGER",
        "network tasks: device trigger",
        "network tasks: PROGRESSING",
        "stream 0: block 11",
        "stream 1: block 11",
        "stream 0: block 12",
        "stream 1: block 12",
        "stream 0: stop",
        "stream 1: stop",
    ];
    // The trigger and the state that follows it have the same time.
    assert_eq!(ranks, expected);
    let tasks = file["traceEvents"].as_array().unwrap();
    let of_exec = tasks
        .iter()
        .filter(|event| event["args"]["exec"] == 9)
        .count();
    assert_eq!(of_exec, 2, "two states, both of execution 9");
}

#[test]
fn f4_a_short_trace_says_how_much_it_has_lost() {
    let script = Script::open();
    let queue = ProxyQueue::start(Gid(5), &Settings::default()).unwrap();
    queue.start_trace(3).unwrap();
    let context = queue
        .context(script.context(0).block(1, sets(1, 1)))
        .unwrap();
    for exec in 0..10 {
        let execution = context.enqueue(ExecId(exec)).unwrap();
        let answer = queue.consume(execution.network, Patience::until(PATIENCE));
        assert_eq!(answer, Ok(Status::SUCCESS));
    }
    queue.release(Release::Drain, PATIENCE).unwrap();
    let trace = queue.trace().unwrap();
    assert_eq!(trace.events().count(), 3);
    // Of each execution: start, selected, drained, stop, and two changes of state; sleeps come on top.
    assert!(trace.dropped() >= 57, "{}", trace.dropped());
}
