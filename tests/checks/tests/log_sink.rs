//! The embedder's sink gets every message, of each level and from each thread, and nothing goes to standard error then; one that panics,
//! logs, makes reports, replaces itself or takes its time costs nobody anything but what it does itself.
//!
//! A process has one sink, so each test runs in a process of its own.
//!
//! Requirements: H39, H48.
#![allow(unsafe_code, reason = "a start word is named by its address")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE};
use proxy_checks::child;
use proxy_checks::pace::{at_most, until};
use proxy_checks::script::{Script, sets};
use proxy_checks::stub::Scratch;
use proxy_core::phone::barrier::RankSet;
use proxy_core::{ExecId, Gid, Status};
use proxy_os::bananaphone::Bus;
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::diagnosis::Report;
use proxy_os::global_comm::{GlobalComm, Setup};
use proxy_os::log::{self, Level, Sink};
use proxy_os::report::Cause;
use proxy_os::{Context, Patience, ProxyQueue, Release, Settings, watchdog};

const PATIENCE: Duration = Duration::from_secs(20);
/// A report is there within this, whatever a sink does.
const PROMPT: Duration = Duration::from_millis(200);
const IDLE: &str = "progress * -> idle=1 done=0";

/// Runs `body` in a process of its own; returns what that has written: to standard output, to standard error.
fn alone(name: &str, body: impl FnOnce()) -> Option<(String, String)> {
    if child::is(name) {
        body();
        return None;
    }
    let mut command = child::command(name);
    // More than is used, which is warned of.
    command.env("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "70");
    let output = command.output().expect("this program can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    Some((out, err))
}

/// [`alone`], for what writes nothing to standard error.
fn in_silence(name: &str, body: impl FnOnce()) {
    if let Some((_, err)) = alone(name, body) {
        assert_eq!(err, "");
    }
}

/// A message, and the thread that it came from.
#[derive(Debug, Clone)]
struct Said {
    thread: String,
    level: Level,
    text: String,
}

static SAID: Mutex<Vec<Said>> = Mutex::new(Vec::new());

fn said() -> MutexGuard<'static, Vec<Said>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

fn this_thread() -> String {
    let name = std::fs::read_to_string("/proc/thread-self/comm").expect("procfs");
    name.trim().to_owned()
}

fn note(level: Level, text: &str) {
    said().push(Said {
        thread: this_thread(),
        level,
        text: text.to_owned(),
    });
}

/// Waits for a message of a thread.
fn hear(thread: &str, level: Level, part: &str) {
    let ours = |said: &Said| {
        said.thread.starts_with(thread) && said.level == level && said.text.contains(part)
    };
    until(&format!("{level} {part:?} of {thread}"), || {
        said().iter().any(ours)
    });
}

fn worker(queue: &ProxyQueue) -> String {
    format!("proxy-{}", queue.tid())
}

fn settings(scratch: &Scratch) -> Settings {
    let chart = format!("10 4 0 0 {}", scratch.path("chart").display());
    Settings::builder()
        .log_level(Level::Info)
        .stall_threshold(Duration::from_millis(20))
        .report_directory(Some(scratch.path(".")))
        .proxy_histogram(Some(chart.parse().expect("a chart")))
        .from_env()
        .expect("good settings")
}

/// One execution, and its code.
fn run(context: &Context, exec: u64) -> Status {
    let ticket = context.enqueue(ExecId(exec)).expect("room").network;
    let code = context.queue().consume(ticket, Patience::until(PATIENCE));
    code.expect("a code")
}

/// Makes every kind of thread of the driver write a message, waits for each, and sees that each still does its work.
fn everybody_speaks(gid: u32) {
    let here = this_thread();
    let scratch = Scratch::new();
    said().clear();
    let settings = settings(&scratch);
    hear(
        &here,
        Level::Warn,
        "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS",
    );
    let queue = ProxyQueue::start(Gid(gid), &settings).expect("a queue");

    let failing = Script::with(&["progress 1 -> ret=7"]);
    let builder = failing.context(0).block(1, sets(1, 1));
    let context = queue.context(builder).expect("a context");
    assert_eq!(run(&context, 1), Status(7), "the library's own code");
    hear(
        &worker(&queue),
        Level::Error,
        "ncclNetworkProxyProgress returns 7",
    );
    hear(
        &here,
        Level::Error,
        "Proxy failed to execute task, status = 7",
    );
    hear("proxy-report", Level::Error, "report: ");

    let idle = Script::with(&[IDLE]);
    let builder = idle.context(1).block(1, sets(1, 1));
    let waiting = queue.context(builder).expect("a context");
    let _ticket = waiting.enqueue(ExecId(1)).expect("room");
    let stalled = "Timeout exceeded: Waiting on proxy task type";
    hear("proxy-watchdog", Level::Warn, stalled);

    the_bus_speaks(gid);
    assert_eq!(run(&context, 2), Status::SUCCESS, "the worker works");
    queue.release(Release::Abort, PATIENCE).expect("released");
    hear(&worker(&queue), Level::Info, "network times are in ");
}

/// Somebody is turned away at the door of a global communicator's bus, which serves its ranks as before.
fn the_bus_speaks(gid: u32) {
    let job = bus::job();
    let set_up = |rank: u16| {
        GlobalComm::setup(Setup {
            bus: bus::options(&job, rank, 2),
            device: gid + 1 + u32::from(rank),
            settings: &Settings::default(),
            exchange: None,
        })
        .expect("both are there")
    };
    let both = std::thread::scope(|scope| {
        let other = scope.spawn(|| set_up(1));
        [set_up(0), other.join().expect("no panic")]
    });
    let refused = Bus::create(&bus::options(&job, 1, 2)).map(drop);
    assert!(refused.is_err(), "rank 1 is on the bus");
    hear(
        "bp-hub-",
        Level::Warn,
        "a rank was turned away: rank 1 is on the bus already",
    );
    for comm in both {
        comm.free(Release::Drain, AMPLE).expect("freed");
    }
}

#[test]
fn every_message_of_each_level_and_thread_reaches_the_sink_and_none_goes_elsewhere() {
    const NAME: &str =
        "every_message_of_each_level_and_thread_reaches_the_sink_and_none_goes_elsewhere";
    in_silence(NAME, || {
        log::set_sink(note);
        log::set_level(Level::Info);
        proxy_checks::script::library();
        hear(&this_thread(), Level::Info, "Using CCOM ");
        everybody_speaks(400);
        // A level lets itself and the more important ones pass, and one that nobody gives is not put in its place.
        log::set_level(Level::Error);
        let _settings = Settings::from_env().expect("good settings");
        log::info(format_args!("too little"));
        log::warn(format_args!("less than asked for"));
        log::error(format_args!("enough"));
        let heard = said().clone();
        assert!(heard.iter().all(|said| said.text != "too little"));
        assert!(heard.iter().all(|said| said.text != "less than asked for"));
        assert_eq!(heard.last().map(|said| said.text.as_str()), Some("enough"));
    });
}

#[test]
fn h07_a_level_of_the_environment_counts_until_the_api_sets_one() {
    const NAME: &str = "h07_a_level_of_the_environment_counts_until_the_api_sets_one";
    in_silence(NAME, || {
        log::set_sink(note);
        let environment = |level: &str| {
            let lookup = |name: &str| (name == "NEURON_RT_LOG_LEVEL").then(|| level.into());
            Settings::from_lookup(lookup).expect("good").apply();
        };
        environment("INFO");
        log::info(format_args!("one"));
        environment("ERROR");
        log::warn(format_args!("not this"));
        log::set_level(Level::Warn);
        environment("INFO");
        log::info(format_args!("nor this"));
        log::warn(format_args!("two"));
        let api = Settings::builder().log_level(Level::Info);
        api.from_lookup(|_| None).expect("good").apply();
        environment("ERROR");
        log::info(format_args!("three"));
        let heard: Vec<String> = said().iter().map(|said| said.text.clone()).collect();
        assert_eq!(heard, ["one", "two", "three"]);
    });
}

fn faint(level: Level, text: &str) {
    note(level, text);
    panic!("the sink has had enough");
}

#[test]
fn h39_a_sink_that_panics_loses_its_messages_and_ends_no_thread() {
    const NAME: &str = "h39_a_sink_that_panics_loses_its_messages_and_ends_no_thread";
    in_silence(NAME, || {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload_as_str() != Some("the sink has had enough") {
                loud(panic);
            }
        }));
        log::set_sink(faint);
        // Twice: whoever wrote a message the first time has to live to write another one.
        everybody_speaks(410);
        everybody_speaks(420);
        log::set_sink(note);
        log::error(format_args!("still told"));
        hear(&this_thread(), Level::Error, "still told");
    });
}

