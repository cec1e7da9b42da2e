//! The data communicator: who its ranks are, its four streams, its connectors.

use std::ffi::c_int;
use std::time::Duration;

use crate::abi::{CommInfo, STREAMS};
use crate::boot::greeter::Greeter;
use crate::boot::id::UniqueId;
use crate::boot::introduce;
use crate::boot::star::Star;
use crate::boot::wire::{Peer, Purpose};
use crate::connector::Connectors;
use crate::error::{Error, Result, log};
use crate::peers::{Direction, Net};
use crate::sock::Deadline;
use crate::stream::{Lists, Stream};

/// One rank of a communicator. One thread at a time.
#[derive(Debug)]
pub(crate) struct Comm {
    rank: u32,
    key: u64,
    peers: Vec<Peer>,
    greeter: Greeter,
    streams: [Stream; STREAMS],
    connectors: Connectors,
}

impl Comm {
    /// Joins the communicator that `id` names. Blocks until all its ranks have, `timeout` at most.
    pub(crate) fn join(
        id: &UniqueId,
        rank: u32,
        world: u32,
        device: i32,
        timeout: Duration,
    ) -> Result<Self> {
        let deadline = Deadline::after(timeout);
        let mut star = if rank == 0 {
            let mut root = id.take_listener()?;
            Star::host(&mut root, world, id.key, id.key, &deadline)?
        } else {
            Star::join(id.address, world, rank, id.key, &deadline)?
        };
        let local = star.local_ip()?.unwrap_or(id.address.ip());
        let (greeter, peers) = introduce(&mut star, world, local, device, &deadline)?;
        let mut stream = 0..;
        let streams = [(); STREAMS].map(|()| Stream::new(stream.next().unwrap_or(0), peers.len()));
        Ok(Self {
            rank,
            key: id.key,
            peers,
            greeter,
            streams,
            connectors: Connectors::default(),
        })
    }

    /// This rank and the number of ranks.
    pub(crate) fn place(&self) -> (u32, u32) {
        (self.rank, u32::try_from(self.peers.len()).unwrap_or(0))
    }

    /// The connectors handed out.
    pub(crate) const fn connectors(&mut self) -> &mut Connectors {
        &mut self.connectors
    }

    /// The ring neighbour that data goes to or comes from.
    pub(crate) fn neighbour(&self, direction: Direction) -> usize {
        let world = self.peers.len();
        let step = if direction == Direction::Send {
            1
        } else {
            world - 1
        };
        (usize::try_from(self.rank).unwrap_or(0) + step) % world
    }

    /// Files the lists of a block of a stream.
    pub(crate) fn start(&mut self, stream: u32, block: u32, lists: Lists) -> Result<()> {
        self.stream(stream)?.start(block, lists)
    }

    /// One pass over the active lists of a stream; what it found of (idle, done).
    pub(crate) fn progress(&mut self, stream: u32, block: u32) -> Result<(bool, bool)> {
        let index = self.index(stream)?;
        let outcome = self.pass(index, block);
        outcome.map_err(|error| {
            self.streams[index].fail();
            error.within(format_args!(
                "rank {}: stream {stream} block {block}",
                self.rank
            ))
        })
    }

    fn pass(&mut self, index: usize, block: u32) -> Result<(bool, bool)> {
        self.streams[index].begin(block)?;
        if self.streams[index].peers.wants_connections() {
            self.welcome()?;
        }
        let net = Net {
            rank: self.rank,
            key: self.key,
            peers: &self.peers,
        };
        self.streams[index].end(net)
    }

    /// Takes in the connections of members, for whichever stream they are.
    fn welcome(&mut self) -> Result<()> {
        for (stream, hello) in self.greeter.pass()? {
            let known = hello.purpose == Purpose::Data && hello.key == self.key;
            let place = usize::try_from(hello.stream).ok().filter(|_| known);
            let wanted = place.and_then(|place| self.streams.get_mut(place));
            if !wanted.is_some_and(|wanted| wanted.peers.welcome(hello.rank, stream)) {
                self.greeter.count_stranger();
            }
        }
        Ok(())
    }

    /// Drops all lists of a stream; harmless when there are none.
    pub(crate) fn stop(&mut self, stream: u32) -> Result<()> {
        let rank = self.rank;
        self.stream(stream)?.stop(rank);
        Ok(())
    }

    /// The record that the host asks for.
    pub(crate) fn info(&self) -> CommInfo {
        info_of(self.rank, &self.peers)
    }

    /// The device that a rank said it has.
    pub(crate) fn device(&self, rank: u32) -> Option<c_int> {
        device_of(rank, &self.peers)
    }

    fn index(&self, stream: u32) -> Result<usize> {
        let index = usize::try_from(stream)
            .ok()
            .filter(|index| *index < STREAMS);
        index.ok_or_else(|| {
            Error::invalid(format!(
                "rank {}: stream {stream}, accepted: 0 to {}",
                self.rank,
                STREAMS - 1
            ))
        })
    }

    fn stream(&mut self, stream: u32) -> Result<&mut Stream> {
        let index = self.index(stream)?;
        Ok(&mut self.streams[index])
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        for (index, stream) in self.streams.iter().enumerate() {
            if let Some(block) = stream.running() {
                let rank = self.rank;
                log(format_args!(
                    "rank {rank}: freed while stream {index} block {block} was running"
                ));
            }
        }
    }
}

/// What a rank of `peers` tells its host. A node is what shares an IP address; nodes are numbered in rank order.
pub(crate) fn info_of(rank: u32, peers: &[Peer]) -> CommInfo {
    let hosts: Vec<_> = peers.iter().map(|peer| peer.address.ip()).collect();
    let mut nodes = Vec::new();
    for host in &hosts {
        if !nodes.contains(host) {
            nodes.push(*host);
        }
    }
    let own = usize::try_from(rank).ok().and_then(|rank| hosts.get(rank));
    let local = hosts.iter().filter(|host| Some(*host) == own).count();
    let node = nodes.iter().position(|host| Some(host) == own).unwrap_or(0);
    let number = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
    CommInfo {
        cluster_id: 0,
        epoch: 0,
        neuron_dev: device_of(rank, peers).unwrap_or(-1),
        rank: i32::try_from(rank).unwrap_or(-1),
        rank_n: number(peers.len()),
        local_rank_n: number(local),
        local_rack_rank_n: number(local),
        node: number(node),
        node_n: number(nodes.len()),
        rest: [0; 1332],
    }
}

/// The device that a rank of `peers` said it has.
pub(crate) fn device_of(rank: u32, peers: &[Peer]) -> Option<c_int> {
    let rank = usize::try_from(rank).ok()?;
    peers.get(rank).map(|peer| peer.device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_what_shares_an_address_in_rank_order() {
        let peer = |address: &str, device| Peer {
            address: address.parse().unwrap(),
            device,
        };
        let peers = [
            peer("10.0.0.2:1", 4),
            peer("10.0.0.1:1", 5),
            peer("10.0.0.2:2", 6),
            peer("10.0.0.1:2", 7),
        ];
        let info = info_of(3, &peers);
        assert_eq!((info.rank, info.rank_n, info.neuron_dev), (3, 4, 7));
        assert_eq!((info.local_rank_n, info.node, info.node_n), (2, 1, 2));
    }
}
