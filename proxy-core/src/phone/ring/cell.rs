//! Cells: how a message lies in a ring, and the one word that publishes it.

use super::To;
use crate::limits::index;
use crate::phone::Word;
use crate::phone::layout::{LINE, Segment};
use crate::sync::{Edge, Ordering, edge};

/// Changes with the meaning of a cell's words; part of the layout's hash.
pub(in crate::phone) const LAYOUT: u32 = 1;

/// Words before the payload in the first cell of a message.
const FIRST_HEADER: usize = 4;
/// Words before the payload in its other cells, of which the second is for later.
const REST_HEADER: usize = 2;
/// Bytes of payload in the first cell of a message.
const FIRST_BYTES: usize = (LINE - FIRST_HEADER) * 4;
/// Bytes of payload in each other cell.
const REST_BYTES: usize = (LINE - REST_HEADER) * 4;
/// The destination of a message for all.
const EVERYBODY: u32 = u32::MAX;

/// Cells of a message of `bytes` bytes.
pub(super) fn count(bytes: usize) -> u32 {
    let rest = bytes.saturating_sub(FIRST_BYTES).div_ceil(REST_BYTES);
    u32::try_from(rest).unwrap_or(u32::MAX).saturating_add(1)
}

/// Bytes that a ring of `cells` cells takes at once.
#[must_use]
pub fn capacity(cells: u32) -> usize {
    let rest = index(cells.saturating_sub(1)).saturating_mul(REST_BYTES);
    FIRST_BYTES.saturating_add(rest)
}

/// The stamp of a message that begins at `position`. Never 0; and as every lap writes every cell's first word, it differs from
/// what the lap before left there.
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
    pub(super) fn read(segment: &Segment<'_>, producer: u16, position: u32) -> Option<Self> {
        let line = segment.line(segment.geometry().cell(producer, position))?;
        let [stamp, bytes, to, tag] = line.first_chunk::<FIRST_HEADER>()?;
        // Acquire pairs with the release in `write`: who sees the stamp sees the message.
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

/// Writes a message that has room: payload and headers, then calls `written`, and the stamp of the first cell last.
pub(super) fn write(
    segment: &Segment<'_>,
    producer: u16,
    position: u32,
    (to, tag, bytes): (To, u32, &[u8]),
    written: impl FnOnce(),
) {
    let cell = |offset| {
        let at = segment
            .geometry()
            .cell(producer, position.wrapping_add(offset));
        segment.line(at).unwrap_or(&[])
    };
    let (first, rest) = bytes.split_at_checked(FIRST_BYTES).unwrap_or((bytes, &[]));
    for (part, offset) in rest.chunks(REST_BYTES).zip(1..) {
        let line = cell(offset);
        put(line, REST_HEADER, part);
        // No stamp of any position, so no reader takes this cell for a beginning, whatever stood here.
        put_words(line, 0, [0]);
    }
    let line = cell(0);
    put(line, FIRST_HEADER, first);
    let bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let to = match to {
        To::Rank(rank) => rank.into(),
        To::Everybody => EVERYBODY,
    };
    put_words(line, 1, [bytes, to, tag]);
    written();
    if let Some(stamp) = line.first() {
        // Release pairs with the acquire in `Header::read`: who sees the stamp sees the message.
        let release = edge(Edge::PhoneMessage, Ordering::Release);
        store(stamp, stamp_of(position), release);
    }
}

/// Copies a message out that begins at `position` and has the buffer's length.
pub(super) fn read(segment: &Segment<'_>, producer: u16, position: u32, buffer: &mut [u8]) {
    let cell = |offset| {
        let at = segment
            .geometry()
            .cell(producer, position.wrapping_add(offset));
        segment.line(at).unwrap_or(&[])
    };
    let split = buffer.len().min(FIRST_BYTES);
    let Some((first, rest)) = buffer.split_at_mut_checked(split) else {
        return;
    };
    get(cell(0), FIRST_HEADER, first);
    for (part, offset) in rest.chunks_mut(REST_BYTES).zip(1..) {
        get(cell(offset), REST_HEADER, part);
    }
}

/// Stores bytes into the words of a line from `skip` on. Whole words first: this loop is what a long message costs.
fn put(line: &[Word], skip: usize, bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<4>();
    let mut words = line.iter().skip(skip);
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

/// Loads bytes from the words of a line from `skip` on, whole words first.
fn get(line: &[Word], skip: usize, bytes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks_mut::<4>();
    let mut words = line.iter().skip(skip);
    for (part, word) in whole.iter_mut().zip(words.by_ref()) {
        // Relaxed, both: made visible by the stamp's acquire.
        *part = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        let last = word.load(Ordering::Relaxed).to_ne_bytes(); // as above
        rest.iter_mut().zip(last).for_each(|(to, from)| *to = from);
    }
}
