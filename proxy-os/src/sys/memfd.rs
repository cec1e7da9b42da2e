//! Memory as a descriptor: created, sized, reserved, sealed, and checked when it comes from somebody else.
#![allow(unsafe_code, reason = "memfd_create, fcntl and fallocate are C calls")]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;

use super::check;
use super::fault::{self, Call};

/// Not executable, and sealed so (Linux 6.3). Some systems refuse descriptors without it.
const MFD_NOEXEC_SEAL: libc::c_uint = 8;

/// The seals of a segment: nobody can change its size, nor its seals. Without them a peer that cuts the file turns every
/// other's next access into a bus error.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Empty memory without a name in any file system; gone with its last descriptor and mapping.
///
/// # Errors
/// The kernel's: `ENOSYS` and `EPERM` where there is no such call, or a sandbox forbids it.
pub(crate) fn create() -> io::Result<File> {
    fault::point(Call::MemfdCreate)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let name = c"bananaphone".as_ptr();
    // SAFETY: the name is a terminated constant.
    let modern = check(unsafe { libc::memfd_create(name, flags | MFD_NOEXEC_SEAL) });
    let fd = match modern {
        // A kernel that does not know the flag.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // SAFETY: as above.
            check(unsafe { libc::memfd_create(name, flags) })?
        }
        other => other?,
    };
    // SAFETY: the descriptor was just created and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// An empty file that never had a name, in shared memory or else in the directory for temporary files.
///
/// # Errors
/// The last directory's.
pub(crate) fn unnamed_file() -> io::Result<File> {
    fault::point(Call::UnnamedFile)?;
    let open = |directory: &std::path::Path| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
            .open(directory)
    };
    open("/dev/shm".as_ref()).or_else(|_| open(&std::env::temp_dir()))
}

/// Gives the memory its size. Nothing of it is reserved yet.
///
/// # Errors
/// `EFBIG` when the process may not have files of this size; asked first, because the kernel would kill the process for it.
pub(crate) fn resize(file: &File, bytes: u64) -> io::Result<()> {
    let limit = limit(libc::RLIMIT_FSIZE)?;
    if bytes > limit {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    file.set_len(bytes)
}

/// Reserves a part, so that touching it cannot fail later.
///
/// # Errors
/// `ENOSPC`, `ENOMEM`: there is no room for it. `EOPNOTSUPP`: the file system cannot promise.
pub(crate) fn reserve(file: &File, bytes: Range<u64>) -> io::Result<()> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let start = libc::off_t::try_from(bytes.start).map_err(invalid)?;
    let length = libc::off_t::try_from(bytes.end.saturating_sub(bytes.start)).map_err(invalid)?;
    loop {
        fault::point(Call::Reserve)?;
        // SAFETY: no pointers are passed; the descriptor is open as long as `file`.
        let answer = unsafe { libc::fallocate(file.as_raw_fd(), 0, start, length) };
        match check(answer) {
            Ok(_) => return Ok(()),
            // Memory is handed out in one go, and a signal takes all of it back.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Seals the size.
///
/// # Errors
/// `EINVAL` for files that cannot be sealed.
pub(crate) fn seal(file: &File) -> io::Result<()> {
    fault::point(Call::AddSeals)?;
    // SAFETY: no pointers are passed; the descriptor is open as long as `file`.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) }).map(|_| ())
}

/// Whether nobody can change the size any more.
pub(crate) fn is_sealed(file: &File) -> bool {
    // SAFETY: as for `seal`.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & SEALS == SEALS
}

/// How many descriptors this process may have.
pub(crate) fn descriptor_limit() -> u64 {
    limit(libc::RLIMIT_NOFILE).unwrap_or(0)
}

fn limit(resource: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the kernel to write.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_memory_keeps_its_size() {
        let file = create().unwrap();
        resize(&file, 4096).unwrap();
        reserve(&file, 0..4096).unwrap();
        assert!(!is_sealed(&file));
        seal(&file).unwrap();
        assert!(is_sealed(&file));
        assert!(file.set_len(0).is_err() && file.set_len(8192).is_err());
    }

    #[test]
    fn an_unnamed_file_is_never_taken_for_sealed() {
        let file = unnamed_file().unwrap();
        resize(&file, 4096).unwrap();
        assert!(!is_sealed(&file));
    }
}
