//! Unix sockets with record boundaries, whose names are in no file system and whose records can carry descriptors.
#![allow(unsafe_code, reason = "socket calls are C calls")]

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use super::check;
use super::fault::{self, Call};

/// Bytes of a name at most: the kernel's 108, less the zero that says that the name is in no file system.
pub(crate) const NAME_LIMIT: usize = 107;
/// Descriptors of a record at most: the kernel's `SCM_MAX_FD`.
pub(crate) const FD_LIMIT: usize = 253;

/// The other side of a connection when it was made, as numbers of the reader's own namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// 0 = of a process that has no number here.
    pub(crate) pid: u32,
    pub(crate) uid: u32,
}

/// A record that was received.
#[derive(Debug)]
pub(crate) struct Record {
    /// Its bytes, at the start of the buffer. 0 = the other side has hung up, or sent an empty record.
    pub(crate) bytes: usize,
    /// Its descriptors, closed on drop.
    pub(crate) fds: Vec<OwnedFd>,
    /// Descriptors were lost on the way: no room in this process's table, or a security module took them.
    pub(crate) lost_fds: bool,
}

/// A socket that listens or is connected. Never blocks; closed on exec.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Socket {
    fn new() -> io::Result<Self> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
        // SAFETY: the descriptor was just created and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes the name.
    ///
    /// # Errors
    /// `EADDRINUSE` when somebody has it.
    pub(crate) fn bind(name: &[u8]) -> io::Result<Self> {
        let socket = Self::new()?;
        let (address, length) = address(name)?;
        let fd = socket.0.as_raw_fd();
        // SAFETY: the address is valid for its length.
        check(unsafe { libc::bind(fd, (&raw const address).cast(), length) })?;
        Ok(socket)
    }

    /// Lets others connect, as many at once as the system allows.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn listen(&self) -> io::Result<()> {
        // SAFETY: no pointers are passed.
        check(unsafe { libc::listen(self.0.as_raw_fd(), i32::MAX) }).map(|_| ())
    }

    /// Connects to the name.
    ///
    /// # Errors
    /// `ECONNREFUSED` when nobody listens there, `EAGAIN` when too many are waiting to be accepted.
    pub(crate) fn connect(name: &[u8]) -> io::Result<Self> {
        let socket = Self::new()?;
        let (address, length) = address(name)?;
        let fd = socket.0.as_raw_fd();
        // SAFETY: the address is valid for its length.
        check(unsafe { libc::connect(fd, (&raw const address).cast(), length) })?;
        Ok(socket)
    }

    /// Accepts one connection; `Ok(None)` = nobody is waiting.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM` when there is no room. It goes on waiting then, and is news to a poll at once: leave the socket out of polls
    /// for a while.
    pub(crate) fn accept(&self) -> io::Result<Option<Self>> {
        fault::point(Call::Accept)?;
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        loop {
            // SAFETY: the address of the other side is not asked for.
            let fd = check(unsafe {
                libc::accept4(self.0.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), flags)
            });
            match fd {
                // SAFETY: the descriptor was just created and nobody else owns it.
                Ok(fd) => return Ok(Some(Self(unsafe { OwnedFd::from_raw_fd(fd) }))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // It was gone before we came.
                Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a record with copies of some descriptors, all of it or nothing.
    ///
    /// # Errors
    /// `EAGAIN` and `ETOOMANYREFS` when there is no room now; `EPIPE` and `ECONNRESET` when the other side has hung up;
    /// `EINVAL` for more than [`FD_LIMIT`] descriptors.
    pub(crate) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        if fds.len() > FD_LIMIT {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control::new();
        let mut message = control.message(&mut part);
        if fds.is_empty() {
            message.msg_control = ptr::null_mut();
            message.msg_controllen = 0;
        } else {
            message.msg_controllen = put_fds(&message, &fds);
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the message points to `part` and `control`, which live for the call; the call does not write `bytes`.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Receives a record. The rest of one that is longer than the buffer is lost.
    ///
    /// # Errors
    /// `EAGAIN` when there is none, or when the kernel has no memory for the call: the record is still there then, and an error of this
    /// side must not pass for the end of the other. The pause keeps whoever asks again at once from spinning.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Record> {
        let received = self.receive_once(buffer);
        match received.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::ENOMEM | libc::ENOBUFS | libc::EINTR)) => {
                std::thread::sleep(Duration::from_millis(1));
                Err(io::ErrorKind::WouldBlock.into())
            }
            _ => received,
        }
    }

    fn receive_once(&self, buffer: &mut [u8]) -> io::Result<Record> {
        fault::point(Call::Receive)?;
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut control = Control::new();
        let mut message = control.message(&mut part);
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        // SAFETY: the message points to `buffer` and `control`, which live for the call.
        let received = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, flags) };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Record {
            bytes: usize::try_from(received).unwrap_or(0),
            fds: take_fds(&message),
            lost_fds: message.msg_flags & libc::MSG_CTRUNC != 0,
        })
    }

    /// Hangs up, also for other owners of the descriptor.
    pub(crate) fn shut_down(&self) {
        // SAFETY: no pointers are passed. A socket that is not connected any more has nothing to hang up.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// Who the other side was when the connection was made.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn peer(&self) -> io::Result<Peer> {
        let mut peer = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        self.option(libc::SO_PEERCRED, &mut peer)?;
        Ok(Peer {
            pid: u32::try_from(peer.pid).unwrap_or(0),
            uid: peer.uid,
        })
    }

    /// The process that made the connection, as a descriptor (Linux 6.5): of that process and no other.
    ///
    /// # Errors
    /// The kernel's: `ENOPROTOOPT` before 6.5, `ESRCH` when it has ended.
    pub(crate) fn peer_pidfd(&self) -> io::Result<OwnedFd> {
        fault::point(Call::PeerPidfd)?;
        let mut fd: libc::c_int = -1;
        self.option(libc::SO_PEERPIDFD, &mut fd)?;
        // SAFETY: a successful call has created the descriptor, and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn option<T>(&self, option: libc::c_int, value: &mut T) -> io::Result<()> {
        let mut length = size_of::<T>() as libc::socklen_t;
        let (fd, value) = (self.0.as_raw_fd(), ptr::from_mut(value).cast());
        // SAFETY: the value is valid for `length` bytes; both callers pass integers, for which all bits are valid.
        let answer =
            unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, value, &raw mut length) };
        check(answer).map(|_| ())
    }
}

