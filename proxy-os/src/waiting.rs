//! Which start words the device has not written: the first question about a task that waits for its device.

use std::fmt;
use std::time::Duration;

use proxy_core::{Arming, Polarity, Rank, RunState, Stream, TaskView};

use crate::context::ContextData;
use crate::queue::ProxyQueue;
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
        tasks.flat_map(|task| self.words_of(task)).collect()
    }

    fn words_of(&self, task: TaskView) -> Vec<Unfired> {
        let Some(data) = self.shared().contexts.get(task.context) else {
            return Vec::new();
        };
        let waited = self.waited(&task);
        let streams = (0..)
            .map(Stream)
            .map_while(|stream| Some((stream, data.word(task.kind, stream)?)));
        streams
            .map(|(stream, word)| (stream, word.address(), word.load()))
            .filter(|(.., word)| !is_fired(&data, *word))
            .map(|(stream, address, word)| Unfired {
                task,
                rank: data.rank,
                stream,
                address,
                word,
                waited,
            })
            .collect()
    }

    /// Time since the task began to wait.
    fn waited(&self, task: &TaskView) -> Option<Duration> {
        let records = self.history();
        let began = records.iter().rev().find(|record| {
            let change = &record.change;
            (change.slot, change.exec, change.to) == (task.ticket.slot(), task.exec, task.state)
        })?;
        Some(Duration::from_nanos(
            clock::monotonic_ns().saturating_sub(began.time),
        ))
    }
}

fn is_fired(data: &ContextData, word: u32) -> bool {
    let (polarity, arming): (Polarity, Arming) = data.gate;
    let stale = arming == Arming::ByDevice && word == proxy_core::trigger::CONSUMED;
    polarity.is_fired(word) && !stale
}
