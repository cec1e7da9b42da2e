//! What tests of the service of reports share: turns, what was said, a thread that is kept while it writes, the reports that are left.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use proxy_os::diagnosis::Report;
use proxy_os::log::{self, Level};

use crate::stub::Scratch;

/// A process has one service and one sink, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());
static SAID: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());
/// Keeps the thread that has written a report.
static HELD: AtomicBool = AtomicBool::new(false);

/// What was said in this turn, so far.
pub fn said() -> MutexGuard<'static, Vec<(Level, String)>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sink(level: Level, text: &str) {
    said().push((level, text.to_owned()));
    // Acquire pairs with the release in `hold`.
    while text.starts_with("report: ") && HELD.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// Has a thread kept once it has written a report, or lets it go.
pub fn hold(held: bool) {
    // Release pairs with the acquire in `sink`.
    HELD.store(held, Ordering::Release);
}

/// What was said so far that begins like this.
pub fn beginning(start: &str) -> Vec<(Level, String)> {
    let said = said();
    let found = said.iter().filter(|(_, text)| text.starts_with(start));
    found.cloned().collect()
}

/// Waits for the other tests of this program. Nothing has been said then.
pub fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    log::set_level(Level::Info);
    log::set_sink(sink);
    said().clear();
    turn
}

/// The reports in a directory.
///
/// # Panics
///
/// If it or one of them cannot be read.
pub fn reports(scratch: &Scratch) -> Vec<Report> {
    let files = std::fs::read_dir(scratch.path(".")).expect("a directory");
    let paths = files.map(|file| file.expect("an entry").path());
    let whole = paths.filter(|path: &PathBuf| path.extension().is_some_and(|end| end == "json"));
    let read = |path| {
        let text = std::fs::read_to_string(path).expect("text");
        Report::from_json(&text).expect("a report")
    };
    whole.map(read).collect()
}

/// The namespace of process ids that this process is in.
///
/// # Panics
///
/// Without procfs.
pub fn own_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid")
        .expect("procfs")
        .ino()
}

/// Name of the report socket of a process number in a namespace.
pub fn name(namespace: u64, pid: u32) -> String {
    format!("proxy-report/{namespace}/{pid}")
}
