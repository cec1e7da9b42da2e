//! The connections of one stream: to every rank it sends to, from every rank it receives from.
//!
//! A sender connects at its first transfer, without waiting. A receiver takes what connected when a posted receive
//! has no connection yet. Only connections with something to do cost system calls: the two busy lists name them, and
//! when there is more than one, a single poll finds those that are ready.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use libc::pollfd;

use crate::boot::wire::{HELLO_LEN, Hello, Peer, Purpose};
use crate::error::{Error, Result, log};
use crate::lane::{Job, Lane, LaneError, Moved};
use crate::sock::{close_by_reset, connect, interest, is_connected, poll};

/// Which way an op list moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Send,
    Receive,
}

/// The sending side of one rank pair.
#[derive(Debug, Default)]
struct Outgoing {
    stream: Option<TcpStream>,
    connected: bool,
    /// Bytes of the hello that have been sent.
    greeted: usize,
    lane: Lane,
    /// The socket took no more; worth another try only when poll says so.
    blocked: bool,
}

/// The receiving side of one rank pair.
#[derive(Debug, Default)]
struct Incoming {
    stream: Option<TcpStream>,
    lane: Lane,
}

/// What the connections of a stream need to know of their communicator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Net<'a> {
    pub(crate) rank: u32,
    pub(crate) key: u64,
    pub(crate) peers: &'a [Peer],
}

/// Tickets of the transfers that finished in a pass, and whether any bytes moved.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(crate) sends: Vec<u64>,
    pub(crate) receives: Vec<u64>,
    pub(crate) moved: bool,
}

/// All connections of one stream.
#[derive(Debug)]
pub(crate) struct Peers {
    stream: u32,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    /// Ranks with transfers in their lane, each once.
    busy_out: Vec<usize>,
    busy_in: Vec<usize>,
    /// Scratch of a pass: ranks of `busy_in` that have something to read, and what was asked of the system.
    ready_in: Vec<usize>,
    fds: Vec<pollfd>,
}

impl Peers {
    pub(crate) fn new(stream: u32, world: usize) -> Self {
        let mut outgoing = Vec::new();
        outgoing.resize_with(world, Outgoing::default);
        let mut incoming = Vec::new();
        incoming.resize_with(world, Incoming::default);
        Self {
            stream,
            outgoing,
            incoming,
            busy_out: Vec::new(),
            busy_in: Vec::new(),
            ready_in: Vec::new(),
            fds: Vec::new(),
        }
    }

    /// Queues a transfer with `peer`, which the caller has checked against the world.
    pub(crate) fn post(&mut self, direction: Direction, peer: usize, job: Job) {
        let (lane, busy) = match direction {
            Direction::Send => (&mut self.outgoing[peer].lane, &mut self.busy_out),
            Direction::Receive => (&mut self.incoming[peer].lane, &mut self.busy_in),
        };
        if lane.is_empty() {
            busy.push(peer);
        }
        lane.push(job);
    }

    /// Whether a posted receive waits for its peer to connect.
    pub(crate) fn wants_connections(&self) -> bool {
        self.busy_in
            .iter()
            .any(|&peer| self.incoming[peer].stream.is_none())
    }

    /// Takes in a connection on which `peer` said hello; false if it is not wanted.
    pub(crate) fn welcome(&mut self, peer: u32, stream: TcpStream) -> bool {
        let place = usize::try_from(peer)
            .ok()
            .and_then(|peer| self.incoming.get_mut(peer));
        let Some(incoming) = place else {
            return false;
        };
        // A sender has one connection at a time. A second one is taken only for one that was reset.
        let stale = incoming
            .stream
            .as_ref()
            .is_none_or(|old| !matches!(old.take_error(), Ok(None)));
        if stale {
            incoming.stream = Some(stream);
        }
        stale
    }

    /// Moves what can be moved without waiting.
    pub(crate) fn transfer(&mut self, net: Net<'_>, finished: &mut Finished) -> Result<()> {
        self.find_ready()
            .map_err(|error| Error::proxy(format!("poll: {error}")))?;
        for index in 0..self.busy_out.len() {
            let peer = self.busy_out[index];
            let outgoing = &mut self.outgoing[peer];
            if !outgoing.blocked {
                let moved = outgoing.drive(net, self.stream, peer, &mut finished.sends);
                finished.moved |= outcome(peer, moved)?;
            }
        }
        for index in 0..self.ready_in.len() {
            let peer = self.ready_in[index];
            let Incoming { stream, lane } = &mut self.incoming[peer];
            if let Some(stream) = stream {
                let moved = lane.receive(stream, &mut finished.receives);
                finished.moved |= outcome(peer, moved)?;
            }
        }
        let Self {
            outgoing, incoming, ..
        } = self;
        self.busy_out
            .retain(|&peer| !outgoing[peer].lane.is_empty());
        self.busy_in.retain(|&peer| !incoming[peer].lane.is_empty());
        Ok(())
    }

