//! The arithmetic of the inbox word: what is queued, whether a task is to be ended early, whether the worker sleeps, whether
//! the queue still accepts.
//!
//! One word holds all four, so a producer learns from its own compare-and-swap whether it must ring, the worker learns
//! from its own whether it may sleep, and a close cannot fall between a producer's check and its push. That is why no
//! wake-up can be lost here, and why the specification's two hazards (emptiness tested outside the lock, stop
//! set outside the lock) have no counterpart.
//!
//! ```text
//!   bit 31   30     29     28      27..0
//!   CLOSED  DEAD  ARMED  ORDER   top of the stack: slot + 1, or 0 = empty
//!
//!             1 push              2 arm
//!   QUEUED <--------- EMPTY ----------------> ARMED
//!      |  3 take        ^  ^  3 take (any wake)  |
//!      +----------------+  +---------------------+
//!      ^                                         |  4 push: ring
//!      +-----------------------------------------+
//!   5 close / die from any of them: ring if it was ARMED; push is refused from then on, take still empties.
//!   6 order from any of them: ring if it was ARMED; arm is refused until a take has seen it.
//! ```
//!
//! Edges: 1, 4 `Head::push`; 2 `Head::arm`; 3 `Head::TAKE_MASK` or, with the order left in place, `Head::TAKE_EARLY_MASK`; 5 `Head::shut`; 6 `Head::ORDER`.

const CLOSED: u32 = 1 << 31;
const DEAD: u32 = 1 << 30;
const ARMED: u32 = 1 << 29;
const ORDER: u32 = 1 << 28;
const TOP: u32 = ORDER - 1;

const _: () = assert!(crate::limits::MAX_SLOTS < (1 << 28));

/// Why a queue refuses appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Shut {
    /// Its owner is releasing it.
    Closed,
    /// Its worker died.
    Dead,
}

/// What a producer or closer must do after its update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use = "a sleeping worker that is not rung never sees the update"]
pub enum Bell {
    /// The worker sleeps or is about to: wake it.
    Ring,
    /// The worker is awake and will look: no system call.
    Quiet,
}

/// A snapshot of the inbox word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head(pub(crate) u32);

impl Head {
    /// This top (a link), the worker awake, no order, the queue open.
    #[inline]
    pub(crate) const fn open(link: u32) -> Self {
        Self(link & TOP)
    }

    /// Clears everything but the two refusal bits.
    pub(crate) const TAKE_MASK: u32 = CLOSED | DEAD;

    /// Clears what a take in the middle of a tick takes: an order is for the next tick to see.
    pub(crate) const TAKE_EARLY_MASK: u32 = Self::TAKE_MASK | ORDER;

    /// Edge 6: the bit to set when a task is to be ended early.
    pub(crate) const ORDER: u32 = ORDER;

    /// The top slot of the stack, if anything is queued.
    #[inline]
    pub(crate) const fn top(self) -> Option<u32> {
        (self.0 & TOP).checked_sub(1)
    }

    /// The stack's top as it is stored in the link of the slot above it.
    #[inline]
    pub(crate) const fn link(self) -> u32 {
        self.0 & TOP
    }

    /// Whether a take has nothing to see and nothing to disarm.
    #[inline]
    pub(crate) const fn is_quiet(self) -> bool {
        self.0 & !Self::TAKE_MASK == 0
    }

    /// Whether a task is to be ended early.
    #[inline]
    pub(crate) const fn is_ordered(self) -> bool {
        self.0 & ORDER != 0
    }

    #[inline]
    pub(crate) const fn is_armed(self) -> bool {
        self.0 & ARMED != 0
    }

    #[inline]
    pub(crate) const fn shut_by(self) -> Option<Shut> {
        if self.0 & DEAD != 0 {
            Some(Shut::Dead)
        } else if self.0 & CLOSED != 0 {
            Some(Shut::Closed)
        } else {
            None
        }
    }

