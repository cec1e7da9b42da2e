//! Each kind of stall from facts to sentence.

use super::super::record::{BarrierWait, Block, Call, Peer, StartWord, Worker};
use super::*;

fn group(worker: Worker, tasks: Vec<Task>) -> Group {
    Group {
        gid: 3,
        health: "running".to_owned(),
        worker: Worker {
            capacity: 128,
            activity: "awake".to_owned(),
            ..worker
        },
        tasks,
        ..Group::default()
    }
}

fn task(state: &str, age: f64) -> Task {
    Task {
        rank: 5,
        kind: "network".to_owned(),
        exec: 812,
        state: state.to_owned(),
        age: Some(age),
        ..Task::default()
    }
}

fn judged(groups: Vec<Group>, buses: Vec<Bus>) -> Report {
    let mut report = Report {
        stall_threshold: 1.0,
        groups,
        buses,
        ..Report::default()
    };
    judge(&mut report);
    report
}

/// The verdict of one group with one task, and its kind.
fn verdict(worker: Worker, tasks: Vec<Task>) -> (StallKind, String) {
    let report = judged(vec![group(worker, tasks)], Vec::new());
    assert!(report.hint.is_some());
    (report.stall.expect("a stall").kind, report.verdict)
}

#[test]
fn a_device_that_never_fired_is_named_by_stream_address_and_value() {
    let words = [1, 3].map(|stream| StartWord {
        stream,
        address: 0x7f00,
        word: u32::MAX,
        ..StartWord::default()
    });
    let waiting = Task {
        unfired: words.to_vec(),
        ..task("WAITING_DEVICE_TRIGGER", 41.2)
    };
    let expected = "group 3, rank 5, network task exec 812 has waited for 41.2 s for the device on streams 1, 3 \
         (word at 0x7f00 is still 0xffffffff)";
    let found = verdict(Worker::default(), vec![waiting]);
    assert_eq!(found, (StallKind::DeviceNeverFired, expected.to_owned()));
}

#[test]
fn an_idle_library_is_named_by_block_and_calls() {
    let block = Block {
        id: 12,
        place: 2,
        of: 3,
        calls: 99,
        last_return: 0,
    };
    let idle = Task {
        block: Some(block),
        ..task("IDLE", 2.0)
    };
    let expected = "group 3, rank 5, network task exec 812 has been IDLE for 2.0 s in block 12 (2 of 3): the library is called \
         (99 progress calls, the last returned 0) and moves nothing";
    assert_eq!(
        verdict(Worker::default(), vec![idle]),
        (StallKind::LibraryIdle, expected.to_owned())
    );
}

#[test]
fn a_task_whose_turn_at_the_library_has_not_come_is_not_to_blame() {
    let first = task("IDLE", 2.0);
    let behind = Task {
        exec: 813,
        behind: true,
        ..task("IDLE", 9.0)
    };
    let (kind, sentence) = verdict(Worker::default(), vec![behind, first]);
    let expected = "group 3, rank 5, network task exec 812 has been IDLE for 2.0 s";
    assert_eq!(
        (kind, sentence.as_str()),
        (StallKind::LibraryIdle, expected)
    );
}

#[test]
fn a_call_that_does_not_return_is_named_with_its_age_whatever_else_waits() {
    let call = Call {
        function: "neuronNetworkProxyProgress".to_owned(),
        age: 8.0,
    };
    let worker = Worker {
        call: Some(call),
        ..Worker::default()
    };
    let tasks = vec![task("PROGRESSING", 9.0), task("INIT", 5.0)];
    let expected = "group 3: the worker has been inside neuronNetworkProxyProgress for 8.0 s; 2 tasks wait for it";
    assert_eq!(
        verdict(worker, tasks),
        (StallKind::CallNotReturning, expected.to_owned())
    );
}

