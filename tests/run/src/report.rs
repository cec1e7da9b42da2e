//! Results of all ranks as rows, and the JSON file of `nccom-test`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use proxy_kit::op::Op;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;

use crate::job::Job;
use crate::stats::{Stat, algorithm_bandwidth, bus_factor};
use crate::wire::SizeResult;

/// The result of one size.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The size.
    pub(crate) bytes: u64,
    /// The statistics in microseconds, in the order in which they were asked for.
    pub(crate) times: Vec<f64>,
    /// Bandwidth of the algorithm in GB/s, from the first statistic.
    pub(crate) algbw: f64,
    /// Bandwidth of the busiest link in GB/s.
    pub(crate) busbw: f64,
    /// Ranks with a wrong result, and the first wrong element of each.
    pub(crate) wrong: Vec<(usize, String)>,
    /// Hashes of the last checked outputs, in rank order; empty without a check.
    digests: Vec<u64>,
}

impl Row {
    /// Puts together one size's results of all ranks, in rank order. An iteration takes as long as its slowest rank.
    pub(crate) fn new(job: &Job, stats: &[Stat], results: &[SizeResult]) -> Self {
        let bytes = results.first().map_or(0, |result| result.bytes);
        let slowest = |iteration: usize| {
            results
                .iter()
                .filter_map(|result| result.nanos.get(iteration))
                .max()
        };
        let mut nanos: Vec<u64> = (0..job.iters as usize)
            .filter_map(slowest)
            .copied()
            .collect();
        nanos.sort_unstable();
        let times: Vec<f64> = stats.iter().map(|stat| stat.of(&nanos)).collect();
        let algbw = times
            .first()
            .map_or(0.0, |&micros| algorithm_bandwidth(bytes, micros));
        Self {
            bytes,
            algbw,
            busbw: algbw * bus_factor(job.op, job.layout.ranks),
            wrong: wrong(job.op, results),
            digests: results.iter().filter_map(|result| result.digest).collect(),
            times,
        }
    }

    /// One line per rank with a wrong result.
    pub(crate) fn complaints(&self) -> impl Iterator<Item = String> {
        let bytes = self.bytes;
        self.wrong.iter().map(move |(rank, what)| {
            format!("wrong result of {bytes} bytes on rank {rank}, {what}")
        })
    }
}

/// Ranks with a wrong result. Where all outputs are equal by definition they must be so to the last bit, whatever tolerance
/// the comparison with the expected ones has.
fn wrong(op: Op, results: &[SizeResult]) -> Vec<(usize, String)> {
    let same = matches!(op, Op::AllReduce | Op::AllGather);
    let right = results
        .iter()
        .position(|result| result.wrong.is_none())
        .unwrap_or(0);
    let digest = results.get(right).and_then(|result| result.digest);
    let differs = |result: &SizeResult| same && result.digest != digest;
    let complaint = |result: &SizeResult| {
        let told = result.wrong.clone();
        told.or_else(|| {
            differs(result)
                .then(|| format!("last iteration: the output is not that of rank {right}"))
        })
    };
    let all = results.iter().enumerate();
    all.filter_map(|(rank, result)| Some((rank, complaint(result)?)))
        .collect()
}

/// A row under the keys of `nccom-test`.
struct Entry<'a> {
    job: &'a Job,
    stats: &'a [Stat],
    row: &'a Row,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { job, stats, row } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("size(B)", &row.bytes)?;
        map.serialize_entry("count(elems)", &job.count(row.bytes))?;
        map.serialize_entry("type", job.dtype.name())?;
        map.serialize_entry("algbw(GB/s)", &row.algbw)?;
        map.serialize_entry("busbw(GB/s)", &row.busbw)?;
        for (stat, micros) in stats.iter().zip(&row.times) {
            map.serialize_entry(&format!("time:{stat}(us)"), micros)?;
        }
        if job.check.is_some() {
            map.serialize_entry("check", if row.wrong.is_empty() { "ok" } else { "wrong" })?;
            let digests: Vec<String> = row
                .digests
                .iter()
                .map(|digest| format!("{digest:016x}"))
                .collect();
            map.serialize_entry("digests", &digests)?;
        }
        map.end()
    }
}

/// The JSON file: opened before the run, so that a path that cannot be written is told at once.
#[derive(Debug)]
pub(crate) struct JsonFile {
    path: PathBuf,
    file: File,
    /// It was not there before; a run that ends without results takes it away again.
    new: bool,
}

