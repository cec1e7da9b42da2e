//! H46, H48, H53, H54: kinds of stall, each made to happen, and what the report says of it (features F1, F3, F8); those that need a
//! bus, a barrier or a broken worker are in `h46_kinds`.
#![allow(unsafe_code, reason = "start words are named by their address")]

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use proxy_checks::pace::at_most;
use proxy_checks::script::{Script, sets, word};
use proxy_core::{ExecId, Gid, RunState, Status};
use proxy_os::diagnosis::record::StallKind;
use proxy_os::diagnosis::{self, Report};
use proxy_os::{DeviceWord, Execution, Patience, ProxyQueue, Release, Settings};

const PATIENCE: Duration = Duration::from_secs(20);
/// A report that takes longer is late.
const PROMPT: Duration = Duration::from_millis(200);

/// A report with every wait as a stall. Takes its time.
fn report_of(gid: u32) -> Report {
    let since = Instant::now();
    let mut report = Report::collect_stalls("a test", Duration::ZERO);
    let took = since.elapsed();
    assert!(took < at_most(PROMPT), "{took:?}");
    assert_eq!(report.partial, [""; 0]);
    // Other tests of this program have queues, too.
    report.groups.retain(|group| group.gid == gid);
    report
}

fn start(gid: u32) -> Arc<ProxyQueue> {
    ProxyQueue::start(Gid(gid), &Settings::default()).unwrap()
}

/// Waits until the report of a group says what is expected of its stall.
fn until(gid: u32, kind: StallKind) -> (Report, String) {
    let since = Instant::now();
    loop {
        let report = report_of(gid);
        if let Some((stall, sentence)) = diagnosis::stalls_of(&report).into_iter().next()
            && stall.kind == kind
        {
            return (report, sentence);
        }
        assert!(since.elapsed() < PATIENCE, "{report}");
        std::thread::yield_now();
    }
}

fn device(word: &'static AtomicU32) -> Option<DeviceWord> {
    // SAFETY: the word is never freed.
    unsafe { DeviceWord::new(word.as_ptr()) }
}

fn end(queue: &ProxyQueue) {
    queue.release(Release::Abort, PATIENCE).unwrap();
}

#[test]
fn h46_h54_a_device_that_never_fires_is_the_verdict_with_stream_address_and_value() {
    let (fired, silent) = (word(), word());
    let script = Script::open();
    let queue = start(601);
    let builder = script
        .context(5)
        .block(1, sets(1, 2))
        .device_wait(vec![device(fired), device(silent)]);
    let context = queue.context(builder).unwrap();
    let _ticket = context.enqueue(ExecId(812)).unwrap();
    fired.store(7, std::sync::atomic::Ordering::Release);
    let (report, sentence) = until(601, StallKind::DeviceNeverFired);
    let address = format!(
        "(word at {:#x} is still 0xffffffff)",
        silent.as_ptr().addr()
    );
    assert!(
        sentence.starts_with("group 601, rank 5, network task exec 812 has waited for "),
        "{sentence}"
    );
    assert!(
        sentence.contains(" for the device on stream 1 "),
        "{sentence}"
    );
    assert!(sentence.ends_with(&address), "{sentence}");
    let (stall, _) = diagnosis::stalls_of(&report).remove(0);
    assert_eq!(
        (stall.rank, stall.exec, stall.streams),
        (Some(5), Some(812), vec![1])
    );
    let [group] = &report.groups[..] else {
        panic!("{report}")
    };
    assert_eq!(
        group.tasks[0].state,
        RunState::WaitingDeviceTrigger.to_string()
    );
    assert_eq!(group.worker.name, format!("proxy-{}", queue.tid()));
    let task = &group.tasks[0];
    let [unfired, fired] = [&task.unfired[0], &task.fired[0]];
    assert_eq!((unfired.stream, unfired.age), (1, task.age));
    assert_eq!((fired.stream, fired.word, fired.age), (0, 7, None));
    assert!(
        task.age.is_some() && task.ticks_in_state.is_some(),
        "{task:?}"
    );
    assert_eq!(task.total_age, None, "no producer reads a clock");
    assert!(task.least_total_age >= task.age.unwrap(), "{task:?}");
    let [context] = &group.contexts[..] else {
        panic!("{report}")
    };
    let numbers = (context.last_enqueued, context.last_completed);
    assert_eq!((context.rank, numbers), (5, (Some(0), None)));
    end(&queue);
}

