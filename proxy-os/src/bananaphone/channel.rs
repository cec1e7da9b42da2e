//! Messages between two ranks and to all: whole ones, and long ones in parts. This is their sending side; the receiving one is `receive`.
//!
//! A message that fits the ring is one frame and keeps its boundaries. A longer one goes as a run of frames, of which the first tells the
//! total length; the receiver puts them together. Until a receiver has taken a long message's earlier parts, the sender cannot
//! write later ones: all other readers of this ring wait, too, for what the sender would send them next.
//!
//! The two upper bits of the ring's tag say what a frame is. A sender that gives up in the middle of a message leaves the run
//! incomplete; its next frame of another kind tells the receiver, which drops the parts: never half a message.

use proxy_core::phone::Signal;
use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::Segment;
use proxy_core::phone::member::State;
use proxy_core::phone::ring::{self, Producer, Reader, SendError, To};

use super::counters::Counters;
use super::error::{BusError, Why};
use super::frame::Kind;
use super::kill::{self, Point};
use super::receive::Incoming;
use super::wait::{self, Look, Pace, Waiting};
use crate::sys::copy;
use crate::sys::mmap::Family;

/// Largest tag of a message.
pub const MAX_TAG: u32 = INTERNAL - 1;
/// Added to the tags of the bus's own messages.
pub(super) const INTERNAL: u32 = 1 << 29;

/// A rank's ends of all rings.
#[derive(Debug)]
pub(super) struct Ends<'a> {
    pub(super) segment: Segment<'a>,
    pub(super) me: u16,
    pub(super) pace: Pace,
    producer: Producer<'a>,
    /// By rank; none for the own one.
    pub(super) readers: Vec<Option<Reader<'a>>>,
    pub(super) incoming: Vec<Incoming>,
    /// All-gathers begun.
    pub(super) gathers: u32,
}

/// The ends as a borrower of their mapping.
#[derive(Debug)]
pub(super) struct EndsOf;

impl Family for EndsOf {
    type Of<'a> = Ends<'a>;
}

impl<'a> Ends<'a> {
    /// Of rank `me`, which nobody has used yet.
    pub(super) fn new(segment: Segment<'a>, me: u16, pace: Pace) -> Option<Self> {
        let geometry = segment.geometry();
        let world = geometry.world();
        Some(Self {
            segment,
            me,
            pace,
            producer: Producer::new(segment, me)?,
            readers: (0..world)
                .map(|rank| Reader::new(segment, rank, me))
                .collect(),
            incoming: (0..world).map(|_| Incoming::default()).collect(),
            gathers: 0,
        })
    }

    fn world(&self) -> u16 {
        self.segment.geometry().world()
    }

    /// All other ranks.
    pub(super) fn peers(&self) -> impl Iterator<Item = u16> + use<> {
        let me = self.me;
        (0..self.world()).filter(move |rank| *rank != me)
    }

    /// Bytes of a part of a long message: with two parts in the ring, the receiver reads one while the other is written.
    pub(super) fn part(&self) -> usize {
        ring::capacity(self.segment.geometry().cells() / 2)
    }

