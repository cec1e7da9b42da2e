//! Messages between any two ranks: one connection per ordered pair, opened at the first message.
//!
//! A receiver that has no connection from its peer yet opens its own to the peer. That costs nothing, as it will be
//! used for the other direction, and it shows the peer's death at once instead of at the deadline.

use std::time::Duration;

use crate::boot::greeter::Greeter;
use crate::boot::link::{Link, Tag};
use crate::boot::wire::{Hello, Peer, Purpose};
use crate::error::{Error, Result, log};
use crate::sock::{Deadline, poll};

/// One rank's ends of all its pair connections.
#[derive(Debug)]
pub(crate) struct Pairs {
    rank: u32,
    key: u64,
    greeter: Greeter,
    peers: Vec<Peer>,
    outgoing: Vec<Option<Link>>,
    incoming: Vec<Option<Link>>,
}

impl Pairs {
    /// `greeter` listens at the address that `peers` has for `rank`.
    pub(crate) fn new(rank: u32, key: u64, greeter: Greeter, peers: Vec<Peer>) -> Self {
        let outgoing = peers.iter().map(|_| None).collect();
        let incoming = peers.iter().map(|_| None).collect();
        Self {
            rank,
            key,
            greeter,
            peers,
            outgoing,
            incoming,
        }
    }

    /// The peers, in rank order.
    pub(crate) fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// Sends one message. May return before the peer has taken it.
    pub(crate) fn send(&mut self, peer: u32, data: &[u8], deadline: &Deadline) -> Result<()> {
        let place = self.place(peer)?;
        self.reach(place, peer, deadline)?;
        let Some(link) = &mut self.outgoing[place] else {
            return Err(Error::failed(format!("peer rank {peer}: no connection")));
        };
        let sent = link.send(Tag::Data, data, deadline);
        if sent.is_err() {
            // Half a message may be on its way: nothing sensible can follow on this connection.
            self.outgoing[place] = None;
        }
        sent
    }

    /// Receives the next message of `peer`, which must have the length of `out`.
    pub(crate) fn receive(&mut self, peer: u32, out: &mut [u8], deadline: &Deadline) -> Result<()> {
        let place = self.place(peer)?;
        while self.incoming[place].is_none() {
            self.wait_for(place, peer, deadline)?;
        }
        let Some(link) = &mut self.incoming[place] else {
            return Err(Error::failed(format!("peer rank {peer}: no connection")));
        };
        let received = link.receive_data(out, deadline);
        if received.is_err() {
            self.incoming[place] = None;
        }
        received
    }

    fn place(&self, peer: u32) -> Result<usize> {
        let place = usize::try_from(peer)
            .ok()
            .filter(|place| *place < self.peers.len());
        place.ok_or_else(|| {
            Error::invalid(format!(
                "peer rank {peer}, accepted: 0 to {}",
                self.peers.len() - 1
            ))
        })
    }

    /// Opens the connection to a peer, if there is none.
    fn reach(&mut self, place: usize, peer: u32, deadline: &Deadline) -> Result<()> {
        if self.outgoing[place].is_none() {
            let world = u32::try_from(self.peers.len()).unwrap_or(0);
            let hello = Hello {
                purpose: Purpose::Pair,
                key: self.key,
                rank: self.rank,
                world,
                stream: 0,
            };
            let mut link = Link::connect(self.peers[place].address, peer, deadline)?;
            link.write(&hello.encode(), deadline)?;
            self.outgoing[place] = Some(link);
        }
        Ok(())
    }

    /// Waits until something connects or `peer` is seen to be dead.
    fn wait_for(&mut self, place: usize, peer: u32, deadline: &Deadline) -> Result<()> {
        let reached = self.reach(place, peer, deadline);
        let Some(left) = deadline.left() else {
            let allowed = deadline.allowed().as_secs_f32();
            return Err(Error::timeout(format!(
                "peer rank {peer}: no message within {allowed} s"
            )));
        };
        let mut fds = Vec::new();
        fds.extend(self.outgoing[place].as_ref().map(Link::closed));
        self.greeter.interests(&mut fds);
        // If the peer is gone there is nothing to wait for, but what it sent before may wait in the backlog.
        let patience = if reached.is_ok() {
            left.min(self.greeter.patience())
        } else {
            Duration::ZERO
        };
        poll(&mut fds, patience)
            .map_err(|error| Error::failed(format!("peer rank {peer}: {error}")))?;
        self.welcome()?;
        if self.incoming[place].is_some() {
            return Ok(());
        }
        reached?;
        if fds.first().is_some_and(|outgoing| outgoing.revents != 0) {
            self.outgoing[place] = None;
            return Err(Error::failed(format!(
                "peer rank {peer}: closed the connection"
            )));
        }
        Ok(())
    }

