//! Why a context was refused.

use core::fmt;

/// Why a context was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ContextError {
    /// A field of the description.
    OutOfRange {
        /// Its name.
        field: &'static str,
        /// Its value.
        found: u32,
        /// What is accepted.
        accepted: &'static str,
    },
    /// All places of the table are in use.
    TableFull {
        /// How many there are.
        capacity: u32,
    },
    /// The queue serves as many ranks as it can: each has a context, or tasks that are unfinished.
    TooManyRanks {
        /// How many it can.
        capacity: u32,
    },
    /// Another thread is giving a rank its place at this moment: register again.
    Contended,
    /// The id is not one of a registered context.
    Unknown,
    /// The caller is a forked child: the worker is its parent's. Said by shells; the core knows no processes.
    Forked,
    /// Tasks of the context are unfinished.
    Busy {
        /// How many.
        unfinished: u32,
    },
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange {
                field,
                found,
                accepted,
            } => {
                write!(f, "context field {field} is {found}, accepted: {accepted}")
            }
            Self::TableFull { capacity } => {
                write!(f, "all {capacity} contexts of the queue are in use")
            }
            Self::TooManyRanks { capacity } => {
                write!(f, "the queue already serves {capacity} ranks, its limit")
            }
            Self::Contended => {
                f.write_str("another thread is giving a rank its place: register again")
            }
            Self::Unknown => f.write_str("no such context is registered"),
            Self::Forked => f.write_str(crate::FORKED),
            Self::Busy { unfinished: 1 } => f.write_str("1 task of the context is unfinished"),
            Self::Busy { unfinished } => {
                write!(f, "{unfinished} tasks of the context are unfinished")
            }
        }
    }
}

impl core::error::Error for ContextError {}
