//! The rows of the table, in order: what is measured, and what it must reach; and which are meant by the words of a command line.
//! `cargo xtask bench` compiles this file, too.

use super::plan::{Row, Side, Target, Unit};
use Target::{Flat, Floor, Most, Original, Peer, Tail, TailMost};

const fn row(
    group: &'static str,
    key: &'static str,
    name: &'static str,
    targets: &'static [Target],
) -> Row {
    Row {
        key,
        group,
        name,
        unit: Unit::Time,
        targets,
        beside: None,
    }
}

const fn number(
    key: &'static str,
    group: &'static str,
    name: &'static str,
    unit: Unit,
    targets: &'static [Target],
) -> Row {
    Row {
        key,
        group,
        name,
        unit,
        targets,
        beside: None,
    }
}

/// A row without a target, beside the original's figure of a key.
const fn shown(
    group: &'static str,
    key: &'static str,
    name: &'static str,
    beside: &'static str,
) -> Row {
    Row {
        beside: Some(beside),
        ..row(group, key, name, &[])
    }
}

const MIB: f64 = 1_048_576.0;
const RTT: &[&str] = &["floor.rtt"];
const CALL: &[&str] = &["floor.call"];
const LOAD: &[&str] = &["floor.load"];
const MPI: &[Side] = &[Side::Mpi];
const ICEORYX2: &[Side] = &[Side::Iceoryx2];
const BOTH: &[Side] = &[Side::Mpi, Side::Iceoryx2];
/// A poll or check is compared with the original's cheapest: the oldest of one.
const OLDEST: &str = "check.oldest.1";

