//! Whose turn it is on a communicator.
//!
//! The library keeps one set of op lists for a block of a stream, and a stop frees all lists of a stream. Two tasks whose calls met there would run one
//! another's lists, or end each other's. So the network tasks of a communicator, of whatever context, have it one after the other, in
//! order of arrival, which is the same on all ranks that append in the same order. The first one's calls go to the library as they are made.
//! Those behind it are told that nothing moves; their lists are filed once it is their turn.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ProxyComm;

/// The communicators of one worker, by number.
#[derive(Debug, Default)]
pub(super) struct Turns(Vec<Line>);

/// The tasks of a communicator.
#[derive(Debug, Default)]
struct Line {
    /// Where it is, as a name of it; 0 where this line is nobody's.
    comm: usize,
    /// Slot of the task whose turn it is, plus 1; 0 = nobody's.
    at: u32,
    /// Its lists are filed in the library.
    filed: bool,
    /// Slots of those behind it.
    behind: VecDeque<u32>,
}

/// What a task may do with its communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Others are before it.
    Behind,
    /// It is its turn, and nothing is filed yet.
    Begins,
    /// It is its turn, and its lists are filed.
    Filed,
}

impl Turns {
    /// The number of a communicator's line, which stays the same until [`keep`](Self::keep) leaves it out.
    pub(super) fn line(&mut self, comm: &Arc<ProxyComm>) -> usize {
        let comm = Arc::as_ptr(comm).addr();
        let of = |name| self.0.iter().position(|line: &Line| line.comm == name);
        let place = of(comm).or_else(|| of(0)).unwrap_or(self.0.len());
        if place == self.0.len() {
            self.0.push(Line::default());
        }
        self.0[place].comm = comm;
        place
    }

    /// Gives up the lines for which `is_used` answers no; nobody may stand there.
    pub(super) fn keep(&mut self, is_used: impl Fn(usize) -> bool) {
        for (place, line) in self.0.iter_mut().enumerate() {
            if !is_used(place) {
                line.comm = 0;
            }
        }
    }

    /// A task arrives. Answers whose turn it is then: the slot plus 1.
    pub(super) fn join(&mut self, line: usize, slot: u32) -> u32 {
        let Some(line) = self.0.get_mut(line) else {
            return 0;
        };
        if line.at == 0 {
            line.at = slot + 1;
        } else {
            line.behind.push_back(slot);
        }
        line.at
    }

    /// How a task stands.
    #[inline]
    pub(super) fn of(&self, line: usize, slot: u32) -> Turn {
        match self.0.get(line) {
            Some(line) if line.at == slot + 1 && line.filed => Turn::Filed,
            Some(line) if line.at == slot + 1 => Turn::Begins,
            _ => Turn::Behind,
        }
    }

    /// Whether lists of the task whose turn it is are filed from now on.
    pub(super) fn file(&mut self, line: usize, filed: bool) {
        if let Some(line) = self.0.get_mut(line) {
            line.filed = filed;
        }
    }

    /// A task ends, from wherever it stands. Answers whose turn it is then: the slot plus 1, or 0 if nobody is left.
    pub(super) fn leave(&mut self, line: usize, slot: u32) -> u32 {
        let Some(line) = self.0.get_mut(line) else {
            return 0;
        };
        if line.at == slot + 1 {
            line.at = line.behind.pop_front().map_or(0, |next| next + 1);
            line.filed = false;
        } else {
            line.behind.retain(|other| *other != slot);
        }
        line.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_it_one_after_the_other_in_order_of_arrival() {
        use Turn::{Begins, Behind, Filed};
        let mut turns = Turns(vec![Line::default()]);
        for slot in [7, 3, 5, 9] {
            assert_eq!(turns.join(0, slot), 8);
        }
        let stand = |turns: &Turns| [7, 3, 5, 9].map(|slot| turns.of(0, slot));
        assert_eq!(stand(&turns), [Begins, Behind, Behind, Behind]);
        turns.file(0, true);
        assert_eq!(stand(&turns), [Filed, Behind, Behind, Behind]);
        // One that is not at its turn yet ends early.
        assert_eq!(turns.leave(0, 5), 8);
        assert_eq!(turns.leave(0, 7), 4);
        assert_eq!(stand(&turns), [Behind, Begins, Behind, Behind]);
        assert_eq!(turns.leave(0, 3), 10);
        assert_eq!(stand(&turns), [Behind, Behind, Behind, Begins]);
        assert_eq!(turns.leave(0, 9), 0);
        // A slot that is used again is another task.
        assert_eq!(turns.join(0, 7), 8);
        assert_eq!(stand(&turns), [Begins, Behind, Behind, Behind]);
        assert_eq!(turns.of(1, 7), Behind, "no such line");
    }
}
