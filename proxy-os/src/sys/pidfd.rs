//! A process as a descriptor: it names this one process for as long as it is open, whatever becomes of the number.
#![allow(unsafe_code, reason = "pidfd_open is a raw system call")]

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use super::fault::{self, Call};

/// Inode of this process's namespace of process ids, in which its number means something; 0 = unknown, and then equal to nobody's.
pub(crate) fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// The process that has this number now. It is readable, for `poll`, once that process has ended.
///
/// The number may have been given to another process since the caller learned it; who uses this must find out afterwards.
///
/// # Errors
/// The kernel's: `ESRCH` no such process, `ENOSYS` before Linux 5.3, `EPERM` in sandboxes, `EMFILE`.
pub(crate) fn open(pid: u32) -> io::Result<OwnedFd> {
    fault::point(Call::PidfdOpen)?;
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poll::{For, poll};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_live_process_is_silent_and_a_number_of_nobody_is_refused() {
        let own = open(std::process::id()).unwrap();
        let news = poll(&[(own.as_fd(), For::Input)], Some(Duration::ZERO)).unwrap();
        assert_eq!(news, [false]);
        assert!(open(u32::MAX).is_err());
    }
}