static NESTED: AtomicU32 = AtomicU32::new(0);

/// Logs whatever it gets, makes a report, and sets itself again.
fn talkative(level: Level, text: &str) {
    note(level, text);
    // Relaxed: looked at when all is over.
    NESTED.fetch_add(1, Ordering::Relaxed);
    let report = Report::collect("a sink asked");
    assert!(!report.verdict.is_empty());
    log::set_sink(talkative);
    log::info(format_args!("about {text}"));
}

#[test]
fn a_sink_may_log_make_reports_and_replace_itself() {
    const NAME: &str = "a_sink_may_log_make_reports_and_replace_itself";
    in_silence(NAME, || {
        log::set_sink(talkative);
        everybody_speaks(430);
        let before = NESTED.load(Ordering::Relaxed); // everybody is silent again
        said().clear();
        log::error(format_args!("one"));
        let texts: Vec<String> = said().iter().map(|said| said.text.clone()).collect();
        let expected = [
            "one",
            "about one",
            "about about one",
            "about about about one",
        ];
        assert_eq!(texts[..4], expected);
        assert_eq!(texts.len(), 5, "it comes to an end");
        assert_eq!(NESTED.load(Ordering::Relaxed) - before, 5); // this thread's own
    });
}

static HELD: AtomicBool = AtomicBool::new(false);

