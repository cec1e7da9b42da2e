//! The oracle's start words: which values stand in them and how many executions are armed.

use std::collections::{BTreeMap, BTreeSet};

use proxy_core::trigger::FiredBeforeArm;
use proxy_core::{Arming, ContextId, Polarity, RunState, Spec, Stream, TaskKind};

use super::library::Table;
use super::{Oracle, Outside, Task, TaskId};

type Key = (u32, u32, u32);

/// All words and counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    pub(super) table: Table,
    armed: BTreeMap<Key, u32>,
    /// Contexts and kinds of which a task has found its gate closed in this tick.
    closed: BTreeSet<Key>,
    generations: BTreeMap<u32, u32>,
}

/// Start words of a task of this kind.
fn streams(kind: TaskKind, spec: &Spec) -> u8 {
    match kind {
        TaskKind::Network if spec.device_wait && !spec.skip => spec.streams,
        TaskKind::Network => 0,
        TaskKind::Barrier => spec.barrier_triggers,
    }
}

fn is_fired(spec: &Spec, word: u32) -> bool {
    match spec.polarity {
        Polarity::Specification => word != u32::MAX,
        Polarity::Header => word == u32::MAX,
    }
}

const fn armed_value(spec: &Spec) -> u32 {
    match spec.polarity {
        Polarity::Specification => u32::MAX,
        Polarity::Header => 0,
    }
}

/// Whether arms are counted at all: the task has words, and the host arms them.
fn counts(kind: TaskKind, spec: &Spec) -> bool {
    streams(kind, spec) > 0 && spec.arming != Arming::ByDevice
}

#[expect(clippy::as_conversions, reason = "a fieldless enum with numbers")]
const fn key(context: ContextId, kind: TaskKind) -> Key {
    (context.index(), context.generation(), kind as u32)
}

impl Words {
    /// The generation of the next context in a place.
    pub(super) fn next_generation(&mut self, place: u32) -> u32 {
        let generation = self.generations.entry(place).or_default();
        *generation += 1;
        *generation
    }

    pub(super) fn begin_tick(&mut self) {
        self.closed.clear();
    }

    fn armed(&mut self, context: ContextId, kind: TaskKind) -> &mut u32 {
        self.armed.entry(key(context, kind)).or_default()
    }

    /// Words that a consume has left are given their armed value.
    fn rearm(&mut self, context: ContextId, kind: TaskKind, spec: &Spec) {
        for stream in 0..streams(kind, spec) {
            if self.table.get(context, kind, stream) == 0 {
                self.table.set(context, kind, stream, armed_value(spec));
            }
        }
    }

    pub(super) fn arm(
        &mut self,
        context: ContextId,
        kind: TaskKind,
        spec: &Spec,
    ) -> Result<(), FiredBeforeArm> {
        if !counts(kind, spec) {
            return Ok(());
        }
        if *self.armed(context, kind) == 0 {
            for stream in 0..streams(kind, spec) {
                let word = self.table.get(context, kind, stream);
                if word != 0 && is_fired(spec, word) {
                    let stream = Stream(stream);
                    return Err(FiredBeforeArm { stream, word });
                }
            }
            self.rearm(context, kind, spec);
        }
        *self.armed(context, kind) += 1;
        Ok(())
    }

    pub(super) fn reset(&mut self, context: ContextId, kind: TaskKind, spec: &Spec) {
        *self.armed(context, kind) = 0;
        for stream in 0..streams(kind, spec) {
            if self.table.get(context, kind, stream) != 0 {
                self.table.set(context, kind, stream, 0);
            }
        }
    }

    pub(super) fn disarm(&mut self, context: ContextId, kind: TaskKind, spec: &Spec) {
        if counts(kind, spec) {
            let armed = self.armed(context, kind);
            *armed = armed.saturating_sub(1);
        }
    }
}

impl Oracle {
    /// A task ends before its gate. Arms are the oldest tasks': one that those before it need is not taken back.
    pub(super) fn give_up_arm(&mut self, id: TaskId, spec: &Spec) {
        let (older, rest) = self.tasks.split_at(id);
        let (context, kind) = (rest[0].context, rest[0].kind);
        let waits = |task: &&Task| {
            let before = [RunState::Init, RunState::WaitingDeviceTrigger];
            (task.context, task.kind) == (context, kind) && before.contains(&task.state)
        };
        let needed = u32::try_from(older.iter().filter(waits).count()).unwrap();
        if *self.words.armed(context, kind) > needed {
            self.words.disarm(context, kind, spec);
        }
    }

    /// Opens the gate and consumes the words, if all have fired for an armed execution and nobody older waits.
    pub(super) fn pass<O: Outside>(
        &mut self,
        context: ContextId,
        kind: TaskKind,
        spec: &Spec,
        outside: &mut O,
    ) -> bool {
        if streams(kind, spec) == 0 {
            return true;
        }
        if self.words.closed.contains(&key(context, kind)) {
            return false;
        }
        let Some(seen) = self.look(context, kind, spec, outside) else {
            self.words.closed.insert(key(context, kind));
            return false;
        };
        for (stream, word) in (0..).zip(seen) {
            outside.touch(self, context, kind, stream);
            self.words.table.swap(context, kind, stream, word, 0);
        }
        if !counts(kind, spec) {
            return true;
        }
        self.words.disarm(context, kind, spec);
        if *self.words.armed(context, kind) > 0 {
            for stream in 0..streams(kind, spec) {
                outside.touch(self, context, kind, stream);
                let armed = armed_value(spec);
                self.words.table.swap(context, kind, stream, 0, armed);
            }
        }
        true
    }

    /// The words, one after the other, if every one has fired.
    fn look<O: Outside>(
        &mut self,
        context: ContextId,
        kind: TaskKind,
        spec: &Spec,
        outside: &mut O,
    ) -> Option<Vec<u32>> {
        let by_device = spec.arming == Arming::ByDevice;
        if !by_device && *self.words.armed(context, kind) == 0 {
            return None;
        }
        let mut seen = Vec::new();
        for stream in 0..streams(kind, spec) {
            outside.touch(self, context, kind, stream);
            let word = self.words.table.get(context, kind, stream);
            if !is_fired(spec, word) || (by_device && word == 0) {
                return None;
            }
            seen.push(word);
        }
        Some(seen)
    }
}
