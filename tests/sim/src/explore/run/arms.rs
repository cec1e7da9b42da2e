//! Explicit arms: whose each is, as who makes them means them, and what must come of it.
//!
//! The driver counts arms; here each is one task's, so that an arm that is lost, or goes to another, is seen.

use proxy_core::{Arming, RunState, TaskKind, TaskView, Ticket};

use super::super::held::Held;
use super::{Run, words};
use crate::laws::Law;

/// The place of a kind among both.
pub(super) const fn at_kind(kind: TaskKind) -> usize {
    match kind {
        TaskKind::Network => 0,
        TaskKind::Barrier => 1,
    }
}

impl Run<'_> {
    /// An attempt that the device was too early for counts, too: the context counts it, and would have a new state each time.
    pub(super) fn arm(&mut self, at: usize, kind: TaskKind) {
        self.places[at].arms += 1;
        if self.pair.arm(self.places[at].context, kind).is_err() {
            return;
        }
        match self.unarmed(at, kind) {
            Some(place) => self.held[place].armed = true,
            None => self.places[at].spare[at_kind(kind)] += 1,
        }
    }

    /// The oldest task at its gate that no arm was made for.
    fn unarmed(&self, at: usize, kind: TaskKind) -> Option<usize> {
        let context = self.places[at].context;
        let before = [RunState::Init, RunState::WaitingDeviceTrigger];
        let waits = |task: &TaskView| {
            (task.context, task.kind) == (context, kind) && before.contains(&task.state)
        };
        let waiting: Vec<Ticket> = (self.pair.queue.tasks().filter(waits))
            .map(|task| task.ticket)
            .collect();
        let unarmed = |held: &Held| !held.armed && waiting.contains(&held.ticket);
        self.held.iter().position(unarmed)
    }

    /// No gate is passed by a task that an explicit arm is missing for.
    pub(super) fn passes_armed(&mut self) {
        for at in 0..self.places.len() {
            let (spec, context) = (self.small.specs[at], self.places[at].context);
            if spec.arming != Arming::Explicit {
                continue;
            }
            let gated = words(&spec).map(|(_, words)| words > 0);
            let through = |task: &TaskView| {
                let active = [RunState::Progressing, RunState::Idle].contains(&task.state);
                task.context == context && gated[at_kind(task.kind)] && active
            };
            let through: Vec<Ticket> = (self.pair.queue.tasks().filter(through))
                .map(|task| task.ticket)
                .collect();
            let wrong = |held: &&Held| !held.armed && through.contains(&held.ticket);
            let wrong = self.held.iter().find(wrong).copied();
            self.must(Law::NoGateEarly, wrong.is_none(), || {
                format!("not armed, and through its gate: {wrong:?}")
            });
        }
    }

    /// A device that is armed before it fires, if it is the host that has to, and for one that is not armed yet.
    pub(super) fn fire_all(&mut self, at: usize) {
        let (spec, place) = (self.small.specs[at], self.places[at]);
        if place.is_retired {
            return;
        }
        for (kind, words) in words(&spec) {
            let explicit = spec.arming == Arming::Explicit && words > 0;
            if explicit && self.unarmed(at, kind).is_some() {
                (0..words).for_each(|stream| self.pair.fire(place.context, kind, stream, 0));
                self.arm(at, kind);
            }
            (0..words).for_each(|stream| self.fire(at, kind, stream));
        }
    }
}