/// Keeps a worker that has something to say until it is let go.
fn slow(level: Level, text: &str) {
    note(level, text);
    // Acquire pairs with the release of the test.
    while text.contains("returns 7") && HELD.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

#[test]
fn h48_a_sink_that_takes_its_time_on_a_worker_keeps_nobody_else() {
    const NAME: &str = "h48_a_sink_that_takes_its_time_on_a_worker_keeps_nobody_else";
    in_silence(NAME, || {
        HELD.store(true, Ordering::Release); // the worker's acquire
        log::set_sink(slow);
        let queues = [440, 441]
            .map(|gid| ProxyQueue::start(Gid(gid), &Settings::default()).expect("a queue"));
        let scripts = [Script::with(&["progress 1 -> ret=7"]), Script::open()];
        let contexts: Vec<Context> = (queues.iter().zip(&scripts))
            .map(|(queue, script)| queue.context(script.context(0).block(1, sets(1, 1))))
            .collect::<Result<_, _>>()
            .expect("contexts");
        let kept = contexts[0].enqueue(ExecId(1)).expect("room").network;
        hear(&worker(&queues[0]), Level::Error, "returns 7");

        assert_eq!(run(&contexts[1], 1), Status::SUCCESS, "another group");
        let since = Instant::now();
        let report = Report::collect("a test");
        let took = since.elapsed();
        assert!(took < at_most(PROMPT), "{took:?}");
        assert_eq!(report.partial, [""; 0]);
        log::error(format_args!("beside it"));
        hear(&this_thread(), Level::Error, "beside it");
        log::set_sink(note);
        log::error(format_args!("to another one"));
        hear(&this_thread(), Level::Error, "to another one");

        HELD.store(false, Ordering::Release); // the worker's acquire
        let code = queues[0].consume(kept, Patience::until(PATIENCE));
        assert_eq!(code, Ok(Status(7)));
        for queue in queues {
            queue.release(Release::Drain, PATIENCE).expect("released");
        }
    });
}

static HANDLED: AtomicBool = AtomicBool::new(false);

/// Keeps the watchdog when it speaks of a deadline.
fn slow_watchdog(level: Level, text: &str) {
    note(level, text);
    // Acquire pairs with the release of the test.
    while text.contains("Timeout exceeded") && HELD.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

#[test]
fn h47_a_sink_that_takes_its_time_on_the_watchdog_comes_after_all_else_of_a_deadline() {
    const NAME: &str =
        "h47_a_sink_that_takes_its_time_on_the_watchdog_comes_after_all_else_of_a_deadline";
    in_silence(NAME, || {
        HELD.store(true, Ordering::Release); // the watchdog's acquire
        log::set_sink(slow_watchdog);
        // Release pairs with the acquire below.
        watchdog::set_handler(Some(|record| {
            HANDLED.fetch_or(record.cause == Cause::Timeout, Ordering::Release);
        }));
        let scratch = Scratch::new();
        let settings = Settings::builder()
            .task_deadline(Duration::from_millis(50))
            .first_record_percent(0)
            .second_record_percent(0)
            .report_directory(Some(scratch.path(".")))
            .from_lookup(|_| None)
            .expect("good settings");
        let queue = ProxyQueue::start(Gid(450), &settings).expect("a queue");
        let idle = Script::with(&[IDLE]);
        let builder = idle.context(0).block(1, sets(1, 1));
        let context = queue.context(builder).expect("a context");
        assert_eq!(run(&context, 1), Status::TIMEOUT);
        hear("proxy-watchdog", Level::Warn, "Timeout exceeded");
        // Acquire pairs with the handler's release.
        assert!(HANDLED.load(Ordering::Acquire), "the handler comes before");
        assert_eq!(queue.reports().len(), 1);
        let report = || {
            let files = std::fs::read_dir(scratch.path(".")).expect("a directory");
            let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
            names.any(|name| name.ends_with(".json"))
        };
        until("its report is written", report);
        // What is due meanwhile is late by what the sink takes, as its documentation says, and not lost.
        let late = context.enqueue(ExecId(2)).expect("appended").network;
        HELD.store(false, Ordering::Release); // the watchdog's acquire
        let code = queue.consume(late, Patience::until(PATIENCE));
        assert_eq!(code, Ok(Status::TIMEOUT));
        queue.release(Release::Drain, PATIENCE).expect("released");
    });
}

static TAKEN: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

fn take(place: usize, text: &str) {
    // Relaxed: added up when the writers have been joined.
    TAKEN[place].fetch_add(u32::from(text == "one of many"), Ordering::Relaxed);
}

const SINKS: [Sink; 3] = [
    |_, text| take(0, text),
    |_, text| take(1, text),
    log::to_stderr,
];

#[test]
fn sinks_that_change_while_all_write_get_each_message_once_together() {
    const NAME: &str = "sinks_that_change_while_all_write_get_each_message_once_together";
    const WRITERS: usize = 3;
    const EACH: usize = 500;
    let output = alone(NAME, || {
        let writing = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                // Relaxed: it guards no data.
                while writing.load(Ordering::Relaxed) {
                    SINKS.iter().for_each(|sink| log::set_sink(*sink));
                }
            });
            let write = || (0..EACH).for_each(|_| log::warn(format_args!("one of many")));
            let writers = [(); WRITERS].map(|()| scope.spawn(write));
            for writer in writers {
                writer.join().expect("no panic");
            }
            writing.store(false, Ordering::Relaxed); // as above
            changing.join().expect("no panic");
        });
        let taken = TAKEN.each_ref().map(|count| count.load(Ordering::Relaxed)); // joined
        println!("taken {}", taken[0] + taken[1]);
    });
    let Some((out, err)) = output else { return };
    let (_, taken) = out.split_once("taken ").expect("a count");
    let taken: usize = taken
        .lines()
        .next()
        .unwrap_or_default()
        .parse()
        .expect("a number");
    let written = err
        .lines()
        .filter(|line| *line == "proxy WARN: one of many")
        .count();
    assert_eq!(written, err.lines().count(), "{err}");
    assert_eq!(taken + written, WRITERS * EACH);
}