    /// Where messages of a rank are announced.
    pub(super) fn news(&self, from: u16) -> Result<Signal<'a>, BusError> {
        let reader = self.readers.get(usize::from(from)).and_then(Option::as_ref);
        reader.map(Reader::news).ok_or(BusError::NoSuchRank {
            rank: from,
            world: self.world(),
        })
    }

    pub(super) fn check(&self, rank: u16) -> Result<(), BusError> {
        if rank < self.world() && rank != self.me {
            return Ok(());
        }
        Err(BusError::NoSuchRank {
            rank,
            world: self.world(),
        })
    }

    /// Sends a message, in parts if it is too long for one frame.
    pub(super) fn send(
        &mut self,
        to: To,
        tag: u32,
        message: &[u8],
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(), BusError> {
        if let To::Rank(rank) = to {
            self.check(rank)?;
        }
        if message.len() <= ring::capacity(self.segment.geometry().cells()) {
            return self.frame(to, Kind::Whole.word(tag), message, waiting, counters);
        }
        // Of the parts only the last may have to wait for room.
        let _ = waiting.since();
        for part in 0.. {
            if !self.send_part(to, tag, message, part, waiting, counters)? {
                break;
            }
            kill::point(Point::HalfSent);
        }
        Ok(())
    }

    /// Sends one part of a long message. False = it has no such part.
    pub(super) fn send_part(
        &mut self,
        to: To,
        tag: u32,
        message: &[u8],
        part: usize,
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<bool, BusError> {
        const TOTAL: usize = size_of::<u64>();
        let size = self.part();
        if part == 0 {
            let own = message.len().min(size - TOTAL);
            let mut first = Vec::with_capacity(TOTAL + own);
            first.extend((message.len() as u64).to_ne_bytes());
            first.extend(&message[..own]);
            self.frame(to, Kind::First.word(tag), &first, waiting, counters)?;
            return Ok(true);
        }
        let start = part.saturating_mul(size) - TOTAL;
        let Some(rest) = message.get(start..).filter(|rest| !rest.is_empty()) else {
            return Ok(false);
        };
        let rest = &rest[..rest.len().min(size)];
        self.frame(to, Kind::Rest.word(tag), rest, waiting, counters)?;
        Ok(true)
    }

    /// Sends one frame as soon as there is room.
    fn frame(
        &mut self,
        to: To,
        word: u32,
        bytes: &[u8],
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(), BusError> {
        self.publish(to, word, bytes, waiting, counters)?;
        self.call();
        Ok(())
    }

    /// Wakes those who sleep until a frame comes.
    pub(super) fn call(&self) {
        wait::wake(self.segment.words(), self.producer.call());
    }

    /// Writes one frame as soon as there is room. [`Self::call`] must follow.
    pub(super) fn publish(
        &mut self,
        to: To,
        word: u32,
        bytes: &[u8],
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(), BusError> {
        let (segment, pace) = (self.segment, self.pace);
        let mut slow = None;
        let sent = wait::until(segment, pace, waiting, counters, |_| {
            match self.try_frame(to, word, bytes, waiting) {
                Ok(None) => Look::Done(Ok(())),
                Ok(Some(reader)) => {
                    slow = Some(reader);
                    // Two ranks that both wait for room must not wait for each other.
                    self.make_room();
                    match self.producer.room(reader) {
                        Some(signal) => Look::Sleep(signal, RankSet::default().with(reader)),
                        None => Look::Done(Err(BusError::NoSuchRank {
                            rank: reader,
                            world: segment.geometry().world(),
                        })),
                    }
                }
                Err(error) => Look::Done(Err(error)),
            }
        });
        sent.unwrap_or_else(|| {
            let missing = slow.into_iter().collect();
            Err(waiting.error(segment, Why::Deadline, missing).into())
        })
    }

    /// Tries to write a frame. `Ok(Some)` = this reader leaves no room for it.
    fn try_frame(
        &mut self,
        to: To,
        word: u32,
        bytes: &[u8],
        waiting: &Waiting,
    ) -> Result<Option<u16>, BusError> {
        self.needs(to, waiting)?;
        match self.producer.reserve(to, word, bytes.len()) {
            Ok(reserved) => {
                copy::put(reserved.payload(), bytes);
                kill::point(Point::Prepared);
                reserved.commit_uncalled();
                kill::point(Point::Published);
                Ok(None)
            }
            Err(SendError::Full { reader }) => Ok(Some(reader)),
            Err(SendError::NoSuchRank { rank }) => Err(BusError::NoSuchRank {
                rank,
                world: self.world(),
            }),
            Err(SendError::Corrupt(error)) => Err(error.into()),
            // Every frame was cut to what the ring takes.
            Err(SendError::TooLong { bytes, .. }) => Err(BusError::TooSmall { bytes }),
        }
    }

    /// Fails when a rank is gone that a message is for. A message for all does not need those who have left.
    fn needs(&self, to: To, waiting: &Waiting) -> Result<(), BusError> {
        let (why, missing) = match to {
            To::Rank(rank) => {
                let why = wait::gone(self.segment, rank)?;
                (why, RankSet::default().with(rank))
            }
            To::Everybody => {
                let dead = wait::in_state(self.segment, State::Dead);
                (dead.first().map(Why::PeerDead), dead)
            }
        };
        let Some(why) = why else { return Ok(()) };
        Err(waiting.error(self.segment, why, missing).into())
    }
}