/// The end of the verdict of a task at a barrier, behind the barrier's place.
fn end_at(barrier: Option<BarrierWait>) -> String {
    let waiting = Task {
        barrier,
        kind: "barrier".to_owned(),
        ..task("IDLE", 3.0)
    };
    let (kind, verdict) = verdict(Worker::default(), vec![waiting]);
    assert_eq!(kind, StallKind::BarrierWaiting);
    let start = "group 3, rank 5, barrier task exec 812 has waited for 3.0 s at the host barrier";
    verdict.strip_prefix(start).expect(start).to_owned()
}

/// A wait at slot 2, the ninth.
fn at_barrier(arrived: &str, missing: &str, dead: &str, machine: Option<u32>) -> String {
    let [arrived, missing, dead] = [arrived, missing, dead].map(str::to_owned);
    let end = end_at(Some(BarrierWait {
        slot: 2,
        generation: 9,
        arrived,
        missing,
        dead,
        machine,
    }));
    end.strip_prefix(" 2 #9").expect("the place").to_owned()
}

#[test]
fn a_barrier_names_the_missing_the_dead_the_arrived_and_the_other_machine() {
    assert_eq!(
        at_barrier("0-4,6", "5,7", "7", None),
        " for ranks 5,7, of which 7 is dead; ranks 0-4,6 have arrived"
    );
    assert_eq!(
        at_barrier("0-3", "", "", Some(1)),
        " for machine 1; ranks 0-3 of this one have arrived"
    );
    assert_eq!(
        at_barrier("0-3", "", "", None),
        "; ranks 0-3 have arrived, and the first of them, the leader, has not let them pass"
    );
    assert_eq!(end_at(None), ", which does not say for whom");
}

#[test]
fn a_barrier_of_few_is_told_of_in_their_number() {
    assert_eq!(
        at_barrier("0", "1", "1", None),
        " for rank 1, which is dead; rank 0 has arrived"
    );
    assert_eq!(
        at_barrier("", "0-2", "1-2", None),
        " for ranks 0-2, of which 1-2 are dead; no rank has arrived"
    );
    assert_eq!(
        at_barrier("0", "1-2", "1-2", None),
        " for ranks 1-2, which are dead; rank 0 has arrived"
    );
    assert_eq!(
        at_barrier("0", "", "", Some(1)),
        " for machine 1; rank 0 of this one has arrived"
    );
    assert_eq!(
        at_barrier("0", "", "", None),
        "; rank 0, the leader, has arrived, and has not passed"
    );
}

#[test]
fn a_worker_asleep_with_work_a_dead_one_and_one_whose_statuses_nobody_takes() {
    let mut asleep = group(Worker::default(), vec![task("INIT", 2.0)]);
    asleep.worker.activity = "asleep".to_owned();
    let report = judged(vec![asleep], Vec::new());
    assert_eq!(
        report.stall.map(|stall| stall.kind),
        Some(StallKind::AsleepWithWork)
    );
    let text =
        "group 3, rank 5, network task exec 812 has been in INIT for 2.0 s while the worker sleeps";
    assert_eq!(report.verdict, text);

    let mut dead = group(Worker::default(), vec![task("DONE", 2.0)]);
    dead.health = "dead".to_owned();
    let report = judged(vec![dead], Vec::new());
    assert_eq!(
        report.verdict,
        "group 3: its worker died; every task of it has ended with an error"
    );

    let (kind, text) = verdict(Worker::default(), vec![task("DONE", 2.0)]);
    assert_eq!(kind, StallKind::ConsumerNotPolling);
    assert_eq!(
        text,
        "group 3, rank 5, network task exec 812 has been done for 2.0 s and nobody has consumed its status"
    );
}

/// A rank's 128 places with these tasks on them.
fn full(mut tasks: Vec<Task>) -> Vec<Task> {
    tasks.resize(128, task("DONE", 1.5));
    tasks
}

