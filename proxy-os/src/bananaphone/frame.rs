//! Frames: what a record of a ring is to a message, where a message goes, and where it waits until it is asked for.

use std::collections::VecDeque;

use proxy_core::phone::Corrupt;

use super::error::BusError;

/// Bytes of one message at most: 1 TiB, far above any memory, so that a broken length is told from a long message.
const MESSAGE_LIMIT: u64 = 1 << 40;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    First,
    Rest,
}

const KIND_SHIFT: u32 = 30;

impl Kind {
    /// The ring's tag of such a frame.
    pub(super) const fn word(self, tag: u32) -> u32 {
        tag | (self as u32) << KIND_SHIFT
    }

    /// What a ring's tag says.
    pub(super) const fn split(word: u32) -> Option<(Self, u32)> {
        let tag = word & ((1 << KIND_SHIFT) - 1);
        match word >> KIND_SHIFT {
            0 => Some((Self::Whole, tag)),
            1 => Some((Self::First, tag)),
            2 => Some((Self::Rest, tag)),
            _ => None,
        }
    }
}

/// A long message of which parts are here.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) tag: u32,
    pub(super) total: usize,
    pub(super) bytes: Vec<u8>,
}

/// The beginning of a long message: its total length, then its first bytes.
pub(super) fn begin(from: u16, tag: u32, bytes: &[u8]) -> Result<Partial, BusError> {
    let (total, bytes) = bytes
        .split_first_chunk()
        .ok_or_else(|| corrupt("message length", from, 0))?;
    let total = u64::from_ne_bytes(*total);
    let known = usize::try_from(total)
        .ok()
        .filter(|_| total <= MESSAGE_LIMIT);
    let total = known.ok_or_else(|| corrupt("message length", from, u32::MAX))?;
    Ok(Partial {
        tag,
        total,
        // Grows with what really comes: a length alone reserves nothing.
        bytes: bytes.to_vec(),
    })
}

/// A word of a rank's frame that cannot be.
pub(super) fn corrupt(field: &'static str, rank: u16, found: u32) -> BusError {
    BusError::Corrupt(Corrupt { field, rank, found })
}

/// Where a message goes.
pub(super) enum Place<'b> {
    /// Into a buffer that is long enough for it.
    Buffer(&'b mut [u8]),
    /// Whatever its length.
    Vec(&'b mut Vec<u8>),
}

impl Place<'_> {
    /// Room for so many bytes; none in a buffer that is too small.
    pub(super) fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        match self {
            Self::Buffer(buffer) => buffer.get_mut(..bytes),
            Self::Vec(vec) => {
                vec.clear();
                vec.resize(bytes, 0);
                Some(vec)
            }
        }
    }

    /// Whether so many bytes have room here.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        match self {
            Self::Buffer(buffer) => bytes <= buffer.len(),
            Self::Vec(_) => true,
        }
    }

    /// Puts a message here that was set aside; gives it back if it is too long.
    pub(super) fn put(&mut self, message: Vec<u8>) -> Result<usize, Vec<u8>> {
        let bytes = message.len();
        match self {
            Self::Vec(vec) => **vec = message,
            Self::Buffer(buffer) => match buffer.get_mut(..bytes) {
                Some(room) => room.copy_from_slice(&message),
                None => return Err(message),
            },
        }
        Ok(bytes)
    }
}

/// Messages of one sender that nobody has asked for, in order, and not more than may wait.
#[derive(Debug, Default)]
pub(super) struct Aside {
    messages: VecDeque<(u32, Vec<u8>)>,
    /// Of all of them.
    bytes: usize,
    /// One came when it was full, having left the ring before it was known to be for nobody.
    over: bool,
}

impl Aside {
    /// Messages that may wait.
    pub(super) const MESSAGES: usize = 1024;
    /// Bytes of theirs that may wait; the message that comes to so many may be of any length.
    pub(super) const BYTES: usize = 64 << 20;

    /// Whether no more may be set aside.
    pub(super) fn is_full(&self) -> bool {
        self.messages.len() >= Self::MESSAGES || self.bytes >= Self::BYTES
    }

    /// Whether more have been set aside than may: nothing more may leave the ring.
    #[inline]
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    /// Place of the first message with a tag that is wanted.
    #[inline]
    pub(super) fn find(&self, wanted: impl Fn(u32) -> bool) -> Option<usize> {
        self.messages.iter().position(|(tag, _)| wanted(*tag))
    }

    /// Sets one aside, behind the others.
    pub(super) fn push(&mut self, tag: u32, message: Vec<u8>) {
        self.over |= self.is_full();
        self.bytes += message.len();
        self.messages.push_back((tag, message));
    }

    /// Sets one aside that is to be the next.
    pub(super) fn push_first(&mut self, tag: u32, message: Vec<u8>) {
        self.push(tag, message);
        self.messages.rotate_right(1);
    }

    /// Takes the one at a place.
    pub(super) fn take(&mut self, at: usize) -> Option<(u32, Vec<u8>)> {
        let taken = self.messages.remove(at)?;
        self.bytes -= taken.1.len();
        self.over &= self.is_full();
        Some(taken)
    }

    /// Drops all but those with tags that are to stay.
    pub(super) fn retain(&mut self, stays: impl Fn(u32) -> bool) {
        if self.messages.is_empty() {
            return;
        }
        self.messages.retain(|(tag, _)| stays(*tag));
        self.bytes = self.messages.iter().map(|(_, message)| message.len()).sum();
        self.over &= self.is_full();
    }
}
