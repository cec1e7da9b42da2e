//! The watchdog: deadlines of tasks, stalls, and the telling of what went wrong.
//!
//! One thread per process looks at all groups, a few times within the shortest time that is set and at least once a second. It reads
//! words that the workers publish anyway, so a tick pays nothing for it, and it takes no lock that a worker or a consumer holds
//! while it waits; so it works while a worker is stuck in the library and when no consumer ever polls. As it is the watchdog
//! that sees a task first and measures from there, a deadline comes late by up to one look, never early.
//!
//! At a deadline the watchdog orders the worker to end the task with [`TIMEOUT`](proxy_core::Status::TIMEOUT). A worker that has not
//! obeyed by the next look is inside the library: the ticket's code is made final over its head, and slot, context and
//! memory stay in use until the worker itself ends the task.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use proxy_core::{Cause as Order, RunState, Shut, Status, TaskKind, TaskView, Ticket};

use crate::completion::Places;
use crate::config::Settings;
use crate::context::ContextData;
use crate::diagnosis;
use crate::log;
use crate::queue::{ProxyQueue, Shared};
use crate::report::{self, Cause, Record};
use crate::sys::clock;
use crate::sys::thread::{self, ThreadName};
use crate::waiting::Began;
use crate::words;

/// Is told of every record, once, on the watchdog's thread or on that of a release. It must not wait for a task. Of more errors of one group
/// between two looks than it can have tasks at once it is told of the first ones; how many more there were is a warning.
pub type Handler = fn(&Record);

static HANDLER: RwLock<Option<Handler>> = RwLock::new(None);

/// Sets the handler of this process; `None` = nobody is told, and records are only logged and kept. Any thread, at any time.
pub fn set_handler(handler: Option<Handler>) {
    *HANDLER.write().unwrap_or_else(PoisonError::into_inner) = handler;
}

/// A group's times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    deadline: Option<Duration>,
    stall: Option<Duration>,
    early: [u32; 2],
}

impl Limits {
    pub(crate) fn new(settings: &Settings) -> Self {
        let set = |time: Duration| (!time.is_zero()).then_some(time);
        Self {
            deadline: set(*settings.task_deadline()),
            stall: set(*settings.stall_threshold()),
            early: [
                *settings.first_record_percent(),
                *settings.second_record_percent(),
            ],
        }
    }

    /// Whether tasks have a deadline.
    pub(crate) const fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// Time between two looks: a quarter of the shortest time, within bounds.
    fn period(&self) -> Duration {
        let share = |deadline: Duration| {
            let least = self.early.iter().filter(|percent| **percent > 0).min();
            deadline * *least.unwrap_or(&100) / 100
        };
        let shortest = self.deadline.map(share).into_iter().chain(self.stall).min();
        (shortest.unwrap_or(SLOWEST) / 4).clamp(FASTEST, SLOWEST)
    }
}

const FASTEST: Duration = Duration::from_millis(5);
const SLOWEST: Duration = Duration::from_secs(1);
/// How long a worker has to obey before the ticket's code is made final without it.
const GRACE: Duration = Duration::from_millis(20);

/// How a group does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Every task moves, or there is none.
    Ok,
    /// The task that has moved least has not for so long, which is more than the stall threshold.
    Stalled(Duration),
    /// The worker died.
    Dead,
}

/// What the watchdog knows of one task.
#[derive(Debug, Clone, Copy)]
struct Seen {
    first: u64,
    moved: u64,
    state: RunState,
    /// Parts of the deadline that were told: both early ones, then the deadline itself.
    told: usize,
    stalled: bool,
    /// When the deadline was found to have passed; `None` also after the code was made final.
    expired: Option<u64>,
}

/// What the watchdog knows of one group.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    ticks: u64,
    tasks: HashMap<Ticket, Seen>,
}

impl Tracks {
    /// When a task was first seen.
    pub(crate) fn first(&self, task: &TaskView) -> Option<u64> {
        Some(self.tasks.get(&task.ticket)?.first)
    }

