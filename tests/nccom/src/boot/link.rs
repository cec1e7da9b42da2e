//! A connection to one rank with blocking transfers that end at a deadline or at the peer's death.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use libc::pollfd;

use crate::boot::wire::word;
use crate::error::{Error, Result};
use crate::sock::{Deadline, interest, poll, would_block};

/// Frames of the bootstrap: this, then the length of the payload.
const HEADER_LEN: usize = 8;
/// The largest payload taken from a peer: far above any bootstrap exchange, far below what could hurt the host.
pub(crate) const MAX_FRAME: usize = 1 << 26;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Tag {
    /// Root to a joining rank: accepted; the session's key.
    Welcome = 1,
    /// Root to a joining rank: refused; the reason.
    Refused = 2,
    /// Payload of a caller.
    Data = 3,
    /// The other side gives up; the reason.
    Abort = 4,
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    peer: u32,
}

impl Link {
    /// Takes over an established connection to rank `peer`.
    pub(crate) fn new(stream: TcpStream, peer: u32) -> Result<Self> {
        let set = stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true));
        set.map_err(|error| {
            Error::failed(format!(
                "peer rank {peer}: cannot set up the connection: {error}"
            ))
        })?;
        Ok(Self { stream, peer })
    }

    /// Connects to `address`, waiting until the deadline at most.
    pub(crate) fn connect(address: SocketAddr, peer: u32, deadline: &Deadline) -> Result<Self> {
        let outcome = match deadline.left() {
            Some(left) => TcpStream::connect_timeout(&address, left),
            None => Err(io::ErrorKind::TimedOut.into()),
        };
        match outcome {
            Ok(stream) => Self::new(stream, peer),
            Err(error) => Err(Error::failed(format!(
                "peer rank {peer}: cannot connect to {address}: {error}"
            ))),
        }
    }

    /// The rank at the other end.
    pub(crate) const fn peer(&self) -> u32 {
        self.peer
    }

    /// The local address of the connection.
    pub(crate) fn local_ip(&self) -> Result<IpAddr> {
        let address = self.stream.local_addr();
        address
            .map(|address| address.ip())
            .map_err(|error| self.error(&error))
    }

    /// Entry for [`poll`] that is ready when there is something to read, a close included.
    pub(crate) fn readable(&self) -> pollfd {
        interest(self.stream.as_raw_fd(), libc::POLLIN)
    }

    /// Entry for [`poll`] that is ready only when the peer has closed.
    pub(crate) fn closed(&self) -> pollfd {
        interest(self.stream.as_raw_fd(), libc::POLLRDHUP)
    }

    /// Sends raw bytes.
    pub(crate) fn write(&mut self, mut bytes: &[u8], deadline: &Deadline) -> Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if would_block(&error) => self.wait(libc::POLLOUT, deadline)?,
                Err(error) => return Err(self.error(&error)),
            }
        }
        Ok(())
    }

    /// Sends one frame.
    pub(crate) fn send(&mut self, tag: Tag, payload: &[u8], deadline: &Deadline) -> Result<()> {
        let Some(length) = u32::try_from(payload.len())
            .ok()
            .filter(|_| payload.len() <= MAX_FRAME)
        else {
            return Err(Error::invalid(format!(
                "{} bytes, accepted: at most {MAX_FRAME}",
                payload.len()
            )));
        };
        let mut header = [0; HEADER_LEN];
        header[..4].copy_from_slice(&(tag as u32).to_le_bytes());
        header[4..].copy_from_slice(&length.to_le_bytes());
        self.write(&header, deadline)?;
        self.write(payload, deadline)
    }

    /// Receives one frame. An abort of the peer is an error with the peer's reason.
    pub(crate) fn receive(&mut self, deadline: &Deadline) -> Result<(Tag, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.read(&mut header, deadline)?;
        let length = usize::try_from(word(&header, 4)).unwrap_or(usize::MAX);
        let tag = [Tag::Welcome, Tag::Refused, Tag::Data, Tag::Abort]
            .into_iter()
            .find(|tag| *tag as u32 == word(&header, 0))
            .filter(|_| length <= MAX_FRAME);
        let Some(tag) = tag else {
            return Err(Error::failed(format!(
                "peer rank {}: does not speak this protocol",
                self.peer
            )));
        };
        let mut payload = vec![0; length];
        self.read(&mut payload, deadline)?;
        if tag == Tag::Abort {
            let reason = String::from_utf8_lossy(&payload);
            return Err(Error::failed(format!(
                "peer rank {} gave up: {reason}",
                self.peer
            )));
        }
        Ok((tag, payload))
    }

    /// Receives one frame of caller's data into `out`, whose length it must have.
    pub(crate) fn receive_data(&mut self, out: &mut [u8], deadline: &Deadline) -> Result<()> {
        let (tag, payload) = self.receive(deadline)?;
        if tag != Tag::Data || payload.len() != out.len() {
            let (peer, got, wanted) = (self.peer, payload.len(), out.len());
            return Err(Error::failed(format!(
                "peer rank {peer}: sent {got} bytes, this rank expects {wanted}"
            )));
        }
        out.copy_from_slice(&payload);
        Ok(())
    }

    fn read(&mut self, mut out: &mut [u8], deadline: &Deadline) -> Result<()> {
        while !out.is_empty() {
            match self.stream.read(out) {
                Ok(0) => return Err(self.error(&io::ErrorKind::UnexpectedEof.into())),
                Ok(got) => out = &mut out[got..],
                Err(error) if would_block(&error) => self.wait(libc::POLLIN, deadline)?,
                Err(error) => return Err(self.error(&error)),
            }
        }
        Ok(())
    }

    fn wait(&self, events: i16, deadline: &Deadline) -> Result<()> {
        let Some(left) = deadline.left() else {
            return Err(Error::timeout(format!(
                "peer rank {}: no answer within {} s",
                self.peer,
                deadline.allowed().as_secs_f32()
            )));
        };
        let mut fds = [interest(self.stream.as_raw_fd(), events)];
        poll(&mut fds, left)
            .map(drop)
            .map_err(|error| self.error(&error))
    }

    fn error(&self, error: &io::Error) -> Error {
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => "closed the connection".into(),
            _ => error.to_string(),
        };
        Error::failed(format!("peer rank {}: {text}", self.peer))
    }
}
