//! The trees against their definition, for every size a bus can have, and the exchange with failures at every rank.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::*;

#[test]
fn six_ranks_have_the_trees_of_the_worked_example() {
    // Rank: children and parent of the signature, giver and takers of the id.
    type Row = (
        &'static [usize],
        Option<usize>,
        Option<usize>,
        &'static [usize],
    );
    let rows: [Row; 6] = [
        (&[1, 2], None, None, &[4, 2, 1]),
        (&[3, 4], Some(0), Some(0), &[]),
        (&[5], Some(0), Some(0), &[3]),
        (&[], Some(1), Some(2), &[]),
        (&[], Some(1), Some(0), &[5]),
        (&[], Some(2), Some(4), &[]),
    ];
    for (rank, (children, parent, from, to)) in rows.into_iter().enumerate() {
        let (down, up) = heap(rank, 6);
        assert_eq!(
            (down.collect::<Vec<_>>().as_slice(), up),
            (children, parent)
        );
        let (giver, takers) = binomial(rank, 6);
        assert_eq!((giver, takers.collect::<Vec<_>>().as_slice()), (from, to));
    }
}

#[test]
fn trees_of_all_sizes_reach_everybody_once_in_as_many_rounds_as_bits() {
    for ranks in 1..=128_usize {
        let mut edges = [0, 0];
        for rank in 0..ranks {
            let (children, parent) = heap(rank, ranks);
            for child in children {
                assert_eq!(heap(child, ranks).1, Some(rank));
                edges[0] += 1;
            }
            assert_eq!(parent.is_none(), rank == 0);
            let (from, to) = binomial(rank, ranks);
            for child in to {
                assert_eq!(binomial(child, ranks).0, Some(rank));
                edges[1] += 1;
            }
            assert_eq!(from.is_none(), rank == 0);
            let hops =
                std::iter::successors(Some(rank), |rank| binomial(*rank, ranks).0).count() - 1;
            assert_eq!(hops as u32, rank.count_ones());
        }
        assert_eq!(edges, [ranks - 1, ranks - 1]);
    }
}

/// Channels between all pairs; a receive of what never comes ends after a while.
struct Wires {
    to: HashMap<u32, Sender<Vec<u8>>>,
    from: HashMap<u32, Receiver<Vec<u8>>>,
    /// Receives from this peer fail.
    deaf_to: Option<u32>,
    sent: Vec<(u32, usize)>,
}

impl Link for Wires {
    type Error = &'static str;

    fn send(&mut self, peer: u32, message: &[u8]) -> Result<(), &'static str> {
        self.sent.push((peer, message.len()));
        self.to[&peer].send(message.to_vec()).map_err(|_| "gone")
    }

    fn recv(&mut self, peer: u32, message: &mut [u8]) -> Result<(), &'static str> {
        let came = self.from[&peer].recv_timeout(Duration::from_secs(20));
        let came = came.map_err(|_| "nothing came")?;
        assert_eq!(came.len(), message.len());
        if self.deaf_to == Some(peer) {
            return Err("deaf");
        }
        message.copy_from_slice(&came);
        Ok(())
    }
}

fn wires(participants: &[u32]) -> Vec<Wires> {
    let mut all: Vec<Wires> = participants
        .iter()
        .map(|_| Wires {
            to: HashMap::new(),
            from: HashMap::new(),
            deaf_to: None,
            sent: Vec::new(),
        })
        .collect();
    for from in 0..participants.len() {
        for to in 0..participants.len() {
            let (send, receive) = channel();
            all[from].to.insert(participants[to], send);
            all[to].from.insert(participants[from], receive);
        }
    }
    all
}

type Answer = Result<[u8; UNIQUE_ID], BootstrapError<&'static str>>;

/// Runs a bootstrap of participants 10, 11, ...; returns each rank's answer and what it sent.
fn run(
    ranks: usize,
    change: impl Fn(usize, &mut Wires, &mut [u8; DIGEST]),
    id: Option<[u8; UNIQUE_ID]>,
) -> Vec<(Answer, Vec<(u32, usize)>)> {
    let participants: Vec<u32> = (10..).take(ranks).collect();
    let mut wires = wires(&participants);
    let mut digests = vec![[7; DIGEST]; ranks];
    for (rank, (wires, digest)) in wires.iter_mut().zip(&mut digests).enumerate() {
        change(rank, wires, digest);
    }
    let participants = &participants;
    std::thread::scope(|scope| {
        let threads: Vec<_> = wires
            .into_iter()
            .zip(digests)
            .enumerate()
            .map(|(rank, (mut wires, digest))| {
                scope.spawn(move || {
                    let answer = bootstrap(&mut wires, participants, rank, &digest, || id);
                    (answer, wires)
                })
            })
            .collect();
        // Wires live until all are done, as sockets would.
        let answers: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        answers
            .into_iter()
            .map(|(answer, wires)| (answer, wires.sent))
            .collect()
    })
}

#[test]
fn all_ranks_get_the_roots_id_by_messages_of_17_and_129_bytes() {
    for ranks in [1, 2, 3, 6, 8, 13] {
        let answers = run(ranks, |_, _, _| (), Some([42; UNIQUE_ID]));
        let sent: Vec<_> = answers.iter().flat_map(|(_, sent)| sent).collect();
        for bytes in [17, 129] {
            assert_eq!(
                sent.iter().filter(|(_, sent)| *sent == bytes).count(),
                ranks - 1
            );
        }
        assert!(
            answers
                .iter()
                .all(|(answer, _)| *answer == Ok([42; UNIQUE_ID]))
        );
    }
}

#[test]
fn one_rank_with_another_signature_fails_all() {
    for odd in 0..6 {
        let answers = run(
            6,
            |rank, _, digest| digest[0] ^= u8::from(rank == odd),
            Some([1; UNIQUE_ID]),
        );
        for (answer, _) in answers {
            let error = answer.unwrap_err();
            assert!(matches!(
                error,
                BootstrapError::Mismatch | BootstrapError::NoUniqueId
            ));
        }
    }
}

#[test]
fn a_root_without_an_id_and_a_lost_message_fail_all() {
    let answers = run(6, |_, _, _| (), None);
    assert!(
        answers
            .iter()
            .all(|(answer, _)| *answer == Err(BootstrapError::NoUniqueId))
    );
    // Rank 1 does not hear its child 4: the root learns of it, and so does everybody.
    let deaf = |rank, wires: &mut Wires, _: &mut [u8; DIGEST]| {
        wires.deaf_to = (rank == 1).then_some(14);
    };
    let answers = run(6, deaf, Some([1; UNIQUE_ID]));
    let lost = BootstrapError::Receive {
        peer: 14,
        error: "deaf",
    };
    assert_eq!(answers[1].0, Err(lost));
    assert!(answers.iter().all(|(answer, _)| answer.is_err()));
}
