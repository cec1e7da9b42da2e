//! `--trace FILE`: the parts that the processes of this launcher's ranks write become one file for Perfetto or chrome://tracing.
//!
//! ```text
//!   rank process ── write_chrome per worker ──> FILE.parts-<pid>/<first rank>-<number> ──┐
//!   rank process ── ...                                                              ────┴──> FILE
//! ```
//!
//! The folder of the parts stands beside the file, so that whoever can make it, and has room there, can write the file; it is gone when
//! the run is over, however it ends.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::layout::{Layout, names, plural};
use crate::sys;

/// What the trace of one rank needs at the least, so that a full disk is told before the run.
const ROOM: u64 = 64 << 10;
/// Workers of nodes on one machine have the same gids, so those of another node are shown so much higher.
const NODE: u64 = 1000;
/// Tracks of workers stand under process numbers from here on, see `proxy_os::trace`.
const WORKERS: u64 = 1_000_000;

/// The file, and the folder of its parts.
#[derive(Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    /// Nothing was there before: a run that has no trace leaves nothing.
    new: bool,
    parts: PathBuf,
}

impl TraceFile {
    /// Finds out whether the trace of so many ranks can be written, without changing what the file holds.
    pub(super) fn open(path: &Path, ranks: u32) -> Result<Self, String> {
        let refused = |error: io::Error| {
            format!(
                "--trace {}: {error}; accepted: a file that can be written, in a folder with room for {} KiB",
                path.display(),
                room(ranks) >> 10
            )
        };
        Self::try_open(path, ranks).map_err(refused)
    }

    fn try_open(path: &Path, ranks: u32) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let new = !path.exists();
        if !new && !path.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut parts = path.clone().into_os_string();
        parts.push(format!(".parts-{}", std::process::id()));
        let trace = Self {
            path,
            new,
            parts: parts.into(),
        };
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&trace.path)?;
        fs::create_dir(&trace.parts)?;
        let probe = trace.parts.join("probe");
        sys::reserve(&File::create(&probe)?, room(ranks))?;
        fs::remove_file(&probe)?;
        Ok(trace)
    }

    /// Where the processes put their parts.
    pub(super) fn parts(&self) -> OsString {
        self.parts.clone().into_os_string()
    }

    /// Puts the parts together. Says what is missing in the file, if anything is.
    pub(super) fn merge(
        mut self,
        layout: Layout,
        nodes: Range<u32>,
    ) -> Result<Option<String>, String> {
        let merged = self.try_merge(layout, nodes);
        let failed = |error| format!("--trace {}: {error}", self.path.display());
        let missing = merged.map_err(failed)?;
        Ok(missing.map(|missing| format!("--trace {}: {missing}", self.path.display())))
    }

    fn try_merge(&mut self, layout: Layout, nodes: Range<u32>) -> io::Result<Option<String>> {
        let mut merge = Merge::default();
        let mut without = Vec::new();
        // Written beside and renamed: whoever reads the file finds the old one or all of the new one.
        let whole = self.parts.join("whole");
        let mut out = BufWriter::new(File::create(&whole)?);
        out.write_all(b"{\"traceEvents\":[\n")?;
        for ranks in layout.processes(nodes) {
            let mut number = 0;
            while let Some(part) = self.part(ranks.start, number)? {
                let node = (layout.nodes > 1).then(|| layout.node_of(ranks.start));
                merge.part(part, node, &mut out)?;
                number += 1;
            }
            if number == 0 {
                without.extend(ranks);
            }
        }
        merge.end(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        if merge.parts == 0 {
            return Ok(Some("no rank has left its part".to_owned()));
        }
        fs::rename(&whole, &self.path)?;
        self.new = false;
        let dropped = match merge.dropped {
            0 => None,
            count => Some(format!(
                "{} found no room; it has the beginning of the run",
                plural(count, "event")
            )),
        };
        let without = (!without.is_empty())
            .then(|| format!("nothing of {}: no part was left", names(without)));
        let missing: Vec<String> = dropped.into_iter().chain(without).collect();
        Ok((!missing.is_empty()).then(|| missing.join("; ")))
    }

    /// One part; `None` if it was not written.
    fn part(&self, first: u32, number: u32) -> io::Result<Option<Value>> {
        match fs::read(self.parts.join(format!("{first}-{number}"))) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // What cannot be removed stays, and harms nobody.
        let _ = fs::remove_dir_all(&self.parts);
        if self.new {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn room(ranks: u32) -> u64 {
    ROOM.saturating_mul(ranks.into())
}

/// What has been put together so far.
#[derive(Debug, Default)]
struct Merge {
    parts: u32,
    events: u64,
    dropped: u64,
    /// When the first part was written, by both clocks.
    anchor: [Value; 2],
}

impl Merge {
    /// Adds the events of a part.
    fn part(&mut self, mut part: Value, node: Option<u32>, out: &mut impl Write) -> io::Result<()> {
        let other = &part["otherData"];
        self.dropped += other["dropped_events"].as_u64().unwrap_or(0);
        if self.parts == 0 {
            self.anchor =
                ["anchor_monotonic_us", "anchor_wall_clock"].map(|name| other[name].clone());
        }
        self.parts += 1;
        let Value::Array(events) = part["traceEvents"].take() else {
            return Err(io::Error::other("a part has no \"traceEvents\""));
        };
        for mut event in events {
            if let Some(node) = node {
                of_node(&mut event, node);
            }
            if self.events > 0 {
                out.write_all(b",\n")?;
            }
            self.events += 1;
            serde_json::to_writer(&mut *out, &event)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        let [monotonic, wall_clock] = &self.anchor;
        let other = json!({
            "format": "proxy trace 1",
            "parts": self.parts,
            "dropped_events": self.dropped,
            "anchor_monotonic_us": monotonic,
            "anchor_wall_clock": wall_clock,
        });
        write!(out, "\n],\n\"otherData\":{other}}}\n")
    }
}

/// Tells the workers of several nodes apart; ranks have numbers of their own anyway.
fn of_node(event: &mut Value, node: u32) {
    let Some(pid) = event["pid"].as_u64().filter(|pid| *pid >= WORKERS) else {
        return;
    };
    event["pid"] = (pid + u64::from(node) * NODE).into();
    if event["name"] == "process_name"
        && let Some(name) = event["args"]["name"].as_str()
    {
        event["args"]["name"] = format!("{name}, node {node}").into();
    }
}
