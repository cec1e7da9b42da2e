//! A ring of one producer that all other ranks read, each with a cursor of its own.
//!
//! A message is a run of cells of 64 bytes: a header of 16 bytes, and right behind it the payload, contiguous but where the ring ends.
//! The first word is the stamp, the only word by which a reader learns that a message is there; it is stored last, so a
//! producer that dies while it writes leaves nothing that could be read (requirement H72). A message of up to 48 bytes is one
//! cell, and so one cache line from producer to reader.
//!
//! A reader looks for the next stamp right behind the message before. There may stand payload of an older lap, which can be any number; so a
//! producer clears that word before it publishes the message in front of it, unless no payload can be there: that of single
//! cells never lies on a stamp, and in a full ring the oldest message begins there.
//!
//! A message is for one rank or for all. A reader skips what is for others; and as a rank that never receives must
//! not block the ring for the others, the producer moves such a cursor on itself, up to the first message that is for that rank.
//! Both do it by compare-and-swap, so neither overtakes the other. It also means that the producer may use a cell again
//! while a reader, late, still looks at what stood there for others: what the reader has seen counts only once the
//! compare-and-swap of its cursor succeeds.
//!
//! ```text
//!   cell at position p:  [stamp(p), length, destination, tag, 12 words of payload]   first cell of a message
//!                        [16 words of payload]                                       its other cells
//!   cursor of a reader <= position < tail, and tail - cursor <= cells, for every reader that is there
//! ```
//!
//! | operation | progress |
//! |---|---|
//! | [`Producer::reserve`], [`Reserved::commit`] | wait-free; its look at the cursors is bounded by world times cells |
//! | [`Reader::peek`], [`Reader::take`] | wait-free, bounded by cells |
//!
//! Between the two steps the caller copies the payload, by whatever means are fast: words of the ring are read while they may be written, so by
//! atomic ones ([`put`], [`get`]) or by machine code. [`Producer::try_send`] and [`Reader::try_recv`] do all of it.

mod cell;

use core::fmt;

use cell::Header;

use super::layout::Segment;
use super::member::{MemberError, Members};
use super::{Corrupt, Signal, Wake, Word};

pub(super) use cell::LAYOUT;
pub use cell::{capacity, get, put};

/// Whom a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum To {
    /// One rank.
    Rank(u16),
    /// All other ranks.
    Everybody,
}

/// Why a message was not sent. Nothing of it is in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SendError {
    /// A reader has not taken older messages yet.
    Full {
        /// The slowest reader.
        reader: u16,
    },
    /// The message is longer than the ring takes at once.
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// Bytes at most.
        limit: usize,
    },
    /// There is no such rank.
    NoSuchRank {
        /// The rank.
        rank: u16,
    },
    /// A cursor or a member's state cannot be.
    Corrupt(Corrupt),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { reader } => write!(
                f,
                "the ring is full of messages that rank {reader} has not received"
            ),
            Self::TooLong { bytes, limit } => write!(
                f,
                "a message of {bytes} bytes, accepted: up to {limit} at once"
            ),
            Self::NoSuchRank { rank } => write!(f, "rank {rank} is not on the bus"),
            Self::Corrupt(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SendError {}

/// A message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Received {
    /// Its bytes, at the start of the buffer.
    pub bytes: usize,
    /// Its tag.
    pub tag: u32,
    /// Whether the producer must be woken, who may be waiting for room.
    pub wake: Wake,
}

/// Why no message was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RecvError {
    /// There is none.
    Empty,
    /// The next one does not fit the buffer; it stays.
    TooSmall {
        /// Its bytes.
        bytes: usize,
    },
    /// Its header cannot be.
    Corrupt(Corrupt),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no message is there"),
            Self::TooSmall { bytes } => write!(
                f,
                "the next message has {bytes} bytes, more than the buffer"
            ),
            Self::Corrupt(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RecvError {}

/// The writing end. One per rank; not shared.
#[derive(Debug)]
pub struct Producer<'a> {
    segment: Segment<'a>,
    me: u16,
    tail: u32,
    /// No cursor is behind this position, as of the last look.
    slowest: u32,
    /// From this position on no cell has payload where its stamp will be.
    dirty: u32,
}

