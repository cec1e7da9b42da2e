//! The star: every rank of a world connected to its root, and the all-gather over it.
//!
//! The root accepts until the world is complete and answers each hello: welcome with the session's key, or refused
//! with a reason. An all-gather goes through the root; if a rank dies in one, the root tells all the others which.

use std::net::{IpAddr, SocketAddr};
use std::thread::sleep;
use std::time::Duration;

use crate::boot::greeter::Greeter;
use crate::boot::link::{Link, Tag};
use crate::boot::wire::{Hello, Purpose, long};
use crate::error::{Error, Result, log};
use crate::sock::{Deadline, poll};

/// Pause between two attempts to reach a root that is not there yet, doubled up to the second value.
const RETRY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// How long the other ranks of an all-gather are heard after one has failed.
const GRACE: Duration = Duration::from_secs(1);

/// One rank's part of the star.
#[derive(Debug)]
pub(crate) struct Star {
    rank: u32,
    world: u32,
    key: u64,
    /// At the root one link per rank (none at its own place), elsewhere the link to the root.
    links: Vec<Option<Link>>,
}

/// Peers in words: `peer rank 3`, `peer ranks 1, 3`.
fn peers(ranks: &[String]) -> String {
    let plural = if ranks.len() == 1 { "" } else { "s" };
    format!("peer rank{plural} {}", ranks.join(", "))
}

impl Star {
    /// Rank 0's part: accepts the other ranks until all are there or the deadline passes. `key` names the session;
    /// `expected` is what joining ranks must say, 0 where they cannot know a key yet.
    pub(crate) fn host(
        greeter: &mut Greeter,
        world: u32,
        key: u64,
        expected: u64,
        deadline: &Deadline,
    ) -> Result<Self> {
        let links = (0..world).map(|_| None).collect();
        let mut star = Self {
            rank: 0,
            world,
            key,
            links,
        };
        let mut fds = Vec::new();
        while star.missing().next().is_some() {
            let Some(left) = deadline.left() else {
                return Err(star.incomplete(greeter, deadline));
            };
            fds.clear();
            greeter.interests(&mut fds);
            poll(&mut fds, left.min(greeter.patience()))
                .map_err(|error| Error::failed(format!("rank 0: waiting for ranks: {error}")))?;
            for (stream, hello) in greeter.pass()? {
                if hello.purpose != Purpose::Join || hello.key != expected {
                    greeter.count_stranger();
                    continue;
                }
                match Link::new(stream, hello.rank) {
                    Ok(link) => star.admit(link, &hello, deadline),
                    Err(error) => log(format_args!("rank 0: {error}")),
                }
            }
        }
        Ok(star)
    }

    /// Answers one hello. A rank that cannot be admitted is refused with a reason and logged; the others go on.
    fn admit(&mut self, mut link: Link, hello: &Hello, deadline: &Deadline) {
        let (rank, world) = (hello.rank, self.world);
        let place = usize::try_from(rank)
            .ok()
            .filter(|_| rank > 0)
            .and_then(|rank| self.links.get_mut(rank));
        let refusal = match place {
            _ if hello.world != world => Some(format!(
                "it has a world of {} ranks, rank 0 one of {world}",
                hello.world
            )),
            None => Some(format!("accepted: rank 1 to {}", world.saturating_sub(1))),
            Some(Some(_)) => Some("this rank has joined already".into()),
            Some(empty) => {
                match link.send(Tag::Welcome, &self.key.to_le_bytes(), deadline) {
                    Ok(()) => *empty = Some(link),
                    // It died while joining; its place stays free for another attempt.
                    Err(error) => log(format_args!("rank 0: {error}")),
                }
                return;
            }
        };
        if let Some(reason) = refusal {
            log(format_args!("rank 0: peer rank {rank} refused: {reason}"));
            if let Err(error) = link.send(Tag::Refused, reason.as_bytes(), deadline) {
                log(format_args!("rank 0: {error}"));
            }
        }
    }

