//! A listener that tells members from strangers without ever waiting for one of them.
//!
//! Whoever connects has to say a whole hello within a short time of its own. Until then it costs one place in a
//! bounded list; if it says something else, says nothing or leaves, it is dropped and counted. A port scan or a
//! health check can therefore neither stall nor fail a start-up.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use libc::pollfd;

use crate::boot::wire::{HELLO_LEN, Hello, may_be_hello};
use crate::error::{Error, Result};
use crate::sock::{Deadline, interest, listen, would_block};

/// What a connection may take to say its hello. Members say it at once; this bounds how long a silent one is kept.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// Connections that may be silent at the same time; one more drops the oldest.
const MAX_SILENT: usize = 64;

/// A connection that has not said its whole hello.
#[derive(Debug)]
struct Silent {
    stream: TcpStream,
    bytes: [u8; HELLO_LEN],
    got: usize,
    deadline: Deadline,
}

/// What one look at a silent connection found.
enum Look {
    Wait,
    Member(Hello),
    Stranger,
}

/// The listener.
#[derive(Debug)]
pub(crate) struct Greeter {
    listener: TcpListener,
    silent: Vec<Silent>,
    strangers: u64,
    hello_time: Duration,
}

impl Greeter {
    /// Listens at `address`.
    pub(crate) fn listen(address: SocketAddr) -> Result<Self> {
        let listener = listen(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Error::resource(format!(
                "cannot listen at {address}: the address is in use by another process"
            )),
            _ => Error::resource(format!("cannot listen at {address}: {error}")),
        })?;
        Ok(Self {
            listener,
            silent: Vec::new(),
            strangers: 0,
            hello_time: HELLO_TIME,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.listener
            .local_addr()
            .map_err(|error| Error::failed(format!("address of a listener: {error}")))
    }

    /// Connections dropped so far because they were no members.
    pub(crate) const fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Counts a connection that said a hello for something else as a stranger too.
    pub(crate) const fn count_stranger(&mut self) {
        self.strangers += 1;
    }

    /// Appends the entries for a poll that is ready when [`pass`](Self::pass) has something to do.
    pub(crate) fn interests(&self, fds: &mut Vec<pollfd>) {
        fds.push(interest(self.listener.as_raw_fd(), libc::POLLIN));
        fds.extend(
            self.silent
                .iter()
                .map(|silent| interest(silent.stream.as_raw_fd(), libc::POLLIN)),
        );
    }

    /// The longest that a poll may wait before a silent connection has to be dropped.
    pub(crate) fn patience(&self) -> Duration {
        let left = self
            .silent
            .iter()
            .map(|silent| silent.deadline.left().unwrap_or_default());
        left.min().unwrap_or(self.hello_time)
    }

    /// Accepts what waits and reads what came, without blocking. Returns the connections that said a hello.
    pub(crate) fn pass(&mut self) -> Result<Vec<(TcpStream, Hello)>> {
        self.accept_all()?;
        let mut members = Vec::new();
        let mut index = 0;
        while let Some(silent) = self.silent.get_mut(index) {
            match silent.look() {
                Look::Wait => index += 1,
                Look::Member(hello) => members.push((self.silent.swap_remove(index).stream, hello)),
                Look::Stranger => {
                    self.silent.swap_remove(index);
                    self.strangers += 1;
                }
            }
        }
        Ok(members)
    }

    fn accept_all(&mut self) -> Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // A connection that cannot even be configured is as good as gone.
                    if stream.set_nonblocking(true).is_err() {
                        self.strangers += 1;
                        continue;
                    }
                    if self.silent.len() == MAX_SILENT {
                        self.silent.remove(0);
                        self.strangers += 1;
                    }
                    let deadline = Deadline::after(self.hello_time);
                    self.silent.push(Silent {
                        stream,
                        bytes: [0; HELLO_LEN],
                        got: 0,
                        deadline,
                    });
                }
                Err(error) if would_block(&error) => return Ok(()),
                // The visitor left between its connect and this accept.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    self.strangers += 1
                }
                Err(error) => {
                    return Err(Error::resource(format!(
                        "cannot accept a connection: {error}"
                    )));
                }
            }
        }
    }
}