    /// Takes in the connections of members of this session.
    fn welcome(&mut self) -> Result<()> {
        for (stream, hello) in self.greeter.pass()? {
            let place = usize::try_from(hello.rank).unwrap_or(usize::MAX);
            let known = hello.purpose == Purpose::Pair && hello.key == self.key;
            match self.incoming.get_mut(place) {
                // A second connection of a rank follows one that failed: the newer one counts.
                Some(incoming) if known => match Link::new(stream, hello.rank) {
                    Ok(link) => *incoming = Some(link),
                    Err(error) => log(format_args!("rank {}: {error}", self.rank)),
                },
                _ => self.greeter.count_stranger(),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(n: u32) -> Vec<Pairs> {
        let address = "127.0.0.1:0".parse().unwrap();
        let greeters: Vec<_> = (0..n).map(|_| Greeter::listen(address).unwrap()).collect();
        let peers: Vec<_> = greeters
            .iter()
            .map(|g| Peer {
                address: g.address().unwrap(),
                device: -1,
            })
            .collect();
        let made = (0..).zip(greeters);
        made.map(|(rank, greeter)| Pairs::new(rank, 5, greeter, peers.clone()))
            .collect()
    }

    fn within(seconds: f32) -> Deadline {
        Deadline::after(Duration::from_secs_f32(seconds))
    }

    #[test]
    fn messages_of_a_pair_keep_their_order_and_pairs_do_not_mix() {
        let deadline = within(20.0);
        let mut ranks = pairs(3);
        for round in 0..3_u8 {
            for from in 0..3_u8 {
                for to in 0..3 {
                    ranks[usize::from(from)]
                        .send(to, &[from, round], &deadline)
                        .unwrap();
                }
            }
        }
        for to in &mut ranks {
            for from in (0..3_u8).rev() {
                for round in 0..3 {
                    let mut out = [0; 2];
                    to.receive(from.into(), &mut out, &deadline).unwrap();
                    assert_eq!(out, [from, round]);
                }
            }
        }
    }

    #[test]
    fn a_peer_that_dies_is_named_at_once_also_if_it_never_connected() {
        let mut ranks = pairs(3);
        let (deadline, short) = (within(20.0), within(20.0));
        let dead = ranks.pop().unwrap();
        drop(dead);
        let error = ranks[0]
            .receive(2, &mut [0], &deadline)
            .unwrap_err()
            .to_string();
        assert!(error.contains("peer rank 2"), "{error}");

        std::thread::scope(|scope| {
            let waiting = ranks.remove(0);
            let leaving = ranks.remove(0);
            let receiver = scope.spawn(move || {
                let mut waiting = waiting;
                waiting
                    .receive(1, &mut [0], &within(20.0))
                    .unwrap_err()
                    .to_string()
            });
            // The receiver connects to this rank while it waits; only then does this rank go away.
            let mut fds = Vec::new();
            leaving.greeter.interests(&mut fds);
            poll(&mut fds, Duration::from_secs(10)).unwrap();
            drop(leaving);
            let error = receiver.join().unwrap();
            assert!(error.contains("peer rank 1"), "{error}");
        });
        assert!(short.left().is_some(), "nobody waited for a deadline");
    }

    #[test]
    fn what_a_peer_sent_before_it_died_still_arrives() {
        let mut ranks = pairs(2);
        let mut dying = ranks.pop().unwrap();
        dying.send(0, b"last words", &within(20.0)).unwrap();
        drop(dying);
        let mut out = [0; 10];
        ranks[0].receive(1, &mut out, &within(20.0)).unwrap();
        assert_eq!(&out, b"last words");
        let error = ranks[0]
            .receive(1, &mut out, &within(20.0))
            .unwrap_err()
            .to_string();
        assert!(error.contains("peer rank 1"), "{error}");
    }

    #[test]
    fn a_wrong_length_names_both_lengths() {
        let mut ranks = pairs(2);
        ranks[1].send(0, &[0; 17], &within(20.0)).unwrap();
        let error = ranks[0]
            .receive(1, &mut [0; 129], &within(20.0))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("sent 17 bytes, this rank expects 129"),
            "{error}"
        );
    }

    #[test]
    fn a_peer_that_says_nothing_is_named_at_the_deadline() {
        let mut ranks = pairs(2);
        let error = ranks[0]
            .receive(1, &mut [0; 1], &within(0.05))
            .unwrap_err()
            .to_string();
        assert!(error.contains("peer rank 1: no message within"), "{error}");
        let error = ranks[0].send(2, &[], &within(1.0)).unwrap_err().to_string();
        assert!(error.contains("peer rank 2, accepted: 0 to 1"), "{error}");
    }
}
