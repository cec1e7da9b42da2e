//! Records of tasks that are stuck or have failed, and dumps of whole groups. Plain values: nothing here renders more than one line.
//!
//! A record is made from words that the worker publishes and from locks that are only tried, so that making one never waits for the
//! worker or for whoever holds a lock; what could not be had makes it `partial`. Times are monotonic.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proxy_core::port::Change;
use proxy_core::{ContextId, ExecId, Gid, Rank, RunState, Shut, Status, TaskKind, TaskView};

use crate::diagnosis;
use crate::queue::{ProxyQueue, RANKS, Shared, TASKS};
use crate::sys::clock;
use crate::waiting::Unfired;
use crate::watch::InCall;

/// Why a record was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Somebody asked.
    Request,
    /// This much of the task's deadline has passed, in percent.
    Early(u32),
    /// The task has not moved for longer than the stall threshold.
    Stalled,
    /// The task's deadline has passed; it ends with [`Status::TIMEOUT`].
    Timeout,
    /// The task ended with this error.
    Failed(Status),
    /// A rank that the task's barrier needs is dead or has left.
    PeerDied,
    /// The worker died.
    WorkerDied,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("asked for"),
            Self::Early(percent) => write!(f, "{percent} % of its deadline have passed"),
            Self::Stalled => f.write_str("no change for longer than the stall threshold"),
            Self::Timeout => write!(f, "its deadline has passed: {}", Status::TIMEOUT),
            Self::Failed(status) => write!(f, "failed: {status}"),
            Self::PeerDied => {
                write!(
                    f,
                    "a rank that its barrier needs is gone: {}",
                    Status::PEER_DEAD
                )
            }
            Self::WorkerDied => write!(f, "failed: {}", Status::WORKER_DIED),
        }
    }
}

/// What a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitingOn {
    /// It has ended.
    Nothing,
    /// The worker has not stepped it yet.
    Worker,
    /// The device: these start words have not fired. Empty in a partial record.
    Device(Vec<Unfired>),
    /// The worker has been inside this call of the library for a tenth of a second or longer, for this task or another one.
    Call(InCall),
    /// The library, whose calls return and say that nothing moves.
    Library,
    /// Other ranks, at the host barrier.
    Peers,
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("waits for nothing"),
            Self::Worker => f.write_str("waits for its first step"),
            Self::Device(words) => {
                f.write_str("waits for the device")?;
                (words.iter()).try_for_each(|word| {
                    let Unfired {
                        stream,
                        address,
                        word,
                        ..
                    } = word;
                    write!(f, ", {stream}: word at {address:#x} is {word:#010x}")
                })
            }
            Self::Call(inside) => write!(f, "the worker is inside {inside}"),
            Self::Library => f.write_str("waits for the library, which moves nothing"),
            Self::Peers => f.write_str("waits for other ranks at the barrier"),
        }
    }
}

/// One task that is stuck or has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its group.
    pub gid: Gid,
    /// Its rank.
    pub rank: Rank,
    /// Its kind.
    pub kind: TaskKind,
    /// Its context.
    pub context: ContextId,
    /// Its execution.
    pub exec: ExecId,
    /// Its position among the appends of its context.
    pub sequence: usize,
    /// Its state; for a failed task, that before its end.
    pub state: RunState,
    /// For how long it has been in this state; `None` if the black box no longer has the moment.
    pub in_state: Option<Duration>,
    /// What it waits for.
    pub waiting_on: WaitingOn,
    /// Why the record was made.
    pub cause: Cause,
    /// When, as nanoseconds of the monotonic clock.
    pub time: u64,
    /// Something could not be had without waiting.
    pub partial: bool,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            gid,
            rank,
            kind,
            context,
            exec,
            sequence,
            state,
            ..
        } = self;
        write!(
            f,
            "{gid}, {rank}, {kind} task {exec}, {context} #{sequence}: {state}"
        )?;
        if let Some(in_state) = self.in_state {
            write!(f, " for {in_state:.1?}")?;
        }
        if self.waiting_on != WaitingOn::Nothing {
            write!(f, ", {}", self.waiting_on)?;
        }
        write!(f, "; {}", self.cause)?;
        f.write_str(if self.partial { ", partial" } else { "" })
    }
}

/// Where a group is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// It takes tasks.
    Running,
    /// A release has told the worker to end.
    Stopping,
    /// The worker died.
    Dead,
}

/// One group as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// The group.
    pub gid: Gid,
    /// Where it is in its life.
    pub state: GroupState,
    /// The library call that the worker is inside of.
    pub inside: Option<InCall>,
    /// Its unfinished tasks.
    pub tasks: Vec<Record>,
    /// Something could not be had without waiting.
    pub partial: bool,
}

/// From this age on a library call is what a task waits for; a younger one is one of the many that a worker makes.
const LINGERING: Duration = Duration::from_millis(100);

/// Records that are kept for [`ProxyQueue::reports`]: the last so many.
const KEPT: usize = 64;

/// Errors that wait to be told: those of all tasks that a group can have at once.
pub(crate) const FRESH: usize = RANKS * TASKS;

/// The reports of one group.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    fresh: Mutex<Fresh>,
    told: Mutex<VecDeque<Record>>,
}

/// Made on the worker's way, not yet told to anybody.
#[derive(Debug, Default)]
struct Fresh {
    /// The first ones, as the cause of the others is among them.
    records: Vec<Record>,
    /// How many more there were.
    lost: u64,
}

