//! Bananaphone, the host bus on which the ranks of one machine meet: its pure half, over a slice of atomic words.
//!
//! One segment of shared memory per bus. Every word in it is an atomic, written by one side where that is possible, on a line
//! of its own where two sides write. Nothing read from it is believed: indices, lengths and states are checked, so a
//! hostile or broken peer can cause an error and wrong bytes, but never an access out of bounds or an endless loop.
//!
//! | file | what | shared by |
//! |---|---|---|
//! | [`layout`] | where everything is; the header and its checks | all |
//! | [`member`] | who is there: free, joining, joined, left, dead | all |
//! | [`ring`] | one ring per producer, read by all others with a cursor each | producer, readers |
//! | [`barrier`] | arrive, gather, one verdict, release | participants |
//!
//! How a segment comes into being, how ranks find it, how they sleep and how a death is noticed is the shell's.
//! Waiting is sleeping on a [`Signal`], a word with a count of its sleepers: whoever changes the word learns whether
//! somebody must be woken.

pub mod barrier;
pub mod layout;
pub mod member;
mod ranks;
pub mod ring;
mod signal;

use core::fmt;

pub use signal::{Signal, Sleeping, Wake};

/// One word of a segment.
pub type Word = crate::sync::AtomicU32;

/// Something in the segment that cannot be: its writer is broken or hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Corrupt {
    /// What it is.
    pub field: &'static str,
    /// The rank whose word it is.
    pub rank: u16,
    /// The value found.
    pub found: u32,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the bus is corrupt: {} of rank {} is {:#x}",
            self.field, self.rank, self.found
        )
    }
}

impl core::error::Error for Corrupt {}

#[cfg(test)]
mod tests;
