//! The inbox: a take-all stack of slots, many producers, one worker.
//!
//! | operation | progress | cost |
//! |---|---|---|
//! | [`push`](Inbox::push) | lock-free: one compare-and-swap, retried only when another producer succeeded | ~1 line transfer |
//! | [`look`](Inbox::look), [`is_empty`](Inbox::is_empty) | wait-free: one load | per tick, and per few steps of a tick |
//! | [`take`](Inbox::take), [`take_early`](Inbox::take_early) | wait-free: one exchange | when a look has found something |
//! | [`arm`](Inbox::arm), [`shut`](Inbox::shut), [`order`](Inbox::order) | lock-free | cold |
//!
//! A producer that stops anywhere inside an append holds only its own slot: the worker and other producers go on
//! (requirement H78). A ring of indices has a stall window between its claim and its publish; a stack has none, and as the
//! worker takes everything at once, reversing what it took gives back the order of arrival. There is one inbox per
//! queue, not per rank: an idle tick then costs one load however many ranks there are, and a full rank still harms no
//! other, because slots are counted per rank.

use crate::doorbell::{Bell, Head, Shut};
use crate::sync::{AtomicU32, CacheLine, Edge, Ordering, edge, shared_fn};

/// What a take found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The top slot; the rest follows through the links.
    pub(crate) top: Option<u32>,
    /// A slot that was pushed before bears an order.
    pub(crate) ordered: bool,
}

/// The inbox word, on a line of its own.
#[derive(Debug)]
pub(crate) struct Inbox {
    head: CacheLine<AtomicU32>,
}

impl Inbox {
    shared_fn! {
        pub(crate) fn new() -> Self {
            Self { head: CacheLine(AtomicU32::new(0)) }
        }
    }

    /// Pushes `top`, the last slot of a chain whose first slot is linked to what was on top before. Returns the word before; its
    /// bell must be obeyed.
    ///
    /// `guess` is the link that the caller expects to find there; a wrong one costs a second attempt. It is not looked up first, as
    /// that would move the line twice.
    /// `link` is called with the old top before each attempt and must store it in the chain's first slot.
    #[inline]
    pub(crate) fn push(&self, top: u32, guess: u32, link: impl Fn(u32)) -> Result<Head, Shut> {
        let mut seen = Head::open(guess);
        loop {
            let next = seen.push(top)?;
            link(seen.link());
            // Release pairs with the acquire in `take`: the worker sees the slots' fields and links.
            let release = edge(Edge::InboxPush, Ordering::Release);
            // Relaxed on failure: the value is only the next guess.
            match self
                .head
                .0
                .compare_exchange_weak(seen.0, next.0, release, Ordering::Relaxed)
            {
                Ok(_) => return Ok(seen),
                Err(now) => seen = Head(now),
            }
        }
    }

    /// The word, if there is something to take or to disarm.
    #[inline]
    pub(crate) fn look(&self) -> Option<Head> {
        // Relaxed: an empty tick must stay one plain load; the acquire comes with the exchange.
        let seen = Head(self.head.0.load(Ordering::Relaxed));
        (!seen.is_quiet()).then_some(seen)
    }

    /// Takes all that is queued and disarms the bell.
    #[inline]
    pub(crate) fn take(&self) -> Taken {
        // Acquire pairs with the releases in `push` and `order`, also of those below the last: their updates form one release
        // sequence.
        let acquire = edge(Edge::InboxTake, Ordering::Acquire);
        let taken = Head(self.head.0.fetch_and(Head::TAKE_MASK, acquire));
        Taken {
            top: taken.top(),
            ordered: taken.is_ordered(),
        }
    }

    /// Takes the slots that are queued, if any, and leaves an order for [`take`](Self::take). Returns the top slot.
    #[inline]
    pub(crate) fn take_early(&self) -> Option<u32> {
        // Acquire as in `take`.
        let acquire = edge(Edge::InboxTake, Ordering::Acquire);
        Head(self.head.0.fetch_and(Head::TAKE_EARLY_MASK, acquire)).top()
    }

    /// Arms the bell if there is nothing to see. `true`: the worker may sleep until it is rung.
    pub(crate) fn arm(&self) -> bool {
        // Relaxed: the compare-and-swap decides.
        let seen = Head(self.head.0.load(Ordering::Relaxed));
        match seen.arm() {
            // Relaxed: the word itself carries the whole agreement; the data behind a push is acquired by `take`.
            Some(armed) => (self.head.0)
                .compare_exchange(seen.0, armed.0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok(),
            None => false,
        }
    }

    /// Tells the worker that a slot bears an order.
    pub(crate) fn order(&self) -> Bell {
        // Release pairs with the acquire in `take`: the worker that sees the bit sees the slot's mark.
        let release = edge(Edge::AbortOrder, Ordering::Release);
        Head(self.head.0.fetch_or(Head::ORDER, release)).bell()
    }

    /// Refuses every later push. A push that succeeded before is still taken.
    pub(crate) fn shut(&self, by: Shut) -> Bell {
        // Relaxed: the refusal is in the word itself, and nothing else is published by a close.
        Head(self.head.0.fetch_or(Head::shut(by), Ordering::Relaxed)).bell()
    }

    /// Whether pushes are refused, and why.
    #[inline]
    pub(crate) fn shut_by(&self) -> Option<Shut> {
        // Relaxed: advisory; a push decides by its own compare-and-swap.
        Head(self.head.0.load(Ordering::Relaxed)).shut_by()
    }

    /// Whether anything is queued.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: advisory, as above.
        Head(self.head.0.load(Ordering::Relaxed)).top().is_none()
    }
}