/// The kinds of stall of a group.
fn kinds(tasks: Vec<Task>) -> Vec<StallKind> {
    let report = judged(vec![group(Worker::default(), tasks)], Vec::new());
    let kinds = stalls_of(&report).into_iter().map(|(stall, _)| stall.kind);
    let mut kinds: Vec<StallKind> = kinds.collect();
    kinds.dedup();
    kinds
}

#[test]
fn h46_a_full_rank_is_named_once_none_of_its_tasks_has_moved_for_long() {
    let (kind, text) = verdict(Worker::default(), full(Vec::new()));
    assert_eq!(kind, StallKind::QueueFull);
    let expected = "group 3, rank 5: all 128 places for tasks are taken, and none of these tasks has moved for 1.5 s, so it cannot \
         enqueue; 128 more waits are listed below";
    assert_eq!(text, expected);
    let unknown = Task {
        age: None,
        least_age: 1.0,
        ..task("DONE", 0.0)
    };
    let found = kinds(full(vec![unknown]));
    assert_eq!(found, [StallKind::QueueFull, StallKind::ConsumerNotPolling]);
}

#[test]
fn h46_a_full_rank_of_a_busy_healthy_job_is_no_stall() {
    let busy: Vec<Task> = (0..128).map(|_| task("DONE", 0.1)).collect();
    let (kinds_of_busy, text) = {
        let report = judged(vec![group(Worker::default(), busy)], Vec::new());
        (report.stall.map(|stall| stall.kind), report.verdict)
    };
    assert_eq!(kinds_of_busy, None, "{text}");
    let unread = Task {
        age: None,
        ..task("DONE", 0.0)
    };
    for moving in [
        task("DONE", 0.9),
        task("PROGRESSING", 90.0),
        task("INIT", 90.0),
        unread,
    ] {
        let found = kinds(full(vec![moving.clone()]));
        assert_eq!(found, [StallKind::ConsumerNotPolling], "{moving:?}");
    }
}

#[test]
fn a_bus_names_phase_and_peers() {
    let bus = Bus {
        job: "j".to_owned(),
        rank: 1,
        world: 4,
        phase: "join".to_owned(),
        age: Some(5.0),
        missing: "2-3".to_owned(),
        peers: vec![Peer {
            rank: 3,
            pid: 0,
            state: "dead".to_owned(),
            ..Peer::default()
        }],
        ..Bus::default()
    };
    let report = judged(Vec::new(), vec![bus]);
    assert_eq!(
        report.verdict,
        "bus j, rank 1 of 4: has waited for 5.0 s in join for ranks 2-3; rank 3 is dead"
    );
    assert_eq!(report.stall.unwrap().kind, StallKind::RendezvousWaiting);
}

#[test]
fn the_most_certain_cause_comes_first_and_of_one_kind_the_oldest() {
    let word = StartWord {
        stream: 0,
        address: 8,
        word: u32::MAX,
        ..StartWord::default()
    };
    let device = |age| Task {
        unfired: vec![word.clone()],
        ..task("WAITING_DEVICE_TRIGGER", age)
    };
    let tasks = vec![task("IDLE", 90.0), device(2.0), device(7.0)];
    let (kind, text) = verdict(Worker::default(), tasks);
    assert_eq!(kind, StallKind::DeviceNeverFired);
    assert!(text.contains("for 7.0 s"), "{text}");
    assert!(text.ends_with("; 2 more waits are listed below"), "{text}");
}

#[test]
fn what_is_younger_than_the_threshold_is_no_stall() {
    let report = judged(
        vec![group(Worker::default(), vec![task("IDLE", 0.5)])],
        Vec::new(),
    );
    assert_eq!(report.stall, None);
    assert_eq!(
        report.verdict,
        "nothing is stuck: 1 task in 1 group, none without a change for 1 s"
    );
    assert_eq!(
        judged(Vec::new(), Vec::new()).verdict,
        "nothing is stuck: 0 groups without a task"
    );
}

