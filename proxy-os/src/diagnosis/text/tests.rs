//! The text says what the record says.

use serde_json::Value;

use super::super::record::{
    Block, Call, Change, ContextProgress, ErrorCount, LastSeen, Process, Setting, Stall, StallKind,
    StartWord,
};
use super::*;

#[test]
fn h53_a_worker_and_an_age_that_is_only_known_in_part_are_told() {
    let worker = Worker {
        name: "proxy-7".to_owned(),
        tid: 7,
        activity: "asleep".to_owned(),
        activity_age: Some(2.0),
        ticks: 100,
        steps: 1,
        idle_ticks: 90,
        pauses: 53,
        yields: 54,
        sleeps: 55,
        wakes: 1,
        queued: 2,
        capacity: 128,
        cpus_granted: "0-1".to_owned(),
        cpus_wanted: "0-3".to_owned(),
        ..Worker::default()
    };
    let task = Task {
        state: "INIT".to_owned(),
        least_age: 1.5,
        least_total_age: 2.5,
        ..Task::default()
    };
    let group = Group {
        worker,
        tasks: vec![task],
        ..Group::default()
    };
    let report = Report {
        groups: vec![group],
        ..Report::default()
    };
    let text = report.to_string();
    let worker = "  worker proxy-7 (tid 7): asleep for 2.0 s, 100 ticks, 1 step, 90 idle ticks, 53 pauses, 54 yields, 55 sleeps, 1 wake, \
                  2 queued, 128 places per rank, cpus 0-1 of 0-3 wanted\n  longest step: not known, none was seen twice\n";
    assert!(text.contains(worker), "{text}");
    let task = ": INIT for 1.5 s or longer, ticks since the change not known, enqueued 2.5 s or longer ago\n";
    assert!(text.contains(task), "{text}");
}

/// What the text leaves to the JSON, by the end of its name there, and why.
const EXCEPTIONS: [(&str, &str); 7] = [
    (
        "below",
        "histograms are for monitoring; the text has quantiles",
    ),
    ("stall.kind", "the verdict says it in words"),
    ("stall.task", "the verdict says it in words"),
    ("least_age", "told where the age is not known"),
    ("least_total_age", "told where the total age is not known"),
    ("unread", "told if it is true, in words"),
    ("behind", "told if it is true, in words"),
];

/// A text that no other field has.
fn text(number: u32) -> String {
    format!("text-{number}")
}

/// A record in which every field has a value, and no two numbers that are told in the same way are the same.
fn full() -> Report {
    Report {
        schema: text(1),
        verdict: "group 101, rank 102, exec 103 since 104.5 s, streams 105, missing 106".to_owned(),
        stall: Some(Stall {
            kind: StallKind::BarrierWaiting,
            age: Some(104.5),
            gid: Some(101),
            rank: Some(102),
            exec: Some(103),
            task: Some(text(2)),
            streams: vec![105],
            missing: "106".to_owned(),
        }),
        hint: Some(text(3)),
        reason: text(4),
        partial: vec![text(5)],
        stall_threshold: 107.5,
        process: process(),
        groups: vec![group()],
        buses: vec![bus()],
        libraries: vec![
            Library {
                name: text(6),
                path: text(7),
                version: text(8),
                interface: Some(108),
                build_id: Some(text(9)),
                error: None,
            },
            Library {
                name: text(10),
                error: Some(text(11)),
                ..Library::default()
            },
        ],
        settings: vec![Setting {
            name: text(12),
            value: text(13),
            origin: text(14),
        }],
    }
}

fn process() -> Process {
    Process {
        pid: 109,
        program: text(15),
        version: text(16),
        build_id: Some(text(17)),
        host: text(18),
        kernel: text(19),
        monotonic_ns: 110_000_000_110,
        wall_clock: 111.125,
        cpus: text(20),
        cpuset: text(21),
        open_files: 112,
        pid_namespace: text(22),
        user_namespace: text(23),
    }
}

fn group() -> Group {
    Group {
        gid: 113,
        sharers: 114,
        health: text(24),
        enqueued: 115,
        full: 116,
        ended: 117,
        last_ended_exec: Some(118),
        contexts: vec![ContextProgress {
            context: text(25),
            rank: 119,
            last_enqueued: Some(120),
            last_completed: Some(121),
        }],
        errors: vec![ErrorCount {
            status: 122,
            text: text(26),
            count: 123,
        }],
        worker: worker(),
        tasks: vec![task()],
        history: vec![Change {
            monotonic_ns: 124_000_000_124,
            rank: 125,
            kind: text(27),
            exec: 126,
            from: text(28),
            to: text(29),
            status: 127,
        }],
        latencies: vec![Latency {
            kind: text(30),
            span: text(31),
            count: 128,
            sum: 129.5e-6,
            p50: 130.5e-6,
            p90: 131.5e-6,
            p99: 132.5e-6,
            max: 133.5e-6,
            below: vec![(134.0, 135)],
        }],
    }
}

