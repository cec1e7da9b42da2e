//! How the death of a process is noticed: a descriptor to poll, never its number.
//!
//! A number names whoever has it now. A descriptor of the process names that one process; where it cannot be had, the hub's
//! end of its socket does: it hangs up when the process ends. No `/proc/<pid>` path is opened for either.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::counters::{Counters, Fallback};
use crate::sys::pidfd;
use crate::sys::poll::{For, poll};
use crate::sys::socket::{Peer, Socket};

/// What to watch a process by.
#[derive(Debug)]
pub(super) enum Line {
    /// The process itself.
    Process(OwnedFd),
    /// The hub's end of its socket.
    Socket,
}

/// The process on the other side is gone already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

/// Takes hold of the process that made a connection. `same_namespace` = its numbers mean the same here.
pub(super) fn of(
    socket: &Socket,
    peer: Peer,
    same_namespace: bool,
    counters: &Counters,
) -> Result<Line, Gone> {
    let is_gone = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
    let reason = match socket.peer_pidfd() {
        Ok(process) => return Ok(Line::Process(process)),
        Err(error) if is_gone(&error) => return Err(Gone),
        Err(error) => error,
    };
    if peer.pid == 0 || !same_namespace {
        counters.fallback(
            Fallback::HangUp,
            format_args!(
                "SO_PEERPIDFD: {reason}, and the peer is in another namespace of process ids"
            ),
        );
        return Ok(Line::Socket);
    }
    match pidfd::open(peer.pid) {
        // Its number may have been given away before the call, but not if its socket is still up now.
        Ok(_) if has_hung_up(socket) => Err(Gone),
        Ok(process) => Ok(Line::Process(process)),
        Err(error) if is_gone(&error) => Err(Gone),
        Err(error) => {
            counters.fallback(
                Fallback::HangUp,
                format_args!("SO_PEERPIDFD: {reason}, pidfd_open: {error}"),
            );
            Ok(Line::Socket)
        }
    }
}

fn has_hung_up(socket: &Socket) -> bool {
    poll(&[(socket.as_fd(), For::HangUp)], Some(Duration::ZERO)).is_ok_and(|news| news == [true])
}
