//! What can go wrong on a device, and where it was.

use std::fmt;

use crate::abi::Topology;
use crate::plan::{Direction, Semaphore, Step};

/// Where one lane of one stream stands, and what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck {
    /// The stream.
    pub stream: usize,
    /// The block.
    pub block: usize,
    /// The lane.
    pub lane: Direction,
    /// Index of the step in the lane.
    pub index: usize,
    /// The step.
    pub step: Step,
    /// If the step waits for a semaphore: by how much it was raised in this execution.
    pub raised: u32,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stream,
            block,
            lane,
            index,
            step,
            raised,
        } = self;
        write!(
            f,
            "stream {stream} block {block} {lane:?} lane step {index}: "
        )?;
        match step {
            Step::Wait { semaphore, total } => {
                write!(
                    f,
                    "{semaphore:?} semaphore was raised by {raised}, awaited {total}"
                )
            }
            Step::Follow { steps } => write!(f, "waits for step {steps} of the Receive lane"),
            other => write!(f, "at {other:?}"),
        }
    }
}

/// Why a call to a device failed, or an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceError {
    /// The device has fewer streams than asked for, or a number of streams outside 1..=4 was asked for.
    Streams {
        /// Streams asked for.
        found: usize,
        /// The most that is accepted.
        accepted: usize,
    },
    /// The plan's algorithm needs another kind of connector.
    Topology {
        /// What the plan needs.
        found: Topology,
        /// What the device has.
        accepted: Topology,
    },
    /// The program was loaded by another device.
    ForeignProgram,
    /// The buffers do not fit in memory.
    Memory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The input has another length.
    InputLength {
        /// Bytes given.
        found: usize,
        /// Bytes of the input.
        accepted: usize,
    },
    /// The buffers belong to executions in flight, or to one that failed.
    InFlight {
        /// How many.
        executions: usize,
    },
    /// The device's thread could not be started.
    Thread(String),
    /// The device was aborted or failed before; it accepts nothing any more.
    Aborted,
    /// The deadline passed. The execution is still in flight.
    Timeout {
        /// The execution.
        exec_id: u64,
        /// Where each unfinished lane stands; empty if the execution has not begun.
        stuck: Vec<Stuck>,
    },
    /// The library left something in an index word that must be 0.
    IndexWord {
        /// The stream.
        stream: usize,
        /// The block that was to begin.
        block: usize,
        /// The connector.
        direction: Direction,
        /// The value found.
        found: u32,
    },
    /// The library raised a semaphore by more than the execution's entries.
    Overrun {
        /// The stream.
        stream: usize,
        /// The semaphore.
        semaphore: Semaphore,
        /// By how much it was raised.
        raised: u32,
        /// By how much it should have been.
        awaited: u32,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Streams { found, accepted } => {
                write!(f, "streams are {found}, accepted: 1 to {accepted}")
            }
            Self::Topology { found, accepted } => {
                write!(f, "the plan is for a {found:?}, accepted: {accepted:?}")
            }
            Self::ForeignProgram => f.write_str("the program was loaded by another device"),
            Self::Memory { bytes } => write!(f, "no memory for a buffer of {bytes} bytes"),
            Self::InputLength { found, accepted } => {
                write!(f, "the input has {found} bytes, accepted: {accepted}")
            }
            Self::InFlight { executions } => {
                write!(f, "the buffers are lent to {executions} executions")
            }
            Self::Thread(why) => write!(f, "cannot start the device's thread: {why}"),
            Self::Aborted => f.write_str("the device was aborted or failed before"),
            Self::Timeout { exec_id, stuck } if stuck.is_empty() => {
                write!(
                    f,
                    "execution {exec_id} has not begun on the device at its deadline"
                )
            }
            Self::Timeout { exec_id, stuck } => {
                write!(f, "execution {exec_id} is unfinished at its deadline")?;
                stuck.iter().try_for_each(|stuck| write!(f, "; {stuck}"))
            }
            Self::IndexWord {
                stream,
                block,
                direction,
                found,
            } => write!(
                f,
                "stream {stream} block {block}: {direction:?} index word is {found:#x} before the block begins, \
                 accepted: 0"
            ),
            Self::Overrun {
                stream,
                semaphore,
                raised,
                awaited,
            } => write!(
                f,
                "stream {stream}: {semaphore:?} semaphore was raised by {raised} in one execution, accepted: {awaited}"
            ),
        }
    }
}

impl std::error::Error for DeviceError {}
