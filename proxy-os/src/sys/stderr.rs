//! Standard error, written to without ever waiting for whoever reads it.
//!
//! Its reader may have stopped, and then a plain write sleeps until it goes on: a thread that only wanted to say something would be stuck.
//! The descriptor is shared with other processes, so it must not be made non-blocking; each write asks for that by itself instead. Where
//! the kernel does not know that for a kind of file, the descriptor is asked for room first, and a pipe that has some takes `PIPE_BUF`
//! bytes whole (pipe(7)).
#![allow(
    unsafe_code,
    reason = "fstat, poll, write and pwritev2 are calls into the kernel"
)]

use std::io;
use std::mem;

use super::{check, mute};

const FD: libc::c_int = libc::STDERR_FILENO;

/// Writes what there is room for, from the beginning on, in one write if it can. Returns how many bytes that were; 0 also for a descriptor
/// that is closed or whose reader is gone, and for a file at its limit. Any thread; waits for nobody but a disk.
pub(crate) fn offer(text: &[u8]) -> usize {
    mute::while_writing(|| offer_all(text))
}

fn offer_all(text: &[u8]) -> usize {
    let mut taken = 0;
    while let Some(rest) = text.get(taken..).filter(|rest| !rest.is_empty()) {
        match offer_once(rest) {
            Ok(0) | Err(_) => break,
            Ok(bytes) => taken += bytes,
        }
    }
    taken
}

fn offer_once(text: &[u8]) -> io::Result<usize> {
    // A file always has room, and a text in one write stays whole beside those of other processes.
    if is_file()? {
        return write(text);
    }
    if !has_room()? {
        return Ok(0);
    }
    match write_at_once(text) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => write(piece(text)),
        answer => answer,
    }
}

/// What a pipe with room takes whole: all, else up to the last line end within, else a part of a line.
fn piece(text: &[u8]) -> &[u8] {
    let Some(most) = text.get(..libc::PIPE_BUF) else {
        return text;
    };
    let end = most.iter().rposition(|byte| *byte == b'\n');
    most.get(..end.map_or(most.len(), |end| end + 1))
        .unwrap_or(most)
}

fn is_file() -> io::Result<bool> {
    // SAFETY: all zeros is a valid value.
    let mut kind: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: `kind` is valid for the kernel to write.
    check(unsafe { libc::fstat(FD, &raw mut kind) })?;
    Ok(kind.st_mode & libc::S_IFMT == libc::S_IFREG)
}

/// Whether there is room, and somebody who could read.
fn has_room() -> io::Result<bool> {
    let mut entry = libc::pollfd {
        fd: FD,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one valid entry; no time is waited.
    check(unsafe { libc::poll(&raw mut entry, 1, 0) })?;
    Ok(entry.revents == libc::POLLOUT)
}

/// One write that never sleeps, whatever others have written since the descriptor was asked. `EOPNOTSUPP` and the like where the kernel
/// has none for this kind of file (Linux has one for pipes since 5.5, and for sockets).
fn write_at_once(text: &[u8]) -> io::Result<usize> {
    let part = libc::iovec {
        iov_base: text.as_ptr().cast_mut().cast(),
        iov_len: text.len(),
    };
    // Whole words all, as the kernel takes them. The position is the file's own, both halves of it.
    let (fd, one, here): (libc::c_long, libc::c_long, libc::c_long) = (FD.into(), 1, -1);
    let flags = libc::c_long::from(libc::RWF_NOWAIT);
    // SAFETY: one part, whose buffer is valid for its length and is only read.
    let written = unsafe {
        libc::syscall(
            libc::SYS_pwritev2,
            fd,
            &raw const part,
            one,
            here,
            here,
            flags,
        )
    };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

fn write(text: &[u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the buffer is valid for its length.
        let written = unsafe { libc::write(FD, text.as_ptr().cast(), text.len()) };
        if let Ok(written) = usize::try_from(written) {
            return Ok(written);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_at_a_line_end_if_it_can_and_fits_into_a_pipe() {
        assert_eq!(piece(b"short"), b"short");
        let lines = b"0123456789\n".repeat(400);
        let first = piece(&lines);
        assert_eq!(first.len(), libc::PIPE_BUF / 11 * 11);
        assert_eq!(first.last(), Some(&b'\n'));
        assert_eq!(piece(&[b'x'; 5000]).len(), libc::PIPE_BUF);
    }
}