    /// When a task was first seen in the state that it was in at the last look, if that is the one it is in now.
    pub(crate) fn unmoved(&self, task: &TaskView) -> Option<u64> {
        let seen = self.tasks.get(&task.ticket)?;
        (seen.state == task.state).then_some(seen.moved)
    }
}

#[derive(Debug)]
struct Dog {
    groups: Vec<Weak<Shared>>,
    runs: bool,
    /// Somebody wants a look, since the last one began.
    nudged: bool,
}

static DOG: Mutex<Dog> = Mutex::new(Dog {
    groups: Vec::new(),
    runs: false,
    nudged: false,
});
static NEWS: Condvar = Condvar::new();

/// Has a group watched until its queue and its worker are gone.
pub(crate) fn watch(shared: &Arc<Shared>) {
    let mut dog = DOG.lock().unwrap_or_else(PoisonError::into_inner);
    dog.groups.push(Arc::downgrade(shared));
    // The group's times may be shorter than what the watchdog sleeps for.
    dog.nudged = true;
    NEWS.notify_all();
    if dog.runs {
        return;
    }
    let name = |_| ThreadName::new("proxy-watchdog");
    match thread::spawn(name, None, Box::new(run)) {
        // Dropped unjoined: it ends by itself when there is nothing to watch.
        Ok(_) => dog.runs = true,
        Err(error) => {
            drop(dog);
            log::warn(format_args!(
                "no watchdog, so deadlines of tasks do not act: {error}"
            ));
        }
    }
}

/// Has the watchdog look soon, also if it is inside a look now. Any thread; the lock is held for moments only.
pub(crate) fn nudge() {
    let mut dog = DOG.lock().unwrap_or_else(PoisonError::into_inner);
    dog.nudged = true;
    NEWS.notify_all();
}

fn run() {
    let mut dog = DOG.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        dog.groups.retain(|group| group.strong_count() > 0);
        if dog.groups.is_empty() {
            dog.runs = false;
            return;
        }
        let groups: Vec<_> = dog.groups.iter().filter_map(Weak::upgrade).collect();
        drop(dog);
        let (next, records) = look(&groups);
        tell(&groups, &records);
        drop(records);
        // The last owner of a group may be this thread; its memory goes here, outside of the lock.
        drop(groups);
        dog = DOG.lock().unwrap_or_else(PoisonError::into_inner);
        let slept = NEWS.wait_timeout_while(dog, next, |dog| !dog.nudged);
        (dog, _) = slept.unwrap_or_else(PoisonError::into_inner);
        dog.nudged = false;
    }
}

/// Looks at all groups: what is due is done. Returns when the next look is due, and what is to be told.
fn look(groups: &[Arc<Shared>]) -> (Duration, Vec<(&Shared, Record)>) {
    let mut next = SLOWEST;
    let mut records = Vec::new();
    for group in groups {
        let (due, found) = group.look();
        next = next.min(due);
        records.extend(found.into_iter().map(|record| (&**group, record)));
    }
    (next, records)
}

/// Words come last: where they go may be slow, and nobody's deadline, report or handler is to wait for that.
fn tell(groups: &[Arc<Shared>], records: &[(&Shared, Record)]) {
    for (group, record) in records {
        group.tell(record);
    }
    for (group, record) in records {
        group.say(record);
    }
    for group in groups {
        group.say_lost();
    }
}

impl Shared {
    /// One look at the group; returns when the next one is due, and what is to be told.
    fn look(&self) -> (Duration, Vec<Record>) {
        let now = clock::monotonic_ns();
        let _ = self.try_observe();
        let mut tracks = self.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        let ticks = self.watch.ticks();
        let ticked = std::mem::replace(&mut tracks.ticks, ticks) != ticks;
        let open = |task: &TaskView| task.state != RunState::Done;
        let tasks: Vec<TaskView> = self.core.tasks().filter(open).collect();
        let began = self.all_began(&tasks);
        let tickets: HashSet<Ticket> = tasks.iter().map(|task| task.ticket).collect();
        (tracks.tasks).retain(|ticket, _| tickets.contains(ticket));
        let mut records = self.reports.take();
        let mut next = self.limits.period();
        for task in &tasks {
            let fresh = Seen {
                first: now,
                moved: now,
                state: task.state,
                told: 0,
                stalled: false,
                expired: None,
            };
            let seen = tracks.tasks.entry(task.ticket).or_insert(fresh);
            self.note_move(task, seen, &began, ticked, now);
            if let Some(cause) = self.due(task, seen, now) {
                let record = self.record(task, cause, began.of(task));
                diagnosis::leave_behind(format_args!("{record}"));
                records.push(record);
            }
            if seen.expired.is_some() {
                next = next.min(GRACE);
            }
        }
        (next, records)
    }

