//! The process's groups: one queue and one worker per gid, shared by count (the original's `g_shared_proxy_queues`).
//!
//! No lock is held while a worker is spawned or joined: creating and releasing are states of a group, and who comes
//! meanwhile waits for that group alone.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proxy_core::Gid;
use proxy_core::group::{Acquire, GroupError, Groups, Release as Left};

use crate::config::Settings;
use crate::diagnosis;
use crate::queue::{ProxyQueue, Release, ReleaseError, StartError};
use crate::sys::fork;

/// Groups of one process: more than any machine has devices.
pub const GROUPS: usize = 256;

#[derive(Debug, Default)]
struct Registry {
    groups: Groups<GROUPS>,
    queues: HashMap<Gid, Arc<ProxyQueue>>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
/// A group has been created or released.
static SETTLED: Condvar = Condvar::new();

fn registry() -> MutexGuard<'static, Registry> {
    // Every section below leaves the registry consistent also when it panics.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a group could not be had.
#[derive(Debug)]
pub enum AcquireError {
    /// The registry refused.
    Group(GroupError),
    /// The caller is a child that was forked from a process with groups.
    Forked,
    /// Its worker could not be started.
    Start(StartError),
    /// Somebody else has been creating or releasing it for longer than the caller would wait.
    Busy {
        /// The group.
        gid: Gid,
        /// How long was waited.
        waited: Duration,
    },
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(error) => error.fmt(f),
            Self::Forked => f.write_str(proxy_core::FORKED),
            Self::Start(error) => error.fmt(f),
            Self::Busy { gid, waited } => write!(
                f,
                "{gid} is still being created or released after {waited:?}"
            ),
        }
    }
}

impl std::error::Error for AcquireError {}

/// One share of a group. Dropping it without a release aborts the group if it is the last share; see [`ProxyQueue`] for how
/// long that waits.
#[derive(Debug)]
pub struct Group {
    gid: Gid,
    queue: Arc<ProxyQueue>,
    share: Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Held,
    /// The last share was given up, but the worker has not ended yet.
    Ending,
    GivenUp,
}

/// What is left after a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The worker has ended.
    Ended,
    /// This many others share the group.
    Kept(u32),
}

impl Group {
    /// The group of a device: `gid = device / ranks_per_network_proxy`.
    ///
    /// # Errors
    /// See [`Self::acquire`].
    pub fn for_device(
        device: u32,
        settings: &Settings,
        patience: Duration,
    ) -> Result<Self, AcquireError> {
        // The setting is at least 1.
        Self::acquire(
            Gid(device / (*settings.ranks_per_network_proxy()).max(1)),
            settings,
            patience,
        )
    }

    /// Creates the group or takes a share of it. Waits up to `patience` for a group that somebody else is creating or releasing.
    ///
    /// # Errors
    /// See [`AcquireError`].
    pub fn acquire(
        gid: Gid,
        settings: &Settings,
        patience: Duration,
    ) -> Result<Self, AcquireError> {
        fork::settle();
        if fork::is_child() {
            return Err(AcquireError::Forked);
        }
        let since = Instant::now();
        let mut inside = registry();
        loop {
            match inside.groups.acquire(gid).map_err(AcquireError::Group)? {
                Acquire::Create => break,
                Acquire::Shared(_) => {
                    // A live group always has its queue here: both are entered under one lock.
                    if let Some(queue) = inside.queues.get(&gid) {
                        return Ok(Self {
                            gid,
                            queue: Arc::clone(queue),
                            share: Share::Held,
                        });
                    }
                    return Err(AcquireError::Group(GroupError::Invalid(gid)));
                }
                Acquire::Wait => {
                    let waited = since.elapsed();
                    let left = patience.saturating_sub(waited);
                    if left.is_zero() {
                        return Err(AcquireError::Busy { gid, waited });
                    }
                    inside = SETTLED
                        .wait_timeout(inside, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
            }
        }
        drop(inside);
        Self::create(gid, settings)
    }

    fn create(gid: Gid, settings: &Settings) -> Result<Self, AcquireError> {
        let started = ProxyQueue::start(gid, settings);
        let mut inside = registry();
        let reported = inside
            .groups
            .created(gid, started.is_ok())
            .map_err(AcquireError::Group);
        if let Ok(queue) = &started {
            inside.queues.insert(gid, Arc::clone(queue));
        }
        SETTLED.notify_all();
        drop(inside);
        reported?;
        let queue = started.map_err(AcquireError::Start)?;
        Ok(Self {
            gid,
            queue,
            share: Share::Held,
        })
    }

    /// The group's queue.
    pub fn queue(&self) -> &Arc<ProxyQueue> {
        &self.queue
    }

    /// Its id.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// The queues of all groups, in order of gid.
    pub(crate) fn queues() -> Vec<Arc<ProxyQueue>> {
        let mut queues: Vec<_> = registry().queues.values().cloned().collect();
        queues.sort_by_key(|queue| queue.gid());
        queues
    }

    /// Shares of the group at this moment. 0 in a forked child.
    pub fn sharers(gid: Gid) -> u32 {
        if fork::is_child() {
            return 0;
        }
        registry().groups.sharers(gid)
    }

    /// Shares of the group, for a report: `None` if the registry is locked for longer than a report waits.
    pub(crate) fn try_sharers(gid: Gid) -> Option<u32> {
        diagnosis::lock(&REGISTRY).map(|registry| registry.groups.sharers(gid))
    }

    /// Number of groups in the process, those being created or released included. 0 in a forked child.
    pub fn count() -> usize {
        if fork::is_child() {
            return 0;
        }
        registry().groups.len()
    }

    /// Gives up this share. The last one ends the worker, within `timeout`; after an error it can be called again.
    ///
    /// # Errors
    /// See [`ReleaseError`]; [`ReleaseError::Invalid`] if this share was given up before. After
    /// [`ReleaseError::FromWorker`] the share is still held.
    pub fn release(&mut self, way: Release, timeout: Duration) -> Result<Released, ReleaseError> {
        if fork::is_child() {
            return Err(ReleaseError::Forked);
        }
        if self.share != Share::GivenUp && self.queue.is_worker() {
            return Err(ReleaseError::FromWorker);
        }
        if let Some(others) = self.give_up()? {
            return Ok(Released::Kept(others));
        }
        self.queue.release(way, timeout)?;
        self.settle();
        Ok(Released::Ended)
    }

    /// Takes the share off the group's count: the number of other shares, or `None` if it was the last one, whose worker
    /// is to be ended.
    fn give_up(&mut self) -> Result<Option<u32>, ReleaseError> {
        match self.share {
            Share::GivenUp => Err(ReleaseError::Invalid),
            Share::Ending => Ok(None),
            Share::Held => match registry().groups.release(self.gid) {
                Ok(Left::Kept(others)) => {
                    self.share = Share::GivenUp;
                    Ok(Some(others))
                }
                Ok(Left::Last) => {
                    self.share = Share::Ending;
                    Ok(None)
                }
                Err(_) => Err(ReleaseError::Invalid),
            },
        }
    }

    /// Takes the group out of the registry.
    fn settle(&mut self) {
        let mut inside = registry();
        // This share was the last, so the group is in the releasing state and nobody else reports it.
        let _ = inside.groups.released(self.gid);
        let queue = inside.queues.remove(&self.gid);
        SETTLED.notify_all();
        drop(inside);
        drop(queue);
        self.share = Share::GivenUp;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        if let Ok(None) = self.give_up() {
            // Also if the worker is stuck, or is this thread: it is told to end, and a new group of this gid gets a
            // worker of its own.
            self.queue.end();
            self.settle();
        }
    }
}