    fn missing(&self) -> impl Iterator<Item = String> {
        let links = self.links.iter().enumerate().skip(1);
        links
            .filter(|(_, link)| link.is_none())
            .map(|(rank, _)| rank.to_string())
    }

    fn incomplete(&self, greeter: &Greeter, deadline: &Deadline) -> Error {
        let missing: Vec<_> = self.missing().collect();
        Error::timeout(format!(
            "rank 0: {} of a world of {} did not join within {} s ({} strangers turned away)",
            peers(&missing),
            self.world,
            deadline.allowed().as_secs_f32(),
            greeter.strangers()
        ))
    }

    /// Any other rank's part: reaches the root at `address`, trying again until the deadline while nobody is there.
    pub(crate) fn join(
        address: SocketAddr,
        world: u32,
        rank: u32,
        key: u64,
        deadline: &Deadline,
    ) -> Result<Self> {
        let hello = Hello {
            purpose: Purpose::Join,
            key,
            rank,
            world,
            stream: 0,
        };
        let mut pause = RETRY.0;
        loop {
            let failure = match Self::knock(address, &hello, deadline) {
                Ok((link, Tag::Welcome, payload)) if payload.len() == 8 => {
                    let key = long(&payload, 0);
                    return Ok(Self {
                        rank,
                        world,
                        key,
                        links: vec![Some(link)],
                    });
                }
                Ok((_, Tag::Refused, reason)) => {
                    let reason = String::from_utf8_lossy(&reason);
                    return Err(Error::invalid(format!(
                        "rank {rank}: refused by rank 0 at {address}: {reason}"
                    )));
                }
                Ok(_) => Error::failed(format!(
                    "peer rank 0: the answer from {address} is not that of a root"
                )),
                Err(error) => error,
            };
            match deadline.left() {
                Some(left) => sleep(pause.min(left)),
                None => {
                    let waited = deadline.allowed().as_secs_f32();
                    let text =
                        format!("rank {rank}: no root at {address} within {waited} s: {failure}");
                    return Err(Error::timeout(text));
                }
            }
            pause = (pause * 2).min(RETRY.1);
        }
    }

    fn knock(
        address: SocketAddr,
        hello: &Hello,
        deadline: &Deadline,
    ) -> Result<(Link, Tag, Vec<u8>)> {
        let mut link = Link::connect(address, 0, deadline)?;
        link.write(&hello.encode(), deadline)?;
        let (tag, payload) = link.receive(deadline)?;
        Ok((link, tag, payload))
    }

    /// The session's key, the same on all ranks.
    pub(crate) const fn key(&self) -> u64 {
        self.key
    }

    /// The local address by which this rank and the others of the star see each other; none in a world of one.
    pub(crate) fn local_ip(&self) -> Result<Option<IpAddr>> {
        self.links
            .iter()
            .flatten()
            .next()
            .map(Link::local_ip)
            .transpose()
    }

    /// Puts `own` of every rank into `all`, in rank order. `all` holds `world` times the length of `own`.
    pub(crate) fn all_gather(
        &mut self,
        own: &[u8],
        all: &mut [u8],
        deadline: &Deadline,
    ) -> Result<()> {
        let gathered = match self.rank {
            0 => self.gather_and_spread(own, all, deadline),
            _ => self.contribute(own, all, deadline),
        };
        gathered.map_err(|error| error.within(format_args!("rank {}: all-gather", self.rank)))
    }

    fn contribute(&mut self, own: &[u8], all: &mut [u8], deadline: &Deadline) -> Result<()> {
        let Some(Some(root)) = self.links.first_mut() else {
            return Err(Error::failed("peer rank 0: the connection is gone"));
        };
        root.send(Tag::Data, own, deadline)?;
        root.receive_data(all, deadline)
    }

