//! H46, H48, H50: the kinds of stall that need a bus, a barrier, a dead worker or a lost ring, each made to happen, and what the report
//! says of it; the others are in `f08_report`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, Role};
use proxy_checks::os;
use proxy_checks::pace::at_most;
use proxy_checks::script::{Script, sets};
use proxy_checks::stub::Scratch;
use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::member::State;
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Gid, Status};
use proxy_os::bananaphone::Bus;
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::diagnosis::record::{self, Stall, StallKind};
use proxy_os::diagnosis::{self, Report};
use proxy_os::sys::fault::{self, Call};
use proxy_os::{Context, HostBarrier, Patience, ProxyQueue, Release, Settings};

const PROMPT: Duration = Duration::from_millis(200);

/// One report service and one set of injected faults per process, so the tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A report with every wait as a stall, made in time and whole.
fn report() -> Report {
    let since = Instant::now();
    let report = Report::collect_stalls("a test", Duration::ZERO);
    let took = since.elapsed();
    assert!(took < at_most(PROMPT), "{took:?}");
    assert_eq!(report.partial, [""; 0]);
    report
}

fn until<T>(mut look: impl FnMut(&Report) -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        let report = report();
        if let Some(found) = look(&report) {
            return found;
        }
        assert!(since.elapsed() < AMPLE, "{report}");
        std::thread::yield_now();
    }
}

/// The membership of a rank on a bus, once it is in a phase.
fn until_bus(job: &str, rank: u32, phase: &str) -> (record::Bus, Stall, String) {
    until(|report| {
        let ours = |bus: &&record::Bus| bus.job == job && bus.rank == rank;
        let bus = report.buses.iter().find(ours)?.clone();
        let stall = of_group_or_bus(report, |stall, text| {
            stall.rank == Some(rank) && text.starts_with(&format!("bus {job}, "))
        });
        (bus.phase == phase).then_some(())?;
        stall.map(|(stall, text)| (bus, stall, text))
    })
}

/// The stall of a group, once it is of a kind.
fn until_group(gid: u32, kind: StallKind) -> (Report, Stall, String) {
    until(|report| {
        let ours = |stall: &Stall, _: &str| stall.gid == Some(gid) && stall.kind == kind;
        let (stall, text) = of_group_or_bus(report, ours)?;
        Some((report.clone(), stall, text))
    })
}

fn of_group_or_bus(
    report: &Report,
    ours: impl Fn(&Stall, &str) -> bool,
) -> Option<(Stall, String)> {
    let mut all = diagnosis::stalls_of(report).into_iter();
    all.find(|(stall, text)| ours(stall, text))
}

fn states(bus: &record::Bus) -> Vec<&str> {
    bus.peers.iter().map(|peer| peer.state.as_str()).collect()
}

/// A sentence without its age: what is before and behind `for <age> in`.
fn around_age(text: &str) -> String {
    let (before, rest) = text.split_once(" has waited for ").expect("an age");
    let (_, behind) = rest.split_once("s ").expect("milliseconds or seconds");
    format!("{before} has waited {behind}")
}

#[test]
fn h46_ranks_that_have_not_come_to_a_bus_are_named_with_the_phase() {
    let _turn = turn();
    let job = bus::job();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bus::connected(&job, 0, 3));
        let (bus, stall, text) = until_bus(&job, 0, "connect");
        assert_eq!(stall.kind, StallKind::RendezvousWaiting);
        assert_eq!(stall.missing, "1-2");
        let expected = format!("bus {job}, rank 0 of 3: has waited in connect for ranks 1-2");
        assert_eq!(around_age(&text), expected);
        assert_eq!(states(&bus), ["joined", "absent", "absent"]);
        assert_eq!(bus.peers[0].pid, std::process::id());
        let one = Bus::create(&bus::options(&job, 1, 3)).unwrap();
        let two = Bus::create(&bus::options(&job, 2, 3)).unwrap();
        drop((waiting.join().unwrap(), one, two));
    });
    let stays = report().buses.iter().any(|bus| bus.job == job);
    assert!(!stays, "a bus that all have left is in no report");
}

