//! Which start words the device has not written: the first question about a task that waits for its device.

use std::fmt;
use std::time::Duration;

use proxy_core::{Arming, Polarity, Rank, RunState, Stream, TaskView};

use crate::context::ContextData;
use crate::queue::{ProxyQueue, Shared};
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
        let tasks = self.shared().core.tasks().filter(waiting);
        let words = tasks.filter_map(|task| self.shared().words_of(task));
        words.flatten().collect()
    }
}

impl Shared {
    /// The start words that a task waits for; `None` if the table of contexts is held by somebody.
    pub(crate) fn words_of(&self, task: TaskView) -> Option<Vec<Unfired>> {
        let Some(data) = self.contexts.try_get(task.context)? else {
            return Some(Vec::new());
        };
        let waited = self.waited(&task);
        let streams = (0..)
            .map(Stream)
            .map_while(|stream| Some((stream, data.word(task.kind, stream)?)));
        let unfired = streams
            .map(|(stream, word)| (stream, word.address(), word.load()))
            .filter(|(.., word)| !is_fired(&data, *word))
            .map(|(stream, address, word)| Unfired {
                task,
                rank: data.rank,
                stream,
                address,
                word,
                waited,
            });
        Some(unfired.collect())
    }

    /// For how long the task has been in its state.
    pub(crate) fn waited(&self, task: &TaskView) -> Option<Duration> {
        let began = self.began(task)?;
        Some(Duration::from_nanos(
            clock::monotonic_ns().saturating_sub(began),
        ))
    }

    /// When the task came into its state, as nanoseconds of the monotonic clock; `None` if the black box no longer has it.
    pub(crate) fn began(&self, task: &TaskView) -> Option<u64> {
        let changes = self.recorder.iter().filter(|record| {
            let change = &record.change;
            (change.slot, change.exec, change.to) == (task.ticket.slot(), task.exec, task.state)
        });
        changes.last().map(|record| record.time)
    }
}

pub(crate) fn is_fired(data: &ContextData, word: u32) -> bool {
    let (polarity, arming): (Polarity, Arming) = data.gate;
    let stale = arming == Arming::ByDevice && word == proxy_core::trigger::CONSUMED;
    polarity.is_fired(word) && !stale
}