#[test]
fn h46_an_idle_library_is_named_by_block_and_calls() {
    let script = Script::with(&["progress * block=12 -> idle=1 done=0"]);
    let queue = start(602);
    let context = queue
        .context(
            script
                .context(3)
                .block(11, sets(11, 1))
                .block(12, sets(12, 1)),
        )
        .unwrap();
    let _ticket = context.enqueue(ExecId(4)).unwrap();
    let (report, sentence) = until(602, StallKind::LibraryIdle);
    assert!(
        sentence.starts_with("group 602, rank 3, network task exec 4 has been IDLE for "),
        "{sentence}"
    );
    assert!(
        sentence.contains(" in block 12 (2 of 2): the library is called ("),
        "{sentence}"
    );
    let block = report.groups[0].tasks[0].block.clone().unwrap();
    assert!(block.calls >= 2, "{block:?}");
    assert_eq!(block.last_return, 0);
    end(&queue);
}

#[test]
fn h48_a_call_that_does_not_return_is_named_while_the_worker_is_inside_it() {
    let script = Script::with(&["progress 1 -> block"]);
    let queue = start(603);
    let context = queue
        .context(script.context(0).block(1, sets(1, 1)))
        .unwrap();
    let execution = context.enqueue(ExecId(1)).unwrap();
    let (report, sentence) = until(603, StallKind::CallNotReturning);
    let expected = "group 603: the worker has been inside neuronNetworkProxyProgress for ";
    assert!(sentence.starts_with(expected), "{sentence}");
    assert!(sentence.ends_with("; 1 task waits for it"), "{sentence}");
    let worker = &report.groups[0].worker;
    assert_eq!(worker.activity, "inside the library");
    assert!(worker.activity_age.is_some(), "{worker:?}");
    let longest = loop {
        if let Some(longest) = report_of(603).groups.remove(0).worker.longest_step {
            break longest;
        }
    };
    assert_eq!(longest.function, "neuronNetworkProxyProgress");
    script.release();
    let answer = queue.consume(execution.network, Patience::until(PATIENCE));
    assert_eq!(answer, Ok(Status::SUCCESS));
    end(&queue);
}

#[test]
fn h46_a_status_that_nobody_takes_and_a_rank_without_a_place_are_named() {
    let script = Script::open();
    let queue = start(604);
    let context = queue
        .context(script.context(6).block(1, sets(1, 1)))
        .unwrap();
    let mut executions: Vec<Execution> = vec![context.enqueue(ExecId(0)).unwrap()];
    let (_, sentence) = until(604, StallKind::ConsumerNotPolling);
    assert!(
        sentence.starts_with("group 604, rank 6, network task exec 0 has been done for "),
        "{sentence}"
    );
    executions.extend((1..128).map(|exec| context.enqueue(ExecId(exec)).unwrap()));
    let (_, sentence) = until(604, StallKind::QueueFull);
    let full = "group 604, rank 6: all 128 places for tasks are taken, and none of these tasks has moved for ";
    assert!(sentence.starts_with(full), "{sentence}");
    assert!(sentence.ends_with(", so it cannot enqueue"), "{sentence}");
    end(&queue);
}

