//! Where everything is in a segment, and the header by which two builds find out that they disagree.
//!
//! ```text
//!   word 0    header, 16 words: magic, version, hash, stamp, world, cells, barriers, words, 8 reserved
//!        16   members:   world x line            [state signal, pid, namespace, CPUs, their number]
//!             verdicts:  barriers x line         [verdict signal, claim signal]
//!             arrivals:  barriers x world x line [generation signal, exec low, exec high, passed, awaits, participants, exec when ready x 2]
//!             tails:     world x line            [tail signal]
//!             cursors:   world x world x line    [cursor signal]
//!             cells:     world x cells x line    [stamp, length, destination, tag, payload ...] [payload ...]
//! ```
//!
//! A line is 16 words, 64 bytes; a signal is [value, sleepers, calls]. All of it zero, the header apart, is a fresh bus.

use core::fmt;

use super::{Signal, Word};
use crate::limits::index;
use crate::sync::Ordering;

/// Words of a line.
pub const LINE: usize = 16;
/// Ranks of a bus at most: one machine's.
pub const MAX_WORLD: u16 = 128;
/// Barriers of a bus at most.
pub const MAX_BARRIERS: u16 = 64;
/// Cells of a ring at most, and at least: a power of two.
pub const MAX_CELLS: u32 = 1 << 16;
/// See [`MAX_CELLS`].
pub const MIN_CELLS: u32 = 2;

/// First word of every segment: "BANA".
pub const MAGIC: u32 = 0x4241_4E41;
/// Version of this layout; counted up with every change of it.
pub const VERSION: u32 = 2;
/// Tells word size and byte order apart: another order reads it differently.
pub const STAMP: u32 = 0x0403_0201;

/// Words of the header.
pub const HEADER: usize = LINE;

/// A number that changes when any constant of the layout does, also when somebody forgot the version.
pub const HASH: u32 = hash();

#[expect(clippy::as_conversions, reason = "small constants")]
const fn hash() -> u32 {
    let parts = [
        LINE as u32,
        MAX_WORLD as u32,
        MAX_BARRIERS as u32,
        MAX_CELLS,
        HEADER as u32,
        super::signal::WORDS as u32,
        super::ring::LAYOUT,
        super::barrier::LAYOUT,
        super::member::LAYOUT,
    ];
    // FNV-1a over the words.
    let mut hash = 0x811C_9DC5_u32;
    let mut rest: &[u32] = &parts;
    while let Some((part, tail)) = rest.split_first() {
        hash = (hash ^ *part).wrapping_mul(0x0100_0193);
        rest = tail;
    }
    hash
}

/// Sizes of one bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Geometry {
    world: u16,
    barriers: u16,
    cells: u32,
}

/// Why sizes or a header were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LayoutError {
    /// A size is out of range.
    OutOfRange {
        /// Its name.
        field: &'static str,
        /// Its value.
        found: u32,
        /// What is accepted.
        accepted: &'static str,
    },
    /// Not a segment of this kind.
    NotABus {
        /// The first word.
        found: u32,
    },
    /// The other side has another version of the layout.
    VersionMismatch {
        /// Ours.
        ours: u32,
        /// Theirs.
        theirs: u32,
    },
    /// The same version with other constants: two builds of one version.
    HashMismatch {
        /// Ours.
        ours: u32,
        /// Theirs.
        theirs: u32,
    },
    /// Another word size or byte order.
    StampMismatch {
        /// Ours.
        ours: u32,
        /// Theirs.
        theirs: u32,
    },
    /// The segment is smaller than its header says.
    TooSmall {
        /// Words it has.
        found: usize,
        /// Words it needs.
        wanted: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange {
                field,
                found,
                accepted,
            } => write!(f, "bus {field} is {found}, accepted: {accepted}"),
            Self::NotABus { found } => write!(
                f,
                "not a bus: its first word is {found:#010x}, accepted: {MAGIC:#010x}"
            ),
            Self::VersionMismatch { ours, theirs } => {
                write!(f, "bus layout version {theirs}, ours is {ours}")
            }
            Self::HashMismatch { ours, theirs } => {
                write!(
                    f,
                    "bus layout hash {theirs:#010x} of the same version, ours is {ours:#010x}: two builds of one version"
                )
            }
            Self::StampMismatch { ours, theirs } => {
                write!(
                    f,
                    "bus word size and byte order stamp {theirs:#010x}, ours is {ours:#010x}"
                )
            }
            Self::TooSmall { found, wanted } => {
                write!(f, "the bus has {found} words, accepted: {wanted} or more")
            }
        }
    }
}

impl core::error::Error for LayoutError {}