#[test]
fn child_opens_a_bus() {
    let Some(role) = Role::of("child_opens_a_bus") else {
        return;
    };
    let bus = Bus::create(&bus::options(&role.job, role.rank, role.world)).unwrap();
    println!("open");
    // Until the other side hangs up, or kills.
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(bus);
}

#[test]
fn h46_a_bus_whose_first_rank_is_stopped_is_waited_for_in_join() {
    let _turn = turn();
    let job = bus::job();
    let mut first = Role::new(&job, 0, 2, "open").start("child_opens_a_bus");
    first.await_line("open");
    os::signal(first.id(), libc::SIGSTOP);
    while !os::is_stopped(first.id()) {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| Bus::create(&bus::options(&job, 1, 2)));
        let (bus, stall, text) = until_bus(&job, 1, "join");
        assert_eq!(stall.kind, StallKind::RendezvousWaiting);
        let expected = format!(
            "bus {job}, rank 1 of 2: has waited in join for the rank that opened the bus, which has not answered"
        );
        assert_eq!(around_age(&text), expected);
        assert_eq!(
            states(&bus),
            [""; 0],
            "nothing is known of a bus that one is not on"
        );
        os::signal(first.id(), libc::SIGCONT);
        assert!(joining.join().unwrap().is_ok());
    });
}

#[test]
fn h46_a_silent_rank_is_late_and_a_killed_one_dead() {
    let _turn = turn();
    let job = bus::job();
    let mut killed = Role::new(&job, 2, 3, "be killed").start("child_opens_a_bus");
    let pid = killed.id();
    std::thread::scope(|scope| {
        let silent = scope.spawn(|| bus::connected(&job, 1, 3));
        let mut bus = bus::connected(&job, 0, 3);
        let mut silent = silent.join().unwrap();
        let waiting = scope.spawn(move || bus.recv(1, None, AMPLE).unwrap());
        until_bus(&job, 0, "receive");
        killed.kill();
        while silent.members().unwrap()[2].0 != State::Dead {
            std::thread::yield_now();
        }
        let (bus, stall, text) = until_bus(&job, 0, "receive");
        assert_eq!(
            (stall.kind, &*stall.missing),
            (StallKind::RendezvousWaiting, "1")
        );
        let expected =
            format!("bus {job}, rank 0 of 3: has waited in receive for rank 1; rank 2 is dead");
        assert_eq!(around_age(&text), expected);
        assert_eq!(states(&bus), ["joined", "late", "dead"]);
        assert_eq!(bus.peers[2].pid, pid);
        let late = "its word on the bus says that it is there, and receive lacks it";
        assert_eq!(bus.peers[1].evidence, late);
        // Whoever of the hub and the watcher is first.
        let dead = &bus.peers[2].evidence;
        let noticed = [
            "its process ended without a farewell",
            "its connection ended without a farewell",
            "its word on the bus says that it is dead, as others have noticed",
        ];
        assert!(noticed.contains(&dead.as_str()), "{dead}");
        assert!(
            (bus.peers.iter()).all(|peer| peer.last_seen.is_none()),
            "no barrier"
        );
        silent.send(0, 0, b"here I am", AMPLE).unwrap();
        waiting.join().unwrap();
    });
}

/// A context of a rank with a barrier.
fn context(queue: &Arc<ProxyQueue>, rank: u32, barrier: Box<dyn HostBarrier>) -> Context {
    let builder = Script::open().context(rank).block(1, sets(1, 1));
    queue.context(builder.barrier(barrier, Vec::new())).unwrap()
}

