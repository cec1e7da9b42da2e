//! Edges of the drawn machines, as a step of a task or an answer of the doorbell takes them.

use std::fmt;

use proxy_core::port::BarrierPoll;
use proxy_core::{Bell, RunState, TaskKind};
use proxy_kit::oracle::{Answer, Call, Stepped};

use crate::pair::Work;

/// One edge that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Edge {
    /// A task's: its machine, state before, why, state after.
    Task(TaskKind, RunState, &'static str, RunState),
    /// The doorbell's.
    Bell(String),
}

impl Edge {
    pub(super) fn of_step(piece: Work, step: Stepped, calls: &[(Call, Answer)]) -> Self {
        let cause = match piece {
            Work::Tick if !step.ordered => cause(step, calls),
            _ => "abort",
        };
        Self::Task(step.kind, step.from, cause, step.to)
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(kind, from, cause, to) => write!(f, "{kind}: {from} -- {cause} --> {to}"),
            Self::Bell(edge) => write!(f, "doorbell: {edge}"),
        }
    }
}

pub(super) const fn heard(bell: Bell) -> &'static str {
    match bell {
        Bell::Ring => "rings",
        Bell::Quiet => "quiet",
    }
}

/// Why a step went where it went, from the calls that it made.
fn cause(step: Stepped, calls: &[(Call, Answer)]) -> &'static str {
    let failed = |answer: &Answer| !answer.status.is_success();
    let gone = |answer: &Answer| matches!(answer.poll, BarrierPoll::Failed(_));
    for (call, answer) in calls {
        match call {
            Call::Start(..) if failed(answer) => return "start failed",
            Call::Progress(..) if failed(answer) => return "progress failed",
            Call::Stop(..) if failed(answer) => return "stop failed",
            Call::Signal(..) if failed(answer) => return "signal failed",
            Call::Arrive(..) if gone(answer) => return "arrive failed",
            Call::Release(..) if gone(answer) => return "release failed",
            _ => {}
        }
    }
    let moved = |(call, answer): &(Call, Answer)| {
        matches!(call, Call::Progress(..)) && !answer.idle && !answer.done
    };
    match calls.last() {
        None if step.to == RunState::WaitingDeviceTrigger => "not fired",
        // All of no streams.
        None if step.from == RunState::Init && step.to == RunState::Progressing => "started",
        None if step.to == RunState::Progressing => "fired",
        None => "nothing to do",
        Some((Call::Start(..), _)) => "started",
        Some((Call::Stop(..) | Call::Progress(..), _)) => match step.to {
            RunState::Done => "last block drained",
            RunState::Idle => "idle",
            _ if calls.iter().any(moved) => "moved",
            _ => "drained",
        },
        Some((Call::Arrive(..), _)) => "arrive pending",
        Some((Call::Release(..), answer)) if answer.poll == BarrierPoll::Pending => {
            "release pending"
        }
        Some((Call::Release(..), _)) => "released",
        Some((Call::Signal(..) | Call::Cancel(..), _)) => "cancelled",
    }
}
