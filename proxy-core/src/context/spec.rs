//! The shape of a context's tasks, and the two words that it is kept in.

use super::ContextError;
use crate::id::{BlockIndex, Rank};
use crate::limits::{BLOCKS, STREAMS};
use crate::trigger::{Arming, Polarity};

/// When the library is told to stop (design decision on several blocks: the specification stops at each switch, but a stop
/// frees every block of its stream).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StopAt {
    /// Once per started stream, when the task ends (done, error or abort).
    #[default]
    End,
    /// The specification's letter: every stream after the progress calls of each tick that switched blocks; at the end only
    /// what was started and not stopped since, which is everything if there was no switch.
    Switch,
}

/// The shape of a context's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Spec {
    /// Rank whose tasks these are.
    pub rank: Rank,
    /// Streams of the network task, 0..=4. None: nothing to progress, the task passes its gate and is done.
    pub streams: u8,
    /// Basic blocks of the network task, 1..=1024.
    pub blocks: u16,
    /// The whole network stage is skipped: INIT goes straight to DONE.
    pub skip: bool,
    /// The network task waits for its streams' start words.
    pub device_wait: bool,
    /// An execution also has a barrier task.
    pub barrier: bool,
    /// Start words of the barrier task, 0..=4.
    pub barrier_triggers: u8,
    /// Sense of the start words.
    pub polarity: Polarity,
    /// Who arms them.
    pub arming: Arming,
    /// When the library is told to stop.
    pub stop_at: StopAt,
}

/// Bits of a packed spec. Streams stand in bits 0 to 3, triggers of the barrier in 4 to 7, blocks in the upper half.
const SKIP: u32 = 1 << 8;
const DEVICE_WAIT: u32 = 1 << 9;
pub(super) const BARRIER: u32 = 1 << 10;
const HEADER: u32 = 1 << 11;
const EXPLICIT: u32 = 1 << 12;
const BY_DEVICE: u32 = 1 << 13;
const SWITCH: u32 = 1 << 14;
/// Told by the others, so that an append tests one bit.
pub(super) const ARMS: u32 = 1 << 15;

impl Spec {
    /// A network task of one stream and one block that starts at once; no barrier.
    #[must_use]
    pub const fn new(rank: Rank) -> Self {
        Self {
            rank,
            streams: 1,
            blocks: 1,
            skip: false,
            device_wait: false,
            barrier: false,
            barrier_triggers: 0,
            polarity: Polarity::Specification,
            arming: Arming::OnEnqueue,
            stop_at: StopAt::End,
        }
    }

    /// Names the first field that is out of range.
    pub fn validate(&self) -> Result<(), ContextError> {
        for (field, value) in [
            ("streams", self.streams),
            ("barrier_triggers", self.barrier_triggers),
        ] {
            if usize::from(value) > STREAMS {
                return Err(ContextError::OutOfRange {
                    field,
                    found: value.into(),
                    accepted: "0 to 4",
                });
            }
        }
        if self.blocks == 0 || self.blocks > BLOCKS {
            return Err(ContextError::OutOfRange {
                field: "blocks",
                found: self.blocks.into(),
                accepted: "1 to 1024",
            });
        }
        Ok(())
    }

    /// Start words of the network task.
    pub(crate) const fn network_triggers(&self) -> u8 {
        if self.device_wait && !self.skip {
            self.streams
        } else {
            0
        }
    }

    /// Whether appends arm start words: not if others do, or if there are none.
    fn arms(&self) -> bool {
        let words = self.network_triggers() > 0 || self.barrier_triggers > 0;
        words && self.arming == Arming::OnEnqueue
    }

    pub(super) fn pack(&self) -> (u32, u32) {
        let mut flags = u32::from(self.streams) | u32::from(self.barrier_triggers) << 4;
        for (bit, set) in [
            (SKIP, self.skip),
            (DEVICE_WAIT, self.device_wait),
            (BARRIER, self.barrier),
            (HEADER, self.polarity == Polarity::Header),
            (EXPLICIT, self.arming == Arming::Explicit),
            (BY_DEVICE, self.arming == Arming::ByDevice),
            (SWITCH, self.stop_at == StopAt::Switch),
            (ARMS, self.arms()),
        ] {
            if set {
                flags |= bit;
            }
        }
        (flags | u32::from(self.blocks) << 16, self.rank.0)
    }

    #[inline]
    pub(super) fn unpack(flags: u32, rank: u32) -> Self {
        let bit = |bit: u32| flags & bit != 0;
        let byte = |shift: u32| u8::try_from(flags >> shift & 0xF).unwrap_or(0);
        Self {
            rank: Rank(rank),
            streams: byte(0),
            barrier_triggers: byte(4),
            blocks: u16::try_from(flags >> 16).unwrap_or(0),
            skip: bit(SKIP),
            device_wait: bit(DEVICE_WAIT),
            barrier: bit(BARRIER),
            polarity: if bit(HEADER) {
                Polarity::Header
            } else {
                Polarity::Specification
            },
            arming: match (bit(EXPLICIT), bit(BY_DEVICE)) {
                (true, _) => Arming::Explicit,
                (_, true) => Arming::ByDevice,
                _ => Arming::OnEnqueue,
            },
            stop_at: if bit(SWITCH) {
                StopAt::Switch
            } else {
                StopAt::End
            },
        }
    }

    pub(crate) const fn first_block() -> BlockIndex {
        BlockIndex(0)
    }
}
