//! The simulated device of one rank.
//!
//! It owns buffers, semaphores and host index words, and runs loaded programs one after another on its own thread: all
//! streams interleaved, each stream's blocks in order, as `tests/PROTOCOL.md` says. [`Device::launch`] is its doorbell.
//!
//! Who may touch a lent byte follows from the words: a source entry's bytes are read by the library from the post of
//! its index to the semaphore raise of its completion; a destination entry's bytes are written by the library in the
//! same interval. Both words are stored with release and read with acquire, on both sides.

mod error;
mod execution;
mod memory;
mod program;
mod run;
mod words;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use proxy_core::limits;

pub use error::{DeviceError, Stuck};
pub use execution::Execution;
pub use program::Program;
pub use words::{Connectors, Polarity, StartWords};

use crate::abi::Topology;
use crate::plan::Plan;
use execution::{Done, Positions};
use words::Words;

/// A misbehaviour of the next launched execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The start word of `stream` is never fired; the program runs as usual.
    NeverFires {
        /// The stream.
        stream: usize,
    },
    /// The start word of `stream` is fired again after the program's last step, when the host has consumed it.
    FiresTwice {
        /// The stream.
        stream: usize,
    },
    /// The start word of `stream` is fired by the launching thread before the launch takes effect, and not by the
    /// program.
    FiresEarly {
        /// The stream.
        stream: usize,
    },
    /// `value` is stored in the start word of `stream` in place of the right one.
    Garbage {
        /// The stream.
        stream: usize,
        /// What is stored.
        value: u32,
    },
}

/// One launched execution.
#[derive(Debug)]
struct Launch {
    exec_id: u64,
    program: Arc<Program>,
    start: StartWords,
    fault: Option<Fault>,
    done: Arc<Done>,
}

/// What the device's thread shares with its callers.
#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
    /// Set once, by abort, drop or a failed execution.
    aborted: AtomicBool,
    positions: Positions,
}

#[derive(Debug, Default)]
struct Queue {
    launches: VecDeque<Launch>,
    fault: Option<Fault>,
}

impl Shared {
    /// Every change under this lock is a single push, pop or store, so a panic cannot leave it half done.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_aborted(&self) -> bool {
        // Acquire: pairs with the release in `abort`.
        self.aborted.load(Ordering::Acquire)
    }

    /// Refuses what comes, ends what waits.
    fn abort(&self) {
        let mut queue = self.queue();
        // Release: pairs with the acquire in `is_aborted`. Under the lock, so no launch slips in after the drain.
        self.aborted.store(true, Ordering::Release);
        // A launch that is dropped tells its waiter.
        queue.launches.clear();
        drop(queue);
        self.bell.notify_all();
    }

    /// Sleeps until a launch comes; `None` once aborted.
    fn next(&self) -> Option<Launch> {
        let mut queue = self.queue();
        loop {
            if self.is_aborted() {
                return None;
            }
            if let Some(launch) = queue.launches.pop_front() {
                return Some(launch);
            }
            queue = self
                .bell
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sleeps for `time`, or until a launch or an abort.
    fn nap(&self, time: Duration) {
        let queue = self.queue();
        if !self.is_aborted() {
            drop(self.bell.wait_timeout(queue, time));
        }
    }
}

/// The simulated device of one rank. Dropping it aborts it and joins its thread.
#[derive(Debug)]
pub struct Device {
    shared: Arc<Shared>,
    words: Arc<Words>,
    topology: Topology,
    thread: Option<JoinHandle<()>>,
}

impl Device {
    /// Makes a device with one stream per element of `connectors` (1..=4), all for one `topology`, and starts its
    /// thread, named `device-<rank>`.
    pub fn new(
        rank: u32,
        topology: Topology,
        connectors: &[Connectors],
    ) -> Result<Self, DeviceError> {
        if connectors.is_empty() || connectors.len() > limits::STREAMS {
            return Err(DeviceError::Streams {
                found: connectors.len(),
                accepted: limits::STREAMS,
            });
        }
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            bell: Condvar::new(),
            aborted: AtomicBool::new(false),
            positions: Positions::default(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("device-{rank}"))
            .spawn(move || run::serve(&of_thread))
            .map_err(|error| DeviceError::Thread(error.to_string()))?;
        Ok(Self {
            shared,
            words: Arc::new(Words::new(topology, connectors)),
            topology,
            thread: Some(thread),
        })
    }

    /// Binds a plan to memory of this device: allocates its buffers and makes its FIFO arrays.
    pub fn load(&self, plan: Plan) -> Result<Arc<Program>, DeviceError> {
        let (streams, topology) = (plan.spec().streams, plan.spec().op.topology());
        if streams > self.words.streams() {
            return Err(DeviceError::Streams {
                found: streams,
                accepted: self.words.streams(),
            });
        }
        if topology != self.topology {
            return Err(DeviceError::Topology {
                found: topology,
                accepted: self.topology,
            });
        }
        Program::new(plan, Arc::clone(&self.words)).map(Arc::new)
    }

    /// Rings the doorbell: queues one execution of `program`, which fires `start` when it begins. Returns at once; from
    /// any thread.
    ///
    /// Executions run in the order of their launches, and each once the fires of those before it with the same words have been consumed. The host
    /// must have armed the start words before.
    pub fn launch(
        &self,
        exec_id: u64,
        program: &Arc<Program>,
        start: &StartWords,
    ) -> Result<Execution, DeviceError> {
        if !Arc::ptr_eq(program.words(), &self.words) {
            return Err(DeviceError::ForeignProgram);
        }
        let done = Arc::new(Done::default());
        let execution = Execution::new(exec_id, program, &done, &self.shared);
        let mut queue = self.shared.queue();
        if self.shared.is_aborted() {
            return Err(DeviceError::Aborted);
        }
        let fault = queue.fault.take();
        if let Some(Fault::FiresEarly { stream }) = fault {
            start.store(stream, start.polarity().fired(exec_id));
        }
        program.lend();
        queue.launches.push_back(Launch {
            exec_id,
            program: Arc::clone(program),
            start: start.clone(),
            fault,
            done,
        });
        drop(queue);
        self.shared.bell.notify_all();
        Ok(execution)
    }

    /// Makes the next launched execution misbehave, once.
    pub fn inject(&self, fault: Fault) {
        self.shared.queue().fault = Some(fault);
    }

    /// Ends the execution that runs and those that wait with [`DeviceError::Aborted`]; every later launch is refused.
    /// Buffers of these executions stay lent for good, as the library may still write to them. From any thread.
    pub fn abort(&self) {
        self.shared.abort();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.abort();
        if let Some(thread) = self.thread.take() {
            // A panic of the device's thread was already printed by it, and its waiters see `Aborted`.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests;