#[test]
fn h46_a_barrier_names_slot_generation_missing_and_arrived() {
    let _turn = turn();
    let buses = bus::everybody(4);
    let queue = ProxyQueue::start(Gid(621), &Settings::default()).unwrap();
    let contexts: Vec<Context> = [0, 2]
        .map(|rank| {
            let barrier = buses[rank].barrier(5, RankSet::below(4)).unwrap();
            let task = TaskBarrier::new(barrier, vec![], AMPLE).unwrap();
            context(&queue, rank as u32, Box::new(task))
        })
        .into();
    for context in &contexts {
        context.enqueue(ExecId(812)).unwrap();
    }
    let (report, stall, text) = until(|report| {
        let (stall, text) = of_group_or_bus(report, |stall, text| {
            stall.gid == Some(621) && text.contains("ranks 0,2 have arrived")
        })?;
        Some((report.clone(), stall, text))
    });
    assert_eq!(stall.kind, StallKind::BarrierWaiting);
    assert_eq!((stall.exec, &*stall.missing), (Some(812), "1,3"));
    let seen = |bus: &record::Bus| -> Vec<Option<(u32, u32, u64)>> {
        let seen = |last: &record::LastSeen| (last.slot, last.generation, last.exec);
        let peers = bus.peers.iter();
        peers
            .map(|peer| peer.last_seen.as_ref().map(seen))
            .collect()
    };
    let arrived = Some((5, 1, 812));
    let expected = [arrived, None, arrived, None];
    assert!(
        report.buses.iter().any(|bus| seen(bus) == expected),
        "{report}"
    );
    let rank = stall.rank.unwrap();
    assert!(rank == 0 || rank == 2, "{rank}");
    let expected = format!(
        "group 621, rank {rank}, barrier task exec 812 has waited at the host barrier 5 #1 for ranks 1,3; ranks 0,2 have arrived"
    );
    assert_eq!(around_age(&text), expected);
    let text = report.to_string();
    assert!(
        text.contains("at barrier 5 #1: arrived 0,2, missing 1,3"),
        "{text}"
    );
    queue.release(Release::Abort, AMPLE).unwrap();
}

fn silent(_: proxy_os::log::Level, _: &str) {}

/// A queue whose process leaves reports in a directory, and whose tasks have a deadline.
fn leaving(gid: u32, deadline: Duration, scratch: &Scratch) -> Arc<ProxyQueue> {
    proxy_os::log::set_sink(silent);
    let settings = Settings::builder().report_directory(Some(scratch.path(".")));
    let settings = settings.task_deadline(deadline);
    ProxyQueue::start(Gid(gid), &settings.from_lookup(|_| None).unwrap()).unwrap()
}

