//! What conductor and hosts say: one value per line, as JSON, over the host's standard input and output.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::Round;
use crate::resources::Resources;

/// What a host is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The library, once, first.
    Load(PathBuf),
    /// Runs these ranks of a round.
    Run(Box<Assignment>),
    /// Says what the process holds.
    Measure,
}

/// A host's part of a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The round.
    pub(crate) round: Round,
    /// The host's ranks.
    pub(crate) ranks: Range<u32>,
    /// Where the library's ranks meet.
    pub(crate) root: String,
    /// The name of the bus: the same in every round, as that of a job that is started again.
    pub(crate) job: String,
}

/// What a host says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum News {
    /// This rank has begun the execution in which the fault strikes it.
    Reached(u32),
    /// The process cannot be a host, for this reason; it ends.
    Failed(String),
    /// This rank's round is over.
    Over(Report),
    /// Answer to [`Order::Measure`].
    Measured(Resources),
}

/// How a round was for one rank.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The rank.
    pub(crate) rank: u32,
    /// Executions that succeeded; each result was compared with the expected one.
    pub(crate) succeeded: u64,
    /// How the last one ended, if it failed.
    pub(crate) end: Option<End>,
    /// What must not be, in words.
    pub(crate) wrong: Vec<String>,
    /// Ranks that the free of the communicator named as dead.
    pub(crate) dead: Vec<u32>,
}

/// An execution that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// The code that came first.
    pub(crate) status: i32,
    /// Milliseconds from its enqueue to that code.
    pub(crate) after: u64,
}
