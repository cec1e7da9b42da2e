//! The ring against an oracle that is obviously right: a list of messages for each reader, and a sum of cells.

use std::collections::VecDeque;
use std::vec::Vec;

use super::{bytes, producer_at};
use crate::phone::Wake;
use crate::phone::member::Members;
use crate::phone::ring::cell::{self, capacity};
use crate::phone::ring::{Producer, Reader, Received, RecvError, SendError, To};
use crate::phone::tests::{Random, on_bus, rounds};

/// A message as it waits for a reader: number of the cell it begins in, counted from the start of the run; tag; length.
type Waiting = (u64, u32, usize);

/// What waits for each reader; `None` once it has left.
struct Oracle {
    cells: u64,
    tail: u64,
    waiting: Vec<Option<VecDeque<Waiting>>>,
}

impl Oracle {
    /// The slowest reader and where the first message stands that waits for it; the producer itself at the tail if none waits.
    fn slowest(&self) -> (u16, u64) {
        let mut slowest = (0, self.tail);
        for (reader, waiting) in (0..).zip(&self.waiting) {
            if let Some((at, ..)) = waiting.as_ref().and_then(VecDeque::front)
                && *at < slowest.1
            {
                slowest = (reader, *at);
            }
        }
        slowest
    }

    fn send(&mut self, to: To, tag: u32, length: usize) -> Result<Wake, SendError> {
        let limit = capacity(u32::try_from(self.cells).unwrap());
        if length > limit {
            let bytes = length;
            return Err(SendError::TooLong { bytes, limit });
        }
        let end = self.tail + u64::from(cell::count(length));
        let (reader, at) = self.slowest();
        if end - at > self.cells {
            return Err(SendError::Full { reader });
        }
        for (reader, waiting) in (0..).zip(&mut self.waiting).skip(1) {
            if to == To::Everybody || to == To::Rank(reader) {
                waiting
                    .iter_mut()
                    .for_each(|list| list.push_back((self.tail, tag, length)));
            }
        }
        self.tail = end;
        Ok(Wake::Nobody)
    }

    fn receive(&mut self, reader: u16, room: usize) -> Result<Received, RecvError> {
        let waiting = self.waiting[usize::from(reader)].as_mut().unwrap();
        let (_, tag, bytes) = *waiting.front().ok_or(RecvError::Empty)?;
        if bytes > room {
            return Err(RecvError::TooSmall { bytes });
        }
        waiting.pop_front();
        Ok(Received {
            bytes,
            tag,
            wake: Wake::Nobody,
        })
    }
}

struct Run<'a> {
    random: Random,
    oracle: Oracle,
    producer: Producer<'a>,
    readers: Vec<Option<Reader<'a>>>,
    members: Members<'a>,
    next_tag: u32,
}

impl Run<'_> {
    fn send(&mut self) {
        let limit = capacity(u32::try_from(self.oracle.cells).unwrap());
        let length = match self.random.below(4) {
            0 => self.random.below(limit + 2),
            1 => 0,
            _ => self.random.below(110.min(limit)),
        };
        let to = match u16::try_from(self.random.below(self.readers.len())).unwrap() {
            0 => To::Everybody,
            rank => To::Rank(rank),
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        let wanted = self.oracle.send(to, tag, length);
        let found = self.producer.try_send(to, tag, &bytes(length, tag));
        assert_eq!(found, wanted, "send {length} bytes {to:?}");
    }

    fn receive(&mut self) {
        let rank = 1 + self.random.below(self.readers.len() - 1);
        let Some(reader) = &mut self.readers[rank] else {
            return;
        };
        let room = match self.random.below(4) {
            0 => self.random.below(60),
            _ => 4096,
        };
        let mut buffer = std::vec![0; room];
        let wanted = self.oracle.receive(u16::try_from(rank).unwrap(), room);
        let found = reader.try_recv(&mut buffer);
        assert_eq!(found, wanted, "rank {rank} receives");
        if let Ok(received) = found {
            let content = bytes(received.bytes, received.tag);
            assert_eq!(buffer[..received.bytes], content);
        }
    }

    fn leave(&mut self) {
        let rank = 1 + self.random.below(self.readers.len() - 1);
        if self.readers[rank].take().is_some() {
            let gone = self.members.die(u16::try_from(rank).unwrap());
            assert_eq!(gone, Ok(Some(Wake::Nobody)));
            self.oracle.waiting[rank] = None;
        }
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let world = u16::try_from(2 + random.below(4)).unwrap();
    let cells = 2 << random.below(4);
    on_bus(world, 0, cells, |segment| {
        let start = u32::MAX - u32::try_from(random.below(400)).unwrap();
        let mut run = Run {
            oracle: Oracle {
                cells: cells.into(),
                tail: 0,
                waiting: (0..world).map(|_| Some(VecDeque::new())).collect(),
            },
            producer: producer_at(segment, start),
            readers: (0..world)
                .map(|rank| Reader::new(segment, 0, rank))
                .collect(),
            members: Members::of(segment),
            next_tag: 0,
            random,
        };
        for _ in 0..1000 {
            match run.random.below(200) {
                0 => run.leave(),
                1..100 => run.send(),
                _ => run.receive(),
            }
        }
    });
}

#[test]
fn a_thousand_random_steps_are_as_the_oracle_says() {
    for seed in 0..rounds(300) {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
