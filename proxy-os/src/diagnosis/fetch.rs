//! The tool's side: which processes serve reports, and the report of one.

use std::fmt;
use std::fs;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::Report;
use super::door::{PREFIX, name};
use crate::sys::pidfd;
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
    let mut pids: Vec<u32> = (listed().into_iter()).map(|(_, pid)| pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Namespace of process ids and number of each process whose report socket is in this network namespace.
fn listed() -> Vec<(u64, u32)> {
    let list = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let process = |line: &str| {
        let name = line.rsplit_once(' ')?.1.strip_prefix('@')?;
        let (namespace, pid) = name.strip_prefix(PREFIX)?.split_once('/')?;
        Some((namespace.parse().ok()?, pid.parse().ok()?))
    };
    list.lines().filter_map(process).collect()
}

/// Connects to the process with this number: the one of the caller's own namespace of process ids, else the first of another one.
fn connect(pid: u32) -> io::Result<Socket> {
    let own = pidfd::namespace();
    let to = |namespace| Socket::connect(name(namespace, pid).as_bytes());
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let mut connected = to(own);
    let others = listed().into_iter().filter(|(_, number)| *number == pid);
    for (namespace, _) in others.filter(|(namespace, _)| *namespace != own) {
        if !connected.as_ref().is_err_and(refused) {
            break;
        }
        connected = to(namespace);
    }
    connected
}

/// The report of a process that serves them, as of now. A number that processes of several containers have is that of the caller's own.
///
/// # Errors
/// See [`FetchError`].
pub fn fetch(pid: u32) -> Result<Report, FetchError> {
    let answer = fetch_all(&[pid]).pop();
    answer.unwrap_or(Err(FetchError::Silent(pid)))
}

/// The reports of several processes, in their order. All are asked before any is waited for, so that silent ones take two seconds together
/// and not each.
#[must_use]
pub fn fetch_all(pids: &[u32]) -> Vec<Result<Report, FetchError>> {
    let since = Instant::now();
    let asked: Vec<_> = pids.iter().map(|pid| ask(*pid)).collect();
    let mut reports: Vec<_> = pids.iter().map(|_| None).collect();
    loop {
        let open = asked.iter().zip(&reports).enumerate();
        let open: Vec<(usize, &Socket)> = open
            .filter_map(|(at, (socket, report))| {
                Some((at, socket.as_ref().ok().filter(|_| report.is_none())?))
            })
            .collect();
        // Nobody is left to wait for.
        if open.is_empty() {
            break;
        }
        let sockets: Vec<&Socket> = open.iter().map(|(_, socket)| *socket).collect();
        let left = PATIENCE.saturating_sub(since.elapsed());
        // Out of memory, say: then none has answered.
        let news = answered(&sockets, left).unwrap_or_default();
        for ((at, socket), _) in open.iter().zip(&news).filter(|(_, news)| **news) {
            reports[*at] = Some(receive(pids[*at], socket));
        }
        if left.is_zero() && !news.contains(&true) {
            break;
        }
    }
    let of = |((pid, asked), report): ((&u32, Result<Socket, _>), Option<_>)| match asked {
        Ok(_) => report.unwrap_or(Err(FetchError::Silent(*pid))),
        Err(error) => Err(error),
    };
    pids.iter().zip(asked).zip(reports).map(of).collect()
}

/// Connects to a process of the same user and asks for its report.
fn ask(pid: u32) -> Result<Socket, FetchError> {
    let socket = connect(pid).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => FetchError::NotServed(pid),
        _ => FetchError::Io(pid, error),
    })?;
    let failed = |error| FetchError::Io(pid, error);
    if socket.peer().map_err(failed)?.uid != own_user() {
        return Err(FetchError::Foreign(pid));
    }
    socket.send(b"report", &[]).map_err(failed)?;
    Ok(socket)
}

/// Which of them have answered or hung up, waiting for the first.
fn answered(sockets: &[&Socket], patience: Duration) -> io::Result<Vec<bool>> {
    let of: Vec<_> = sockets
        .iter()
        .map(|socket| (socket.as_fd(), For::Input))
        .collect();
    poll(&of, Some(patience))
}

/// The report that a process has answered with.
fn receive(pid: u32, socket: &Socket) -> Result<Report, FetchError> {
    let failed = |error| FetchError::Io(pid, error);
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
