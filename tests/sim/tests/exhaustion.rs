//! Small worlds, explored to the last state, with the laws that were looked at in each, and the edges of the drawn machines that this took.

use std::collections::{BTreeMap, BTreeSet};

use proxy_core::{Arming, Polarity, Rank, Spec, StopAt};
use proxy_sim::explore::{Small, explore};
use proxy_sim::laws::Law;

// tidy: long because it is one table
fn worlds() -> Vec<Small> {
    let plain = Spec::new(Rank(5));
    let gated = Spec {
        device_wait: true,
        ..plain
    };
    let two = Spec {
        streams: 2,
        blocks: 2,
        ..plain
    };
    let barrier = Spec {
        barrier: true,
        barrier_triggers: 1,
        ..plain
    };
    let small = |name, specs: &[Spec], executions, dies| Small {
        name,
        specs: specs.to_vec(),
        executions,
        dies,
    };
    vec![
        small(
            "2 streams, 2 blocks, gate",
            &[Spec {
                device_wait: true,
                ..two
            }],
            1,
            false,
        ),
        small(
            "2 streams, 2 blocks, stop at each switch",
            &[Spec {
                stop_at: StopAt::Switch,
                ..two
            }],
            1,
            false,
        ),
        small(
            "skip, no streams",
            &[
                Spec {
                    skip: true,
                    ..gated
                },
                Spec {
                    streams: 0,
                    ..gated
                },
            ],
            1,
            false,
        ),
        small("barrier behind a gate", &[barrier], 1, false),
        small(
            "barrier without a gate",
            &[Spec {
                barrier_triggers: 0,
                ..barrier
            }],
            1,
            false,
        ),
        small("2 executions behind one gate", &[gated], 2, false),
        small(
            "2 executions, device arms",
            &[Spec {
                arming: Arming::ByDevice,
                ..gated
            }],
            2,
            false,
        ),
        small(
            "2 executions, 2 blocks",
            &[Spec { blocks: 2, ..plain }],
            2,
            false,
        ),
        small(
            "2 executions of 2 streams behind one gate",
            &[Spec {
                streams: 2,
                ..gated
            }],
            2,
            false,
        ),
        small(
            "2 ranks, header's sense",
            &[
                Spec {
                    polarity: Polarity::Header,
                    ..gated
                },
                Spec {
                    rank: Rank(2),
                    ..plain
                },
            ],
            1,
            false,
        ),
        small(
            "the worker dies anywhere",
            &[Spec {
                device_wait: true,
                ..barrier
            }],
            1,
            true,
        ),
    ]
}

/// States from which most edges lead.
const ACTIVE: &[&str] = &["PROGRESSING", "IDLE"];
const WAITS: &[&str] = &["INIT", "WAITING_DEVICE_TRIGGER"];
const ANY: &[&str] = &["INIT", "WAITING_DEVICE_TRIGGER", "PROGRESSING", "IDLE"];

/// The edges as they are drawn in the headers of the machines: kind, number there, states before, causes, state after.
type Row = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
);

const DRAWN: &[Row] = &[
    ("network", "1", &["INIT"], &["nothing to do"], "DONE"),
    ("network", "2", &["INIT"], &["start failed"], "DONE"),
    (
        "network",
        "3",
        &["INIT"],
        &["started", "not fired"],
        "WAITING_DEVICE_TRIGGER",
    ),
    (
        "network",
        "4",
        &["WAITING_DEVICE_TRIGGER"],
        &["not fired"],
        "WAITING_DEVICE_TRIGGER",
    ),
    (
        "network",
        "5",
        &["WAITING_DEVICE_TRIGGER"],
        &["fired"],
        "PROGRESSING",
    ),
    ("network", "6", &["INIT"], &["started"], "PROGRESSING"),
    ("network", "7", ACTIVE, &["moved", "drained"], "PROGRESSING"),
    ("network", "8", ACTIVE, &["idle"], "IDLE"),
    (
        "network",
        "9",
        ACTIVE,
        &["last block drained", "stop failed"],
        "DONE",
    ),
    (
        "network",
        "9, no streams",
        &["PROGRESSING"],
        &["nothing to do"],
        "DONE",
    ),
    ("network", "10", ACTIVE, &["progress failed"], "DONE"),
    ("network", "11", ANY, &["abort"], "DONE"),
    (
        "barrier",
        "1",
        WAITS,
        &["not fired"],
        "WAITING_DEVICE_TRIGGER",
    ),
    ("barrier", "2, 3", WAITS, &["arrive pending"], "PROGRESSING"),
    ("barrier", "3", ACTIVE, &["arrive pending"], "IDLE"),
    ("barrier", "4, 5", ANY, &["release pending"], "PROGRESSING"),
    ("barrier", "6", ACTIVE, &["release pending"], "IDLE"),
    ("barrier", "7", ANY, &["released"], "DONE"),
    (
        "barrier",
        "8",
        ANY,
        &["arrive failed", "signal failed", "release failed"],
        "DONE",
    ),
    ("barrier", "9", ANY, &["abort"], "DONE"),
];

/// The doorbell's edges: what a push, an arm and a close are told.
const BELL: [&str; 7] = [
    "doorbell: push, quiet",
    "doorbell: push, rings",
    "doorbell: push refused, the queue is being released",
    "doorbell: arm granted",
    "doorbell: arm refused",
    "doorbell: close, quiet",
    "doorbell: close, rings",
];

fn drawn() -> BTreeSet<String> {
    let mut edges: BTreeSet<String> = BELL.into_iter().map(str::to_owned).collect();
    for (kind, _, before, causes, to) in DRAWN {
        for from in *before {
            edges.extend(
                causes
                    .iter()
                    .map(|cause| format!("{kind}: {from} -- {cause} --> {to}")),
            );
        }
    }
    edges
}

#[test]
fn every_state_of_small_worlds_keeps_every_law_and_every_drawn_edge_is_taken() {
    let mut taken = BTreeSet::new();
    let mut checked: BTreeMap<Law, u64> = BTreeMap::new();
    let (mut states, mut transitions) = (0, 0);
    println!(
        "{:<42}{:>9}{:>13}{:>7}",
        "world", "states", "transitions", "depth"
    );
    for small in worlds() {
        let mut explored = explore(&small);
        if let Some(wrong) = explored.wrong {
            panic!("{wrong}");
        }
        println!(
            "{:<42}{:>9}{:>13}{:>7}",
            small.name, explored.states, explored.transitions, explored.depth
        );
        taken.append(&mut explored.edges);
        for (law, count) in explored.checked {
            *checked.entry(law).or_default() += count;
        }
        states += explored.states;
        transitions += explored.transitions;
    }
    println!("law, and how often it was looked at");
    // Contexts are registered before a world is explored; their ids are the simulation's.
    for law in Law::ALL.into_iter().filter(|law| *law != Law::NoIdTwice) {
        let count = checked.get(&law).copied().unwrap_or(0);
        println!("{law:<42}{count:>9}");
        assert!(count > 0, "{law}: never looked at");
    }
    let drawn = drawn();
    let missing: Vec<&String> = drawn.difference(&taken).collect();
    let unknown: Vec<&String> = taken.difference(&drawn).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "missing: {missing:#?}, not drawn: {unknown:#?}"
    );
    let edges = drawn.len();
    println!(
        "explored: {states} states, {transitions} transitions, all {edges} edges of the drawn machines"
    );
}