/// Every row, in order.
pub(crate) const ROWS: &[Row] = &[
    row(
        "floor",
        "floor.rtt",
        "floor: a cache line there and back",
        &[],
    ),
    row(
        "floor",
        "floor.eventfd",
        "floor: bare wake by eventfd, to the sight of it",
        &[],
    ),
    row(
        "floor",
        "floor.futex",
        "floor: bare wake by futex, to the sight of it",
        &[],
    ),
    row("floor", "floor.call", "floor: call through a pointer", &[]),
    row("floor", "floor.load", "floor: load", &[]),
    row(
        "floor",
        "floor.cas",
        "floor: compare-and-swap, uncontended",
        &[],
    ),
    row(
        "floor",
        "floor.exchange",
        "floor: exchange, uncontended",
        &[],
    ),
    row("floor", "floor.yield", "floor: sched_yield", &[]),
    row(
        "append",
        "append.idle.1",
        "append, worker ticks 1 idle task",
        &[Original(5.0, "append.idle.1"), Tail(3.0)],
    ),
    row(
        "append",
        "append.idle.16",
        "append, worker ticks 16",
        &[Original(8.0, "append.idle.16"), Tail(3.0)],
    ),
    row(
        "append",
        "append.idle.256",
        "append, worker ticks 256",
        &[Original(100.0, "append.idle.256"), Tail(3.0)],
    ),
    row(
        "append",
        "append.idle.4096",
        "append, worker ticks 4096",
        &[
            Original(10_000.0, "append.idle.4096"),
            Flat(1.3, "append.idle.1"),
            Tail(3.0),
        ],
    ),
    row(
        "append",
        "append.busy.16",
        "append, 16 tasks spend 1 us each in the library",
        &[
            Original(10_000.0, "append.busy.16"),
            Flat(1.3, "append.idle.16"),
            Tail(3.0),
        ],
    ),
    row(
        "append",
        "append.alone",
        "core's append, uncontended, slot included",
        &[Floor(2.0, &["floor.cas", "floor.exchange"])],
    ),
    shown(
        "append",
        "append.handle",
        "the same through a context's handle, worker awake",
        "append.alone",
    ),
    row(
        "done",
        "done.spin",
        "enqueue to done seen, worker spinning",
        &[Original(3.0, "done.spin"), Floor(2.4, RTT)],
    ),
    row(
        "done",
        "done.prespin",
        "the same, worker in its spin before sleep",
        &[Original(9.0, "done.asleep")],
    ),
    row(
        "done",
        "done.asleep",
        "the same, worker asleep",
        &[Floor(1.15, &["floor.eventfd"])],
    ),
    row(
        "tick",
        "tick.1",
        "core's tick of 1 active task",
        &[Original(2.0, "tick.1")],
    ),
    row(
        "tick",
        "tick.256.1",
        "core's tick per task, 256 on 1 rank",
        &[Floor(3.0, CALL)],
    ),
    row(
        "tick",
        "tick.256.8",
        "core's tick per task, 256 on 8 ranks",
        &[Floor(3.0, CALL), Flat(1.2, "tick.256.1")],
    ),
    row(
        "tick",
        "tick.256.64",
        "core's tick per task, 256 on 64 ranks",
        &[Floor(3.0, CALL), Flat(1.2, "tick.256.1")],
    ),
    row(
        "tick",
        "tick.4096.1",
        "core's tick per task, 4096 on 1 rank",
        &[Floor(3.0, CALL)],
    ),
    row(
        "tick",
        "tick.4096.8",
        "core's tick per task, 4096 on 8 ranks",
        &[Floor(3.0, CALL), Flat(1.2, "tick.4096.1")],
    ),
    row(
        "tick",
        "tick.4096.64",
        "core's tick per task, 4096 on 64 ranks",
        &[Floor(3.0, CALL), Flat(1.2, "tick.4096.1")],
    ),
    shown(
        "tick",
        "pass.1",
        "a shipped worker's whole pass, 1 idle task",
        "tick.1",
    ),
    row(
        "tick",
        "pass.64",
        "the same, 64 idle tasks on 64 ranks",
        &[],
    ),
    shown("tick", "pass.64.each", "the same, per task", "tick.64.64"),
    row(
        "look",
        "poll.1",
        "poll by ticket, 1 status, worker ticking",
        &[Floor(15.0, LOAD)],
    ),
    row(
        "look",
        "poll.16",
        "poll by ticket, 16",
        &[Floor(15.0, LOAD), Flat(1.2, "poll.1")],
    ),
    row(
        "look",
        "poll.256",
        "poll by ticket, 256",
        &[Floor(15.0, LOAD), Flat(1.2, "poll.1")],
    ),
    row(
        "look",
        "poll.4096",
        "poll by ticket, 4096",
        &[Floor(15.0, LOAD), Flat(1.2, "poll.1")],
    ),
    row(
        "look",
        "check.oldest.1",
        "check by context and kind, oldest of 1",
        &[Original(1.0, OLDEST)],
    ),
    row(
        "look",
        "check.oldest.16",
        "check, oldest of 16",
        &[Original(1.0, OLDEST), Flat(1.3, OLDEST)],
    ),
    row(
        "look",
        "check.oldest.256",
        "check, oldest of 256",
        &[Original(1.0, OLDEST), Flat(1.3, OLDEST)],
    ),
    row(
        "look",
        "check.oldest.4096",
        "check, oldest of 4096",
        &[Original(1.0, OLDEST), Flat(1.3, OLDEST)],
    ),
    row(
        "look",
        "check.none.1",
        "check, not found among 1",
        &[Original(1.0, OLDEST)],
    ),
    row(
        "look",
        "check.none.16",
        "check, not found among 16",
        &[Original(1.0, OLDEST), Flat(1.3, "check.none.1")],
    ),
    row(
        "look",
        "check.none.256",
        "check, not found among 256",
        &[Original(1.0, OLDEST), Flat(1.3, "check.none.1")],
    ),
    row(
        "look",
        "check.none.4096",
        "check, not found among 4096",
        &[Original(1.0, OLDEST), Flat(1.3, "check.none.1")],
    ),
    shown(
        "look",
        "check.after.1",
        "check, first behind a consume, 1 other",
        "check.none.1",
    ),
    shown(
        "look",
        "check.after.4096",
        "check, first behind a consume, 4096 others",
        "check.none.4096",
    ),
    row(
        "tasks",
        "tasks.1",
        "time per task, 1 in flight",
        &[Original(8.0, "tasks.1")],
    ),
    row(
        "tasks",
        "tasks.16",
        "time per task, 16 in flight",
        &[Original(7.0, "tasks.16")],
    ),
    row(
        "tasks",
        "tasks.64",
        "time per task, 64 in flight",
        &[Original(8.0, "tasks.64")],
    ),
    row(
        "tasks",
        "tasks.1024",
        "time per task, 1024 in flight",
        &[Original(12.0, "tasks.1024")],
    ),
    // Of the whole task. The core's part needs no count: it has no allocator to call.
    number(
        "allocations",
        "tasks",
        "heap allocations per task",
        Unit::Count,
        &[Most(0.0)],
    ),
    row(
        "bus",
        "round_trip.8",
        "bus round trip, 8 B",
        &[Peer(1.4, BOTH), Floor(1.5, RTT)],
    ),
    row("bus", "barrier.2", "barrier, 2 ranks", &[Peer(1.2, MPI)]),
    row(
        "bus",
        "barrier.4",
        "barrier, 4 ranks on 2 CPUs",
        &[Peer(1.2, MPI)],
    ),
    row(
        "bus",
        "barrier.8",
        "barrier, 8 ranks on 2 CPUs",
        &[Peer(2.5, MPI)],
    ),
    row(
        "bus",
        "gather.8.2",
        "all-gather 8 B, 2 ranks",
        &[Peer(1.2, BOTH)],
    ),
    row(
        "bus",
        "gather.8.8",
        "all-gather 8 B, 8 ranks",
        &[Peer(2.5, BOTH)],
    ),
    row(
        "bus",
        "gather.4096.2",
        "all-gather 4 KiB, 2 ranks",
        &[Peer(1.1, BOTH)],
    ),
    row(
        "bus",
        "gather.4096.8",
        "all-gather 4 KiB, 8 ranks",
        &[Peer(2.0, BOTH)],
    ),
    row(
        "bus",
        "gather.65536.2",
        "all-gather 64 KiB, 2 ranks, rings of 4096 cells",
        &[Peer(1.3, BOTH)],
    ),
    row(
        "bus",
        "gather.65536.8",
        "all-gather 64 KiB, 8 ranks, rings of 4096 cells",
        &[Peer(1.4, BOTH)],
    ),
    row(
        "process",
        "join.8",
        "8 processes: spawn, join, barrier, leave, exit",
        &[Peer(5.0, ICEORYX2)],
    ),
    row(
        "process",
        "kill",
        "SIGKILL of a peer to 3 waiters know: receive, barrier, all-gather",
        &[Most(1e6), TailMost(1e7)],
    ),
    row(
        "chain",
        "chain.32",
        "host barrier in the whole chain, 32 ranks on a worker",
        &[Most(1e5)],
    ),
    number(
        "still.wakes",
        "still",
        "worker with nothing to do, 10 s: wake-ups",
        Unit::Count,
        &[Most(0.0)],
    ),
    row(
        "still",
        "still.cpu",
        "worker with nothing to do, 10 s: CPU time",
        &[Most(1e6)],
    ),
    number(
        "resident.group",
        "resident",
        "resident memory, 64 ranks x 64 tasks",
        Unit::Bytes,
        &[Most(MIB)],
    ),
    number(
        "resident.bus",
        "resident",
        "resident memory, bus of 64 ranks",
        Unit::Bytes,
        &[Most(4.0 * MIB)],
    ),
];

