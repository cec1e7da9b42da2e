//! H50: every failure leaves its report, also when the release follows at once; what finds no room is counted and told. Reports at intervals
//! (feature F2) are one file and one line. What cannot be had, or is asked for in vain, is told once and costs nothing else.
#![allow(unsafe_code, reason = "signals are C calls")]

use std::sync::Arc;
use std::time::Duration;

use proxy_checks::os;
use proxy_checks::pace::until;
use proxy_checks::script::{Script, sets};
use proxy_checks::service::{self, beginning, own_namespace, reports, said, turn};
use proxy_checks::stub::Scratch;
use proxy_core::{ExecId, Gid, Status};
use proxy_os::diagnosis::{Options, Report, Service, fetch, served};
use proxy_os::log::Level;
use proxy_os::sys::thread;
use proxy_os::{Context, Patience, ProxyQueue, Release, Settings};

const PATIENCE: Duration = Duration::from_secs(20);
const FAILS: &str = "progress * -> ret=7";

fn queue(gid: u32, settings: proxy_os::config::Builder) -> Arc<ProxyQueue> {
    let settings = settings.from_lookup(|_| None).unwrap();
    ProxyQueue::start(Gid(gid), &settings).unwrap()
}

fn fail(context: &Context, exec: u64) {
    let ticket = context.enqueue(ExecId(exec)).unwrap().network;
    let code = context.queue().consume(ticket, Patience::until(PATIENCE));
    assert_eq!(code, Ok(Status(7)));
}

#[test]
fn h50_a_failure_leaves_its_report_also_when_the_release_follows_at_once() {
    let _turn = turn();
    for round in 0..10 {
        let scratch = Scratch::new();
        let settings = Settings::builder().report_directory(Some(scratch.path(".")));
        let queue = queue(710, settings);
        let script = Script::with(&[FAILS]);
        let builder = script.context(0).block(1, sets(1, 1));
        let context = queue.context(builder).unwrap();
        fail(&context, round);
        queue.release(Release::Drain, PATIENCE).unwrap();
        drop((context, queue));
        // The service has ended with its queue, so nothing is waited for.
        let [report] = &reports(&scratch)[..] else {
            panic!("round {round}: {:?}", reports(&scratch));
        };
        let reason = format!("network task exec {round}");
        assert!(report.reason.contains(&reason), "{}", report.reason);
        let group = report.groups.iter().find(|group| group.gid == 710);
        assert_eq!(group.unwrap().errors[0].status, 7, "{report}");
    }
}

/// A queue whose first failure has left its report, and keeps the thread that wrote it; with a context whose executions fail.
fn held(gid: u32, scratch: &Scratch) -> (Arc<ProxyQueue>, Context, Script) {
    let settings = Settings::builder().report_directory(Some(scratch.path(".")));
    let queue = queue(gid, settings);
    let script = Script::with(&[FAILS]);
    let builder = script.context(0).block(1, sets(1, 1));
    let context = queue.context(builder).unwrap();
    service::hold(true);
    fail(&context, 0);
    until("a report is being written", || {
        !beginning("report: ").is_empty()
    });
    (queue, context, script)
}

#[test]
fn h50_a_report_that_waits_when_the_service_is_ended_is_written() {
    let _turn = turn();
    let scratch = Scratch::new();
    let (queue, context, _script) = held(717, &scratch);
    fail(&context, 1);
    queue.release(Release::Drain, PATIENCE).unwrap();
    let joins = thread::joins();
    std::thread::scope(|scope| {
        let ending = scope.spawn(move || drop((context, queue)));
        until("the service is told to end", || thread::joins() > joins);
        service::hold(false);
        ending.join().unwrap();
    });
    until("both are written", || reports(&scratch).len() == 2);
}

#[test]
fn h50_events_that_find_no_room_are_counted_and_told() {
    const WAITING: usize = 16;
    let _turn = turn();
    let scratch = Scratch::new();
    let (queue, context, _script) = held(711, &scratch);
    (1..=20).for_each(|exec| fail(&context, exec));
    queue.release(Release::Drain, PATIENCE).unwrap();
    until("all are told", || queue.reports().len() == 21);
    service::hold(false);
    let lost = "4 more events asked for a report, which were not written: 16 wait at most";
    until("what is lost is told", || {
        beginning(lost) == [(Level::Warn, lost.to_owned())]
    });
    assert_eq!(reports(&scratch).len(), 1 + WAITING);
}

