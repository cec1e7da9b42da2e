//! Since when tasks are in their states: as the black box has it or, where it no longer does, for how long at least.
//!
//! A worker notes a change in the black box before it publishes the task's state. So whoever reads the tasks first and the black box
//! after finds the last change of each, unless it is overwritten: then it is older than all that is left. Read the other way round, each
//! task that changes in between would seem to be older than the black box. Of a task that no step has come to, and of one that waits for
//! its device longer than the black box lasts, the watchdog knows since when it has seen it so; no task comes back to these states.

use std::collections::HashMap;

use proxy_core::recorder::Record;
use proxy_core::{ContextId, RunState, TaskView, Ticket};

use super::known;
use crate::queue::Shared;

/// A task in the black box: its slot and its execution.
type Key = (u32, u64, ContextId);

fn key(view: &TaskView) -> Key {
    (view.ticket.slot(), view.exec.0, view.context)
}

/// Since when a task is in its state, on the monotonic clock in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// Exactly.
    At(Record),
    /// Since then or earlier.
    Before(u64),
    /// Nothing is known.
    Unknown,
}

/// What is known of changes, read after the tasks that it is asked about.
#[derive(Debug, Default)]
pub(super) struct Moments {
    /// What the black box has, oldest first.
    pub(super) records: Vec<Record>,
    last: HashMap<Key, Record>,
    /// The first change of each task, where it is in `records`.
    first: HashMap<Key, u64>,
    /// Every change from then on is in `records`.
    whole_since: Option<u64>,
    /// When the watchdog first saw tasks in the states that they are still in.
    seen: HashMap<Ticket, u64>,
    /// When the watchdog first saw tasks at all.
    met: HashMap<Ticket, u64>,
}

impl Moments {
    /// Reads what is known of these tasks; with `queued` also of those that no step has come to. The answer says whether the watchdog could
    /// be asked, if there was a task to ask about.
    pub(super) fn read(shared: &Shared, views: &[TaskView], queued: bool) -> (Self, bool) {
        let written = shared.recorder.written();
        let mut moments = Self::of(shared.recorder.iter().collect(), written);
        let asked: Vec<&TaskView> = (views.iter())
            .filter(|view| moments.is_left_to_watchdog(view, queued))
            .collect();
        if views.is_empty() {
            return (moments, true);
        }
        let Some(tracks) = known::lock(&shared.tracks) else {
            return (moments, false);
        };
        let met = views
            .iter()
            .filter_map(|view| Some((view.ticket, tracks.first(view)?)));
        moments.met = met.collect();
        let unmoved = asked.iter().filter_map(|view| {
            let since = tracks.unmoved(view)?;
            // Looked at last: what has moved since the tasks were read has not been like this all the time.
            let is = shared.core.peek(view.ticket);
            (is == Ok(view.state)).then_some((view.ticket, since))
        });
        moments.seen = unmoved.collect();
        drop(tracks);
        (moments, true)
    }

    fn of(records: Vec<Record>, written: u32) -> Self {
        let key = |record: &Record| {
            let change = &record.change;
            (change.slot, change.exec.0, change.context)
        };
        Self {
            last: (records.iter().map(|record| (key(record), *record))).collect(),
            // Of two executions of one number the later one's.
            first: (records.iter())
                .filter(|record| record.change.from == RunState::Init)
                .map(|record| (key(record), record.time))
                .collect(),
            whole_since: whole_since(&records, written),
            records,
            seen: HashMap::new(),
            met: HashMap::new(),
        }
    }

    /// A time at which a task was there: the first that is known.
    pub(super) fn there(&self, view: &TaskView) -> Option<u64> {
        let changed = match self.since(view) {
            Since::At(record) => Some(record.time),
            Since::Before(time) => Some(time),
            Since::Unknown => None,
        };
        let stepped = (view.state != RunState::Init).then(|| self.first.get(&key(view)).copied());
        let met = self.met.get(&view.ticket).copied();
        changed
            .into_iter()
            .chain(stepped.flatten())
            .chain(met)
            .min()
    }

    fn is_left_to_watchdog(&self, view: &TaskView, queued: bool) -> bool {
        match view.state {
            RunState::Init => queued,
            RunState::WaitingDeviceTrigger => !self.last.contains_key(&key(view)),
            _ => false,
        }
    }

    /// Since when a task is in its state.
    pub(super) fn since(&self, view: &TaskView) -> Since {
        let seen = self.seen.get(&view.ticket).copied();
        // A task that no step has come to is not in the black box, though one before it with the same number may be.
        let last = (view.state != RunState::Init).then(|| self.last.get(&key(view)));
        match last {
            None => seen.map_or(Since::Unknown, Since::Before),
            // Its code was made final over the worker's head, who has noted nothing of it.
            Some(Some(last))
                if view.state == RunState::Done && last.change.to != RunState::Done =>
            {
                Since::Unknown
            }
            Some(Some(last)) => Since::At(*last),
            Some(None) => {
                let least = self.whole_since.into_iter().chain(seen).min();
                least.map_or(Since::Unknown, Since::Before)
            }
        }
    }
}

