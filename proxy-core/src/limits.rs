//! Every fixed limit of the core, each with its reason.
//!
//! Capacities that an embedder chooses (ranks per queue, tasks per rank, contexts, records) are const generics of
//! [`Queue`](crate::Queue) and [`Driver`](crate::Driver); this file holds the limits that the field itself sets.

/// Streams of one task: the original's arrays of start words and op counts have four places (specification section 2).
pub const STREAMS: usize = 4;

/// Basic blocks of one task. The original keeps them in a map without a bound; 1024 functions in one program is far
/// above anything seen, and a bound lets a task count them in 16 bits.
pub const BLOCKS: u16 = 1024;

/// Requests in flight per direction of one op list inside the library (its tracker has 128 places).
pub const REQUESTS: usize = 128;

/// Modulus of the host index ring between device and library.
pub const NET_INDEX_LOOP_SIZE: u32 = 512;

/// Largest credit count that the library accepts; zero is refused too.
pub const MAX_CREDITS: u32 = 0x1FF;

/// Semaphores that a leader raises when a host barrier completes.
pub const BARRIER_DONE_SEMAPHORES: usize = 4;

/// Slots of one queue must fit the index field of the inbox word (see [`doorbell`](crate::doorbell)).
pub const MAX_SLOTS: usize = 1 << 27;

/// Widens an index. A slot or context index always fits: the core supports targets of 32 bits and more.
#[inline(always)]
#[expect(
    clippy::as_conversions,
    reason = "usize is at least 32 bits wide, asserted below"
)]
pub(crate) const fn index(value: u32) -> usize {
    value as usize
}

/// Narrows an index that is known to be below [`MAX_SLOTS`].
#[inline(always)]
#[expect(
    clippy::as_conversions,
    reason = "callers pass indices below MAX_SLOTS"
)]
pub(crate) const fn narrow(value: usize) -> u32 {
    debug_assert!(value < MAX_SLOTS);
    value as u32
}

const _: () = assert!(usize::BITS >= 32);
