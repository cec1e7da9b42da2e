//! Exhaustion: every state that a small queue and its driver can reach, over the real code, and what must hold in each.
//!
//! A state is what queue, driver and words are, written out, with what consumers have taken and ordered; numbers that only count ticks
//! are left out. From each state every operation is tried with every combination of answers to the calls that it makes, each on a
//! copy of the real thing (`copy.rs`).
//!
//! Besides the oracle's agreement, what must hold are the laws ([`Law`]): no task is lost, none ends twice, every seam call is legal and in
//! order, no gate is passed early, no sleep with work, everything ends after an abort, an ordered task ends as it was ordered to,
//! contexts are retired at rest only. Calls, gates, sleeps, orders and retires are looked at in every transition. In each new state
//! - a library, a barrier and a device that do what they should from here on must bring every task to its end in a bounded number of
//!   ticks, and each ticket must tell it once;
//! - an abort must end every task at once, after which the worker may sleep unless the queue is shut.

mod answers;
mod edge;
mod held;
mod run;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use proxy_core::Spec;

use crate::choice::next_script;
use crate::laws::Law;

use edge::Edge;
use run::Run;

/// What the library and the barrier may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// Everything: each call may also fail.
    #[default]
    All,
    /// Only progress, arrive and release fail, and a stream that is not done is idle.
    Few,
}

/// What is done besides appends, fires, polls, aborts of everything and the close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acts {
    /// Tasks, and all tasks of a context, are ordered to end, and verdicts are given.
    pub orders: bool,
    /// Start words are given a fresh start.
    pub resets: bool,
    /// Contexts are retired; each is registered anew so many times.
    pub retires: Option<u8>,
}

/// A small world.
#[derive(Debug, Clone, Default)]
pub struct Small {
    /// What it shows.
    pub name: &'static str,
    /// One context each. For one that arms explicitly so many attempts to arm are made as it has executions.
    pub specs: Vec<Spec>,
    /// Executions of each context.
    pub executions: u64,
    /// The worker can die in any call.
    pub dies: bool,
    /// How calls are answered.
    pub answers: Answers,
    /// What else is done.
    pub acts: Acts,
}

/// What exploring it came to.
#[derive(Debug, Default)]
pub struct Explored {
    /// States.
    pub states: usize,
    /// Transitions, each with one combination of answers.
    pub transitions: u64,
    /// Operations from the first state to the farthest.
    pub depth: usize,
    /// How often each law was looked at.
    pub checked: BTreeMap<Law, u64>,
    /// What was wrong, and the operations that led there.
    pub wrong: Option<String>,
    edges: HashSet<Edge>,
}

impl Explored {
    /// Edges of the machines that were taken.
    #[must_use]
    pub fn edges(&self) -> BTreeSet<String> {
        self.edges.iter().map(ToString::to_string).collect()
    }

    /// Adds what was new in a run.
    fn finish(&mut self, run: &mut Run<'_>) {
        for (law, count) in run.checked() {
            *self.checked.entry(*law).or_default() += count;
        }
        self.edges.extend(run.take_edges());
        if self.wrong.is_none() {
            self.wrong = run.wrong();
        }
    }
}

/// Explores a small world to its last state.
#[must_use]
pub fn explore(small: &Small) -> Explored {
    let mut explored = Explored::default();
    let first = Run::new(small);
    let mut seen = HashSet::from([first.hash()]);
    let mut open = VecDeque::from([first]);
    while let Some(from) = open.pop_front() {
        let mut script = Some(Vec::new());
        while let Some(now) = script {
            let mut run = from.copy(now);
            run.transition();
            script = next_script(run.taken(), 0);
            explored.transitions += 1;
            explored.finish(&mut run);
            if explored.wrong.is_none() && seen.insert(run.hash()) {
                look_ahead(&mut explored, &run);
                explored.depth = explored.depth.max(run.ops());
                open.push_back(run);
            }
            if explored.wrong.is_some() {
                return explored;
            }
        }
    }
    explored.states = seen.len();
    explored
}

/// What must come of a state, whatever led to it.
fn look_ahead(explored: &mut Explored, run: &Run<'_>) {
    for end in [Run::rest, Run::abort] {
        let mut ended = run.copy(Vec::new());
        end(&mut ended);
        // Only what is possible in the world counts as taken.
        drop(ended.take_edges());
        explored.finish(&mut ended);
    }
}
