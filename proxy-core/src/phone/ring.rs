//! A ring of one producer that all other ranks read, each with a cursor of its own.
//!
//! A message is a run of cells of 64 bytes. The first word of each is its stamp, the only word by which a reader learns that a
//! message is there; it is stored last, so a producer that dies while it writes leaves nothing that could be read
//! (requirement H72). A message of up to 48 bytes is one cell, and so one cache line from producer to reader.
//!
//! A message is for one rank or for all. A reader skips what is for others; and as a rank that never receives must
//! not block the ring for the others, the producer moves such a cursor on itself, up to the first message that is for that rank.
//! Both do it by compare-and-swap, so neither overtakes the other. It also means that the producer may use a cell again
//! while a reader, late, still looks at what stood there for others: what the reader has seen counts only once the
//! compare-and-swap of its cursor succeeds.
//!
//! ```text
//!   cell at position p:  [stamp(p), length, destination, tag, 12 words of payload]   first cell of a message
//!                        [ 0, -, 14 words of payload]                                its other cells
//!   cursor of a reader <= position < tail, and tail - cursor <= cells, for every reader that is there
//! ```
//!
//! | operation | progress |
//! |---|---|
//! | [`Producer::try_send`] | wait-free; its look at the cursors is bounded by world times cells |
//! | [`Reader::try_recv`] | wait-free, bounded by cells |

mod cell;

use core::fmt;

use cell::Header;

use super::layout::Segment;
use super::member::{MemberError, Members};
use super::{Corrupt, Signal, Wake};

pub(super) use cell::LAYOUT;
pub use cell::capacity;

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
        })
    }

    /// Sends a message, or says why not at once.
    pub fn try_send(&mut self, to: To, tag: u32, message: &[u8]) -> Result<Wake, SendError> {
        self.try_send_with(to, tag, message, || ())
    }

    /// Sends a message and calls `written` when all of it is in the ring but no reader can see it yet: the point between
    /// reserving and committing, at which a test can let its process die.
    pub fn try_send_with(
        &mut self,
        to: To,
        tag: u32,
        message: &[u8],
        written: impl FnOnce(),
    ) -> Result<Wake, SendError> {
        let geometry = *self.segment.geometry();
        if let To::Rank(rank) = to
            && (rank >= geometry.world() || rank == self.me)
        {
            return Err(SendError::NoSuchRank { rank });
        }
        let limit = capacity(geometry.cells());
        let cells = cell::count(message.len());
        if message.len() > limit {
            return Err(SendError::TooLong {
                bytes: message.len(),
                limit,
            });
        }
        let end = self.tail.wrapping_add(cells);
        if end.wrapping_sub(self.slowest) > geometry.cells() {
            let slowest = self.look_at_cursors(end)?;
            if end.wrapping_sub(self.slowest) > geometry.cells() {
                return Err(SendError::Full { reader: slowest });
            }
        }
        let message = (to, tag, message);
        cell::write(&self.segment, self.me, self.tail, message, written);
        self.tail = end;
        let tail = self.segment.signal(geometry.tail(self.me));
        Ok(tail.map_or(Wake::Nobody, |tail| tail.store(end)))
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
    /// buffer are arbitrary.
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        let cells = self.segment.geometry().cells();
        // Each round has the cursor on by a cell at least. A ring that is over a lap further meanwhile has news on its tail.
        for _ in 0..=cells {
            let at = self.cursor.load();
            let header = Header::read(&self.segment, self.producer, at).ok_or(RecvError::Empty)?;
            // Of an honest producer every length is possible, also one that was written while we look.
            if header.cells() > cells {
                return Err(RecvError::Corrupt(Corrupt {
                    field: "message length",
                    rank: self.producer,
                    found: u32::try_from(header.bytes).unwrap_or(u32::MAX),
                }));
            }
            let next = at.wrapping_add(header.cells());
            if !header.is_for(self.me) {
                // Failed: the producer has moved it. Done: it does not wait for this, see `Producer::advance`.
                let _ = self.cursor.exchange(at, next);
                continue;
            }
            let Some(room) = buffer.get_mut(..header.bytes) else {
                if self.cursor.is_still(at) {
                    return Err(RecvError::TooSmall {
                        bytes: header.bytes,
                    });
                }
                continue;
            };
            cell::read(&self.segment, self.producer, at, room);
            // Failed: it was not for us, and the cell has been used again while we looked.
            if let Ok(wake) = self.cursor.exchange(at, next) {
                return Ok(Received {
                    bytes: header.bytes,
                    tag: header.tag,
                    wake,
                });
            }
        }
        Err(RecvError::Empty)
    }
}

#[cfg(test)]
mod tests;
