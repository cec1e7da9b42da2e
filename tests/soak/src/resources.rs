//! What a process holds, and what is left on the machine.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// How much more a process may hold in pages at the end: the allocator's own habits, far below what one round would leak.
const PAGES: u64 = 12 << 20;
/// How many more mappings: the allocator's again.
const MAPS: usize = 12;

/// What one process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resources {
    descriptors: usize,
    threads: usize,
    /// Mappings, of any kind.
    maps: usize,
    /// Mappings of a bus's memory.
    shared: usize,
    /// Bytes in memory.
    resident: u64,
}

impl Resources {
    /// Of this process, as of now.
    pub(crate) fn measure() -> Self {
        let entries = |path: &str| fs::read_dir(path).map_or(0, Iterator::count);
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = pages.split(' ').nth(1).and_then(|text| text.parse().ok());
        Self {
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            maps: maps.lines().count(),
            shared: maps.lines().filter(|line| line.contains("memfd:")).count(),
            resident: pages.unwrap_or(0_u64).saturating_mul(4096),
        }
    }

    /// Whether the process has no thread but the one that reads orders.
    pub(crate) const fn is_at_rest(&self) -> bool {
        self.threads == 1
    }

    /// Whether a process that held `before` has given back what it has by name.
    pub(crate) const fn has_given_back(&self, before: &Self) -> bool {
        self.descriptors == before.descriptors
            && self.threads == before.threads
            && self.shared == before.shared
    }

    /// Whether a process that held `before` has lost nothing by now.
    pub(crate) const fn is_back_at(&self, before: &Self) -> bool {
        self.has_given_back(before)
            && self.maps <= before.maps + MAPS
            && self.resident <= before.resident + PAGES
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} descriptors, {} threads, {} maps ({} of a bus), {:.1} MB",
            self.descriptors,
            self.threads,
            self.maps,
            self.shared,
            self.resident as f64 / 1e6
        )
    }
}

/// Names by which the driver, the library and the bus could leave shared memory.
const OURS: [&str; 4] = ["bananaphone", "proxy", "nccom", "neuron"];

/// What is on the machine that could be ours: shared memory, files in the folder that hosts have for such, sockets of the job's name, and
/// processes that were started and not collected.
pub(crate) fn left_behind(job: &str, folder: &Path) -> BTreeSet<String> {
    let ours = |name: &String| OURS.iter().any(|word| name.contains(word));
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string())
    };
    let shared = names(Path::new("/dev/shm")).filter(ours);
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let sockets = sockets.lines().filter_map(|line| line.split('@').nth(1));
    let sockets = sockets.filter(|name| name.contains(job)).map(str::to_owned);
    let files = names(folder).chain(shared);
    files.chain(sockets).chain(children()).collect()
}

/// Processes that this one has started and not collected.
fn children() -> Vec<String> {
    let own = format!("/proc/self/task/{}/children", std::process::id());
    let children = fs::read_to_string(own).unwrap_or_default();
    let named = |pid: &str| format!("process {pid}");
    children.split_whitespace().map(named).collect()
}
