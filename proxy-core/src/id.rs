//! Identities. All are plain numbers: the core never holds a pointer.

use core::fmt;

/// A rank of the global communicator. It is the key by which the worker buckets its active tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rank(pub u32);

/// Group id: the ranks of one group share one queue and one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Gid(pub u32);

/// A stream of a task, below [`STREAMS`](crate::limits::STREAMS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Stream(pub u8);

/// Index of a basic block in its context's list, below the context's block count. The shell maps it to the library's block id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BlockIndex(pub u16);

/// Identity of one execution, chosen by the embedder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ExecId(pub u64);

/// A registered context: its place in the queue's table and the generation of that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ContextId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ContextId {
    /// Place in the table, below the queue's `CONTEXTS`.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// How often the place has been used. It has 22 bits on 64-bit hosts and 14 on 32-bit targets: an id that is kept while its place is used
    /// 4 million times more (16384 times on 32-bit targets) would be mistaken for a newer one.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// Rebuilds an id from its two numbers, e.g. from a handle. A made-up id is refused wherever it is used.
    #[must_use]
    pub const fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }
}

/// The claim on one task's status: its slot and the slot's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ticket {
    pub(crate) slot: u32,
    pub(crate) generation: usize,
}

impl Ticket {
    /// Slot number, below ranks × tasks of the queue.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Generation of the slot. It has `usize::BITS - 8` bits: on 64-bit hosts it never wraps in practice; on 32-bit
    /// targets a ticket that is kept while its slot is used 16 million times more would be mistaken for a newer one.
    #[must_use]
    pub const fn generation(self) -> usize {
        self.generation
    }

    /// Rebuilds a ticket from its two numbers, e.g. from a handle. A made-up ticket polls as unknown.
    #[must_use]
    pub const fn from_parts(slot: u32, generation: usize) -> Self {
        Self { slot, generation }
    }
}

macro_rules! display_number {
    ($($id:ident => $word:literal),+) => {
        $(impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        })+
    };
}
display_number!(Rank => "rank", Gid => "gid", Stream => "stream", BlockIndex => "block", ExecId => "exec");

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "context {}.{}", self.index, self.generation)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {}.{}", self.slot, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_id_says_what_it_is() {
        let shown = [
            Rank(1).to_string(),
            Gid(2).to_string(),
            Stream(3).to_string(),
            BlockIndex(4).to_string(),
            ExecId(5).to_string(),
            ContextId::from_parts(6, 7).to_string(),
            Ticket::from_parts(8, 9).to_string(),
        ];
        let expected = [
            "rank 1",
            "gid 2",
            "stream 3",
            "block 4",
            "exec 5",
            "context 6.7",
            "ticket 8.9",
        ];
        assert_eq!(shown, expected);
    }
}
