//! One group of a world: its queue, its worker, and its owner.

use proxy_core::ladder::{Budget, Ladder};

use crate::choice::Choices;
use crate::pair::Pair;

/// Where a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worker {
    Awake,
    Asleep,
    Dead,
    Ended,
}

/// What a group's owner is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Using,
    Draining,
    Aborting,
}

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) pair: Pair,
    pub(crate) ladder: Ladder,
    pub(crate) worker: Worker,
    pub(crate) owner: Owner,
    pub(crate) abort: bool,
    pub(crate) loops_since_abort: u32,
    /// The doorbell has been rung and not been heard.
    pub(crate) rung: bool,
    /// Rings owed by whoever was told to ring.
    pub(crate) owed: u32,
    /// How far the worker's clock is off.
    pub(crate) clock: u64,
}

impl Group {
    /// Draws a group whose worker has just started.
    pub(crate) fn draw(choices: &mut Choices) -> Self {
        let budget = Budget {
            dedicated: choices.once_in(3),
            pause_ticks: choices.pick(&[0, 3]),
            spin: choices.pick(&[0, 50]),
        };
        Self {
            pair: Pair::default(),
            ladder: Ladder::new(budget),
            worker: Worker::Awake,
            owner: Owner::Using,
            abort: false,
            loops_since_abort: 0,
            rung: false,
            owed: 0,
            clock: 0,
        }
    }
}
