//! The system calls that `std::net` has no safe form of, and deadlines.
#![allow(
    unsafe_code,
    reason = "poll, non-blocking connect, vectored I/O on lent memory, socket options"
)]

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use libc::{c_int, c_void, iovec, pollfd, socklen_t};

/// Connections that may wait to be accepted: more than a mesh of 64 ranks on four streams opens at once.
const BACKLOG: c_int = 512;

/// A point in time after which a blocking call gives up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    end: Instant,
    allowed: Duration,
}

impl Deadline {
    /// `allowed` from now.
    pub(crate) fn after(allowed: Duration) -> Self {
        Self {
            end: Instant::now() + allowed,
            allowed,
        }
    }

    /// Time left, or none.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// What was allowed in all, for messages.
    pub(crate) const fn allowed(&self) -> Duration {
        self.allowed
    }
}

/// An entry for [`poll`].
pub(crate) const fn interest(fd: RawFd, events: i16) -> pollfd {
    pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Waits until one of `fds` is ready or `timeout` passes (zero: only looks). An interruption counts as nothing ready.
pub(crate) fn poll(fds: &mut [pollfd], timeout: Duration) -> io::Result<usize> {
    // Rounded up, so that a short rest of a deadline does not become a busy loop.
    let millis = c_int::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
    let count = libc::nfds_t::try_from(fds.len()).unwrap_or(0);
    // SAFETY: a valid array of `count` pollfd records that this call alone uses.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), count, millis) };
    match usize::try_from(ready) {
        Ok(ready) => Ok(ready),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        },
    }
}

/// A non-blocking listener with a backlog for a whole mesh.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // SAFETY: an open listening socket; a second listen only changes the backlog.
    check(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) })?;
    Ok(listener)
}

/// Begins a connection without waiting for it; [`is_connected`] tells when it stands.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    let stream = TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    stream.set_nodelay(true)?;
    let (raw, length) = socket_address(address);
    // SAFETY: `raw` is at least `length` bytes of a socket address of the right family.
    match check(unsafe { libc::connect(fd, (&raw const raw).cast(), length) }) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(stream),
    }
}

/// Whether a connection that was begun stands; an error if it was refused.
pub(crate) fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

fn socket_address(address: SocketAddr) -> (libc::sockaddr_in6, socklen_t) {
    // SAFETY: all-zero bytes are a valid sockaddr_in6.
    let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    match address {
        SocketAddr::V6(v6) => {
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_flowinfo = v6.flowinfo();
            raw.sin6_addr.s6_addr = v6.ip().octets();
            raw.sin6_scope_id = v6.scope_id();
            (raw, length_of::<libc::sockaddr_in6>())
        }
        SocketAddr::V4(v4) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_in is smaller than sockaddr_in6 and needs no stricter alignment; both are plain bytes.
            unsafe { (&raw mut raw).cast::<libc::sockaddr_in>().write(v4) };
            (raw, length_of::<libc::sockaddr_in>())
        }
    }
}

/// Makes the coming close of `stream` a reset, so that the peer sees an abort rather than an orderly end.
pub(crate) fn close_by_reset(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let (fd, length) = (stream.as_raw_fd(), length_of::<libc::linger>());
    let value = (&raw const linger).cast::<c_void>();
    // SAFETY: `value` points to a linger record of `length` bytes.
    check(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, value, length) })
        .map(drop)
}

/// Sends from several pieces of lent memory. Never raises SIGPIPE: the host may be a C program that does not ignore it.
///
/// # Safety
/// Each piece must be readable memory that stays so during the call.
pub(crate) unsafe fn send(stream: &TcpStream, pieces: &mut [iovec]) -> io::Result<usize> {
    let message = message(pieces);
    // SAFETY: the message names `pieces` only, readable by the caller's contract.
    size(unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })
}

/// Receives into several pieces of lent memory; 0 means that the peer has closed.
///
/// # Safety
/// Each piece must be writable memory that nobody else uses during the call.
pub(crate) unsafe fn receive(stream: &TcpStream, pieces: &mut [iovec]) -> io::Result<usize> {
    let mut message = message(pieces);
    // SAFETY: the message names `pieces` only, writable by the caller's contract.
    size(unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0) })
}

fn message(pieces: &mut [iovec]) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid msghdr: no name, no pieces, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = pieces.len();
    message
}

fn size(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn length_of<T>() -> socklen_t {
    socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

/// Whether an I/O error only says that the call would have had to wait.
pub(crate) fn would_block(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_reaches_listeners_of_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = listen(address.parse().unwrap()) else {
                continue; // A machine without IPv6.
            };
            let stream = connect(listener.local_addr().unwrap()).unwrap();
            poll(
                &mut [interest(stream.as_raw_fd(), libc::POLLOUT)],
                Duration::from_secs(5),
            )
            .unwrap();
            assert!(is_connected(&stream).unwrap(), "{address}");
            assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        }
    }

    #[test]
    fn a_refused_connection_is_an_error_and_not_a_wait() {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let outcome = connect(port).and_then(|stream| {
            poll(
                &mut [interest(stream.as_raw_fd(), libc::POLLOUT)],
                Duration::from_secs(5),
            )?;
            is_connected(&stream)
        });
        assert_eq!(
            outcome.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
    }

    #[test]
    fn a_reset_close_is_seen_as_an_error_and_a_plain_close_is_not() {
        for (reset, expected) in [(true, Some(io::ErrorKind::ConnectionReset)), (false, None)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            if reset {
                close_by_reset(&near).unwrap();
            }
            drop(near);
            poll(
                &mut [interest(far.as_raw_fd(), libc::POLLIN)],
                Duration::from_secs(5),
            )
            .unwrap();
            assert_eq!(far.take_error().unwrap().map(|e| e.kind()), expected);
        }
    }
}