    /// Notes whether the task has moved since the last look.
    fn note_move(&self, task: &TaskView, seen: &mut Seen, began: &Began, ticked: bool, now: u64) {
        let moves = match task.state {
            // It has moved in each of its steps.
            RunState::Progressing => ticked,
            // The one that has the library is the one to look at.
            RunState::Idle => self.is_behind(task),
            _ => false,
        };
        if task.state != seen.state || moves {
            seen.state = task.state;
            seen.moved = now;
        } else if let Some(since) = began.of(task) {
            // It may have moved and be back in its state.
            seen.moved = seen.moved.max(since);
        }
        if seen.stalled && self.stalled_for(seen, now).is_none() {
            seen.stalled = false;
        }
    }

    /// Whether others have the library before a task.
    fn is_behind(&self, task: &TaskView) -> bool {
        let is = |data: &ContextData| data.comm.is_before(task.ticket.slot());
        let network = task.kind == TaskKind::Network;
        network && self.contexts.try_read(task.context, is).flatten() == Some(true)
    }

    fn stalled_for(&self, seen: &Seen, now: u64) -> Option<Duration> {
        let still = Duration::from_nanos(now.saturating_sub(seen.moved));
        self.limits
            .stall
            .filter(|stall| still >= *stall)
            .map(|_| still)
    }

    /// What is to be told of the task now. Orders its end at the deadline, and makes its code final if the worker does not come.
    fn due(&self, task: &TaskView, seen: &mut Seen, now: u64) -> Option<Cause> {
        if let Some(expired) = seen.expired
            && Duration::from_nanos(now.saturating_sub(expired)) >= GRACE
        {
            seen.expired = None;
            if self.core.conclude(task.ticket) {
                self.completion.announce(Places::ALL);
            }
        }
        let age = Duration::from_nanos(now.saturating_sub(seen.first));
        if let Some(deadline) = self.limits.deadline {
            let [first, second] = self.limits.early;
            let parts = [first, second, 100];
            // The furthest part that has passed; those before it are not told any more.
            let passed = parts
                .iter()
                .rposition(|part| *part > 0 && age >= deadline * *part / 100);
            if let Some(passed) = passed.filter(|passed| *passed >= seen.told) {
                seen.told = passed + 1;
                if passed < 2 {
                    return Some(Cause::Early(parts[passed]));
                }
                let bell = self.core.order(task.ticket, Order::TimedOut).ok()?;
                self.obey(bell);
                seen.expired = Some(now);
                return Some(Cause::Timeout);
            }
        }
        if seen.stalled || self.stalled_for(seen, now).is_none() {
            return None;
        }
        seen.stalled = true;
        Some(Cause::Stalled)
    }

    /// Tells what the worker has noted of tasks that failed. Any thread.
    pub(crate) fn tell_failures(&self) {
        self.reports
            .take()
            .into_iter()
            .for_each(|record| self.tell(&record));
        self.say_lost();
    }

    /// Says how many errors nobody was told of, if there were too many at once.
    fn say_lost(&self) {
        let lost = self.reports.take_lost();
        if lost > 0 {
            let lost = words::counted(lost, "more error");
            log::warn(format_args!(
                "{}: {lost} of tasks, told to nobody: {} wait at most",
                self.gid,
                report::FRESH
            ));
        }
    }

    /// Keeps a record and hands it to the embedder's handler.
    fn tell(&self, record: &Record) {
        self.reports.tell(record.clone());
        let handler = *HANDLER.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(handler) = handler {
            // A handler that panics must not end the watchdog; the panic hook has printed it.
            let _ = catch_unwind(AssertUnwindSafe(|| handler(record)));
        }
    }

