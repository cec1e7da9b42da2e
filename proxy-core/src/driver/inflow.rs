//! From the inbox to the worker: a taken stack of slots, and the tasks that they hold.

use core::ops::Range;

use crate::board::{Phase, Slot, Word};
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

/// Makes an active task of a drained slot: its number, itself, its word.
pub(super) fn take_in<O: Observer, const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    (number, slot, live): (u32, &Slot, Word),
    observer: &mut O,
) -> Option<Active> {
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
        kind: live.kind(),
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

/// Says that the slot of a link is needed soon, if there is one.
pub(super) fn announce<O: Observer, const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    link: u32,
    observer: &O,
) {
    if let Some(slot) = link.checked_sub(1).and_then(|number| queue.slot(number)) {
        observer.soon(slot.address());
    }
}

/// How far from one link to the next, as long as that stays the same: a burst of one rank goes from slot to slot, one over all ranks from rank
/// to rank. A chain gives its lines one after the other, each after a transfer; known ahead, they come together.
#[derive(Debug, Default)]
struct Stride {
    length: u32,
    /// The last step was one of this length.
    met: bool,
}

/// Slots that are announced ahead.
const AHEAD: u32 = 4;

impl Stride {
    /// Notes a step; which of those to come are to be announced.
    fn note(&mut self, step: u32) -> Range<u32> {
        if step == self.length {
            // Only the farthest is new.
            let from = if self.met { AHEAD } else { 1 };
            self.met = true;
            return from..AHEAD.wrapping_add(1);
        }
        // One other step, as from the first rank to the last, is no other length.
        if !self.met {
            self.length = step;
        }
        self.met = false;
        0..0
    }
}

/// Turns the taken stack round, so that it starts with the oldest; the slots are the worker's.
pub(super) fn reverse<O: Observer, const R: usize, const T: usize, const C: usize>(
    queue: &Queue<R, T, C>,
    top: u32,
    observer: &O,
) -> u32 {
    let mut link = top.wrapping_add(1);
    let mut above = 0;
    let mut stride = Stride::default();
    while let Some(slot) = link.checked_sub(1).and_then(|number| queue.slot(number)) {
        let below = slot.next();
        // A chain of one stays as it is: a store takes the line away from whoever polls it.
        if below != above {
            slot.set_next(above);
        }
        for ahead in stride.note(below.wrapping_sub(link)) {
            let far = stride.length.wrapping_mul(ahead);
            announce(queue, below.wrapping_add(far), observer);
        }
        above = link;
        link = below;
    }
    above
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is announced at each of these steps.
    fn announced<const N: usize>(steps: [i32; N]) -> [Range<u32>; N] {
        let mut stride = Stride::default();
        steps.map(|step| stride.note(step.cast_unsigned()))
    }

    #[test]
    fn a_burst_is_announced_from_its_second_step_on_and_other_chains_are_not() {
        let (first, next) = (1..AHEAD + 1, AHEAD..AHEAD + 1);
        let steady = announced([-1, -1, -1, -1]);
        assert_eq!(steady, [0..0, first.clone(), next.clone(), next.clone()]);
        // From the first rank to the last, and on.
        let over_ranks = announced([-128, -128, 383, -128, -128]);
        let expected = [0..0, first.clone(), 0..0, first.clone(), next];
        assert_eq!(over_ranks, expected);
        // Two other steps in a row are another burst.
        let turned = announced([-1, -1, 7, 7, 7]);
        assert_eq!(turned, [0..0, first.clone(), 0..0, 0..0, first]);
        assert_eq!(announced([5, 9, 2, 4, 1]), [const { 0..0 }; 5]);
    }
}