/// The report in a directory whose reason has these words.
fn left_behind(scratch: &Scratch, words: &str) -> Report {
    let since = Instant::now();
    loop {
        let files = std::fs::read_dir(scratch.path(".")).unwrap();
        let whole = files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut reports = whole
            .map(|path| serde_json::from_slice::<Report>(&std::fs::read(path).unwrap()).unwrap());
        if let Some(found) = reports.find(|report| report.reason.contains(words)) {
            return found;
        }
        assert!(since.elapsed() < AMPLE, "no report because of: {words}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn h46_h50_a_killed_peer_ends_the_barrier_and_leaves_a_report_that_names_it() {
    let _turn = turn();
    let job = bus::job();
    let mut killed = Role::new(&job, 1, 2, "be killed").start("child_opens_a_bus");
    let bus = bus::connected(&job, 0, 2);
    let scratch = Scratch::new();
    let queue = leaving(622, AMPLE, &scratch);
    let barrier = bus.barrier(0, RankSet::below(2)).unwrap();
    let task = TaskBarrier::new(barrier, vec![], AMPLE).unwrap();
    let context = context(&queue, 0, Box::new(task));
    let ticket = context.enqueue(ExecId(7)).unwrap().barrier.unwrap();
    until_group(622, StallKind::BarrierWaiting);
    let pid = killed.id();
    killed.kill();
    let answer = queue.consume(ticket, Patience::until(AMPLE));
    assert_eq!(answer, Ok(Status::PEER_DEAD));
    let report = left_behind(&scratch, "barrier task exec 7");
    assert!(
        report.reason.ends_with(&Status::PEER_DEAD.to_string()),
        "{}",
        report.reason
    );
    let ours = report.buses.iter().find(|bus| bus.job == job).unwrap();
    assert_eq!(states(ours), ["joined", "dead"]);
    assert_eq!(ours.peers[1].pid, pid);
    let text = report.to_string();
    assert!(
        text.contains(&format!("dead: rank 1 (pid {pid})")),
        "{text}"
    );
    queue.release(Release::Abort, AMPLE).unwrap();
}

#[test]
fn h50_a_timeout_leaves_a_report_that_names_the_task() {
    let _turn = turn();
    let scratch = Scratch::new();
    let queue = leaving(623, Duration::from_millis(300), &scratch);
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let builder = script.context(3).block(1, sets(1, 1));
    let context = queue.context(builder).unwrap();
    let ticket = context.enqueue(ExecId(9)).unwrap().network;
    let answer = queue.consume(ticket, Patience::until(AMPLE));
    assert_eq!(answer, Ok(Status::TIMEOUT));
    let report = left_behind(&scratch, "its deadline has passed");
    assert!(
        report.reason.contains("network task exec 9"),
        "{}",
        report.reason
    );
    queue.release(Release::Abort, AMPLE).unwrap();
}

/// A barrier that its embedder got wrong.
#[derive(Debug)]
struct Panics;

impl HostBarrier for Panics {
    fn arrive(&self, _: ExecId) -> BarrierPoll {
        panic!("on purpose: the embedder's barrier panics")
    }

    fn signal(&self, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Ready
    }

    fn cancel(&self, _: ExecId) {}
}

#[test]
fn h46_h50_a_dead_worker_is_named_and_leaves_a_report() {
    let _turn = turn();
    let scratch = Scratch::new();
    let queue = leaving(624, AMPLE, &scratch);
    let context = context(&queue, 1, Box::new(Panics));
    let ticket = context.enqueue(ExecId(1)).unwrap().barrier.unwrap();
    let answer = queue.consume(ticket, Patience::until(AMPLE));
    assert_eq!(answer, Ok(Status::WORKER_DIED));
    let (report, _, text) = until_group(624, StallKind::WorkerDead);
    assert_eq!(
        text,
        "group 624: its worker died; every task of it has ended with an error"
    );
    let group = report.groups.iter().find(|group| group.gid == 624).unwrap();
    assert_eq!((&*group.health, &*group.worker.activity), ("dead", "dead"));
    let report = left_behind(&scratch, "the worker died");
    assert!(report.reason.contains("624"), "{}", report.reason);
}

#[test]
fn h46_a_worker_that_sleeps_on_its_work_is_named_as_the_drivers_fault() {
    let _turn = turn();
    let queue = ProxyQueue::start(Gid(625), &Settings::default()).unwrap();
    let script = Script::open();
    let build = || {
        queue
            .context(script.context(4).block(1, sets(1, 1)))
            .unwrap()
    };
    let (context, other) = (build(), build());
    until(|report| {
        let group = report.groups.iter().find(|group| group.gid == 625)?;
        (group.worker.activity == "asleep").then_some(())
    });
    fault::inject(Call::BellRing, 1, libc::EIO);
    let appended = Instant::now();
    let ticket = context.enqueue(ExecId(33)).unwrap().network;
    assert_eq!(fault::left(Call::BellRing), 0, "the ring is lost");
    let (report, stall, text) = until_group(625, StallKind::AsleepWithWork);
    assert_eq!((stall.rank, stall.exec), (Some(4), Some(33)));
    assert!(
        text.starts_with("group 625, rank 4, network task exec 33 has been in INIT for ")
            && text.ends_with(" while the worker sleeps"),
        "{text}"
    );
    // How long it is known from the watchdog, which looks at least once a second.
    let threshold = Duration::from_millis(100);
    let since = Instant::now();
    let known = loop {
        let report = Report::collect_stalls("a test", threshold);
        let of_group = |stall: &Stall, _: &str| stall.gid == Some(625);
        if let Some((stall, text)) = of_group_or_bus(&report, of_group) {
            assert_eq!(stall.kind, StallKind::AsleepWithWork, "{text}");
            assert!(text.contains(" s or longer while ") || text.contains(" ms or longer while "));
            break stall.age.unwrap();
        }
        assert!(since.elapsed() < AMPLE, "{report}");
        std::thread::yield_now();
    };
    assert!(known >= threshold.as_secs_f64(), "{known}");
    assert!(known <= appended.elapsed().as_secs_f64(), "{known}");
    let group = report.groups.iter().find(|group| group.gid == 625).unwrap();
    assert_eq!((group.worker.queued, group.worker.wakes), (1, 1));
    // Rings whatever the doorbell's word says.
    drop(other);
    let answer = queue.consume(ticket, Patience::until(AMPLE));
    assert_eq!(answer, Ok(Status::SUCCESS));
    queue.release(Release::Drain, AMPLE).unwrap();
}