/// Room for a message, which nobody sees before it is committed: its payload goes to [`payload`](Self::payload) first. If it is dropped
/// instead, nothing was sent.
#[derive(Debug)]
#[must_use = "nothing is sent before `commit`"]
pub struct Reserved<'p, 'a> {
    producer: &'p mut Producer<'a>,
    to: To,
    tag: u32,
    bytes: usize,
    end: u32,
}

impl<'p, 'a> Reserved<'p, 'a> {
    /// Where the payload goes: words in order, in two pieces where the ring ends between them. All of it in memory order, so that
    /// bytes can be copied as they are; the last word may be filled in part.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> [&'a [Word]; 2] {
        let Producer {
            segment, me, tail, ..
        } = &*self.producer;
        cell::payload(segment, *me, *tail, self.bytes)
    }

    /// Lets its readers see the message, and says whom to wake. What was written to the payload before is what they read.
    #[inline]
    pub fn commit(self) -> Wake {
        self.commit_uncalled().call()
    }

    /// The same, but readers that sleep are not called before [`Producer::call`], which must follow: it waits until the message's line is
    /// here to be written, and a rank that looks at others' rings first lets their lines come meanwhile.
    #[inline]
    pub fn commit_uncalled(self) -> &'p Producer<'a> {
        let Self {
            producer,
            to,
            tag,
            bytes,
            end,
        } = self;
        producer.clear_behind(end);
        cell::publish(
            &producer.segment,
            producer.me,
            producer.tail,
            (to, tag, bytes),
        );
        producer.tail = end;
        if let Some(news) = producer.news() {
            news.publish(end);
        }
        producer
    }
}

impl<'a> Producer<'a> {
    /// The ring of rank `me`, which nobody has written to yet. `None` if there is no such rank.
    #[must_use]
    pub fn new(segment: Segment<'a>, me: u16) -> Option<Self> {
        (me < segment.geometry().world()).then_some(Self {
            segment,
            me,
            tail: 0,
            slowest: 0,
            dirty: 0,
        })
    }

    /// Sends a message, or says why not at once. O(bytes), word by word.
    pub fn try_send(&mut self, to: To, tag: u32, message: &[u8]) -> Result<Wake, SendError> {
        let reserved = self.reserve(to, tag, message.len())?;
        put(reserved.payload(), message);
        Ok(reserved.commit())
    }

    /// Room for a message of so many bytes, or why there is none.
    #[inline]
    pub fn reserve(
        &mut self,
        to: To,
        tag: u32,
        bytes: usize,
    ) -> Result<Reserved<'_, 'a>, SendError> {
        let geometry = *self.segment.geometry();
        if let To::Rank(rank) = to
            && (rank >= geometry.world() || rank == self.me)
        {
            return Err(SendError::NoSuchRank { rank });
        }
        let limit = capacity(geometry.cells());
        if bytes > limit {
            return Err(SendError::TooLong { bytes, limit });
        }
        let end = self.tail.wrapping_add(cell::count(bytes));
        if end.wrapping_sub(self.slowest) > geometry.cells() {
            let slowest = self.look_at_cursors(end)?;
            if end.wrapping_sub(self.slowest) > geometry.cells() {
                return Err(SendError::Full { reader: slowest });
            }
        }
        if end.wrapping_sub(self.tail) > 1 {
            // Also if it is never committed.
            self.dirty = end.wrapping_add(geometry.cells());
        }
        Ok(Reserved {
            producer: self,
            to,
            tag,
            bytes,
            end,
        })
    }

