//! From a collective to its device program: sizes, transfers and steps of every stream and block of one rank.
//!
//! The data is cut into contiguous parts of the streams, each of those into parts of the blocks, which run one after
//! another. Where an op already gives every rank its part of the buffer (all but `allr`, `sendrecv`, `permute`), the
//! rank's part is cut first. A part is moved in chunks, so that reduction and network overlap. An empty part is one
//! entry of size 0, hence both sides of a link always have equally many entries.
//!
//! A plan holds places relative to three regions, no addresses: [`Device::load`](crate::device::Device::load) binds it
//! to memory and makes the FIFO arrays.

mod lower;
mod mesh;
mod ring;

use std::fmt;
use std::ops::Range;

use proxy_core::limits;

use crate::dtype::Dtype;
use crate::op::{Op, owned};
use crate::split::part;

/// Bytes of a chunk unless a spec says otherwise: large enough for a socket to be efficient, small enough that a
/// message of 4 MiB is cut into many.
pub const DEFAULT_CHUNK_BYTES: usize = 128 << 10;

/// Ranks of one world that a plan accepts.
pub const MAX_RANKS: u32 = 1024;

/// Credits of the send handshake: entries that may be posted ahead of the completions seen.
pub const WINDOW: u32 = 128;

const _: () = assert!(WINDOW as usize == limits::REQUESTS && WINDOW <= limits::MAX_CREDITS);

/// What to plan. All ranks of a collective need equal specs but for `rank`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanSpec {
    /// The collective.
    pub op: Op,
    /// Element type.
    pub dtype: Dtype,
    /// Ranks of the world, 1..=[`MAX_RANKS`].
    pub ranks: u32,
    /// This rank.
    pub rank: u32,
    /// Elements of the buffer that "size(B)" measures; see [`Op`] for the buffers of each collective.
    pub count: usize,
    /// Streams, 1..=4.
    pub streams: usize,
    /// Basic blocks of each stream, 1..=1024.
    pub blocks: usize,
    /// Largest transfer in bytes, rounded down to whole elements; [`DEFAULT_CHUNK_BYTES`] is a good value.
    pub chunk_bytes: usize,
}

/// A spec that cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    field: &'static str,
    found: u128,
    accepted: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, accepted: {}",
            self.field, self.found, self.accepted
        )
    }
}

impl std::error::Error for PlanError {}

impl PlanSpec {
    fn check(&self) -> Result<(), PlanError> {
        let within = |field, found: usize, accepted: std::ops::RangeInclusive<usize>| {
            if accepted.contains(&found) {
                return Ok(());
            }
            let accepted = format!("{} to {}", accepted.start(), accepted.end());
            Err(PlanError {
                field,
                found: found as u128,
                accepted,
            })
        };
        within("ranks", self.ranks as usize, 1..=MAX_RANKS as usize)?;
        within("rank", self.rank as usize, 0..=self.ranks as usize - 1)?;
        within("streams", self.streams, 1..=limits::STREAMS)?;
        within("blocks", self.blocks, 1..=usize::from(limits::BLOCKS))?;
        within(
            "chunk_bytes",
            self.chunk_bytes,
            self.dtype.size()..=i32::MAX as usize,
        )?;
        // The largest region (an all-to-all output) has at most one element per rank more than `count`.
        let most = isize::MAX as usize / self.dtype.size() - self.ranks as usize;
        within("count", self.count, 0..=most)
    }
}

/// A piece of a device's memory that belongs to one loaded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Region {
    /// What the caller writes.
    Input,
    /// What the caller reads.
    Output,
    /// Where the parts of a reduction arrive; laid out like the total buffer.
    Stage,
}

/// Bytes of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The region.
    pub region: Region,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// Direction of a connector, and the lane of a program that serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Buffers to fill; its lane does the arithmetic too.
    Receive = 0,
    /// Buffers to send.
    Send = 1,
}

impl Direction {
    /// Both, in the order of [`BlockPlan::lanes`].
    pub const BOTH: [Self; 2] = [Self::Receive, Self::Send];
}

/// The semaphores of a stream. A ring shares one word between handshake and completions of a direction; a mesh has one
/// handshake word for both directions (public header).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Semaphore {
    /// Handshakes of both directions of a mesh.
    Handshake = 0,
    /// Completed receives; of a ring also the receive handshake.
    Receive = 1,
    /// Completed sends; of a ring also the send credits.
    Send = 2,
}

impl Semaphore {
    /// Words of one stream.
    pub const COUNT: usize = 3;
}

/// One step of a device program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Store 0xFFFFFFFF in the index word of the lane's direction, which must be 0.
    Ready,
    /// Store the number of entries posted so far in this block, modulo 512.
    Post {
        /// That number.
        total: u32,
    },
    /// Wait until a semaphore of the stream has been raised by `total` since the execution began.
    Wait {
        /// The semaphore.
        semaphore: Semaphore,
        /// The total.
        total: u32,
    },
    /// Wait until the receive lane has finished its first `steps` steps.
    Follow {
        /// That number of steps.
        steps: usize,
    },
    /// Copy `src` to `dst`, of equal length and not overlapping.
    Copy {
        /// From.
        src: Span,
        /// To.
        dst: Span,
    },
    /// Add `src` to `dst`, of equal length and not overlapping.
    Reduce {
        /// The summand.
        src: Span,
        /// The sum.
        dst: Span,
    },
}

