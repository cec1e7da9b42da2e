//! Messages between two ranks and to all: whole ones, long ones in parts, sorted by tag on the receiving side.
//!
//! A message that fits the ring is one frame and keeps its boundaries. A longer one goes as a run of frames, of which the first tells the
//! total length; the receiver puts them together. Until a receiver has taken a long message's earlier parts, the sender cannot
//! write later ones: all other readers of this ring wait, too, for what the sender would send them next.
//!
//! The two upper bits of the ring's tag say what a frame is. A sender that gives up in the middle of a message leaves the run
//! incomplete; its next frame of another kind tells the receiver, which drops the parts: never half a message.

use std::collections::VecDeque;

use proxy_core::phone::Signal;
use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::Segment;
use proxy_core::phone::member::State;
use proxy_core::phone::ring::{self, Producer, Reader, RecvError, SendError, To};

use super::counters::Counters;
use super::error::{BusError, Why};
use super::frame::{Kind, Partial, begin, corrupt};
use super::kill::{self, Point};
use super::wait::{self, Look, Pace, Waiting};
use crate::sys::mmap::Family;

/// Largest tag of a message.
pub const MAX_TAG: u32 = INTERNAL - 1;
/// Added to the tags of the bus's own messages.
pub(super) const INTERNAL: u32 = 1 << 29;
/// Messages with other tags that may wait per sender.
const CROWD: usize = 1024;

/// What came from one rank and was not received yet.
#[derive(Debug, Default)]
struct Incoming {
    partial: Option<Partial>,
    /// Complete messages that nobody has asked for, in order.
    crowd: VecDeque<(u32, Vec<u8>)>,
    /// Tag of the bus's own message that came last, and how many frames of it, for lockstep.
    own: (u32, usize),
}

/// A complete message.
pub(super) enum Message {
    /// This many bytes at the start of the scratch buffer.
    Scratch(usize),
    /// Put together from parts, or from the crowd.
    Whole(Vec<u8>),
}