/// The verdict on one task of a worker that is in this activity.
fn verdict_on(task: Task, activity: &str) -> (Option<StallKind>, String) {
    let mut group = group(Worker::default(), vec![task]);
    group.worker.activity = activity.to_owned();
    let report = judged(vec![group], Vec::new());
    (report.stall.map(|stall| stall.kind), report.verdict)
}

/// A task whose age is not known, but that it is this much at least.
fn ageless(state: &str, least_age: f64) -> Task {
    Task {
        age: None,
        least_age,
        ..task(state, 0.0)
    }
}

#[test]
fn h46_an_age_that_is_not_known_is_a_stall_only_if_it_is_known_to_be_long_enough() {
    for state in ["INIT", "PROGRESSING", "IDLE", "DONE"] {
        for activity in ["awake", "asleep"] {
            for least in [0.0, 0.9] {
                let (kind, text) = verdict_on(ageless(state, least), activity);
                assert_eq!(kind, None, "{state} {activity}: {text}");
            }
        }
    }
    let idle = "nothing is stuck: 1 task in 1 group, none known to be without a change for 1 s; the black box no longer has the last \
         change of 1";
    assert_eq!(verdict_on(ageless("IDLE", 0.9), "awake").1, idle);
    let (kind, text) = verdict_on(ageless("IDLE", 1.5), "awake");
    assert_eq!(kind, Some(StallKind::LibraryIdle));
    assert_eq!(
        text,
        "group 3, rank 5, network task exec 812 has been IDLE for 1.5 s or longer"
    );
    let (kind, text) = verdict_on(ageless("INIT", 1.5), "asleep");
    assert_eq!(kind, Some(StallKind::AsleepWithWork));
    assert_eq!(
        text,
        "group 3, rank 5, network task exec 812 has been in INIT for 1.5 s or longer while the worker sleeps"
    );
    assert_eq!(
        verdict_on(ageless("DONE", 1.5), "asleep").0,
        Some(StallKind::ConsumerNotPolling)
    );
}

#[test]
fn h46_a_task_that_moves_in_each_step_is_no_stall_however_long_it_takes() {
    assert_eq!(verdict_on(task("PROGRESSING", 90.0), "awake").0, None);
    let asleep = verdict_on(task("PROGRESSING", 90.0), "asleep").0;
    assert_eq!(asleep, Some(StallKind::AsleepWithWork));
}

#[test]
fn h48_what_could_not_be_read_does_not_make_a_wait_vanish() {
    let device = Task {
        unread: true,
        ..task("WAITING_DEVICE_TRIGGER", 41.2)
    };
    let found = verdict(Worker::default(), vec![device]);
    let expected = "group 3, rank 5, network task exec 812 has waited for 41.2 s for the device, on words that could not be read, as \
         their context was locked";
    assert_eq!(found, (StallKind::DeviceNeverFired, expected.to_owned()));
    let barrier = Task {
        unread: true,
        kind: "barrier".to_owned(),
        ..task("IDLE", 3.0)
    };
    let (kind, text) = verdict(Worker::default(), vec![barrier]);
    assert_eq!(kind, StallKind::BarrierWaiting);
    assert!(
        text.ends_with(" at the host barrier, which could not be read, as its context was locked"),
        "{text}"
    );
    let fired = task("WAITING_DEVICE_TRIGGER", 41.2);
    assert_eq!(verdict_on(fired, "awake").0, None, "all words have fired");
    let mut report = Report {
        partial: vec!["the list of queues".to_owned()],
        ..Report::default()
    };
    judge(&mut report);
    assert_eq!(
        report.verdict,
        "nothing seen is stuck: 0 groups without a task; could not be read, as locked: the list of queues"
    );
    report.partial = (1..=5)
        .map(|gid| format!("the contexts of group {gid}"))
        .collect();
    judge(&mut report);
    let named =
        "the contexts of group 1, the contexts of group 2, the contexts of group 3 and 2 more";
    assert!(report.verdict.ends_with(named), "{}", report.verdict);
}
