//! Latency histograms (feature F6): what is counted where, and the file of the reference runtime's setting.
#![allow(unsafe_code, reason = "words of the device are named by address")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets};
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
    // Leaked, so that it outlives the worker whatever happens.
    let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
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
