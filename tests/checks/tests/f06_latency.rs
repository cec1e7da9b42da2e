//! Latency histograms (feature F6): what is counted where, and the file of the reference runtime's setting.
#![allow(unsafe_code, reason = "words of the device are named by address")]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets, word};
use proxy_checks::stub::Scratch;
use proxy_core::{ExecId, Gid, Poll, RunState, Status, TaskKind};
use proxy_os::latency::{HistogramConfig, Span};
use proxy_os::{DeviceWord, Patience, ProxyQueue, Release, Settings};

const PATIENCE: Duration = Duration::from_secs(20);
/// How long the device of this test takes before it fires.
const HELD: Duration = Duration::from_millis(2);
const EXECUTIONS: u64 = 10;

/// Runs the executions, each held back by its device. Answers how long the slowest took, as the caller sees it.
fn run(queue: &std::sync::Arc<ProxyQueue>) -> Duration {
    // Outlives the worker whatever happens.
    let word = word();
    // SAFETY: the word is never freed.
    let start = unsafe { DeviceWord::new(word.as_ptr()) };
    let script = Script::open();
    let context = queue
        .context(
            script
                .context(0)
                .block(1, sets(1, 1))
                .device_wait(vec![start]),
        )
        .unwrap();
    let mut slowest = Duration::ZERO;
    for exec in 0..EXECUTIONS {
        let since = Instant::now();
        let execution = context.enqueue(ExecId(exec)).unwrap();
        while queue.poll(execution.network) != Ok(Poll::Pending(RunState::WaitingDeviceTrigger)) {
            assert!(since.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        let waiting = Instant::now();
        while waiting.elapsed() < HELD {
            std::thread::yield_now();
        }
        // Release pairs with the worker's acquire, as a device's write would.
        word.store(7, Ordering::Release);
        let answer = queue.consume(execution.network, Patience::until(PATIENCE));
        assert_eq!(answer, Ok(Status::SUCCESS));
        slowest = slowest.max(since.elapsed());
    }
    slowest
}

#[test]
fn each_span_of_a_task_is_counted_once_per_execution_and_not_longer_than_its_caller_saw() {
    let settings = Settings::builder().latency_from_append(true);
    let queue = ProxyQueue::start(Gid(1), &settings.from_env().unwrap()).unwrap();
    let slowest = run(&queue);
    let latencies = queue.latencies();
    assert_eq!(latencies.len(), 8, "two kinds, four spans");
    // A table's values are at most 1/64 beside the true ones, and hdrhistogram adds 1/100.
    let bound = u64::try_from(slowest.as_nanos()).unwrap() * 103 / 100;
    let held = u64::try_from(HELD.as_nanos()).unwrap();
    for latency in latencies {
        let values = &latency.values;
        let expected = if latency.kind == TaskKind::Network {
            EXECUTIONS
        } else {
            0
        };
        assert_eq!(
            values.len(),
            expected,
            "{:?} {}",
            latency.kind,
            latency.span
        );
        assert!(
            values.max() <= bound,
            "{}: {} <= {bound}",
            latency.span,
            values.max()
        );
        if latency.kind == TaskKind::Network && matches!(latency.span, Span::Trigger | Span::Total)
        {
            assert!(
                values.min() >= held * 97 / 100,
                "{}: {}",
                latency.span,
                values.min()
            );
        }
    }
}

#[test]
fn the_histogram_setting_leaves_a_chart_of_what_was_not_warm_up() {
    let scratch = Scratch::new();
    let path = scratch.path("chart");
    let config: HistogramConfig = format!("1000000 2 1 4 {}", path.display()).parse().unwrap();
    let settings = Settings::builder().proxy_histogram(Some(config));
    let queue = ProxyQueue::start(Gid(7), &settings.from_env().unwrap()).unwrap();
    run(&queue);
    queue.release(Release::Drain, PATIENCE).unwrap();
    let text = std::fs::read_to_string(scratch.path("chart.gid7")).unwrap();
    let expected = "# proxy network time histogram, version 1\n\
         # gid 7, bucket_usecs 1000000, num_buckets 2, per_neff_warmup 1, warmup 4, left out 4, counted 6\n\
         from_usecs to_usecs count\n0 1000000 6\n1000000 2000000 0\n2000000 inf 0\n";
    assert_eq!(text, expected);
}

#[test]
fn a_bad_histogram_setting_is_refused_with_its_bad_word() {
    let error = Settings::from_lookup(|name| {
        (name == "NEURON_RT_DBG_CC_PROXY_HISTOGRAM_CONFIG").then(|| "10 64 x 100 /tmp/a".into())
    });
    let text = error.unwrap_err().to_string();
    let expected = "NEURON_RT_DBG_CC_PROXY_HISTOGRAM_CONFIG=\"10 64 x 100 /tmp/a\" (environment) has the bad part \"x\"; \
         accepted: five words with one space between them";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn f5_counters_and_latencies_are_in_the_report_and_in_its_metrics() {
    let settings = Settings::builder().latency_from_append(true);
    let queue = ProxyQueue::start(Gid(650), &settings.from_env().unwrap()).unwrap();
    run(&queue);
    let script = Script::with(&["progress * -> ret=7"]);
    let builder = script.context(5).block(1, sets(1, 1));
    let context = queue.context(builder).unwrap();
    let failed = context.enqueue(ExecId(1)).unwrap().network;
    let answer = queue.consume(failed, Patience::until(PATIENCE));
    assert_eq!(answer, Ok(Status(7)));
    script.rule("progress * -> done=1");
    // Nobody consumes: the last one of these finds no place.
    let refused = (0..=128).filter(|exec| context.enqueue(ExecId(*exec)).is_err());
    assert_eq!(refused.count(), 1);
    queue.release(Release::Drain, PATIENCE).unwrap();
    let report = proxy_os::diagnosis::Report::collect("a test");
    let group = report.groups.iter().find(|group| group.gid == 650).unwrap();
    assert_eq!((group.enqueued, group.ended, group.full), (139, 139, 1));
    assert_eq!((group.errors[0].status, group.errors[0].count), (7, 1));
    let worker = &group.worker;
    assert!(
        worker.steps >= 139 && worker.idle_ticks <= worker.ticks,
        "{worker:?}"
    );
    // The one that failed has started, and nothing more is counted of it; those without a gate have waited for none.
    let counts = [139, EXECUTIONS, 138, 138];
    for (span, count) in Span::ALL.into_iter().zip(counts) {
        let found = group.latencies.iter();
        let found = found.filter(|found| found.kind == "network" && found.span == span.name());
        let [latency] = &found.collect::<Vec<_>>()[..] else {
            panic!("{span}: {:?}", group.latencies)
        };
        let (_, last) = latency.below.last().unwrap();
        assert_eq!((latency.count, *last), (count, count), "{span}");
        assert!(
            latency.p50 <= latency.max && latency.max <= latency.sum,
            "{latency:?}"
        );
    }
    none_before_its_device_fired(group);
    let text = proxy_os::diagnosis::prometheus(&[report.only(650)]);
    for line in [
        "proxy_full_total",
        "proxy_errors_total",
        "proxy_task_seconds_count",
    ] {
        let sample =
            |text: &&str| text.starts_with(&format!("{line}{{")) && text.contains("group=\"650\"");
        assert!(text.lines().any(|text| sample(&text)), "{line} in {text}");
    }
}

fn none_before_its_device_fired(group: &proxy_os::diagnosis::record::Group) {
    let held = HELD.as_secs_f64();
    let trigger = group
        .latencies
        .iter()
        .find(|found| found.span == "trigger_wait")
        .unwrap();
    let early: Vec<_> = trigger
        .below
        .iter()
        .filter(|(bound, _)| *bound < held)
        .collect();
    assert!(
        early.iter().all(|(_, count)| *count == 0),
        "none before its device fired: {early:?}"
    );
}