/// From when on no change is missing that was noted before `written` were, though some are overwritten while a reader is on its way.
fn whole_since(records: &[Record], written: u32) -> Option<u64> {
    // Those that came while the others were read are a lap ahead, or half of all numbers.
    let before = |record: &&Record| record.number.wrapping_sub(written) > u32::MAX / 2;
    let numbers = (1..).map(|back| written.wrapping_sub(back));
    (records.iter().rev().filter(before).zip(numbers))
        .take_while(|(record, number)| record.number == *number)
        .last()
        .map(|(record, _)| record.time)
}

#[cfg(test)]
mod tests {
    use proxy_core::port::Change;
    use proxy_core::{ExecId, Gid, Rank, Status, TaskKind};

    use super::*;
    use crate::{ProxyQueue, Settings};

    fn record(number: u32, time: u64) -> Record {
        let change = Change {
            rank: Rank(0),
            context: ContextId::from_parts(0, 1),
            kind: TaskKind::Network,
            exec: ExecId(number.into()),
            slot: number,
            from: RunState::Progressing,
            to: RunState::Idle,
            status: Status::SUCCESS,
        };
        Record {
            number,
            time,
            tick: 0,
            change,
        }
    }

    #[test]
    fn h46_what_is_missing_is_older_than_the_unbroken_end_of_the_black_box_and_no_older() {
        let records = [10, 11, 14, 15, 16].map(|number| record(number, u64::from(number) * 100));
        assert_eq!(whole_since(&records, 17), Some(1400), "12 and 13 are lost");
        assert_eq!(whole_since(&records, 16), Some(1400), "16 came later");
        assert_eq!(whole_since(&records, 12), Some(1000));
        assert_eq!(whole_since(&records, 18), None, "the last one is lost");
        assert_eq!(whole_since(&[], 4), None);
        let wrapped = [u32::MAX - 1, u32::MAX, 0, 1].map(|number| record(number, 7));
        assert_eq!(whole_since(&wrapped, 2), Some(7));
    }

    /// The task that `record` with this number is about.
    fn view(number: u32, state: RunState) -> TaskView {
        let change = record(number, 0).change;
        TaskView {
            ticket: Ticket::from_parts(number, 1),
            context: change.context,
            exec: change.exec,
            kind: change.kind,
            sequence: 0,
            state,
            appended: 0,
        }
    }

    #[test]
    fn h46_a_task_is_as_old_as_its_own_last_change_or_as_all_that_is_left() {
        let records = vec![record(40, 4000), record(41, 4100)];
        let mut moments = Moments::of(records, 42);
        let idle = |number| view(number, RunState::Idle);
        assert_eq!(moments.since(&idle(41)), Since::At(record(41, 4100)));
        assert_eq!(moments.since(&idle(3)), Since::Before(4000), "overwritten");
        let waiting = view(3, RunState::WaitingDeviceTrigger);
        moments.seen.insert(waiting.ticket, 77);
        assert_eq!(moments.since(&waiting), Since::Before(77), "seen earlier");
        let nothing = Moments::of(Vec::new(), 42);
        assert_eq!(nothing.since(&idle(3)), Since::Unknown);
    }

    #[test]
    fn h46_a_task_without_a_change_of_its_own_has_not_the_age_of_another() {
        let mut moments = Moments::of(vec![record(40, 4000)], 41);
        let fresh = view(40, RunState::Init);
        assert_eq!(moments.since(&fresh), Since::Unknown, "one of its number");
        let concluded = view(40, RunState::Done);
        assert_eq!(moments.since(&concluded), Since::Unknown, "was idle then");
        moments.seen.insert(fresh.ticket, 5000);
        assert_eq!(moments.since(&fresh), Since::Before(5000));
    }

    #[test]
    fn h46_a_task_is_there_since_the_first_that_is_known_of_it() {
        let mut first = record(40, 4000);
        first.change.from = RunState::Init;
        let mut last = record(41, 4100);
        last.change = Change {
            from: RunState::Progressing,
            ..first.change
        };
        let mut moments = Moments::of(vec![first, last], 42);
        let idle = view(40, RunState::Idle);
        assert_eq!(moments.since(&idle), Since::At(last));
        assert_eq!(moments.there(&idle), Some(4000), "its first step");
        moments.met.insert(idle.ticket, 3900);
        assert_eq!(moments.there(&idle), Some(3900), "seen before that");
        let fresh = view(41, RunState::Init);
        assert_eq!(moments.there(&fresh), None);
        moments.met.insert(fresh.ticket, 7);
        assert_eq!(moments.there(&fresh), Some(7));
    }

    #[test]
    fn h48_a_watchdog_that_cannot_be_asked_is_told_of() {
        let queue = ProxyQueue::without_worker(Gid(4602), &Settings::default()).unwrap();
        let shared = queue.shared();
        let fresh = [view(40, RunState::Init)];
        let held = shared.tracks.lock().unwrap();
        assert!(Moments::read(shared, &[], true).1, "nothing to ask");
        let (moments, asked) = Moments::read(shared, &fresh, true);
        assert!(!asked);
        assert_eq!(moments.since(&fresh[0]), Since::Unknown);
        drop(held);
        assert!(Moments::read(shared, &fresh, true).1);
    }
}