    /// Before a message up to `end` is published: no payload of the lap before may be taken for the stamp of the next one.
    fn clear_behind(&mut self, end: u32) {
        let cells = self.segment.geometry().cells();
        // Half of all positions at most, so that the sign tells before from behind; longer ago counts as dirty, which only costs.
        let is_dirty = self.dirty.wrapping_sub(end).wrapping_sub(1) <= u32::MAX / 2;
        // In a full ring the oldest message begins there: a stamp, of another position.
        if is_dirty && end.wrapping_sub(self.slowest) < cells {
            cell::clear(&self.segment, self.me, end);
        }
    }

    /// Calls the readers that sleep until a message comes.
    #[inline]
    pub fn call(&self) -> Wake {
        self.news().map_or(Wake::Nobody, |news| news.nudge())
    }

    fn news(&self) -> Option<Signal<'a>> {
        self.segment.signal(self.segment.geometry().tail(self.me))
    }

    /// The signal to sleep on while `reader` keeps the ring full.
    #[must_use]
    pub fn room(&self, reader: u16) -> Option<Signal<'a>> {
        let world = self.segment.geometry().world();
        let cursor = self.segment.geometry().cursor(self.me, reader);
        if reader < world {
            self.segment.signal(cursor)
        } else {
            None
        }
    }

    /// Looks at every cursor, moving those on that only have messages for others before them, and returns the slowest reader.
    fn look_at_cursors(&mut self, end: u32) -> Result<u16, SendError> {
        let geometry = *self.segment.geometry();
        let members = Members::of(self.segment);
        let (mut slowest, mut most) = (self.me, 0);
        for reader in (0..geometry.world()).filter(|reader| *reader != self.me) {
            match members.state(reader) {
                Ok(state) if state.is_gone() => continue,
                Err(MemberError::Corrupt(corrupt)) => return Err(SendError::Corrupt(corrupt)),
                Ok(_) | Err(_) => {}
            }
            let Some(cursor) = self.room(reader) else {
                continue;
            };
            let at = self.advance(reader, cursor)?;
            let behind = end.wrapping_sub(at);
            if behind > most {
                (slowest, most) = (reader, behind);
            }
        }
        self.slowest = end.wrapping_sub(most);
        Ok(slowest)
    }

    /// Moves a reader's cursor over messages that are not for it; returns where it stands then: at a message for it or at the
    /// tail, so that only a message taken can move it on, which wakes us.
    fn advance(&self, reader: u16, cursor: Signal<'a>) -> Result<u32, SendError> {
        let behind = |at| self.tail.wrapping_sub(at);
        let corrupt = |found| {
            SendError::Corrupt(Corrupt {
                field: "cursor",
                rank: reader,
                found,
            })
        };
        let mut seen = cursor.load();
        if behind(seen) > self.segment.geometry().cells() {
            return Err(corrupt(seen));
        }
        let mut at = seen;
        // Each round has the cursor closer to the tail, so there are no more of them than cells.
        loop {
            at = self.first_for(reader, at).ok_or_else(|| corrupt(seen))?;
            if at == seen {
                return Ok(at);
            }
            match cursor.exchange(seen, at) {
                // The reader may sleep on the tail, never on its own cursor.
                Ok(_) => return Ok(at),
                // It moved by itself meanwhile, forward.
                Err(now) if behind(now) < behind(seen) => seen = now,
                Err(now) => return Err(corrupt(now)),
            }
            if behind(seen) < behind(at) {
                at = seen;
            }
        }
    }

    /// Position of the first message for `reader` from `at` on, or the tail. `None` if no messages lead there: it is our own
    /// ring, so somebody else has written to it, or `at` is no beginning.
    fn first_for(&self, reader: u16, mut at: u32) -> Option<u32> {
        while at != self.tail {
            let header = Header::read(&self.segment, self.me, at)?;
            if header.is_for(reader) {
                break;
            }
            if header.cells() > self.tail.wrapping_sub(at) {
                return None;
            }
            at = at.wrapping_add(header.cells());
        }
        Some(at)
    }
}

/// The reading end of one producer's ring. One per pair of ranks; not shared.
#[derive(Debug)]
pub struct Reader<'a> {
    segment: Segment<'a>,
    producer: u16,
    cursor: Signal<'a>,
    tail: Signal<'a>,
    me: u16,
}

