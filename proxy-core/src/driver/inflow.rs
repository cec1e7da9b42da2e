//! From the inbox to the worker: a taken stack of slots, and the tasks that they hold.

use crate::board::Phase;
use crate::context::ContextSlot;
use crate::port::{Drained, Observer};
use crate::queue::Queue;
use crate::status::{RunState, Status};
use crate::task::{Active, Task};

/// What a drain found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Inflow {
    /// Tasks taken from the inbox.
    pub(super) drained: u32,
    /// A task bears an order.
    pub(super) ordered: bool,
}

/// Makes an active task of a drained slot.
pub(super) fn take_in<O: Observer, const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    number: u32,
    observer: &mut O,
) -> Option<Active> {
    let slot = queue.slot(number)?;
    let live = slot.word();
    debug_assert!(live.phase() == Phase::Live(RunState::Init));
    let key = slot.key_unchecked();
    let entry = queue
        .context_slot(key.context)
        .map(ContextSlot::entry_of_counted);
    // Cannot fail: a task that is not finished keeps its context.
    let Some(entry) = entry else {
        debug_assert!(false, "the context of a queued task is gone");
        slot.report(live, RunState::Done, Status::STALE_CONTEXT);
        return None;
    };
    observer.drained(Drained {
        context: key.context,
        slot: number,
        appended: slot.appended(),
    });
    Some(Active::new(Task {
        context: key.context,
        exec: key.exec,
        spec: entry.spec(),
        live,
        slot: number,
    }))
}

/// Turns the taken stack round, so that it starts with the oldest; the slots are the worker's.
pub(super) fn reverse<const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    top: u32,
) -> u32 {
    let mut link = top.wrapping_add(1);
    let mut above = 0;
    while let Some(slot) = link.checked_sub(1).and_then(|number| queue.slot(number)) {
        let below = slot.next();
        // A chain of one stays as it is: a store takes the line away from whoever polls it.
        if below != above {
            slot.set_next(above);
        }
        above = link;
        link = below;
    }
    above
}