impl Silent {
    fn look(&mut self) -> Look {
        while self.got < HELLO_LEN {
            match self.stream.read(&mut self.bytes[self.got..]) {
                Ok(0) => return Look::Stranger,
                Ok(got) => self.got += got,
                Err(error) if would_block(&error) && self.deadline.left().is_some() => {
                    return Look::Wait;
                }
                Err(_) => return Look::Stranger,
            }
            if !may_be_hello(&self.bytes[..self.got]) {
                return Look::Stranger;
            }
        }
        // An aborted sender resets its connection: what it sent belongs to a run that no longer exists.
        match (Hello::decode(&self.bytes), self.stream.take_error()) {
            (Some(hello), Ok(None)) => Look::Member(hello),
            _ => Look::Stranger,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::boot::wire::Purpose;
    use crate::sock::poll;

    const HELLO: Hello = Hello {
        purpose: Purpose::Join,
        key: 7,
        rank: 1,
        world: 2,
        stream: 0,
    };

    fn greeter() -> Greeter {
        Greeter::listen("127.0.0.1:0".parse().unwrap()).unwrap()
    }

    fn visit(greeter: &Greeter, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(greeter.address().unwrap()).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// Passes until `enough` says so; waits on the sockets, not on time.
    fn run(greeter: &mut Greeter, enough: impl Fn(&Greeter, usize) -> bool) -> Vec<Hello> {
        let limit = Deadline::after(Duration::from_secs(10));
        let mut hellos = Vec::new();
        while !enough(greeter, hellos.len()) {
            let mut fds = Vec::new();
            greeter.interests(&mut fds);
            poll(&mut fds, greeter.patience()).unwrap();
            hellos.extend(greeter.pass().unwrap().into_iter().map(|(_, hello)| hello));
            assert!(
                limit.left().is_some(),
                "got {hellos:?}, {} strangers",
                greeter.strangers()
            );
        }
        hellos
    }

    #[test]
    fn a_member_is_found_among_strangers_of_every_kind() {
        let mut greeter = greeter();
        drop(visit(&greeter, b""));
        drop(visit(&greeter, b"GET"));
        let _wrong = visit(&greeter, b"8 wrong!");
        let _silent = visit(&greeter, b"");
        let _half = visit(&greeter, &HELLO.encode()[..20]);
        let _member = visit(&greeter, &HELLO.encode());
        let hellos = run(&mut greeter, |g, members| {
            members == 1 && g.strangers() == 3
        });
        assert_eq!(hellos, [HELLO]);
        assert_eq!(
            greeter.silent.len(),
            2,
            "the silent and the half one are still waited for"
        );
    }

    #[test]
    fn a_hello_in_pieces_is_put_together() {
        let mut greeter = greeter();
        let bytes = HELLO.encode();
        let mut slow = visit(&greeter, &bytes[..1]);
        run(&mut greeter, |g, _| {
            g.silent.first().is_some_and(|s| s.got == 1)
        });
        slow.write_all(&bytes[1..39]).unwrap();
        run(&mut greeter, |g, _| {
            g.silent.first().is_some_and(|s| s.got == 39)
        });
        slow.write_all(&bytes[39..]).unwrap();
        assert_eq!(run(&mut greeter, |_, members| members == 1), [HELLO]);
    }

    #[test]
    fn a_silent_stranger_is_dropped_when_its_time_is_over() {
        let mut greeter = greeter();
        greeter.hello_time = Duration::from_millis(1);
        let _silent = visit(&greeter, b"");
        run(&mut greeter, |g, _| g.strangers() == 1);
        assert!(greeter.silent.is_empty());
    }

    #[test]
    fn a_crowd_of_silent_strangers_stays_bounded() {
        let mut greeter = greeter();
        let crowd: Vec<_> = (0..MAX_SILENT + 5).map(|_| visit(&greeter, b"")).collect();
        run(&mut greeter, |g, _| g.strangers() == 5);
        assert_eq!(greeter.silent.len(), MAX_SILENT);
        drop(crowd);
    }

    #[test]
    fn a_taken_address_is_named() {
        let first = greeter();
        let address = first.address().unwrap();
        let error = Greeter::listen(address).unwrap_err().to_string();
        assert!(
            error.contains(&address.to_string()) && error.contains("in use"),
            "{error}"
        );
    }
}
