//! The bootstrap: the global communicator, over which ranks agree before any data moves.

pub(crate) mod greeter;
pub(crate) mod id;
mod link;
mod pairs;
pub(crate) mod star;
pub(crate) mod wire;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::abi::CommInfo;
use crate::boot::greeter::Greeter;
use crate::boot::id::random_key;
use crate::boot::pairs::Pairs;
use crate::boot::star::Star;
use crate::boot::wire::{PEER_LEN, Peer};
use crate::comm::{device_of, info_of};
use crate::error::{Error, Result};
use crate::settings::set_local_address;
use crate::sock::Deadline;

/// The global communicator of one rank. Its calls block, each until a deadline of `timeout`; one thread at a time.
#[derive(Debug)]
pub(crate) struct GlobalComm {
    rank: u32,
    world: u32,
    timeout: Duration,
    star: Star,
    pairs: Pairs,
}

impl GlobalComm {
    /// Joins the world of `world` ranks whose rank 0 listens at `root`.
    pub(crate) fn join(
        rank: u32,
        world: u32,
        root: SocketAddr,
        device: i32,
        timeout: Duration,
    ) -> Result<Self> {
        let deadline = Deadline::after(timeout);
        let mut star = if rank == 0 {
            let mut greeter =
                Greeter::listen(root).map_err(|error| error.within("rank 0: root"))?;
            Star::host(&mut greeter, world, random_key(), 0, &deadline)?
        } else {
            Star::join(root, world, rank, 0, &deadline)?
        };
        let local = star.local_ip()?.unwrap_or(root.ip());
        set_local_address(local);
        let (greeter, peers) = introduce(&mut star, world, local, device, &deadline)?;
        let pairs = Pairs::new(rank, star.key(), greeter, peers);
        Ok(Self {
            rank,
            world,
            timeout,
            star,
            pairs,
        })
    }

    /// This rank and the number of ranks.
    pub(crate) const fn place(&self) -> (u32, u32) {
        (self.rank, self.world)
    }

    /// The record that the host asks for.
    pub(crate) fn info(&self) -> CommInfo {
        info_of(self.rank, self.pairs.peers())
    }

    /// The device that a rank said it has.
    pub(crate) fn device(&self, rank: u32) -> Option<i32> {
        device_of(rank, self.pairs.peers())
    }

    /// Sends a message to `peer`; `hint` is the caller's word for what it is.
    pub(crate) fn send(&mut self, peer: u32, data: &[u8], hint: &str) -> Result<()> {
        let sent = self.pairs.send(peer, data, &Deadline::after(self.timeout));
        sent.map_err(|error| self.named(error, "send", hint))
    }

    /// Receives the next message of `peer` into `out`.
    pub(crate) fn receive(&mut self, peer: u32, out: &mut [u8], hint: &str) -> Result<()> {
        let received = self
            .pairs
            .receive(peer, out, &Deadline::after(self.timeout));
        received.map_err(|error| self.named(error, "receive", hint))
    }

    /// Spreads each rank's part of `all`, given in its own place, to all ranks.
    pub(crate) fn all_gather(&mut self, all: &mut [u8], part: usize, hint: &str) -> Result<()> {
        let start = usize::try_from(self.rank).unwrap_or(0) * part;
        let own = all[start..start + part].to_vec();
        let gathered = self
            .star
            .all_gather(&own, all, &Deadline::after(self.timeout));
        gathered.map_err(|error| {
            if hint.is_empty() {
                error
            } else {
                error.within(hint)
            }
        })
    }

    fn named(&self, error: Error, verb: &str, hint: &str) -> Error {
        error.within(format_args!("rank {}: {verb} ({hint})", self.rank))
    }
}

/// Opens this rank's listener at `local` and exchanges addresses and devices over the star.
pub(crate) fn introduce(
    star: &mut Star,
    world: u32,
    local: IpAddr,
    device: i32,
    deadline: &Deadline,
) -> Result<(Greeter, Vec<Peer>)> {
    let greeter = Greeter::listen(SocketAddr::new(local, 0))?;
    let own = Peer {
        address: greeter.address()?,
        device,
    };
    let mut all = vec![0; PEER_LEN * usize::try_from(world).unwrap_or(0)];
    star.all_gather(&own.encode(), &mut all, deadline)?;
    let peers = all
        .chunks_exact(PEER_LEN)
        .map(Peer::decode)
        .collect::<Option<Vec<_>>>();
    let peers = peers.ok_or_else(|| Error::failed("a peer sent an address that cannot be read"))?;
    Ok((greeter, peers))
}