/// A rank's ends of all rings.
#[derive(Debug)]
pub(super) struct Ends<'a> {
    pub(super) segment: Segment<'a>,
    pub(super) me: u16,
    pub(super) pace: Pace,
    producer: Producer<'a>,
    /// By rank; none for the own one.
    readers: Vec<Option<Reader<'a>>>,
    incoming: Vec<Incoming>,
    /// As long as a frame can be.
    scratch: Vec<u8>,
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
            scratch: vec![0; ring::capacity(geometry.cells())],
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

    fn check(&self, rank: u16) -> Result<(), BusError> {
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
        if message.len() <= self.scratch.len() {
            return self.frame(to, Kind::Whole.word(tag), message, waiting, counters);
        }
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

    /// Tries to send a frame. `Ok(Some)` = this reader leaves no room for it.
    fn try_frame(
        &mut self,
        to: To,
        word: u32,
        bytes: &[u8],
        waiting: &Waiting,
    ) -> Result<Option<u16>, BusError> {
        self.needs(to, waiting)?;
        match self
            .producer
            .try_send_with(to, word, bytes, || kill::point(Point::Prepared))
        {
            Ok(news) => {
                kill::point(Point::Published);
                wait::wake(self.segment.words(), news);
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

    /// Takes what has come meanwhile, as far as there is a place for it; errors come again when it is asked for.
    fn make_room(&mut self) {
        for from in self.peers() {
            while self.incoming[usize::from(from)].crowd.len() < CROWD {
                match self.next(from) {
                    Ok(Some((tag, message))) => self.set_aside(from, tag, message),
                    Ok(None) | Err(_) => break,
                }
            }
        }
    }

    fn set_aside(&mut self, from: u16, tag: u32, message: Message) {
        let bytes = match message {
            Message::Scratch(bytes) => self.scratch[..bytes].to_vec(),
            Message::Whole(bytes) => bytes,
        };
        self.incoming[usize::from(from)]
            .crowd
            .push_back((tag, bytes));
    }

    /// The next complete message in a ring, whatever its tag.
    fn next(&mut self, from: u16) -> Result<Option<(u32, Message)>, BusError> {
        let place = usize::from(from);
        loop {
            let Some(reader) = self.readers.get_mut(place).and_then(Option::as_mut) else {
                return Ok(None);
            };
            let frame = match reader.try_recv(&mut self.scratch) {
                Ok(frame) => frame,
                Err(RecvError::Empty) => return Ok(None),
                Err(RecvError::Corrupt(error)) => return Err(error.into()),
                // The scratch buffer is as long as the ring, and the reader checks that a message is not longer than that.
                Err(RecvError::TooSmall { bytes }) => return Err(BusError::TooSmall { bytes }),
            };
            wait::wake(self.segment.words(), frame.wake);
            let Some((kind, tag)) = Kind::split(frame.tag) else {
                return Err(corrupt("frame kind", from, frame.tag));
            };
            let incoming = &mut self.incoming[place];
            if tag & INTERNAL != 0 {
                let before = if incoming.own.0 == tag {
                    incoming.own.1
                } else {
                    0
                };
                incoming.own = (tag, before + 1);
            }
            let bytes = &self.scratch[..frame.bytes];
            match kind {
                Kind::Whole => {
                    incoming.partial = None;
                    return Ok(Some((tag, Message::Scratch(frame.bytes))));
                }
                Kind::First => incoming.partial = Some(begin(from, tag, bytes)?),
                Kind::Rest => match &mut incoming.partial {
                    Some(partial) if partial.tag == tag => partial.bytes.extend(bytes),
                    // The rest of a message whose beginning was for nobody: its sender gave up.
                    _ => continue,
                },
            }
            let complete = |partial: &mut Partial| partial.bytes.len() >= partial.total;
            if let Some(mut whole) = incoming.partial.take_if(complete) {
                whole.bytes.truncate(whole.total);
                return Ok(Some((whole.tag, Message::Whole(whole.bytes))));
            }
        }
    }

    /// The next message with this tag, or any; those with other tags are set aside.
    pub(super) fn matching(
        &mut self,
        from: u16,
        tag: Option<u32>,
    ) -> Result<Option<(u32, Message)>, BusError> {
        let wanted = |found: u32| match tag {
            Some(tag) => tag == found,
            None => found < INTERNAL,
        };
        let crowd = &mut self.incoming[usize::from(from)].crowd;
        if let Some(at) = crowd.iter().position(|(found, _)| wanted(*found))
            && let Some((found, bytes)) = crowd.remove(at)
        {
            return Ok(Some((found, Message::Whole(bytes))));
        }
        loop {
            let waiting = self.incoming[usize::from(from)].crowd.len();
            match self.next(from)? {
                Some((found, message)) if wanted(found) => return Ok(Some((found, message))),
                Some(_) if waiting >= CROWD => {
                    return Err(BusError::Crowded {
                        rank: from,
                        limit: CROWD,
                    });
                }
                Some((found, message)) => self.set_aside(from, found, message),
                None => return Ok(None),
            }
        }
    }

    /// Waits for a message and hands its bytes to `take`.
    fn wait_for<T>(
        &mut self,
        from: u16,
        tag: Option<u32>,
        waiting: &Waiting,
        counters: &Counters,
        take: impl FnOnce(u32, &[u8]) -> T,
    ) -> Result<T, BusError> {
        self.check(from)?;
        let (found, message) =
            self.await_news(from, waiting, counters, |ends| ends.matching(from, tag))?;
        Ok(match message {
            Message::Scratch(bytes) => take(found, &self.scratch[..bytes]),
            Message::Whole(bytes) => take(found, &bytes),
        })
    }

    /// Waits until `look` finds something in the ring of `from`. What a dead rank has published is still found.
    pub(super) fn await_news<T>(
        &mut self,
        from: u16,
        waiting: &Waiting,
        counters: &Counters,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, BusError>,
    ) -> Result<T, BusError> {
        let (segment, pace) = (self.segment, self.pace);
        let missing = RankSet::default().with(from);
        let news = self.news(from)?;
        let found = wait::until(segment, pace, waiting, counters, |_| {
            match look(self) {
                Ok(Some(found)) => return Look::Done(Ok(found)),
                Ok(None) => {}
                Err(error) => return Look::Done(Err(error)),
            }
            match wait::gone(segment, from) {
                Ok(None) => Look::Sleep(news, missing),
                // It may have published right before it went.
                Ok(Some(why)) => Look::Done(match look(self) {
                    Ok(Some(found)) => Ok(found),
                    Ok(None) => Err(waiting.error(segment, why, missing).into()),
                    Err(error) => Err(error),
                }),
                Err(error) => Look::Done(Err(error.into())),
            }
        });
        found.unwrap_or_else(|| Err(waiting.error(segment, Why::Deadline, missing).into()))
    }

    /// Receives a message.
    pub(super) fn recv(
        &mut self,
        from: u16,
        tag: Option<u32>,
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(u32, Vec<u8>), BusError> {
        self.wait_for(from, tag, waiting, counters, |tag, bytes| {
            (tag, bytes.to_vec())
        })
    }

    /// Receives a message into a buffer. One that is too long for it is set aside.
    pub(super) fn recv_into(
        &mut self,
        from: u16,
        tag: Option<u32>,
        buffer: &mut [u8],
        waiting: &Waiting,
        counters: &Counters,
    ) -> Result<(u32, usize), BusError> {
        let received = self.wait_for(from, tag, waiting, counters, |tag, bytes| {
            match buffer.get_mut(..bytes.len()) {
                Some(room) => {
                    room.copy_from_slice(bytes);
                    Ok((tag, bytes.len()))
                }
                None => Err((tag, bytes.to_vec())),
            }
        })?;
        received.map_err(|(tag, message)| {
            let bytes = message.len();
            self.incoming[usize::from(from)]
                .crowd
                .push_front((tag, message));
            BusError::TooSmall { bytes }
        })
    }

    /// The bytes of a message that [`Self::matching`] has found.
    pub(super) fn bytes<'m>(&'m self, message: &'m Message) -> &'m [u8] {
        match message {
            Message::Scratch(bytes) => &self.scratch[..*bytes],
            Message::Whole(bytes) => bytes,
        }
    }

    /// Frames of the bus's own message with this tag that have come from a rank.
    pub(super) fn own_frames(&self, from: u16, tag: u32) -> usize {
        let (last, frames) = self.incoming[usize::from(from)].own;
        if last == tag { frames } else { 0 }
    }

    /// Takes what has come from a rank, and returns its message with this tag if it is complete.
    pub(super) fn take_own(&mut self, from: u16, tag: u32) -> Result<Option<Vec<u8>>, BusError> {
        Ok(self
            .matching(from, Some(tag))?
            .map(|(_, message)| match message {
                Message::Scratch(bytes) => self.scratch[..bytes].to_vec(),
                Message::Whole(bytes) => bytes,
            }))
    }

    /// Drops messages of the bus's own with other tags than this: of all-gathers that failed.
    pub(super) fn forget_own_but(&mut self, tag: u32) {
        for incoming in &mut self.incoming {
            incoming
                .crowd
                .retain(|(found, _)| *found < INTERNAL || *found == tag);
        }
    }
}
