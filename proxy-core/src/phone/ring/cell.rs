//! Cells: how a message lies in a ring, and the one word that publishes it.

use core::ops::Range;

use super::To;
use crate::limits::index;
use crate::phone::Word;
use crate::phone::layout::{LINE, Segment};
use crate::sync::{Edge, Ordering, edge};

/// Changes with the meaning of a cell's words; part of the layout's hash.
pub(in crate::phone) const LAYOUT: u32 = 2;

/// Words before the payload, in the first cell of a message only.
const HEADER: usize = 4;
/// Bytes of a cell.
const CELL: usize = LINE * 4;
/// The destination of a message for all.
const EVERYBODY: u32 = u32::MAX;

/// Cells of a message of `bytes` bytes.
#[inline]
pub(super) fn count(bytes: usize) -> u32 {
    let cells = bytes.saturating_add(HEADER * 4).div_ceil(CELL);
    u32::try_from(cells).unwrap_or(u32::MAX)
}

/// Bytes that a ring of `cells` cells takes at once.
#[must_use]
pub fn capacity(cells: u32) -> usize {
    index(cells).saturating_mul(CELL).saturating_sub(HEADER * 4)
}

/// The stamp of a message that begins at `position`. Never 0, and never that of the lap before.
const fn stamp_of(position: u32) -> u32 {
    position | 1 << 31
}

/// Header of a message, copied out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) bytes: usize,
    pub(super) tag: u32,
    to: u32,
}

impl Header {
    /// The message that begins at `position`, if one does.
    #[inline]
    pub(super) fn read(segment: &Segment<'_>, producer: u16, position: u32) -> Option<Self> {
        let line = segment.line(segment.geometry().cell(producer, position))?;
        let [stamp, bytes, to, tag] = line.first_chunk::<HEADER>()?;
        // Acquire pairs with the release in `publish`: who sees the stamp sees the message.
        let stamp = stamp.load(edge(Edge::PhoneMessage, Ordering::Acquire));
        if stamp != stamp_of(position) {
            return None;
        }
        // Relaxed, all three: published by the stamp.
        let (bytes, to, tag) = (
            bytes.load(Ordering::Relaxed),
            to.load(Ordering::Relaxed),
            tag.load(Ordering::Relaxed),
        );
        Some(Self {
            bytes: index(bytes),
            tag,
            to,
        })
    }

    pub(super) fn is_for(&self, reader: u16) -> bool {
        self.to == EVERYBODY || self.to == u32::from(reader)
    }

    pub(super) fn cells(&self) -> u32 {
        count(self.bytes)
    }
}

/// Where the payload of a message of `bytes` bytes lies that begins at `position`: words in order, in two pieces where the ring
/// ends between them.
#[inline]
pub(super) fn payload<'a>(
    segment: &Segment<'a>,
    producer: u16,
    position: u32,
    bytes: usize,
) -> [&'a [Word]; 2] {
    let geometry = segment.geometry();
    let (ring, words) = (geometry.ring(producer), bytes.div_ceil(4));
    let start = geometry.cell(producer, position).wrapping_add(HEADER);
    let end = start.saturating_add(words);
    let rest = ring.start..ring.start.saturating_add(end.saturating_sub(ring.end));
    let piece = |range: Range<usize>| segment.words().get(range).unwrap_or_default();
    [piece(start..end.min(ring.end)), piece(rest)]
}

/// Makes sure that no reader takes the cell at `position` for a beginning, whatever payload stands there.
pub(super) fn clear(segment: &Segment<'_>, producer: u16, position: u32) {
    let line = segment.line(segment.geometry().cell(producer, position));
    put_words(line.unwrap_or(&[]), 0, [0]);
}

/// Writes the header of a message whose payload is there, its stamp last.
#[inline]
pub(super) fn publish(
    segment: &Segment<'_>,
    producer: u16,
    position: u32,
    (to, tag, bytes): (To, u32, usize),
) {
    let line = segment.line(segment.geometry().cell(producer, position));
    let line = line.unwrap_or(&[]);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let to = match to {
        To::Rank(rank) => rank.into(),
        To::Everybody => EVERYBODY,
    };
    put_words(line, 1, [bytes, to, tag]);
    if let Some(stamp) = line.first() {
        // Release pairs with the acquire in `Header::read`: who sees the stamp sees the message.
        let release = edge(Edge::PhoneMessage, Ordering::Release);
        store(stamp, stamp_of(position), release);
    }
}

/// Stores words into a line from `skip` on.
fn put_words(line: &[Word], skip: usize, values: impl IntoIterator<Item = u32>) {
    for (word, value) in line.iter().skip(skip).zip(values) {
        // Relaxed: published by the stamp.
        store(word, value, Ordering::Relaxed);
    }
}

/// Every store into a cell. In tests the producer may die before any of them.
fn store(word: &Word, value: u32, order: Ordering) {
    #[cfg(test)]
    if super::tests::is_dead_at_this_store() {
        return;
    }
    // The caller's ordering, which names its partner there.
    word.store(value, order);
}

/// Copies a payload to its place, word by word: for those who have nothing faster. O(bytes).
#[inline]
pub fn put(pieces: [&[Word]; 2], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<4>();
    let mut words = pieces.into_iter().flatten();
    for (part, word) in whole.iter().zip(words.by_ref()) {
        // Relaxed, both: published by the stamp.
        store(word, u32::from_ne_bytes(*part), Ordering::Relaxed);
    }
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        let mut last = [0; 4];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        store(word, u32::from_ne_bytes(last), Ordering::Relaxed); // as above
    }
}

/// Copies a payload out, word by word: for those who have nothing faster. O(bytes).
#[inline]
pub fn get(pieces: [&[Word]; 2], bytes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks_mut::<4>();
    let mut words = pieces.into_iter().flatten();
    for (part, word) in whole.iter_mut().zip(words.by_ref()) {
        // Relaxed, both: made visible by the stamp's acquire.
        *part = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        let last = word.load(Ordering::Relaxed).to_ne_bytes(); // as above
        rest.iter_mut().zip(last).for_each(|(to, from)| *to = from);
    }
}
