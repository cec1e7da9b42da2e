//! A trace as a file for Perfetto or chrome://tracing ("Trace Event Format", JSON object form).
//!
//! A process per rank, a thread per track and lane; times in microseconds of the monotonic clock, which all processes of a machine
//! share, so traces of several ranks of one machine can be put in one file. `otherData` has an anchor to the wall clock.

use std::io::{self, Write};
use std::time::SystemTime;

use proxy_core::{Gid, Rank, TaskKind};
use serde_json::{Value, json};

use super::Trace;
use super::tracks::{Drawn, Placed, Track, place};
use crate::sys::{clock, mute};

/// The worker's own events stand under a process number of their own, above all ranks.
const WORKERS: u64 = 1_000_000;
/// Lanes of one track that have numbers of their own.
const LANES: u64 = 1000;

impl Trace {
    /// Writes the trace as one JSON object. Any thread, also while the worker runs; costs some microseconds per event. No write raises a
    /// signal here ([`mute`]); of what `out` keeps for later its owner has to see to that.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_chrome(&self, gid: Gid, out: &mut impl Write) -> io::Result<()> {
        mute::while_writing(|| self.write_object(gid, out))
    }

    fn write_object(&self, gid: Gid, out: &mut impl Write) -> io::Result<()> {
        let placed = place(self.events());
        let mut rows: Vec<(Option<Rank>, Track, usize)> = placed
            .iter()
            .map(|placed| (placed.rank, placed.track, placed.lane))
            .collect();
        rows.sort_unstable_by_key(|row| (process(gid, row.0), thread(row.1, row.2)));
        rows.dedup();
        out.write_all(b"{\"traceEvents\":[\n")?;
        let mut processes: Vec<Option<Rank>> = rows.iter().map(|row| row.0).collect();
        processes.dedup();
        let processes = processes
            .into_iter()
            .flat_map(|rank| process_names(gid, rank));
        let names = processes.chain(rows.into_iter().flat_map(|row| thread_names(gid, row)));
        let mut separator: &[u8] = b"";
        for event in names.chain(placed.iter().map(|placed| event(gid, placed))) {
            out.write_all(separator)?;
            serde_json::to_writer(&mut *out, &event)?;
            separator = b",\n";
        }
        let other = json!({
            "format": "proxy trace 1",
            "gid": gid.0,
            "pid": std::process::id(),
            "dropped_events": self.dropped(),
            "anchor_monotonic_us": micros(clock::monotonic_ns()),
            "anchor_wall_clock": wall_clock(),
        });
        write!(out, "\n],\n\"otherData\":{other}}}\n")
    }
}

/// Seconds since 1970; 0 for a clock before it.
fn wall_clock() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

fn process(gid: Gid, rank: Option<Rank>) -> u64 {
    match rank {
        Some(rank) => u64::from(rank.0),
        None => WORKERS + u64::from(gid.0),
    }
}

fn thread(track: Track, lane: usize) -> u64 {
    let track = match track {
        Track::Worker => 0,
        Track::Tasks(TaskKind::Network) => 1,
        Track::Tasks(TaskKind::Barrier) => 2,
        Track::Stream(stream) => 3 + u64::from(stream),
    };
    track * LANES + (lane as u64).min(LANES - 1)
}

fn process_names(gid: Gid, rank: Option<Rank>) -> [Value; 2] {
    let process = process(gid, rank);
    let name = match rank {
        Some(rank) => format!("rank {}", rank.0),
        None => format!("gid {}", gid.0),
    };
    [
        json!({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}),
        json!({"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}),
    ]
}

fn thread_names(gid: Gid, (rank, track, lane): (Option<Rank>, Track, usize)) -> [Value; 2] {
    let (process, thread) = (process(gid, rank), thread(track, lane));
    let row = match track {
        Track::Worker => "worker".to_owned(),
        Track::Tasks(kind) => format!("{kind} tasks"),
        Track::Stream(stream) => format!("stream {stream}"),
    };
    [
        json!({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": row}}),
        json!({"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}),
    ]
}

fn event(gid: Gid, placed: &Placed) -> Value {
    let (pid, tid) = (process(gid, placed.rank), thread(placed.track, placed.lane));
    match &placed.drawn {
        Drawn::Span {
            since,
            until,
            name,
            task,
        } => {
            let (ts, dur) = (micros(*since), micros(until.saturating_sub(*since)));
            let args = task.map_or_else(
                || json!({}),
                |(context, exec)| json!({"context": context.to_string(), "exec": exec.0}),
            );
            json!({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})
        }
        Drawn::Instant { time, name } => {
            json!({"ph": "i", "s": "t", "name": name, "pid": pid, "tid": tid, "ts": micros(*time)})
        }
    }
}
