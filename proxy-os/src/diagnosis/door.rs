//! The door of tools: the socket that they come to, and the answer that each gets.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::record::Report;
use crate::log;
use crate::sys::memfd;
use crate::sys::mute;
use crate::sys::pidfd;
use crate::sys::poll::{For, poll};
use crate::sys::socket::{Socket, own_user};

/// How long a tool may take to ask, once it has connected.
const PATIENCE: Duration = Duration::from_millis(200);
/// Until a connection that there was no room for is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// How the names of report sockets begin.
pub(super) const PREFIX: &str = "proxy-report/";

/// Name of the report socket of a process. With the namespace that its number is of: containers may share the network's namespace, in
/// which the name is, and not that of process ids.
pub(super) fn name(namespace: u64, pid: u32) -> String {
    format!("{PREFIX}{namespace}/{pid}")
}

/// The socket that tools connect to.
#[derive(Debug)]
pub(super) struct Door {
    listener: Socket,
    /// There was no room for a connection, which waits until then.
    refused: Option<Instant>,
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Door {
    /// `None`, and a warning, where the name cannot be had.
    pub(super) fn open() -> Option<Self> {
        let name = name(pidfd::namespace(), std::process::id());
        let listening = || {
            let socket = Socket::bind(name.as_bytes())?;
            socket.listen()?;
            Ok(socket)
        };
        listening()
            .inspect_err(|error: &io::Error| {
                log::warn(format_args!(
                    "tools get no reports: the socket {name} cannot be had: {error}"
                ));
            })
            .map(|listener| Self {
                listener,
                refused: None,
            })
            .ok()
    }

    /// For how long nobody is to be let in.
    pub(super) fn pause(&self) -> Option<Duration> {
        let left = self.refused?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Answers a tool, if one is waiting. One that there is no room for goes on waiting, and is news at once: so the door is left alone for a while.
    pub(super) fn let_in(&mut self) {
        match self.listener.accept() {
            Ok(client) => {
                self.refused = None;
                if let Some(Err(error)) = client.as_ref().map(answer) {
                    log::info(format_args!("a tool got no report: {error}"));
                }
            }
            Err(error) => {
                if self.refused.is_none() {
                    log::warn(format_args!(
                        "tools wait for their reports: accept: {error}; trying again"
                    ));
                }
                self.refused = Some(Instant::now() + RETRY);
            }
        }
    }
}

/// Answers one tool: a record `report` is answered by a record with the report as a descriptor.
fn answer(client: &Socket) -> io::Result<()> {
    let peer = client.peer()?;
    if peer.uid != own_user() {
        return Err(io::Error::other(format!(
            "it is user {}'s; accepted: the same user",
            peer.uid
        )));
    }
    let until = Instant::now() + PATIENCE;
    let mut request = [0_u8; 16];
    let record = loop {
        let left = until.saturating_duration_since(Instant::now());
        // A signal ends this as if no time was left.
        poll(&[(client.as_fd(), For::Input)], Some(left))?;
        match client.receive(&mut request) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !left.is_zero() => {}
            received => break received?,
        }
    };
    if request.get(..record.bytes) != Some(b"report".as_slice()) {
        return Err(io::Error::other("its request is unknown; accepted: report"));
    }
    let json = Report::collect("a tool asked").to_json()?;
    let mut file = memfd::create().or_else(|_| memfd::unnamed_file())?;
    // Memory without a name has the limit of files, too.
    mute::while_writing(|| file.write_all(json.as_bytes()))?;
    client.send(b"report", &[file.as_fd()])
}