    /// Logs a record. An error was logged where it came up, once.
    fn say(&self, record: &Record) {
        let (dev, gid, kind) = (record.rank.0, self.gid.0, record.kind as u8);
        let stuck = match record.cause {
            Cause::Stalled => self.limits.stall,
            Cause::Timeout => self.limits.deadline,
            _ => None,
        };
        if let Some(time) = stuck {
            log::warn(format_args!(
                "[nec_dev {dev} gid {gid}] Timeout exceeded: Waiting on proxy task type {kind}: {} sec",
                time.as_secs()
            ));
        }
        if record.cause == Cause::Timeout {
            log::error(format_args!(
                "[nec_dev {dev} gid {gid}] Proxy failed to execute task, status = {}",
                Status::TIMEOUT.0
            ));
        }
        if matches!(
            record.cause,
            Cause::Early(_) | Cause::Stalled | Cause::Timeout
        ) {
            log::warn(format_args!("{record}"));
        }
    }
}

impl ProxyQueue {
    /// How the group does, as of the watchdog's last look. Any thread.
    pub fn health(&self) -> Health {
        let shared = self.shared();
        if shared.core.shut_by() == Some(Shut::Dead) {
            return Health::Dead;
        }
        let now = clock::monotonic_ns();
        let tracks = shared.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        let stalled = tracks.tasks.iter().filter(|(ticket, _)| {
            let state = shared.core.peek(**ticket);
            state.is_ok_and(|state| state != RunState::Done)
        });
        let longest = stalled
            .filter_map(|(_, seen)| shared.stalled_for(seen, now))
            .max();
        longest.map_or(Health::Ok, Health::Stalled)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proxy_core::port::{Change, DeviceWords};
    use proxy_core::{ContextId, ExecId, Gid, Rank, Spec, Stream, TaskKind};

    use super::*;
    use crate::queue::{RANKS, RECORDS, TASKS};

    /// No context here has start words.
    struct NoWords;

    impl DeviceWords for NoWords {
        fn load(&self, _: ContextId, _: TaskKind, _: Stream) -> u32 {
            0
        }

        fn compare_exchange(&self, _: ContextId, _: TaskKind, _: Stream, _: u32, _: u32) -> bool {
            false
        }
    }

    /// A queue that is full of tasks, and whose black box is full of their changes.
    fn full(gid: u32) -> Arc<ProxyQueue> {
        let queue = ProxyQueue::without_worker(Gid(gid), &Settings::default()).unwrap();
        let shared = queue.shared();
        for rank in (0..).map(Rank).take(RANKS) {
            let context = shared.core.register(&Spec::new(rank)).unwrap();
            for exec in (0..).map(ExecId).take(TASKS) {
                let kind = TaskKind::Network;
                let _ = shared.core.append(context, kind, exec, &NoWords).unwrap();
            }
        }
        let tasks: Vec<TaskView> = shared.core.tasks().collect();
        assert_eq!(tasks.len(), RANKS * TASKS);
        for task in tasks.iter().take(RECORDS) {
            let change = Change {
                rank: Rank(0),
                context: task.context,
                kind: task.kind,
                exec: task.exec,
                slot: task.ticket.slot(),
                from: RunState::Init,
                to: RunState::Init,
                status: Status::SUCCESS,
            };
            shared.recorder.record(1, 0, &change);
        }
        queue
    }

    /// A look that goes through all tasks for each task, or through the whole black box, takes over 300 ms; health waits for it.
    #[test]
    fn a_look_at_a_full_queue_takes_milliseconds() {
        let queue = full(460);
        let looks = (0..5).map(|_| {
            let since = Instant::now();
            let (_, told) = queue.shared().look();
            assert_eq!(told, []);
            since.elapsed()
        });
        // The fastest one, as the machine may have more to do.
        let fastest = looks.min().unwrap();
        assert!(fastest < Duration::from_millis(100), "{fastest:?}");
    }
}