    fn gather_and_spread(&mut self, own: &[u8], all: &mut [u8], deadline: &Deadline) -> Result<()> {
        let outcome = self.gather(own, all, deadline);
        for link in self.links.iter_mut().flatten() {
            match &outcome {
                Ok(()) => link.send(Tag::Data, all, deadline)?,
                // The rank that failed cannot be told; the others hear of it unless they are gone too.
                Err(error) => drop(link.send(Tag::Abort, error.to_string().as_bytes(), deadline)),
            }
        }
        outcome
    }

    /// Reads the ranks' parts in the order in which they come, so that a death is seen at once.
    fn gather(&mut self, own: &[u8], all: &mut [u8], deadline: &Deadline) -> Result<()> {
        if own.is_empty() {
            return self.gather_parts(std::iter::repeat_with(Default::default), deadline);
        }
        let mut parts: Vec<&mut [u8]> = all.chunks_exact_mut(own.len()).collect();
        if let Some(first) = parts.first_mut() {
            first.copy_from_slice(own);
        }
        self.gather_parts(parts, deadline)
    }

    /// After a failure the other ranks are still heard for a moment: a connection that is closed with something unread
    /// would be reset, and the reset could overtake the reason that they are about to be told.
    fn gather_parts<'a>(
        &mut self,
        parts: impl IntoIterator<Item = &'a mut [u8]>,
        deadline: &Deadline,
    ) -> Result<()> {
        let ranks = self.links.iter_mut().zip(parts);
        let mut waiting: Vec<_> = ranks
            .filter_map(|(link, part)| link.as_mut().map(|link| (link, part)))
            .collect();
        let mut outcome = Ok(());
        let mut deadline = *deadline;
        while !waiting.is_empty() {
            let mut fds: Vec<_> = waiting.iter().map(|(link, _)| link.readable()).collect();
            let left = deadline.left().unwrap_or_default();
            let ready = poll(&mut fds, left)
                .map_err(|error| Error::failed(format!("waiting for ranks: {error}")))?;
            if ready == 0 && deadline.left().is_none() {
                let late: Vec<_> = waiting
                    .iter()
                    .map(|(link, _)| link.peer().to_string())
                    .collect();
                let waited = deadline.allowed().as_secs_f32();
                let text = format!("{}: no part within {waited} s", peers(&late));
                return outcome.and(Err(Error::timeout(text)));
            }
            for index in (0..fds.len())
                .rev()
                .filter(|&index| fds[index].revents != 0)
            {
                let (link, part) = waiting.swap_remove(index);
                let received = link.receive_data(part, &deadline);
                if outcome.is_ok() && received.is_err() {
                    outcome = received;
                    deadline = Deadline::after(GRACE.min(left));
                }
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 99;

    fn root() -> (Greeter, SocketAddr) {
        let greeter = Greeter::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = greeter.address().unwrap();
        (greeter, address)
    }

    fn within(seconds: f32) -> Deadline {
        Deadline::after(Duration::from_secs_f32(seconds))
    }

    /// Runs `body` for every rank of a world in its own thread.
    fn world<T: Send>(n: u32, body: impl Fn(Star) -> T + Sync) -> Vec<T> {
        let (mut greeter, address) = root();
        std::thread::scope(|scope| {
            let body = &body;
            let others: Vec<_> = (1..n)
                .map(|rank| {
                    scope.spawn(move || {
                        body(Star::join(address, n, rank, 0, &within(20.0)).unwrap())
                    })
                })
                .collect();
            let first = body(Star::host(&mut greeter, n, KEY, 0, &within(20.0)).unwrap());
            std::iter::once(first)
                .chain(others.into_iter().map(|t| t.join().unwrap()))
                .collect()
        })
    }

    #[test]
    fn every_rank_gets_every_part_in_rank_order() {
        for n in [1, 2, 5] {
            let results = world(n, |mut star| {
                let own = [u8::try_from(star.rank).unwrap(); 3];
                let mut all = vec![0xEE; 3 * n as usize];
                star.all_gather(&own, &mut all, &within(20.0)).unwrap();
                star.all_gather(&[], &mut [], &within(20.0)).unwrap();
                (star.key(), all)
            });
            let expected: Vec<u8> = (0..n as u8).flat_map(|rank| [rank; 3]).collect();
            assert!(
                results
                    .iter()
                    .all(|result| *result == (KEY, expected.clone())),
                "{results:?}"
            );
        }
    }

    #[test]
    fn a_rank_that_dies_is_named_to_all_the_others() {
        let results = world(4, |mut star| {
            if star.rank == 2 {
                return String::new();
            }
            star.all_gather(&[1], &mut [0; 4], &within(20.0))
                .unwrap_err()
                .to_string()
        });
        for rank in [0, 1, 3] {
            assert!(
                results[rank].contains("peer rank 2: closed the connection"),
                "{results:?}"
            );
        }
    }

    #[test]
    fn a_rank_that_stays_away_is_named_at_the_deadline() {
        let results = world(3, |mut star| {
            let mut all = [0; 3];
            let outcome = match star.rank {
                0 => star.all_gather(&[1], &mut all, &within(0.2)),
                1 => star.all_gather(&[1], &mut all, &within(20.0)),
                // Waits for the root's verdict without having sent its own part.
                _ => star.links[0]
                    .as_mut()
                    .unwrap()
                    .receive_data(&mut all, &within(20.0)),
            };
            outcome.unwrap_err().to_string()
        });
        assert!(
            results
                .iter()
                .all(|r| r.contains("peer rank 2: no part within 0.2 s")),
            "{results:?}"
        );
    }

    #[test]
    fn parts_of_different_length_fail_on_every_rank() {
        let results = world(3, |mut star| {
            let own = vec![0; if star.rank == 1 { 4 } else { 8 }];
            let mut all = vec![0; 3 * own.len()];
            star.all_gather(&own, &mut all, &within(20.0))
                .unwrap_err()
                .to_string()
        });
        assert!(
            results
                .iter()
                .all(|r| r.contains("sent 4 bytes, this rank expects 8")),
            "{results:?}"
        );
    }

    #[test]
    fn duplicates_and_other_worlds_are_refused_on_both_sides_and_the_rest_goes_on() {
        let (mut greeter, address) = root();
        let deadline = within(20.0);
        std::thread::scope(|scope| {
            let host =
                scope.spawn(move || Star::host(&mut greeter, 3, KEY, 0, &within(20.0)).map(drop));
            let first = Star::join(address, 3, 1, 0, &deadline).unwrap();
            let refusal = |world, rank| {
                Star::join(address, world, rank, 0, &deadline)
                    .unwrap_err()
                    .to_string()
            };
            assert!(refusal(3, 1).contains("joined already"));
            assert!(refusal(4, 2).contains("a world of 4 ranks, rank 0 one of 3"));
            assert!(refusal(3, 3).contains("accepted: rank 1 to 2"));
            let second = Star::join(address, 3, 2, 0, &deadline).unwrap();
            host.join().unwrap().unwrap();
            drop((first, second));
        });
    }

    #[test]
    fn ranks_that_never_come_are_named_at_the_deadline() {
        let (mut greeter, address) = root();
        let error = std::thread::scope(|scope| {
            let member = scope.spawn(move || Star::join(address, 4, 2, 0, &within(20.0)));
            let error = Star::host(&mut greeter, 4, KEY, 0, &within(0.5))
                .unwrap_err()
                .to_string();
            member.join().unwrap().unwrap();
            error
        });
        assert!(error.contains("peer ranks 1, 3 of a world of 4"), "{error}");
    }

    #[test]
    fn a_root_that_is_not_there_is_named_at_the_deadline() {
        let (greeter, address) = root();
        drop(greeter);
        let error = Star::join(address, 2, 1, 0, &within(0.1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(&format!("no root at {address}")), "{error}");
    }
}
