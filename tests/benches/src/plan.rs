//! What a row of the table is: what it is compared with, and what it must reach. The rows themselves are in `rows`.

/// Whose figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Ours,
    Original,
    Mpi,
    Iceoryx2,
}

impl Side {
    /// As readers know it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Original => "the original design",
            Self::Mpi => "Open MPI",
            Self::Iceoryx2 => "iceoryx2",
        }
    }
}

/// Something a row's p50 must satisfy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// So many times faster than the original design's figure of this key.
    Original(f64, &'static str),
    /// So many times faster than the best of these peers at the row's own key.
    Peer(f64, &'static [Side]),
    /// At most so many times these floors together.
    Floor(f64, &'static [&'static str]),
    /// At most so many times our figure of this key.
    Flat(f64, &'static str),
    /// The p99 is at most so many times the p50.
    Tail(f64),
    /// At most this, in the row's unit.
    Most(f64),
    /// The p99 is at most this, in the row's unit.
    TailMost(f64),
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Time,
    Bytes,
    Count,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) key: &'static str,
    /// The group that measures it, and its counterparts.
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// None: the row is there to be read beside the others.
    pub(crate) targets: &'static [Target],
    /// The original's key, where it is another and no target names it.
    pub(crate) beside: Option<&'static str>,
}