impl Reports {
    fn fresh(&self) -> MutexGuard<'_, Fresh> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a record until it is told; counts it if there are too many.
    fn note(&self, record: Record) {
        let mut fresh = self.fresh();
        if fresh.records.len() < FRESH {
            fresh.records.push(record);
        } else {
            fresh.lost = fresh.lost.saturating_add(1);
        }
    }

    /// Takes the records that nobody was told of yet, and asks for a report of each.
    pub(crate) fn take(&self) -> Vec<Record> {
        let mut fresh = self.fresh();
        // Within the lock: a release that finds none here may end the service that writes the reports, so they have been asked for by then.
        // Of a worker's death one report is enough, whatever tasks it had.
        let tasks = (fresh.records.iter()).filter(|record| record.cause != Cause::WorkerDied);
        tasks.for_each(|record| diagnosis::leave_behind(format_args!("{record}")));
        std::mem::take(&mut fresh.records)
    }

    /// Takes the number of errors that found no room.
    pub(crate) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.fresh().lost)
    }

    /// Keeps a record that is being told.
    pub(crate) fn tell(&self, record: Record) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() == KEPT {
            told.pop_front();
        }
        told.push_back(record);
    }
}

impl Shared {
    /// Notes a task that ends with an error. Worker only, before the end is published; cold.
    pub(crate) fn failed(&self, change: &Change) {
        let cause = match change.status {
            // Wanted by the owner, or told by the watchdog, which ordered it.
            Status::ABORTED | Status::TIMEOUT => return,
            Status::WORKER_DIED => Cause::WorkerDied,
            Status::PEER_DEAD => Cause::PeerDied,
            status => Cause::Failed(status),
        };
        let same = |task: &TaskView| task.ticket.slot() == change.slot;
        let Some(task) = self.core.tasks().find(same) else {
            return;
        };
        let mut record = self.record(&task, cause, self.began(&task));
        record.state = change.from;
        record.waiting_on = WaitingOn::Nothing;
        self.reports.note(record);
    }

    /// The record of a task as of now, which came into its state when it `began`. Waits for nobody.
    pub(crate) fn record(&self, task: &TaskView, cause: Cause, began: Option<u64>) -> Record {
        let now = clock::monotonic_ns();
        let in_state = began.map(|began| Duration::from_nanos(now.saturating_sub(began)));
        let (inside, blind) = match self.try_observe() {
            Ok(inside) => (inside, false),
            Err(_) => (None, true),
        };
        let unfired = || self.words_of(*task, in_state).map(WaitingOn::Device);
        let lingering = inside.filter(|inside| inside.age >= LINGERING);
        let (waiting_on, partial) = match (task.state, lingering) {
            (RunState::Done, _) => (WaitingOn::Nothing, false),
            (_, Some(inside)) => (WaitingOn::Call(inside), false),
            (RunState::Init, None) => (WaitingOn::Worker, false),
            (RunState::WaitingDeviceTrigger, None) => {
                unfired().map_or((WaitingOn::Device(Vec::new()), true), |on| (on, false))
            }
            (_, None) if task.kind == TaskKind::Barrier => (WaitingOn::Peers, false),
            (_, None) => (WaitingOn::Library, false),
        };
        Record {
            gid: self.gid,
            rank: self.core.rank_of(task.ticket).unwrap_or_default(),
            kind: task.kind,
            context: task.context,
            exec: task.exec,
            sequence: task.sequence,
            state: task.state,
            in_state,
            waiting_on,
            cause,
            time: now,
            partial: partial || blind,
        }
    }
}

impl ProxyQueue {
    /// The group as of now, with a record of each unfinished task. Any thread, at any time: also while the worker is stuck, while a
    /// release waits for it, and while somebody holds a lock of the queue. Cold: O(history + tasks × contexts).
    pub fn dump(&self) -> Dump {
        let shared = self.shared();
        let unfinished = self.unfinished();
        let began = shared.all_began(&unfinished);
        let record = |task: &TaskView| shared.record(task, Cause::Request, began.of(task));
        let tasks: Vec<Record> = unfinished.iter().map(record).collect();
        let observed = shared.try_observe();
        Dump {
            gid: shared.gid,
            state: match shared.core.shut_by() {
                None => GroupState::Running,
                Some(Shut::Closed) => GroupState::Stopping,
                Some(Shut::Dead) => GroupState::Dead,
            },
            inside: observed.unwrap_or_default(),
            partial: observed.is_err() || tasks.iter().any(|record| record.partial),
            tasks,
        }
    }

    /// The last records that the watchdog has told of this group, oldest first.
    pub fn reports(&self) -> Vec<Record> {
        let told = self.shared().reports.told.lock();
        told.unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Settings;

    #[test]
    fn h48_a_dump_while_the_contexts_are_locked_is_prompt_and_partial_and_whole_again_after() {
        let queue = ProxyQueue::start(Gid(4803), &Settings::default()).unwrap();
        let whole = || {
            // The watchdog holds a lock for a moment now and then.
            let since = Instant::now();
            while queue.dump().partial {
                assert!(since.elapsed() < Duration::from_secs(20), "held for ever");
                std::thread::yield_now();
            }
        };
        whole();
        let held = queue.shared().contexts.lock();
        let since = Instant::now();
        let dump = queue.dump();
        let took = since.elapsed();
        drop(held);
        assert!(dump.partial, "{dump:?}");
        assert_eq!((dump.gid, dump.state), (Gid(4803), GroupState::Running));
        assert!(took < Duration::from_millis(200), "{took:?}");
        whole();
    }
}