impl Geometry {
    /// Sizes for `world` ranks, `barriers` barriers and rings of `cells` cells of 64 bytes.
    pub const fn new(world: u16, barriers: u16, cells: u32) -> Result<Self, LayoutError> {
        if world == 0 || world > MAX_WORLD {
            return Err(LayoutError::OutOfRange {
                field: "world",
                found: widen(world),
                accepted: "1 to 128 ranks",
            });
        }
        if barriers > MAX_BARRIERS {
            return Err(LayoutError::OutOfRange {
                field: "barriers",
                found: widen(barriers),
                accepted: "0 to 64",
            });
        }
        if !cells.is_power_of_two() || cells < MIN_CELLS || cells > MAX_CELLS {
            return Err(LayoutError::OutOfRange {
                field: "cells",
                found: cells,
                accepted: "a power of two from 2 to 65536",
            });
        }
        Ok(Self {
            world,
            barriers,
            cells,
        })
    }

    /// Ranks.
    #[must_use]
    pub const fn world(&self) -> u16 {
        self.world
    }

    /// Barriers.
    #[must_use]
    pub const fn barriers(&self) -> u16 {
        self.barriers
    }

    /// Cells of each ring.
    #[must_use]
    pub const fn cells(&self) -> u32 {
        self.cells
    }

    /// Words of the whole segment.
    #[must_use]
    pub fn words(&self) -> usize {
        let (world, cells) = (usize::from(self.world), index(self.cells));
        self.cells_at()
            .wrapping_add(lines(world.wrapping_mul(cells)))
    }

    /// The words of the cells of rank `rank`, which it alone writes: what it must have memory for to publish.
    #[must_use]
    #[inline]
    pub fn ring(&self, rank: u16) -> core::ops::Range<usize> {
        let start = self.cell(rank, 0);
        start..start.wrapping_add(lines(index(self.cells)))
    }

    /// Words of everything but the cells.
    #[must_use]
    pub fn control(&self) -> usize {
        self.cells_at()
    }

    #[inline]
    pub(super) fn member(&self, rank: u16) -> usize {
        HEADER.wrapping_add(lines(rank.into()))
    }

    #[inline]
    pub(super) fn verdict(&self, barrier: u16) -> usize {
        self.member(self.world).wrapping_add(lines(barrier.into()))
    }

    #[inline]
    pub(super) fn arrival(&self, barrier: u16, rank: u16) -> usize {
        let place = usize::from(barrier)
            .wrapping_mul(self.world.into())
            .wrapping_add(rank.into());
        self.verdict(self.barriers).wrapping_add(lines(place))
    }

    #[inline]
    pub(super) fn tail(&self, rank: u16) -> usize {
        self.arrival(self.barriers, 0)
            .wrapping_add(lines(rank.into()))
    }

    #[inline]
    pub(super) fn cursor(&self, producer: u16, reader: u16) -> usize {
        let place = usize::from(producer)
            .wrapping_mul(self.world.into())
            .wrapping_add(reader.into());
        self.tail(self.world).wrapping_add(lines(place))
    }

    #[inline]
    fn cells_at(&self) -> usize {
        self.cursor(self.world, 0)
    }

    /// First word of the cell at `position` of a ring; positions count on over the laps.
    #[inline]
    pub(super) fn cell(&self, producer: u16, position: u32) -> usize {
        // Cells are a power of two, so the mask is the remainder, also across the wrap of positions.
        let cell = index(position & self.cells.wrapping_sub(1));
        let place = usize::from(producer)
            .wrapping_mul(index(self.cells))
            .wrapping_add(cell);
        self.cells_at().wrapping_add(lines(place))
    }

    /// The header of a segment of these sizes.
    #[must_use]
    pub fn header(&self) -> [u32; HEADER] {
        let mut header = [0; HEADER];
        let words = u32::try_from(self.words()).unwrap_or(u32::MAX);
        let fields = [
            MAGIC,
            VERSION,
            HASH,
            STAMP,
            self.world.into(),
            self.barriers.into(),
            self.cells,
            words,
        ];
        for (place, field) in header.iter_mut().zip(fields) {
            *place = field;
        }
        header
    }

    /// Checks a header that was copied out of a segment of `words` words, in the order in which its fields can be trusted.
    pub fn check(header: &[u32; HEADER], words: usize) -> Result<Self, LayoutError> {
        let [
            magic,
            version,
            hash,
            stamp,
            world,
            barriers,
            cells,
            total,
            ..,
        ] = *header;
        check_build(magic, stamp, version, hash)?;
        let out_of_range = |field, found, accepted| LayoutError::OutOfRange {
            field,
            found,
            accepted,
        };
        let small = |field, found, accepted| {
            u16::try_from(found).map_err(|_| out_of_range(field, found, accepted))
        };
        let world = small("world", world, "1 to 128 ranks")?;
        let barriers = small("barriers", barriers, "0 to 64")?;
        let geometry = Self::new(world, barriers, cells)?;
        if index(total) != geometry.words() {
            let accepted = "what its other sizes add up to";
            return Err(out_of_range("words", total, accepted));
        }
        if words < geometry.words() {
            return Err(LayoutError::TooSmall {
                found: words,
                wanted: geometry.words(),
            });
        }
        Ok(geometry)
    }
}