fn worker() -> Worker {
    Worker {
        name: text(32),
        tid: 136,
        cpus_wanted: text(33),
        cpus_granted: text(34),
        last_cpu: Some(137),
        activity: text(35),
        activity_age: Some(138.5),
        call: Some(Call {
            function: text(36),
            age: 139.5,
        }),
        longest_step: Some(Call {
            function: text(37),
            age: 140.5,
        }),
        ticks: 141,
        steps: 142,
        idle_ticks: 143,
        pauses: 144,
        yields: 145,
        sleeps: 146,
        wakes: 147,
        queued: 148,
        capacity: 149,
    }
}

fn task() -> Task {
    Task {
        rank: 150,
        kind: text(38),
        exec: 151,
        sequence: 152,
        context: text(39),
        state: text(40),
        age: Some(153.5),
        least_age: 0.0,
        ticks_in_state: Some(154),
        total_age: Some(155.5),
        least_total_age: 0.0,
        status: Some(156),
        block: Some(Block {
            id: 157,
            place: 158,
            of: 159,
            calls: 160,
            last_return: 161,
        }),
        unfired: vec![StartWord {
            stream: 162,
            address: 163,
            word: 164,
            age: Some(165.5),
            least_age: 0.0,
        }],
        fired: vec![StartWord {
            stream: 166,
            address: 167,
            word: 168,
            age: None,
            least_age: 0.0,
        }],
        barrier: Some(BarrierWait {
            slot: 169,
            generation: 170,
            arrived: text(41),
            missing: text(42),
            dead: text(43),
            machine: Some(171),
        }),
        unread: true,
        behind: true,
    }
}

fn bus() -> Bus {
    Bus {
        job: text(44),
        rank: 172,
        world: 173,
        layout: 174,
        phase: text(45),
        age: Some(175.5),
        missing: text(46),
        peers: vec![Peer {
            rank: 176,
            pid: 177,
            state: text(47),
            evidence: text(48),
            last_seen: Some(LastSeen {
                slot: 178,
                generation: 179,
                exec: 180,
            }),
        }],
        fallbacks: vec![(text(49), 181)],
    }
}

/// Every value in a JSON document with its name.
fn leaves(name: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                leaves(&format!("{name}.{field}"), value, found);
            }
        }
        Value::Array(values) => {
            for value in values {
                leaves(name, value, found);
            }
        }
        leaf => found.push((name.to_owned(), leaf.clone())),
    }
}

/// Whether a text has a word, and not only as a part of another one.
fn has(text: &str, word: &str) -> bool {
    let joins = |byte: Option<char>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    (text.match_indices(word)).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !joins(before.chars().next_back()) && !joins(after.chars().next())
    })
}

/// The ways in which the text may tell a value.
fn told(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Number(number) if name.ends_with("_ns") => vec![moment(number.as_u64().unwrap())],
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap();
            let micros = format!("{:.1} us", number * 1e6);
            vec![seconds(number), micros, format!("{number:.3}")]
        }
        Value::Number(number) => {
            let whole = number.as_i64().unwrap();
            vec![
                whole.to_string(),
                format!("{whole:#x}"),
                format!("{whole:#010x}"),
            ]
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

#[test]
fn h46_h53_the_text_says_every_value_that_the_json_has() {
    let report = full();
    let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    let text = report.to_string();
    let mut found = Vec::new();
    leaves("", &json, &mut found);
    assert!(found.len() > 140, "{} values", found.len());
    let mut excepted = [false; EXCEPTIONS.len()];
    for (name, value) in &found {
        let exception = EXCEPTIONS.iter().position(|(end, _)| name.ends_with(end));
        if let Some(exception) = exception {
            excepted[exception] = true;
            continue;
        }
        let ways = told(name, value);
        // What is null is told as not known; only the reason for which a library was not loaded, and the age of a word that has fired, are.
        let null = value.is_null()
            && [".libraries.", ".fired."]
                .iter()
                .any(|of| name.contains(of));
        assert!(
            null || ways.iter().any(|way| has(&text, way)),
            "{name} = {value} is not told as one of {ways:?}:\n{text}"
        );
    }
    let unused = EXCEPTIONS.iter().zip(excepted).find(|(_, used)| !used);
    assert_eq!(unused, None, "an exception without a field");
    assert!(text.contains("its context could not be read"), "{text}");
}
