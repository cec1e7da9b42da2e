//! The tool's side: which processes serve reports, and the report of one.

use std::fmt;
use std::fs;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::time::Duration;

use super::Report;
use super::serve::{PREFIX, name};
use crate::sys::poll::{For, poll};
use crate::sys::socket::{Socket, own_user};

/// How long a process may take; a report takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no report of a process.
#[derive(Debug)]
pub enum FetchError {
    /// It does not serve reports, or is not there.
    NotServed(u32),
    /// Somebody else's process has the name.
    Foreign(u32),
    /// It did not answer in time; it may be stopped.
    Silent(u32),
    /// The connection failed.
    Io(u32, io::Error),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed(pid) => write!(f, "process {pid} serves no reports (or is not there)"),
            Self::Foreign(pid) => write!(f, "process {pid} belongs to another user"),
            Self::Silent(pid) => write!(
                f,
                "process {pid} did not answer within {PATIENCE:?}; it may be stopped"
            ),
            Self::Io(pid, error) => write!(f, "process {pid}: {error}"),
        }
    }
}

impl std::error::Error for FetchError {}

/// Processes of this network namespace that serve reports, in order of their number. Empty where the kernel's list cannot be read.
#[must_use]
pub fn served() -> Vec<u32> {
    let list = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let pid = |line: &str| {
        line.rsplit_once(' ')?
            .1
            .strip_prefix('@')?
            .strip_prefix(PREFIX)?
            .parse()
            .ok()
    };
    let mut pids: Vec<u32> = list.lines().filter_map(pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The report of a process that serves them, as of now.
///
/// # Errors
/// See [`FetchError`].
pub fn fetch(pid: u32) -> Result<Report, FetchError> {
    let socket = Socket::connect(name(pid).as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => FetchError::NotServed(pid),
        _ => FetchError::Io(pid, error),
    })?;
    let failed = |error| FetchError::Io(pid, error);
    if socket.peer().map_err(failed)?.uid != own_user() {
        return Err(FetchError::Foreign(pid));
    }
    socket.send(b"report", &[]).map_err(failed)?;
    let news = poll(&[(socket.as_fd(), For::Input)], Some(PATIENCE)).map_err(failed)?;
    if news != [true] {
        return Err(FetchError::Silent(pid));
    }
    let mut answer = [0_u8; 16];
    let record = socket.receive(&mut answer).map_err(failed)?;
    let Some(fd) = record.fds.into_iter().next() else {
        return Err(failed(io::Error::other("it hung up without a report")));
    };
    let mut file = fs::File::from(fd);
    let mut text = String::new();
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .map_err(failed)?;
    Report::from_json(&text).map_err(failed)
}