/// The rows that are asked for; each word has to be of some row. The name of a group is that group alone, as parts of it are in keys of others.
pub(crate) fn chosen(words: &[String]) -> Result<Vec<Row>, String> {
    let is = |row: &Row, word: &String| {
        if ROWS.iter().any(|row| row.group == word) {
            row.group == word
        } else {
            row.key.contains(word.as_str())
        }
    };
    let strange = |word: &&String| !ROWS.iter().any(|row| is(row, word));
    if let Some(word) = words.iter().find(strange) {
        let mut groups: Vec<&str> = ROWS.iter().map(|row| row.group).collect();
        groups.dedup();
        return Err(format!(
            "no row is called {word:?}; accepted: a part of a row's key, as in the table, or a group: {}",
            groups.join(", ")
        ));
    }
    let wanted = |row: &&Row| words.is_empty() || words.iter().any(|word| is(row, word));
    Ok(ROWS.iter().filter(wanted).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_not_there_is_named_with_what_is() {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[]).map(|rows| rows.len()), Ok(ROWS.len()));
        assert!(chosen(&words(&["append.idle.1", "tick"])).is_ok_and(|rows| rows.len() > 2));
        let bus = chosen(&words(&["bus"])).unwrap();
        assert!(
            bus.iter().all(|row| row.group == "bus"),
            "append.busy.16 is of another"
        );
        let refused = chosen(&words(&["tick", "ROW-that-does-not-exist"])).unwrap_err();
        let start = "no row is called \"ROW-that-does-not-exist\"; accepted: a part of a row's key";
        assert!(
            refused.starts_with(start) && refused.contains("append, "),
            "{refused}"
        );
    }
}
