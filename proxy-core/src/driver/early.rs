//! Tasks that arrive while a tick is under way.

use heapless::Vec;

use super::inflow::{reverse, take_in};
use super::{Tick, step};
use crate::port::Ports;
use crate::queue::Queue;
use crate::status::{RunState, TaskKind};
use crate::task::Active;

/// Tasks that one tick starts early; more of them wait for its end.
const EARLY: usize = 16;

/// What was taken from the inbox within a tick.
///
/// Only a network task's first step is taken early. A barrier task's first step looks at its gate, which may belong to an older task
/// that this tick has not come to yet; so the chain stops at one, and order within a rank is kept. Orders to end early are obeyed at
/// the beginning of the next tick, when all that was taken is on its lists.
#[derive(Debug)]
pub(super) struct Early {
    /// Stepped once, in order of arrival.
    pub(super) started: Vec<Active, EARLY>,
    /// The rest, oldest first: slot plus 1, as in a slot's own link.
    pub(super) link: u32,
}

impl Early {
    pub(super) const fn new() -> Self {
        Self {
            started: Vec::new(),
            link: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.link == 0 && self.started.is_empty()
    }

    /// Whether more can be taken in this tick.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.link == 0 && !self.started.is_full()
    }

    /// Takes what is queued and starts its first network tasks. To be called when there is room for some.
    #[inline(never)]
    pub(super) fn start<P: Ports, const R: usize, const T: usize, const C: usize>(
        &mut self,
        queue: &Queue<R, T, C>,
        pass: u32,
        ports: &mut P,
        tick: &mut Tick,
    ) {
        let top = queue.inbox().take_early();
        self.link = top.map_or(0, |top| reverse(queue, top, ports));
        let mut ordered = false;
        let mut counted = self.link;
        while let Some(slot) = counted.checked_sub(1).and_then(|number| queue.slot(number)) {
            tick.drained = tick.drained.wrapping_add(1);
            ordered |= slot.ordered(slot.word()).is_some();
            counted = slot.next();
        }
        if ordered {
            // As in a drain: the order's own bit may have been taken before the task was pushed. The bell is the worker's own.
            let _ = queue.inbox().order();
        }
        while let Some(number) = self.link.checked_sub(1) {
            let Some(slot) = queue.slot(number) else {
                return;
            };
            let live = slot.word();
            if self.started.is_full() || live.kind() != TaskKind::Network {
                return;
            }
            self.link = slot.next();
            let Some(active) = take_in(queue, (number, slot, live), ports) else {
                continue;
            };
            // Kept before it is stepped, so that it is not lost if the library never returns. There is room, as was seen above.
            let _ = self.started.push(active);
            let Some(active) = self.started.last_mut() else {
                return;
            };
            tick.stepped = tick.stepped.wrapping_add(1);
            step(queue, active, pass, ports, tick);
            if active.state() == RunState::Done {
                self.started.pop();
            }
        }
    }
}