impl<'a> Reader<'a> {
    /// The ring of `producer`, read by rank `me`. `None` if there is no such pair.
    #[must_use]
    pub fn new(segment: Segment<'a>, producer: u16, me: u16) -> Option<Self> {
        let geometry = segment.geometry();
        if producer == me || producer >= geometry.world() || me >= geometry.world() {
            return None;
        }
        let cursor = segment.signal(geometry.cursor(producer, me))?;
        let tail = segment.signal(geometry.tail(producer))?;
        Some(Self {
            segment,
            producer,
            cursor,
            tail,
            me,
        })
    }

    /// The signal to sleep on while there is no message.
    #[must_use]
    pub const fn news(&self) -> Signal<'a> {
        self.tail
    }

    /// Receives the next message that is for this rank, or says at once that there is none. After an error the contents of the
    /// buffer are arbitrary. O(bytes), word by word.
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        // Each round that ends without an answer has the cursor on by a cell at least.
        for _ in 0..=self.segment.geometry().cells() {
            let arrived = self.peek()?;
            let bytes = arrived.bytes;
            let Some(room) = buffer.get_mut(..bytes) else {
                if self.stands(&arrived) {
                    return Err(RecvError::TooSmall { bytes });
                }
                continue;
            };
            get(self.payload(&arrived), room);
            if let Some(wake) = self.take(&arrived) {
                let tag = arrived.tag;
                return Ok(Received { bytes, tag, wake });
            }
        }
        Err(RecvError::Empty)
    }

    /// Looks at the next message that is for this rank, which stays where it is.
    #[inline]
    pub fn peek(&mut self) -> Result<Arrived, RecvError> {
        let cells = self.segment.geometry().cells();
        // Each round has the cursor on by a cell at least. A ring that is over a lap further meanwhile has news on its tail.
        for _ in 0..=cells {
            let at = self.cursor.load();
            let header = Header::read(&self.segment, self.producer, at).ok_or(RecvError::Empty)?;
            let arrived = Arrived {
                bytes: header.bytes,
                tag: header.tag,
                at,
            };
            if header.cells() > cells {
                // Else it was for others, and the cell has been used again while we looked.
                if self.stands(&arrived) {
                    return Err(RecvError::Corrupt(Corrupt {
                        field: "message length",
                        rank: self.producer,
                        found: u32::try_from(header.bytes).unwrap_or(u32::MAX),
                    }));
                }
            } else if header.is_for(self.me) {
                return Ok(arrived);
            } else {
                // Failed: the producer has moved it. Done: it does not wait for this, see `Producer::advance`.
                let _ = self.take(&arrived);
            }
        }
        Err(RecvError::Empty)
    }

    /// Whether a message that was seen is one for this rank and still to be taken. If not, look again: the producer has moved on, as what stood
    /// there was for others.
    #[must_use]
    pub fn stands(&self, arrived: &Arrived) -> bool {
        self.cursor.is_still(arrived.at)
    }

    /// Where the payload of a message lies that was seen, see [`Reserved::payload`].
    #[must_use]
    #[inline]
    pub fn payload(&self, arrived: &Arrived) -> [&'a [Word]; 2] {
        cell::payload(&self.segment, self.producer, arrived.at, arrived.bytes)
    }

    /// Takes a message that was seen, and whose payload was copied: only now is what was copied sure to be of it. `None`: it was for
    /// others, see [`Self::stands`].
    #[inline]
    pub fn take(&mut self, arrived: &Arrived) -> Option<Wake> {
        let next = arrived.at.wrapping_add(cell::count(arrived.bytes));
        self.cursor.exchange(arrived.at, next).ok()
    }
}

/// A message that was seen in a ring. Nothing of it counts before [`Reader::stands`] or [`Reader::take`] say so.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    /// Its bytes.
    pub bytes: usize,
    /// Its tag.
    pub tag: u32,
    at: u32,
}

#[cfg(test)]
mod tests;
