//! From the facts of many reports to one sentence.

use super::super::record::{BarrierWait, Change, StartWord, Task};
use super::super::verdict::judge;
use super::*;

/// A rank in an execution, with the facts of one kind of stall.
fn task(rank: u32, exec: u64, kind: Option<StallKind>) -> Task {
    let task = Task {
        rank,
        exec,
        kind: "network".to_owned(),
        state: "IDLE".to_owned(),
        age: Some(40.0),
        ..Task::default()
    };
    match kind {
        None => Task {
            age: Some(0.0),
            ..task
        },
        Some(StallKind::BarrierWaiting) => Task {
            kind: "barrier".to_owned(),
            barrier: Some(BarrierWait {
                missing: "5".to_owned(),
                ..BarrierWait::default()
            }),
            ..task
        },
        Some(StallKind::DeviceNeverFired) => Task {
            state: "WAITING_DEVICE_TRIGGER".to_owned(),
            unfired: vec![StartWord {
                stream: 1,
                ..StartWord::default()
            }],
            ..task
        },
        Some(_) => task,
    }
}

/// The report of a process with one group and these tasks.
fn process(gid: u32, tasks: Vec<Task>) -> Report {
    let mut group = Group {
        gid,
        health: "running".to_owned(),
        tasks,
        ..Group::default()
    };
    group.worker.capacity = 128;
    let mut report = Report {
        stall_threshold: 1.0,
        groups: vec![group],
        ..Report::default()
    };
    judge(&mut report);
    report
}

fn rank(number: u32, exec: u64, kind: Option<StallKind>) -> Report {
    process(number, vec![task(number, exec, kind)])
}

#[test]
fn the_rank_that_is_behind_and_who_waits_for_it_are_one_sentence() {
    let mut reports: Vec<Report> = (0..8)
        .map(|at| rank(at, 813, Some(StallKind::BarrierWaiting)))
        .collect();
    reports[5] = rank(5, 812, Some(StallKind::DeviceNeverFired));
    let merged = merge(&reports, Some(8));
    assert_eq!(
        merged.to_string(),
        "rank 5 is at exec 812, behind ranks 0-4,6-7 at exec 813; rank 5 waits for the device on stream 1 in exec 812; \
         ranks 0-4,6-7 wait at the host barrier for rank 5 in exec 813"
    );
    assert_eq!((merged.reports, merged.newest), (8, Some(813)));
    let behind = Behind {
        ranks: "5".to_owned(),
        exec: 812,
    };
    assert_eq!(merged.behind, [behind]);
    let waits: Vec<_> = (merged.waits.iter())
        .map(|wait| (wait.kind, wait.ranks.as_str()))
        .collect();
    let expected = [
        (StallKind::DeviceNeverFired, "5"),
        (StallKind::BarrierWaiting, "0-4,6-7"),
    ];
    assert_eq!(waits, expected);
    let json = serde_json::to_string(&merged).expect("plain data");
    assert_eq!(serde_json::from_str::<Merged>(&json).expect("JSON"), merged);
}

#[test]
fn all_ranks_of_a_process_are_told_and_each_once() {
    let tasks = vec![
        task(0, 7, Some(StallKind::LibraryIdle)),
        task(0, 7, Some(StallKind::BarrierWaiting)),
        task(1, 7, Some(StallKind::LibraryIdle)),
        task(2, 7, Some(StallKind::DeviceNeverFired)),
    ];
    assert_eq!(
        merge(&[process(0, tasks)], None).sentence,
        "rank 2 waits for the device on stream 1 in exec 7; rank 0 waits at the host barrier for rank 5 in exec 7; \
         rank 1 waits for the network in exec 7"
    );
}

#[test]
fn a_dead_worker_is_told_of_its_ranks_of_those_it_had_and_of_its_group() {
    let dead = |tasks, history| {
        let mut report = process(3, tasks);
        report.groups[0].health = "dead".to_owned();
        report.groups[0].history = history;
        report
    };
    let past = |rank| Change {
        rank,
        ..Change::default()
    };
    let sentence = |report| merge(&[report], None).sentence;
    let two = vec![task(4, 7, None), task(5, 7, None)];
    assert_eq!(
        sentence(dead(two, Vec::new())),
        "ranks 4-5 have lost their worker"
    );
    let one = dead(Vec::new(), vec![past(4)]);
    assert_eq!(sentence(one), "rank 4 has lost its worker");
    assert_eq!(
        sentence(dead(Vec::new(), Vec::new())),
        "group 3 has lost its worker"
    );
}

#[test]
fn a_barrier_that_names_nobody_is_said_to() {
    let mut waits = task(0, 3, Some(StallKind::BarrierWaiting));
    waits.barrier = None;
    assert_eq!(
        merge(&[process(0, vec![waits])], None).sentence,
        "rank 0 waits at the host barrier in exec 3, which does not say for whom"
    );
}

#[test]
fn ranks_without_a_report_are_told_first() {
    let reports = [rank(0, 3, None), rank(2, 3, None)];
    let merged = merge(&reports, Some(4));
    assert_eq!(merged.sentence, "no report of ranks 1,3 has a task");
    assert_eq!(merged.silent, "1,3");
    assert_eq!(
        merge(&reports, None).sentence,
        "ranks 0,2, at exec 3: nothing is stuck"
    );
    assert_eq!(
        merge(&reports[..1], Some(2)).sentence,
        "no report of rank 1 has a task"
    );
    assert_eq!(merge(&[], None).sentence, "no rank has a task");
}

#[test]
fn a_thousand_ranks_still_are_a_sentence_and_a_world_without_end_is_not_looked_through() {
    let reports: Vec<Report> = (0..1000)
        .map(|at| rank(at, 7, (at != 77).then_some(StallKind::LibraryIdle)))
        .collect();
    assert_eq!(
        merge(&reports, Some(1000)).sentence,
        "ranks 0-76,78-999 wait for the network in exec 7"
    );
    let merged = merge(&reports, Some(u32::MAX));
    assert_eq!(merged.silent, format!("1000-{}", MAX_WORLD - 1));
}