/// The user that this process acts as.
pub(crate) fn own_user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

fn address(name: &[u8]) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    if name.len() > NAME_LIMIT {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    // The first byte stays zero: a name in no file system.
    for (place, byte) in address.sun_path.iter_mut().skip(1).zip(name) {
        *place = byte.cast_signed();
    }
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, length as libc::socklen_t))
}

/// Room for the descriptors of one record, aligned as their header wants it.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [MaybeUninit<u8>; size_of::<libc::cmsghdr>() + 16 + FD_LIMIT * size_of::<RawFd>()],
}

impl Control {
    const fn new() -> Self {
        // SAFETY: a union of which one member is bytes of any content.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    fn message(&mut self, part: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: null pointers and zero lengths are a valid, empty message.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_iov = ptr::from_mut(part);
        message.msg_iovlen = 1;
        message.msg_control = ptr::from_mut(self).cast();
        message.msg_controllen = size_of::<Self>();
        message
    }
}

/// Writes the descriptors into the message's control buffer; returns its length. There is room for [`FD_LIMIT`].
fn put_fds(message: &libc::msghdr, fds: &[RawFd]) -> usize {
    let bytes = size_of_val(fds) as libc::c_uint;
    // SAFETY: the control buffer is large enough for a header, which is all that is asked.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: arithmetic only.
    let length = unsafe { libc::CMSG_LEN(bytes) } as usize;
    let head = libc::cmsghdr {
        cmsg_len: length,
        cmsg_level: libc::SOL_SOCKET,
        cmsg_type: libc::SCM_RIGHTS,
    };
    // SAFETY: the header lies at the start of the control buffer, which is aligned for it.
    unsafe { header.write(head) };
    // SAFETY: arithmetic only, on the header just written.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the buffer has room for `FD_LIMIT` descriptors behind the header, and the caller has no more; bytes have no alignment.
    unsafe { ptr::copy_nonoverlapping(fds.as_ptr().cast(), data, size_of_val(fds)) };
    // SAFETY: arithmetic only.
    unsafe { libc::CMSG_SPACE(bytes) as usize }
}

/// Takes over all descriptors of a message that was received.
fn take_fds(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the kernel has filled the control buffer and set its length.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the kernel's header, inside the buffer; the macros keep it aligned.
        let head = unsafe { header.read() };
        if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: arithmetic only.
            let data = unsafe { libc::CMSG_DATA(header) };
            let bytes = head.cmsg_len.saturating_sub(data.addr() - header.addr());
            for index in 0..bytes / size_of::<RawFd>() {
                // SAFETY: within the bytes that the header says are there.
                let place = unsafe { data.cast::<RawFd>().add(index) };
                // SAFETY: as above; the buffer may not be aligned for it.
                let fd = unsafe { place.read_unaligned() };
                // SAFETY: the kernel has just created the descriptor for this process, and nobody else owns it.
                fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        // SAFETY: the header is one of this message's.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    fds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memfd;

    #[test]
    fn records_keep_their_boundaries_and_carry_descriptors() {
        let name = format!("proxy-socket-test-{}", std::process::id());
        let listener = Socket::bind(name.as_bytes()).unwrap();
        listener.listen().unwrap();
        let taken = Socket::bind(name.as_bytes()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let near = Socket::connect(name.as_bytes()).unwrap();
        let far = listener.accept().unwrap().unwrap();
        assert!(listener.accept().unwrap().is_none(), "nobody else");
        let file = memfd::create().unwrap();
        near.send(b"one", &[file.as_fd(), file.as_fd()]).unwrap();
        near.send(b"three", &[]).unwrap();
        let mut buffer = [0; 16];
        let record = far.receive(&mut buffer).unwrap();
        assert_eq!(
            (record.bytes, record.fds.len(), record.lost_fds),
            (3, 2, false)
        );
        let record = far.receive(&mut buffer).unwrap();
        assert_eq!(
            (&buffer[..record.bytes], record.fds.len()),
            (&b"three"[..], 0)
        );
        assert_eq!(
            far.receive(&mut buffer).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        assert_eq!(far.peer().unwrap().pid, std::process::id());
        drop(near);
        assert_eq!(far.receive(&mut buffer).unwrap().bytes, 0);
    }
}