/// The specification's message of a barrier task (section 3): one per execution, at the level that tells what a worker does.
#[test]
fn a_barrier_task_that_runs_is_told_once_at_debug() {
    const NAME: &str = "a_barrier_task_that_runs_is_told_once_at_debug";
    in_silence(NAME, || {
        log::set_sink(note);
        let bus = bus::connected(&bus::job(), 0, 1);
        let barrier = bus.barrier(0, RankSet::below(1)).expect("a barrier");
        let barrier = TaskBarrier::new(barrier, Vec::new(), AMPLE).expect("no semaphores");
        let script = Script::open();
        let queue = ProxyQueue::start(Gid(440), &Settings::default()).expect("a queue");
        let builder = script.context(0).block(1, sets(1, 1));
        let builder = builder.barrier(Box::new(barrier), Vec::new());
        let context = queue.context(builder).expect("a context");
        let run = |exec| {
            let tickets = context.enqueue(ExecId(exec)).expect("room");
            let ticket = tickets.barrier.expect("a barrier task");
            let code = queue.consume(ticket, Patience::until(PATIENCE));
            assert_eq!(code, Ok(Status::SUCCESS));
        };
        log::set_level(Level::Info);
        run(6);
        log::set_level(Level::Debug);
        run(7);
        queue.release(Release::Drain, PATIENCE).expect("it ends");
        let heard = said().clone();
        let told = heard.iter().filter(|said| said.level == Level::Debug);
        let told: Vec<_> = told.map(|said| said.text.as_str()).collect();
        let text = "[nec_dev 0] run enc_barrier_proxy_task for enc_context 0.1, exec 7";
        assert_eq!(told, [text]);
    });
}
