//! How a queue is released, and why it could not be started or has not ended.

use std::fmt;
use std::io;
use std::time::Duration;

use proxy_core::TaskView;

use crate::affinity::PlaceError;
use crate::memory::NoMemory;
use crate::watch::InCall;
use crate::words;

/// Why a queue could not be started. Nothing is left of it then.
#[derive(Debug)]
pub enum StartError {
    /// The caller is a child that was forked from a process with workers.
    Forked,
    /// The worker's CPUs.
    Place(PlaceError),
    /// Memory of the queue or of its worker.
    Memory(NoMemory),
    /// The doorbell.
    Doorbell(io::Error),
    /// The thread (the specification's "Failed to create worker thread").
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forked => f.write_str(proxy_core::FORKED),
            Self::Place(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Doorbell(error) => write!(f, "Failed to create the worker's doorbell: {error}"),
            Self::Thread(error) => {
                write!(
                    f,
                    "Failed to create worker thread: {}",
                    error.raw_os_error().unwrap_or(0)
                )?;
                write!(f, " ({error})")
            }
        }
    }
}

impl std::error::Error for StartError {}

impl From<NoMemory> for StartError {
    fn from(error: NoMemory) -> Self {
        Self::Memory(error)
    }
}

/// How a queue is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Tasks are driven to their end.
    Drain,
    /// Tasks end at once with [`ABORTED`](proxy_core::Status::ABORTED).
    Abort,
}

/// Why a release has not ended the worker. The queue stays valid and can be released again; it accepts no appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseError {
    /// The deadline passed.
    Timeout {
        /// How long was waited.
        waited: Duration,
        /// What is unfinished.
        unfinished: Vec<TaskView>,
    },
    /// The deadline passed inside one call of the library.
    Stuck {
        /// The call, and for how long it has been seen.
        inside: InCall,
        /// How long the release waited.
        waited: Duration,
        /// What is unfinished.
        unfinished: Vec<TaskView>,
    },
    /// Called on the worker's own thread, which cannot wait for itself.
    FromWorker,
    /// The caller is a forked child: the worker is its parent's.
    Forked,
    /// The handle has been released already.
    Invalid,
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { waited, unfinished } => {
                write!(f, "{} unfinished after {waited:?}", tasks(unfinished))?;
                list(f, unfinished)
            }
            Self::Stuck {
                inside,
                waited,
                unfinished,
            } => {
                write!(
                    f,
                    "the worker has been inside {inside}; it was waited for {waited:?}; "
                )?;
                write!(f, "{} unfinished", tasks(unfinished))?;
                list(f, unfinished)
            }
            Self::Forked => f.write_str(proxy_core::FORKED),
            Self::FromWorker => f.write_str("a worker cannot release its own queue"),
            Self::Invalid => f.write_str("the handle has been released already"),
        }
    }
}

fn tasks(unfinished: &[TaskView]) -> String {
    let verb = if unfinished.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", words::counted(unfinished.len(), "task"))
}

fn list(f: &mut fmt::Formatter<'_>, tasks: &[TaskView]) -> fmt::Result {
    for task in tasks.iter().take(8) {
        write!(
            f,
            "; {} task of {} {} is {}",
            task.kind, task.context, task.exec, task.state
        )?;
    }
    if tasks.len() > 8 {
        write!(f, "; and {} more", tasks.len() - 8)
    } else {
        Ok(())
    }
}

impl std::error::Error for ReleaseError {}
