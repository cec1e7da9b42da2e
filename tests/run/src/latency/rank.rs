//! One rank of a latency measurement.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::RankSet;
use proxy_os::bananaphone::{Barrier, Bus, BusError, Options, Within};

use super::{Row, Start, Subject};
use crate::launcher::screen;
use crate::stats::Stat;
use crate::sys;

/// Bytes of a round trip's messages. The longest does not fit into a ring, so it goes in parts.
const MESSAGES: [usize; 4] = [8, 128, 4 << 10, 64 << 10];
/// Bytes of each rank's contribution to an all-gather.
const CONTRIBUTIONS: [usize; 3] = [8, 4 << 10, 64 << 10];
/// Bytes that all ranks together receive in the measured all-gathers of one row, about.
const VOLUME: usize = 1 << 30;
/// All-gathers of a row at least, where so many are asked for.
const FEWEST: usize = 10;
/// Barrier at which all ranks wait for the next row; the measured ones come after it.
const BETWEEN: u16 = 0;

/// Runs as the rank that `argument` names, as standard input says.
pub(crate) fn main(argument: Option<OsString>) -> ExitCode {
    let rank = argument
        .as_deref()
        .and_then(|text| text.to_str()?.parse().ok());
    let start = serde_json::from_reader::<_, Start>(io::stdin());
    let (Some(rank), Ok(start)) = (rank, start) else {
        return screen::not_for_users();
    };
    match sys::die_with_parent(start.launcher) {
        Ok(true) => {}
        // Nobody is left who would listen.
        Ok(false) => return ExitCode::FAILURE,
        Err(error) => return failed(&error.to_string()),
    }
    match measure(rank, &start) {
        Ok(rows) if rank == 0 => match tell(&rows) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&format!("the launcher does not listen: {error}")),
        },
        Ok(_) => ExitCode::SUCCESS,
        Err(message) => failed(&message),
    }
}

fn failed(message: &str) -> ExitCode {
    screen::note(message);
    ExitCode::from(super::TOLD)
}

fn tell(rows: &[Row]) -> io::Result<()> {
    let text = serde_json::to_vec(rows)?;
    io::stdout().write_all(&text)
}

fn measure(rank: u16, start: &Start) -> Result<Vec<Row>, String> {
    let within = Within::new(Duration::from_secs(start.timeout), "--timeout");
    let options = Options {
        deadline: within,
        ..Options::new(
            format!("proxy-run latency {}", start.launcher),
            rank,
            start.ranks,
        )
    };
    let bus = Bus::create(&options).map_err(|error| error.to_string())?;
    bus.connect(within).map_err(|error| error.to_string())?;
    let between = bus.barrier(BETWEEN, RankSet::below(start.ranks));
    let between = between.map_err(|error| error.to_string())?;
    let mut bench = Bench {
        bus,
        between,
        within,
        start,
    };
    let rows = match start.subject {
        Subject::Bus => bench.bus(),
        Subject::Barrier => bench.barriers(),
    };
    rows.map_err(|error| error.to_string())
}

/// A rank on its bus. The order of the fields is that of their ends.
struct Bench<'a> {
    between: Barrier,
    bus: Bus,
    within: Within,
    start: &'a Start,
}

impl Bench<'_> {
    fn bus(&mut self) -> Result<Vec<Row>, BusError> {
        let (mut rows, iters) = (Vec::new(), self.start.iters as usize);
        for bytes in MESSAGES {
            let (mut buffer, within) = (vec![0; bytes], self.within);
            rows.extend(self.row("round_trip", 2, Some(bytes), iters, |bus, _| {
                round_trip(bus, &mut buffer, within)
            })?);
        }
        let ranks = self.start.ranks;
        for bytes in CONTRIBUTIONS {
            let (own, within) = (vec![0; bytes], self.within);
            let affordable = VOLUME / (bytes * usize::from(ranks) * usize::from(ranks));
            let count = iters.min(affordable.max(FEWEST));
            rows.extend(self.row("all_gather", ranks, Some(bytes), count, |bus, _| {
                bus.all_gather(&own, within).map(drop)
            })?);
        }
        self.next()?;
        Ok(rows)
    }

    /// Barriers of 2, 4, 8 and so on ranks, and of all.
    fn barriers(&mut self) -> Result<Vec<Row>, BusError> {
        let (mut rows, all) = (Vec::new(), self.start.ranks);
        let below = (1..)
            .map(|power| 1 << power)
            .take_while(|ranks| *ranks < all);
        for (slot, ranks) in (BETWEEN + 1..).zip(below.chain([all])) {
            let barrier = (self.bus.rank() < ranks)
                .then(|| self.bus.barrier(slot, RankSet::below(ranks)))
                .transpose()?;
            let (mut barrier, within) = (barrier, self.within);
            let iters = self.start.iters as usize;
            rows.extend(self.row("barrier", ranks, None, iters, |_, round| {
                barrier
                    .as_mut()
                    .map_or(Ok(()), |barrier| barrier.wait(round, within))
            })?);
        }
        self.next()?;
        Ok(rows)
    }

    /// Waits until all ranks are through with the row before. Those that took part in it have a deadline for each operation, and who is
    /// gone is noticed at once; so this one only has to be longer.
    fn next(&mut self) -> Result<(), BusError> {
        let operations = self.start.iters.saturating_add(self.start.warmup);
        let time = self
            .within
            .time
            .saturating_mul(operations.saturating_add(1));
        self.between.wait(
            0,
            Within {
                time,
                ..self.within
            },
        )
    }

    /// One row: `count` measured operations, at least 1, of the first `ranks` ranks, after some that are not measured. The other ranks
    /// have no row.
    fn row(
        &mut self,
        operation: &str,
        ranks: u16,
        bytes: Option<usize>,
        count: usize,
        mut operate: impl FnMut(&mut Bus, u64) -> Result<(), BusError>,
    ) -> Result<Option<Row>, BusError> {
        self.next()?;
        if self.bus.rank() >= ranks {
            return Ok(None);
        }
        let warmup = count.min(self.start.warmup as usize);
        let mut nanos = Vec::new();
        for round in 0..warmup + count {
            let began = Instant::now();
            operate(&mut self.bus, round as u64)?;
            if round >= warmup {
                nanos.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
        }
        nanos.sort_unstable();
        Ok(Some(Row {
            operation: operation.to_owned(),
            ranks,
            bytes,
            p50: Stat::Percentile(50.0).of(&nanos),
            p99: Stat::Percentile(99.0).of(&nanos),
            n: nanos.len(),
        }))
    }
}

/// There and back between ranks 0 and 1.
fn round_trip(bus: &mut Bus, buffer: &mut [u8], within: Within) -> Result<(), BusError> {
    if bus.rank() == 0 {
        bus.send(1, 0, buffer, within)?;
        bus.recv_into(1, None, buffer, within)?;
    } else {
        bus.recv_into(0, None, buffer, within)?;
        bus.send(0, 0, buffer, within)?;
    }
    Ok(())
}