#[test]
fn h50_reports_at_intervals_are_one_file_and_one_line_that_is_no_error() {
    let _turn = turn();
    let scratch = Scratch::new();
    let settings = Settings::builder()
        .report_directory(Some(scratch.path(".")))
        .report_every(Duration::from_millis(20))
        .stall_threshold(Duration::from_millis(50));
    let queue = queue(712, settings);
    let times = || -> Vec<u64> {
        let made =
            |report: &Report| (report.reason == "interval").then_some(report.process.monotonic_ns);
        reports(&scratch).iter().filter_map(made).collect()
    };
    until("a report", || !times().is_empty());
    let first = times();
    until("it is replaced", || times() > first);
    assert_eq!(times().len(), 1);
    let calm = "report: nothing is stuck: 1 group without a task";
    until("both are told", || beginning("report: ").len() > 1);
    for line in beginning("report: ") {
        assert_eq!(line, (Level::Info, calm.to_owned()));
    }

    let script = Script::with(&["progress 1 -> block"]);
    let builder = script.context(0).block(1, sets(1, 1));
    let context = queue.context(builder).unwrap();
    let _ticket = context.enqueue(ExecId(1)).unwrap();
    let stuck = "report: group 712: the worker has been inside neuronNetworkProxyProgress for ";
    let warned = || {
        let lines = beginning(stuck).into_iter();
        let mut lines =
            lines.filter(|(level, text)| *level == Level::Warn && text.lines().count() == 1);
        lines.next().is_some()
    };
    until("the verdict of a stuck worker", warned);
    script.release();
    queue.release(Release::Abort, PATIENCE).unwrap();
}

#[test]
fn h52_a_process_of_another_container_with_the_same_number_is_in_nobodys_way() {
    let _turn = turn();
    let pid = std::process::id();
    let _other = os::take_name(&service::name(own_namespace() + 1, pid));
    let service = Service::start(Options {
        socket: true,
        ..Options::default()
    });
    let service = service.unwrap();
    assert_eq!(said()[..], []);
    assert!(served().contains(&pid));
    assert_eq!(fetch(pid).unwrap().process.pid, pid);
    drop(service);
}

#[test]
fn h52_a_socket_that_cannot_be_had_is_told_once_and_the_rest_is_done() {
    let _turn = turn();
    let (namespace, pid) = (own_namespace(), std::process::id());
    let _taken = os::take_name(&service::name(namespace, pid));
    let scratch = Scratch::new();
    let service = Service::start(Options {
        socket: true,
        signal: Some(libc::SIGUSR2),
        every: None,
        directory: Some(scratch.path(".")),
    });
    let service = service.unwrap();
    // SAFETY: no pointers.
    unsafe { libc::raise(libc::SIGUSR2) };
    until("the report of the signal", || reports(&scratch).len() == 1);
    drop(service);
    let warning = format!(
        "tools get no reports: the socket proxy-report/{namespace}/{pid} cannot be had: Address already in use (os error 98)"
    );
    assert_eq!(beginning("tools get"), [(Level::Warn, warning)]);
}

#[test]
fn a_later_queues_report_settings_that_have_no_effect_are_told_once() {
    let _turn = turn();
    let scratch = Scratch::new();
    let first = queue(
        713,
        Settings::builder().report_directory(Some(scratch.path("."))),
    );
    let other = || {
        Settings::builder()
            .report_directory(Some(scratch.path(".")))
            .report_every(Duration::from_secs(60))
            .report_signal(10)
    };
    let same = Settings::builder().report_directory(Some(scratch.path(".")));
    let later = [queue(714, same), queue(715, other()), queue(716, other())];
    let warning = "a process has one service of reports, so these settings of a later queue have no effect: \
        NEURON_RT_PROXY_REPORT_SIGNAL = 10, where 0 is used, NEURON_RT_PROXY_REPORT_EVERY = 60 s, where 0 s is used";
    assert_eq!(
        beginning("a process has one"),
        [(Level::Warn, warning.to_owned())]
    );
    for queue in later.into_iter().chain([first]) {
        queue.release(Release::Drain, PATIENCE).unwrap();
    }
}