    /// Edges 1 and 4: `slot` becomes the top, unless the queue is shut. Whether to ring says [`bell`](Self::bell) of the word before.
    #[inline]
    pub(crate) const fn push(self, slot: u32) -> Result<Self, Shut> {
        if let Some(shut) = self.shut_by() {
            return Err(shut);
        }
        // A slot is below MAX_SLOTS, so its number plus one stays inside TOP.
        Ok(Self(self.0 & ORDER | slot.wrapping_add(1) & TOP))
    }

    /// Edge 2: arms the bell; `None` if there is something to see first (work, an order, or a close).
    pub(crate) const fn arm(self) -> Option<Self> {
        if self.link() != 0 || self.is_ordered() || self.shut_by().is_some() {
            None
        } else {
            Some(Self(self.0 | ARMED))
        }
    }

    /// Edge 5: the bits to set for a close or a death.
    pub(crate) const fn shut(by: Shut) -> u32 {
        match by {
            Shut::Closed => CLOSED,
            Shut::Dead => DEAD,
        }
    }

    /// What edges 1, 4, 5 and 6 must do, given the word that they replaced.
    #[inline]
    pub(crate) const fn bell(self) -> Bell {
        if self.is_armed() {
            Bell::Ring
        } else {
            Bell::Quiet
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [Head; 11] = [
        Head(0),
        Head(1),
        Head(7),
        Head(ARMED),
        Head(CLOSED),
        Head(CLOSED | 3),
        Head(DEAD),
        Head(DEAD | CLOSED | 9),
        Head(ORDER),
        Head(ORDER | ARMED),
        Head(ORDER | 7),
    ];

    /// Every state x event pair of the drawing.
    #[test]
    fn table_of_states_and_events() {
        let refused = |head: Head| head.push(4).err();
        let pushed = |head: Head| head.push(4).map(|next| (next.0, head.bell())).ok();
        let armed = |head: Head| head.arm().map(|next| next.0);
        type Row = (Option<(u32, Bell)>, Option<Shut>, Option<u32>);
        let table: [Row; 11] = [
            (Some((5, Bell::Quiet)), None, Some(ARMED)),
            (Some((5, Bell::Quiet)), None, None),
            (Some((5, Bell::Quiet)), None, None),
            (Some((5, Bell::Ring)), None, Some(ARMED)),
            (None, Some(Shut::Closed), None),
            (None, Some(Shut::Closed), None),
            (None, Some(Shut::Dead), None),
            (None, Some(Shut::Dead), None),
            (Some((ORDER | 5, Bell::Quiet)), None, None),
            (Some((ORDER | 5, Bell::Ring)), None, None),
            (Some((ORDER | 5, Bell::Quiet)), None, None),
        ];
        for (head, (push, shut, arm)) in WORDS.into_iter().zip(table) {
            assert_eq!(pushed(head), push, "push from {head:?}");
            assert_eq!(refused(head), shut, "push from {head:?}");
            assert_eq!(armed(head), arm, "arm from {head:?}");
            let taken = Head(head.0 & Head::TAKE_MASK);
            assert_eq!(taken.top(), None, "take from {head:?}");
            assert!(!taken.is_armed(), "take from {head:?}");
            assert!(!taken.is_ordered(), "take from {head:?}");
            let ordered = Head(head.0 | Head::ORDER);
            assert_eq!(ordered.link(), head.link(), "order from {head:?}");
            assert_eq!(ordered.arm(), None, "order from {head:?}");
            assert!(!ordered.is_quiet(), "order from {head:?}");
            assert_eq!(taken.shut_by(), head.shut_by(), "take from {head:?}");
            let ring = if head.is_armed() {
                Bell::Ring
            } else {
                Bell::Quiet
            };
            assert_eq!(head.bell(), ring, "shut from {head:?}");
        }
    }

    #[test]
    fn slots_at_both_ends_of_the_range_survive_the_word() {
        for slot in [0, 1, 77, (1 << 27) - 1] {
            let head = Head(0).push(slot).unwrap();
            assert_eq!(head.top(), Some(slot));
        }
    }
}