    /// Fills `ready_in` and unblocks senders. With one connection in question, trying it is as cheap as asking; with
    /// more, one poll asks for all of them.
    fn find_ready(&mut self) -> std::io::Result<()> {
        self.fds.clear();
        self.ready_in.clear();
        for &peer in &self.busy_in {
            if let Some(stream) = &self.incoming[peer].stream {
                self.fds.push(interest(stream.as_raw_fd(), libc::POLLIN));
                self.ready_in.push(peer);
            }
        }
        let receivers = self.fds.len();
        for &peer in &self.busy_out {
            let Outgoing {
                stream, blocked, ..
            } = &self.outgoing[peer];
            if let (Some(stream), true) = (stream, *blocked) {
                self.fds.push(interest(stream.as_raw_fd(), libc::POLLOUT));
            }
        }
        let asked = self.fds.len() > 1;
        if asked {
            poll(&mut self.fds, Duration::ZERO)?;
        }
        let is_ready = |fd: Option<&pollfd>| !asked || fd.is_some_and(|fd| fd.revents != 0);
        let (incoming, outgoing) = self.fds.split_at(receivers);
        let mut incoming = incoming.iter();
        self.ready_in.retain(|_| is_ready(incoming.next()));
        let mut outgoing = outgoing.iter();
        for &peer in &self.busy_out {
            let side = &mut self.outgoing[peer];
            if side.blocked {
                side.blocked = !is_ready(outgoing.next());
            }
        }
        Ok(())
    }

    /// Drops the connections that the other side has ended since the last run. A sender opens a new one when it needs
    /// it. A receiver drops only what was reset, which is how an aborted sender ends; an orderly end stays and is an
    /// error if something is expected from there.
    pub(crate) fn sweep(&mut self) -> Result<()> {
        self.fds.clear();
        let outgoing = self.outgoing.iter().filter_map(|side| side.stream.as_ref());
        self.fds
            .extend(outgoing.map(|stream| interest(stream.as_raw_fd(), libc::POLLRDHUP)));
        let incoming = self.incoming.iter().filter_map(|side| side.stream.as_ref());
        self.fds
            .extend(incoming.map(|stream| interest(stream.as_raw_fd(), 0)));
        if self.fds.is_empty() {
            return Ok(());
        }
        poll(&mut self.fds, Duration::ZERO)
            .map_err(|error| Error::failed(format!("poll: {error}")))?;
        let mut found = self.fds.iter();
        for side in self
            .outgoing
            .iter_mut()
            .filter(|side| side.stream.is_some())
        {
            if found.next().is_some_and(|fd| fd.revents != 0) {
                side.close();
            }
        }
        for side in self
            .incoming
            .iter_mut()
            .filter(|side| side.stream.is_some())
        {
            if found
                .next()
                .is_some_and(|fd| fd.revents & libc::POLLERR != 0)
            {
                side.close();
            }
        }
        Ok(())
    }

    /// Ends all connections in the middle of a run. The peers see a reset.
    pub(crate) fn abort(&mut self, rank: u32) {
        for side in &mut self.outgoing {
            if let Some(Err(error)) = side.stream.as_ref().map(close_by_reset) {
                log(format_args!("rank {rank}: stream {}: {error}", self.stream));
            }
            side.close();
        }
        self.incoming.iter_mut().for_each(Incoming::close);
        self.busy_out.clear();
        self.busy_in.clear();
    }
}

impl Outgoing {
    fn close(&mut self) {
        self.stream = None;
        self.connected = false;
        self.greeted = 0;
        self.blocked = false;
        self.lane.reset();
    }

    fn drive(
        &mut self,
        net: Net<'_>,
        stream: u32,
        peer: usize,
        finished: &mut Vec<u64>,
    ) -> std::result::Result<Moved, LaneError> {
        let socket = match self.stream.take() {
            Some(socket) => socket,
            None => connect(net.peers[peer].address)?,
        };
        let socket = self.stream.insert(socket);
        if !self.connected {
            self.connected = is_connected(socket)?;
        }
        if !self.connected || !greet(socket, &mut self.greeted, net, stream)? {
            self.blocked = true;
            return Ok(Moved {
                any: false,
                blocked: true,
            });
        }
        let moved = self.lane.send(socket, finished)?;
        self.blocked = moved.blocked;
        Ok(moved)
    }
}

/// Sends the rest of the hello; whether all of it is out.
fn greet(
    mut socket: &TcpStream,
    greeted: &mut usize,
    net: Net<'_>,
    stream: u32,
) -> std::io::Result<bool> {
    if *greeted < HELLO_LEN {
        let world = u32::try_from(net.peers.len()).unwrap_or(0);
        let hello = Hello {
            purpose: Purpose::Data,
            key: net.key,
            rank: net.rank,
            world,
            stream,
        };
        match std::io::Write::write(&mut socket, &hello.encode()[*greeted..]) {
            Ok(sent) => *greeted += sent,
            Err(error) if crate::sock::would_block(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(*greeted == HELLO_LEN)
}

impl Incoming {
    fn close(&mut self) {
        self.stream = None;
        self.lane.reset();
    }
}

/// Turns what a lane did into whether something moved, or into an error that names the peer.
fn outcome(peer: usize, moved: std::result::Result<Moved, LaneError>) -> Result<bool> {
    let error = match moved {
        Ok(moved) => return Ok(moved.any),
        Err(error) => error,
    };
    let text = match error {
        LaneError::Closed => "closed the connection".into(),
        LaneError::Size { sent, expected } => {
            format!("sent a message of {sent} bytes, the posted receive has {expected}")
        }
        LaneError::Sequence { found, expected } => {
            format!("sent message number {found}, this rank expects {expected}")
        }
        LaneError::System(error) => error.to_string(),
    };
    Err(Error::proxy(format!("peer rank {peer}: {text}")))
}