/// Whether a header with these fields was written by a build that lays out a segment as this one does.
const fn check_build(magic: u32, stamp: u32, version: u32, hash: u32) -> Result<(), LayoutError> {
    // A bus of the other byte order has both backwards.
    let backwards = magic == MAGIC.swap_bytes() && stamp == STAMP.swap_bytes();
    if magic != MAGIC && !backwards {
        return Err(LayoutError::NotABus { found: magic });
    }
    if stamp != STAMP {
        return Err(LayoutError::StampMismatch {
            ours: STAMP,
            theirs: stamp,
        });
    }
    if version != VERSION {
        return Err(LayoutError::VersionMismatch {
            ours: VERSION,
            theirs: version,
        });
    }
    if hash != HASH {
        return Err(LayoutError::HashMismatch {
            ours: HASH,
            theirs: hash,
        });
    }
    Ok(())
}

/// Words of `count` lines.
fn lines(count: usize) -> usize {
    count.wrapping_mul(LINE)
}

#[expect(clippy::as_conversions, reason = "u16 to u32 in a constant")]
const fn widen(value: u16) -> u32 {
    value as u32
}

/// A segment with sizes that have been checked against its length.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    words: &'a [Word],
    geometry: Geometry,
}

impl<'a> Segment<'a> {
    /// Takes a segment whose header was checked before. It is not read again, so nobody can change its sizes meanwhile.
    pub fn again(words: &'a [Word], geometry: Geometry) -> Result<Self, LayoutError> {
        if words.len() < geometry.words() {
            return Err(LayoutError::TooSmall {
                found: words.len(),
                wanted: geometry.words(),
            });
        }
        Ok(Self { words, geometry })
    }

    /// Takes a fresh, all-zero segment and writes its header. Nobody else has it yet.
    pub fn create(words: &'a [Word], geometry: Geometry) -> Result<Self, LayoutError> {
        let segment = Self::again(words, geometry)?;
        for (word, value) in words.iter().zip(geometry.header()) {
            // Relaxed: handing the segment over publishes it.
            word.store(value, Ordering::Relaxed);
        }
        Ok(segment)
    }

    /// Takes a segment that somebody else has made. The header is copied out and checked before anything is believed.
    pub fn attach(words: &'a [Word]) -> Result<Self, LayoutError> {
        let mut header = [0; HEADER];
        if words.len() < HEADER {
            return Err(LayoutError::TooSmall {
                found: words.len(),
                wanted: HEADER,
            });
        }
        for (place, word) in header.iter_mut().zip(words) {
            // Relaxed: written before the segment was handed over.
            *place = word.load(Ordering::Relaxed);
        }
        let geometry = Geometry::check(&header, words.len())?;
        Ok(Self { words, geometry })
    }

    /// Its sizes, as they were when it was taken.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// All words, for the futex.
    #[must_use]
    pub const fn words(&self) -> &'a [Word] {
        self.words
    }

    #[inline]
    pub(super) fn signal(&self, index: usize) -> Option<Signal<'a>> {
        Signal::new(self.words, index)
    }

    #[inline]
    pub(super) fn line(&self, index: usize) -> Option<&'a [Word]> {
        self.words.get(index..index.checked_add(LINE)?)
    }

    /// The signal on which news of a member come.
    #[must_use]
    #[inline]
    pub fn member_signal(&self, rank: u16) -> Option<Signal<'a>> {
        if rank < self.geometry.world {
            self.signal(self.geometry.member(rank))
        } else {
            None
        }
    }

    /// Every signal that can have a sleeper who waits for rank `rank`: to be woken when it dies or leaves.
    pub fn signals_of(&self, rank: u16) -> impl Iterator<Item = Signal<'a>> + use<'a> {
        let (segment, geometry) = (*self, self.geometry);
        let cursors = (0..geometry.world).map(move |producer| geometry.cursor(producer, rank));
        let arrivals = (0..geometry.barriers).map(move |barrier| geometry.arrival(barrier, rank));
        let verdicts = (0..geometry.barriers).map(move |barrier| geometry.verdict(barrier));
        let own = [geometry.member(rank), geometry.tail(rank)];
        let all = own
            .into_iter()
            .chain(cursors)
            .chain(arrivals)
            .chain(verdicts);
        all.filter(move |_| rank < geometry.world)
            .filter_map(move |index| segment.signal(index))
    }
}

#[cfg(test)]
mod tests;