#[test]
fn h53_one_report_shows_every_group_with_its_tasks_in_words() {
    let silent = word();
    let script = Script::open();
    let queues = [605, 606, 607].map(start);
    let contexts = [1, 2].map(|rank| {
        let words = vec![device(silent)];
        let builder = script.context(rank).block(1, sets(1, 1)).device_wait(words);
        queues[usize::from(rank > 1)].context(builder).unwrap()
    });
    let _one = contexts[0].enqueue(ExecId(1)).unwrap();
    let _two = contexts[1].enqueue(ExecId(2)).unwrap();
    let _three = contexts[1].enqueue(ExecId(3)).unwrap();
    let since = Instant::now();
    let waiting = RunState::WaitingDeviceTrigger.to_string();
    loop {
        let report = Report::collect_stalls("a test", Duration::ZERO);
        let states = |gid| {
            let group = report.groups.iter().find(|group| group.gid == gid).unwrap();
            group
                .tasks
                .iter()
                .map(|task| (task.exec, task.state.clone()))
                .collect::<Vec<_>>()
        };
        let all = [states(605), states(606), states(607)];
        let expected = [
            vec![(1, waiting.clone())],
            vec![(2, waiting.clone()), (3, waiting.clone())],
            vec![],
        ];
        if all == expected {
            let text = report.to_string();
            assert!(
                text.contains("rank 2 network exec 3 (sequence 1, "),
                "{text}"
            );
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{all:?}");
        std::thread::yield_now();
    }
    queues.iter().for_each(|queue| end(queue));
}

/// The GNU build id in a file's bytes: a note of 20 bytes, type 3.
fn build_id(file: &str) -> Option<String> {
    const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(NOTE.len()).position(|some| some == NOTE)?;
    let id = bytes.iter().skip(at + NOTE.len()).take(20);
    Some(id.map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn f08_library_and_process_are_named_as_files_and_kernel_name_them() {
    proxy_checks::script::library();
    let report = Report::collect("a test");
    let [library] = &report.libraries[..] else {
        panic!("{report}")
    };
    assert!(
        library.path.ends_with("/libscripted.so"),
        "{}",
        library.path
    );
    assert_eq!((library.interface, &library.error), (Some(89), &None));
    assert_eq!(library.build_id, build_id(&library.path));
    let process = &report.process;
    assert_eq!(process.pid, std::process::id());
    let own = std::env::current_exe().unwrap();
    assert_eq!(process.build_id, build_id(own.to_str().unwrap()));
    let cpuset = std::fs::read_to_string("/proc/self/cpuset").unwrap_or_default();
    assert_eq!(process.cpuset, cpuset.trim());
}

#[test]
fn a_report_survives_its_own_json() {
    let queue = start(608);
    let report = Report::collect("a test");
    let json = report.to_json().unwrap();
    let back = Report::from_json(&json).unwrap();
    assert_eq!(back.to_json().unwrap(), json);
    assert_eq!(back.schema, "proxy-report/1.1");
    let other = json.replace("proxy-report/1.1", "proxy-report/2");
    let refused = Report::from_json(&other).unwrap_err().to_string();
    let expected = r#"schema is "proxy-report/2", accepted: "proxy-report/1.1" and others of its major number"#;
    assert_eq!(refused, expected);
    for readable in ["proxy-report/1", "proxy-report/1.7"] {
        let json = json.replace("proxy-report/1.1", readable);
        assert!(Report::from_json(&json).is_ok(), "{readable}");
    }
    let other = json.replace("proxy-report/1.1", "proxy-report/11");
    assert!(Report::from_json(&other).is_err());
    let older: Report =
        serde_json::from_str(r#"{"verdict": "v", "groups": [{"gid": 3}]}"#).unwrap();
    assert_eq!(
        (&*older.verdict, older.groups[0].gid),
        ("v", 3),
        "fields that are not there are empty"
    );
    let names: Vec<&str> = back
        .settings
        .iter()
        .map(|setting| setting.name.as_str())
        .collect();
    assert!(names.contains(&"NEURON_RT_EXEC_TIMEOUT"), "{names:?}");
    end(&queue);
}
