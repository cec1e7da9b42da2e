//! Frames: what a record of a ring is to a message, and where a message goes.

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
