//! One connection between two launchers: lines of JSON, read when there is something and written at once.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire::Lines;

/// How long a write may wait for a launcher that reads nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// The connection.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    lines: Lines,
    peer: SocketAddr,
    open: bool,
}

impl Link {
    /// Takes over a connection.
    pub(super) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            lines: Lines::default(),
            peer,
            open: true,
        })
    }

    /// Who is at the other end.
    pub(super) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether the other end may still say something.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// For a poll; none when it is closed.
    pub(super) fn fd(&self) -> Option<RawFd> {
        self.open.then(|| self.stream.as_raw_fd())
    }

    /// Says something.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    /// What has come; call it when a poll has found the connection readable, as it would wait otherwise. What is no message is an error
    /// with its beginning.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> Vec<Result<T, String>> {
        let mut bytes = vec![0; 1 << 16];
        match self.stream.read(&mut bytes) {
            Ok(count) if count > 0 => {
                let lines = self.lines.add(bytes.get(..count).unwrap_or_default());
                lines.iter().map(|line| parse(line)).collect()
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Vec::new(),
            // The end, or a reset, which is one, too. Half a line has no meaning.
            Ok(_) | Err(_) => {
                self.open = false;
                Vec::new()
            }
        }
    }
}

fn parse<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| {
        let head: String = line.chars().take(80).collect();
        format!("said {head:?}: {error}")
    })
}
