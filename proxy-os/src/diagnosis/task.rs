//! One task of a report, and what its context has to say of it.
//!
//! A report keeps no context: it looks each up again and reads it within the table's lock, as a retire returns only after that lock, and then the
//! start words may be unmapped and the communicator may be freed.

use std::sync::Arc;

use proxy_core::phone::barrier::RankSet;
use proxy_core::{RunState, Stream, TaskKind, TaskView};

use super::moments::Since;
use super::ranges;
use super::record::{BarrierWait, Block, StartWord, Task};
use crate::context::{ContextData, HostBarrier};
use crate::queue::Shared;
use crate::waiting;

/// What a task's context says of it.
#[derive(Default)]
struct Said {
    unfired: Vec<StartWord>,
    fired: Vec<StartWord>,
    block: Option<Block>,
    behind: bool,
    /// Asked outside of the lock, as it is the embedder's code.
    barrier: Option<Arc<dyn HostBarrier>>,
}

/// One task; `listed` = the contexts of its queue could be read.
pub(super) fn task(shared: &Shared, view: &TaskView, listed: bool, since: Since, now: u64) -> Task {
    let waits = view.state == RunState::WaitingDeviceTrigger;
    let runs = matches!(view.state, RunState::Progressing | RunState::Idle);
    let network = view.kind == TaskKind::Network;
    let seconds = |since: u64| now.saturating_sub(since) as f64 / 1e9;
    let (last, least_age) = match since {
        Since::At(last) => (Some(last), 0.0),
        Since::Before(time) => (None, seconds(time)),
        Since::Unknown => (None, 0.0),
    };
    let age = last.map(|last| seconds(last.time));
    let ask = |data: &ContextData| {
        let (unfired, fired) = match waits {
            true => words(view, data, (age, least_age)),
            false => Default::default(),
        };
        let behind = network && data.comm.is_before(view.ticket.slot());
        Said {
            unfired,
            fired,
            block: (runs && network && !behind).then(|| block(data)).flatten(),
            behind,
            barrier: (runs && !network).then(|| data.barrier.clone()).flatten(),
        }
    };
    let said = match listed {
        true if waits || runs => shared.contexts.read(view.context, ask),
        true => Some(None),
        false => None,
    };
    let unread = said.is_none();
    let said = said.flatten().unwrap_or_default();
    Task {
        rank: shared.core.rank_of(view.ticket).unwrap_or_default().0,
        kind: view.kind.to_string(),
        exec: view.exec.0,
        sequence: view.sequence as u64,
        context: view.context.to_string(),
        state: view.state.to_string(),
        age,
        least_age,
        status: last
            .filter(|_| view.state == RunState::Done)
            .map(|last| last.change.status.0),
        block: said.block,
        behind: said.behind,
        unfired: said.unfired,
        fired: said.fired,
        barrier: said.barrier.and_then(|barrier| attendance(&*barrier)),
        unread,
        ..Task::default()
    }
}

fn block(data: &ContextData) -> Option<Block> {
    let (place, calls, last_return) = data.note.read();
    let (id, _) = data.blocks.get(usize::from(place))?;
    Some(Block {
        id: *id,
        place: u32::from(place) + 1,
        of: u32::try_from(data.blocks.len()).unwrap_or(u32::MAX),
        calls,
        last_return,
    })
}

/// The start words of a task that has waited for so long, or so long at least: those that have not fired, and those that have.
fn words(
    view: &TaskView,
    data: &ContextData,
    (age, least_age): (Option<f64>, f64),
) -> (Vec<StartWord>, Vec<StartWord>) {
    let words = (0..)
        .map(Stream)
        .map_while(|stream| Some((stream, data.word(view.kind, stream)?)));
    let (mut unfired, mut fired) = (Vec::new(), Vec::new());
    for (stream, word) in words {
        let value = word.load();
        let is_fired = waiting::is_fired(data, value);
        let waited = (!is_fired).then_some((age, least_age));
        // The device tells no time.
        let (age, least_age) = waited.unwrap_or_default();
        let words = if is_fired { &mut fired } else { &mut unfired };
        words.push(StartWord {
            stream: stream.0.into(),
            address: word.address() as u64,
            word: value,
            age,
            least_age,
        });
    }
    (unfired, fired)
}

fn attendance(barrier: &dyn HostBarrier) -> Option<BarrierWait> {
    let seen = barrier.attendance()?;
    let told = |ranks: RankSet| ranges::ranges(ranks.iter().map(u32::from));
    Some(BarrierWait {
        slot: seen.slot.into(),
        generation: seen.generation,
        arrived: told(seen.arrived),
        missing: told(seen.missing),
        dead: told(seen.dead),
        machine: seen.machine.map(u32::from),
    })
}

#[cfg(test)]
mod tests {
    use proxy_core::{ContextId, ExecId, Gid, Ticket};

    use super::super::record::{Group, Report, StallKind};
    use super::*;
    use crate::{ProxyQueue, Settings};

    #[test]
    fn h48_a_device_wait_whose_words_are_locked_is_a_stall_without_them() {
        let queue = ProxyQueue::without_worker(Gid(4601), &Settings::default()).unwrap();
        let view = TaskView {
            ticket: Ticket::from_parts(0, 1),
            context: ContextId::from_parts(0, 1),
            exec: ExecId(812),
            kind: TaskKind::Network,
            sequence: 0,
            state: RunState::WaitingDeviceTrigger,
            appended: 0,
        };
        let judged = |listed: bool| {
            let waiting = task(
                queue.shared(),
                &view,
                listed,
                Since::Before(0),
                2_000_000_000,
            );
            let mut report = Report {
                stall_threshold: 2.0,
                groups: vec![Group {
                    health: "running".to_owned(),
                    tasks: vec![waiting],
                    ..Group::default()
                }],
                ..Report::default()
            };
            report.groups[0].worker.capacity = 128;
            report.judge();
            (
                report.stall.map(|stall| stall.kind),
                report.groups.remove(0).health,
            )
        };
        let stalled = (Some(StallKind::DeviceNeverFired), "stalled".to_owned());
        assert_eq!(judged(false), stalled);
        let held = queue.shared().contexts.lock();
        assert_eq!(judged(true), stalled, "locked since they were listed");
        drop(held);
        let read = judged(true);
        assert_eq!(read, (None, "running".to_owned()), "it has no words");
    }
}
