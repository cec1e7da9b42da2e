//! Waiting for news on several descriptors at once.
#![allow(unsafe_code, reason = "ppoll is a C call")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use super::check;

/// What is news on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Something can be read, or the other side has hung up.
    Input,
    /// The other side has hung up; what it sent is for others to read.
    HangUp,
}

/// Waits until one of the descriptors has news, `timeout` at most; `None` = for ever. Returns which have, in order.
///
/// A signal ends the wait as if no time was left.
///
/// # Errors
/// The kernel's: no memory, or more descriptors than the process may have.
pub(crate) fn poll(
    fds: &[(BorrowedFd<'_>, For)],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let entry = |(fd, news): &(BorrowedFd<'_>, For)| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: match news {
            For::Input => libc::POLLIN,
            // Hang-ups and errors are reported whether they are asked for or not.
            For::HangUp => 0,
        },
        revents: 0,
    };
    let mut entries: Vec<_> = fds.iter().map(entry).collect();
    let count = entries.len() as libc::nfds_t;
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let time = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `count` valid entries; the time is null or a local that outlives the call; no signal mask.
    let answer = check(unsafe { libc::ppoll(entries.as_mut_ptr(), count, time, std::ptr::null()) });
    match answer {
        Ok(_) => Ok(entries.iter().map(|entry| entry.revents != 0).collect()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![false; fds.len()]),
        Err(error) => Err(error),
    }
}