/// One address entry before it is bound to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Index of the owning op in the block.
    pub op: u32,
    /// The buffer.
    pub span: Span,
    /// The peer of a mesh entry; `None` = the ring neighbour.
    pub peer: Option<u32>,
}

/// The work of one stream in one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockPlan {
    /// Network ops, at least 1.
    pub ops: u32,
    /// Transfers of each [`Direction`], in the order in which they are posted.
    pub transfers: [Vec<Transfer>; 2],
    /// Steps of each [`Direction`].
    pub lanes: [Vec<Step>; 2],
}

/// The device program of one rank for one collective of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    spec: PlanSpec,
    blocks: Vec<Vec<BlockPlan>>,
    totals: Vec<[u32; Semaphore::COUNT]>,
}

impl Plan {
    /// Plans one rank's share of a collective. Errors name the field, its value and what is accepted.
    pub fn new(spec: &PlanSpec) -> Result<Self, PlanError> {
        spec.check()?;
        let mut plan = Self {
            spec: *spec,
            blocks: Vec::with_capacity(spec.streams),
            totals: Vec::with_capacity(spec.streams),
        };
        for stream in 0..spec.streams {
            let mut totals = [0; Semaphore::COUNT];
            let blocks = (0..spec.blocks).map(|block| {
                let cut = Cut {
                    spec,
                    stream,
                    block,
                };
                let work = match spec.op {
                    Op::AllReduce | Op::AllGather | Op::ReduceScatter => ring::build(&cut),
                    Op::AllToAll | Op::SendRecv | Op::Permute => mesh::build(&cut),
                };
                lower::lower(work, spec.op.topology(), &mut totals)
            });
            plan.blocks.push(blocks.collect());
            plan.totals.push(totals);
        }
        Ok(plan)
    }

    /// The spec it was made from.
    pub const fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// Bytes of a region.
    pub fn region_len(&self, region: Region) -> usize {
        let PlanSpec {
            op,
            ranks,
            rank,
            count,
            ..
        } = self.spec;
        let (ranks, rank) = (ranks as usize, rank as usize);
        let elements = match region {
            Region::Input => op.input_count(ranks, rank, count),
            Region::Output => op.output_count(ranks, rank, count),
            Region::Stage if matches!(op, Op::AllReduce | Op::ReduceScatter) && ranks > 1 => count,
            Region::Stage => 0,
        };
        elements * self.spec.dtype.size()
    }

    /// Bytes of the input.
    pub fn input_len(&self) -> usize {
        self.region_len(Region::Input)
    }

    /// Bytes of the output.
    pub fn output_len(&self) -> usize {
        self.region_len(Region::Output)
    }

    /// The blocks of `stream`, which is below the spec's `streams`.
    pub fn blocks(&self, stream: usize) -> &[BlockPlan] {
        &self.blocks[stream]
    }

    /// By how much one execution raises each semaphore of `stream`, indexed by [`Semaphore`].
    pub fn totals(&self, stream: usize) -> [u32; Semaphore::COUNT] {
        self.totals[stream]
    }
}

/// What a send must wait for inside its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// Nothing: it sends input.
    Start,
    /// The local copies of the block.
    Local,
    /// The work that follows the receive of this index.
    Receive(usize),
}

/// A block's work before it becomes lanes.
#[derive(Debug, Default)]
struct Work {
    ops: u32,
    local: Vec<Step>,
    sends: Vec<(Transfer, After)>,
    receives: Vec<(Transfer, Vec<Step>)>,
}

/// One stream's block of a spec: which elements it moves.
struct Cut<'a> {
    spec: &'a PlanSpec,
    stream: usize,
    block: usize,
}

impl Cut<'_> {
    fn ranks(&self) -> usize {
        self.spec.ranks as usize
    }

    fn rank(&self) -> usize {
        self.spec.rank as usize
    }

    /// The share of this stream and block in `range`.
    fn share(&self, range: &Range<usize>) -> Range<usize> {
        let of_stream = part(range, self.spec.streams, self.stream);
        part(&of_stream, self.spec.blocks, self.block)
    }

    /// The part of the total buffer that belongs to `rank`.
    fn owned(&self, rank: usize) -> Range<usize> {
        owned(self.ranks(), rank, self.spec.count)
    }

    /// Elements of one chunk, at least 1.
    fn chunk(&self) -> usize {
        self.spec.chunk_bytes / self.spec.dtype.size()
    }

    /// The bytes of `elements` in `region`, whose first element has the index `origin`.
    fn span(&self, region: Region, origin: usize, elements: &Range<usize>) -> Span {
        let size = self.spec.dtype.size();
        Span {
            region,
            offset: (elements.start - origin) * size,
            len: elements.len() * size,
        }
    }
}

#[cfg(test)]
mod tests;
