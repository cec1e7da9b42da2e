//! The done event of one execution, and the positions from which a late one is explained.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use proxy_core::limits;

use super::error::{DeviceError, Stuck};
use super::program::Program;
use super::{Launch, Shared};
use crate::plan::{Direction, Semaphore, Step};

/// Set once, when the execution ends.
#[derive(Debug, Default)]
pub(super) struct Done {
    result: Mutex<Option<Result<(), DeviceError>>>,
    event: Condvar,
}

impl Done {
    /// Sets the result if it is not set yet.
    pub(super) fn set(&self, result: Result<(), DeviceError>) {
        let mut place = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert(result);
        drop(place);
        self.event.notify_all();
    }

    fn get(&self) -> Option<Result<(), DeviceError>> {
        self.result
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn wait(&self, deadline: Instant) -> Option<Result<(), DeviceError>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let place = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .event
            .wait_timeout_while(place, left, |result| result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// Where the running execution stands: written by the device's thread alone, read by a waiter whose deadline passed.
///
/// All accesses are relaxed: each value is exact on its own, and they only serve a message about a device that moves
/// no more, for which the last values have long arrived.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// Execution id plus 1; 0 = none.
    running: AtomicU64,
    /// Block in the upper 16 bits, then 24 bits of receive lane and 24 bits of send lane.
    lanes: [AtomicU64; limits::STREAMS],
    /// Values of the semaphores when the execution began.
    bases: [[AtomicU32; Semaphore::COUNT]; limits::STREAMS],
}

const LANE_MASK: u64 = (1 << 24) - 1;

impl Positions {
    pub(super) fn begin(&self, exec_id: u64, bases: &[[u32; Semaphore::COUNT]; limits::STREAMS]) {
        for (stream, values) in self.bases.iter().zip(bases) {
            stream
                .iter()
                .zip(values)
                .for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
        }
        self.lanes
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
        self.running
            .store(exec_id.wrapping_add(1), Ordering::Relaxed);
    }

    pub(super) fn set(&self, stream: usize, block: usize, [receive, send]: [usize; 2]) {
        let lane = |index: usize| (index as u64).min(LANE_MASK);
        let packed = (block as u64) << 48 | lane(receive) << 24 | lane(send);
        self.lanes[stream].store(packed, Ordering::Relaxed);
    }

    /// The unfinished lanes of `program`; none if it is not this execution that runs.
    fn stuck(&self, exec_id: u64, program: &Program) -> Vec<Stuck> {
        if self.running.load(Ordering::Relaxed) != exec_id.wrapping_add(1) {
            return Vec::new();
        }
        let streams = 0..program.plan().spec().streams;
        let lanes = streams.flat_map(|stream| Direction::BOTH.map(|lane| (stream, lane)));
        lanes
            .filter_map(|(stream, lane)| self.lane(program, stream, lane))
            .collect()
    }

    fn lane(&self, program: &Program, stream: usize, lane: Direction) -> Option<Stuck> {
        let packed = self.lanes[stream].load(Ordering::Relaxed);
        let shift = if lane == Direction::Receive { 24 } else { 0 };
        let index = (packed >> shift & LANE_MASK) as usize;
        let block = (packed >> 48) as usize;
        let step = *program.plan().blocks(stream).get(block)?.lanes[lane as usize].get(index)?;
        let raised = match step {
            Step::Wait { semaphore, .. } => {
                let base = self.bases[stream][semaphore as usize].load(Ordering::Relaxed);
                let word = program.words().semaphore(stream, semaphore);
                word.load(Ordering::Relaxed).wrapping_sub(base)
            }
            _ => 0,
        };
        Some(Stuck {
            stream,
            block,
            lane,
            index,
            step,
            raised,
        })
    }
}

/// One launched execution, to be waited for. Dropping it does not end the execution.
#[derive(Debug)]
pub struct Execution {
    exec_id: u64,
    program: Arc<Program>,
    done: Arc<Done>,
    shared: Arc<Shared>,
}

impl Execution {
    pub(super) fn new(
        exec_id: u64,
        program: &Arc<Program>,
        done: &Arc<Done>,
        shared: &Arc<Shared>,
    ) -> Self {
        Self {
            exec_id,
            program: Arc::clone(program),
            done: Arc::clone(done),
            shared: Arc::clone(shared),
        }
    }

    /// The id given to the launch.
    pub const fn exec_id(&self) -> u64 {
        self.exec_id
    }

    /// Whether it has ended, well or not.
    pub fn is_done(&self) -> bool {
        self.done.get().is_some()
    }

    /// Blocks until the execution ended or `deadline` passed, which is [`DeviceError::Timeout`] with the place of every
    /// lane that is not finished. After a timeout it can be waited for again. From any thread.
    pub fn wait(&self, deadline: Instant) -> Result<(), DeviceError> {
        self.done.wait(deadline).unwrap_or_else(|| {
            Err(DeviceError::Timeout {
                exec_id: self.exec_id,
                stuck: self.shared.positions.stuck(self.exec_id, &self.program),
            })
        })
    }
}

impl Drop for Launch {
    /// A launch that is dropped without a result was aborted, or lost by a panic of the device's thread.
    fn drop(&mut self) {
        self.done.set(Err(DeviceError::Aborted));
    }
}
