//! Which start words the device has not written: the first question about a task that waits for its device.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use proxy_core::{Arming, Polarity, Rank, RunState, Stream, TaskView};

use crate::context::ContextData;
use crate::queue::{ProxyQueue, RECORDS, Shared};
use crate::sys::{clock, fork};

/// A start word that a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfired {
    /// The task.
    pub task: TaskView,
    /// Its rank.
    pub rank: Rank,
    /// The stream whose word it is.
    pub stream: Stream,
    /// Address of the word.
    pub address: usize,
    /// Its value.
    pub word: u32,
    /// For how long the task has waited; `None` if the black box no longer has the moment.
    pub waited: Option<Duration>,
}

impl fmt::Display for Unfired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            task,
            rank,
            stream,
            address,
            word,
            waited,
        } = self;
        write!(
            f,
            "{rank}, {} task {}: waits for the device on {stream}, ",
            task.kind, task.exec
        )?;
        write!(f, "word at {address:#x} is still {word:#010x}")?;
        match waited {
            Some(waited) => write!(f, " after {waited:.1?}"),
            None => Ok(()),
        }
    }
}

impl ProxyQueue {
    /// The start words that tasks wait for, as of now. Any thread, also while the worker is stuck. Cold: O(slots), and one lock
    /// per waiting task, which no tick takes.
    pub fn unfired(&self) -> Vec<Unfired> {
        // A forked child has the table of contexts perhaps locked by a thread that it has not.
        if fork::is_child() {
            return Vec::new();
        }
        let waiting = |task: &TaskView| task.state == RunState::WaitingDeviceTrigger;
        let shared = self.shared();
        let tasks: Vec<TaskView> = shared.core.tasks().filter(waiting).collect();
        let (began, now) = (shared.all_began(&tasks), clock::monotonic_ns());
        let words = tasks.into_iter().filter_map(|task| {
            let began = began.of(&task);
            let waited = began.map(|began| Duration::from_nanos(now.saturating_sub(began)));
            shared.words_of(task, waited)
        });
        words.flatten().collect()
    }
}

/// When tasks came into their states, by slot, execution and state.
#[derive(Debug, Default)]
pub(crate) struct Began(HashMap<(u32, u64, u8), u64>);

impl Began {
    /// As nanoseconds of the monotonic clock; `None` if the black box no longer had it.
    pub(crate) fn of(&self, task: &TaskView) -> Option<u64> {
        let key = (task.ticket.slot(), task.exec.0, task.state as u8);
        self.0.get(&key).copied()
    }
}

impl Shared {
    /// The start words that a task waits for, since so long; `None` if the table of contexts is held by somebody.
    pub(crate) fn words_of(
        &self,
        task: TaskView,
        waited: Option<Duration>,
    ) -> Option<Vec<Unfired>> {
        let words = self.contexts.try_read(task.context, |data| {
            let streams = (0..)
                .map(Stream)
                .map_while(|stream| Some((stream, data.word(task.kind, stream)?)));
            let unfired = streams
                .map(|(stream, word)| (stream, word.address(), word.load()))
                .filter(|(.., word)| !is_fired(data, *word))
                .map(|(stream, address, word)| Unfired {
                    task,
                    rank: data.rank,
                    stream,
                    address,
                    word,
                    waited,
                });
            unfired.collect()
        });
        Some(words?.unwrap_or_default())
    }

    /// When the task came into its state, as nanoseconds of the monotonic clock; `None` if the black box no longer has it.
    pub(crate) fn began(&self, task: &TaskView) -> Option<u64> {
        let written = self.recorder.written();
        // From the last one back: who asks about one task does so soon after its change.
        let mut records =
            (1..=RECORDS as u32).filter_map(|back| self.recorder.read(written.wrapping_sub(back)));
        let found = records.find(|record| {
            let change = &record.change;
            (change.slot, change.exec, change.to) == (task.ticket.slot(), task.exec, task.state)
        });
        found.map(|record| record.time)
    }

    /// The same for many tasks, by one pass over the black box; by none if there is no task.
    pub(crate) fn all_began(&self, tasks: &[TaskView]) -> Began {
        if tasks.is_empty() {
            return Began::default();
        }
        let changes = self.recorder.iter().map(|record| {
            let change = &record.change;
            ((change.slot, change.exec.0, change.to as u8), record.time)
        });
        Began(changes.collect())
    }
}

pub(crate) fn is_fired(data: &ContextData, word: u32) -> bool {
    let (polarity, arming): (Polarity, Arming) = data.gate;
    let stale = arming == Arming::ByDevice && word == proxy_core::trigger::CONSUMED;
    polarity.is_fired(word) && !stale
}

#[cfg(test)]
mod tests {
    use proxy_core::port::Change;
    use proxy_core::{ContextId, ExecId, Gid, Status, TaskKind, Ticket};

    use super::*;
    use crate::Settings;

    /// Slot 5's task waits, is progressed, and waits again; slot 6's of the same execution has gone on.
    #[test]
    fn a_task_began_at_its_last_change_whether_one_is_asked_about_or_many() {
        let queue = ProxyQueue::without_worker(Gid(180), &Settings::default()).unwrap();
        let shared = queue.shared();
        let (waits, moves) = (RunState::WaitingDeviceTrigger, RunState::Progressing);
        let changes = [(5, waits), (6, waits), (5, moves), (5, waits), (6, moves)];
        for (time, (slot, to)) in (100..).zip(changes) {
            let change = Change {
                rank: Rank(0),
                context: ContextId::from_parts(0, 1),
                kind: TaskKind::Network,
                exec: ExecId(7),
                slot,
                from: RunState::Init,
                to,
                status: Status::SUCCESS,
            };
            shared.recorder.record(time, 0, &change);
        }
        let task = |slot, exec, state| TaskView {
            ticket: Ticket::from_parts(slot, 1),
            context: ContextId::from_parts(0, 1),
            exec: ExecId(exec),
            kind: TaskKind::Network,
            sequence: 0,
            state,
            appended: 0,
        };
        let tasks = [
            (task(5, 7, waits), Some(103)),
            (task(6, 7, waits), Some(101)),
            (task(6, 7, moves), Some(104)),
            (task(5, 8, waits), None),
            (task(7, 7, waits), None),
        ];
        let all = shared.all_began(&tasks.map(|(task, _)| task));
        for (task, began) in &tasks {
            assert_eq!((all.of(task), shared.began(task)), (*began, *began));
        }
    }
}