impl JsonFile {
    /// Opens `path` without changing what it holds.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let fresh = OpenOptions::new().write(true).create_new(true).open(path);
        let opened = match fresh {
            Ok(file) => Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A FIFO that nobody reads would hold this up for ever; one that is asked not to wait is an error.
                let mut known = OpenOptions::new();
                let known = known.write(true).custom_flags(libc::O_NONBLOCK);
                let held = known.open(path);
                held.and_then(|_held| OpenOptions::new().write(true).open(path))
                    .map(|file| (file, false))
            }
            Err(error) => Err(error),
        };
        let refused = |error| {
            format!(
                "--report-to-json-file {}: {error}; accepted: a file that can be written",
                path.display()
            )
        };
        let (file, new) = opened.map_err(refused)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            new,
        })
    }

    /// Replaces the contents by the results.
    pub(crate) fn write(mut self, job: &Job, stats: &[Stat], rows: &[Row]) -> Result<(), String> {
        let path = self.path.display().to_string();
        self.new = false;
        write(&mut self.file, job, stats, rows)
            .map_err(|error| format!("--report-to-json-file {path}: {error}"))
    }
}

fn write(file: &mut File, job: &Job, stats: &[Stat], rows: &[Row]) -> io::Result<()> {
    let results: Vec<Entry<'_>> = rows.iter().map(|row| Entry { job, stats, row }).collect();
    let info = json!({
        "op": job.op.long_name(),
        "ranks": job.layout.ranks,
        "iterations": job.iters,
        "warmup_iterations": job.warmup,
        "streams": job.streams,
        "blocks": job.blocks,
        "seed": job.seed,
        "barrier": job.barrier,
        "check": job.check,
        "GB/s": "10^9 bytes per second",
    });
    let whole = Whole {
        results: &results,
        info: &info,
    };
    let mut text = serde_json::to_vec_pretty(&whole)?;
    text.push(b'\n');
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(&text)
}

#[derive(serde::Serialize)]
struct Whole<'a> {
    results: &'a [Entry<'a>],
    info: &'a serde_json::Value,
}

impl Drop for JsonFile {
    fn drop(&mut self) {
        if self.new {
            // If it cannot be removed an empty file stays, which tells its reader the same.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    impl Row {
        /// A row without digests.
        pub(crate) fn sample(bytes: u64, times: Vec<f64>, wrong: Vec<(usize, String)>) -> Self {
            let algbw = algorithm_bandwidth(bytes, times[0]);
            Self {
                bytes,
                times,
                algbw,
                busbw: algbw,
                wrong,
                digests: Vec::new(),
            }
        }
    }

    fn result(nanos: &[u64], wrong: Option<&str>, digest: u64) -> SizeResult {
        SizeResult {
            bytes: 4000,
            nanos: nanos.to_vec(),
            wrong: wrong.map(str::to_owned),
            digest: Some(digest),
        }
    }

    #[test]
    fn an_iteration_takes_as_long_as_its_slowest_rank() {
        let (job, output) = cli::parse_from("allr -r 2 -n 2 -t avg,p0").unwrap();
        let row = Row::new(
            &job,
            &output.stats,
            &[
                result(&[1000, 5000], None, 1),
                result(&[2000, 4000], None, 1),
            ],
        );
        assert_eq!(row.times, [3.5, 2.0]);
        assert_eq!((row.algbw, row.busbw), (4.0 / 3.5, 4.0 / 3.5));
        assert_eq!(row.wrong, []);
    }

    #[test]
    fn outputs_that_must_be_equal_are_compared_with_a_right_one() {
        let (job, _) = cli::parse_from("allr -r 3 -n 1").unwrap();
        let results = [
            result(&[1], Some("element 7"), 8),
            result(&[1], None, 9),
            result(&[1], None, 10),
        ];
        let wrong = Row::new(&job, &[Stat::Average], &results).wrong;
        assert_eq!(wrong[0], (0, "element 7".to_owned()));
        assert_eq!(
            wrong[1],
            (
                2,
                "last iteration: the output is not that of rank 1".to_owned()
            )
        );
        let (job, _) = cli::parse_from("permute -r 3 -n 1").unwrap();
        assert_eq!(Row::new(&job, &[Stat::Average], &results).wrong.len(), 1);
    }
}
