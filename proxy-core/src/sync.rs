//! The only file that names atomics, fences and loom.
//!
//! Everything shared in this crate goes through these types, so that one `cfg(loom)` swaps them for loom's and one line
//! swaps the polyfill for targets without compare-and-swap. Each ordering in the crate belongs to an [`Edge`]; a loom model
//! can weaken one edge and must then fail, which shows that the model really explores it.

#[cfg(not(loom))]
use core::sync::atomic::fence;
#[cfg(loom)]
use loom::sync::atomic::fence;

pub(crate) use core::sync::atomic::Ordering;

#[cfg(all(not(loom), target_has_atomic = "ptr"))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicUsize};

// To swap the polyfill, change this line and its dependency in Cargo.toml.
#[cfg(all(not(loom), not(target_has_atomic = "ptr")))]
pub(crate) use atomic_polyfill::{AtomicU32, AtomicUsize};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicUsize};

/// A constructor that is `const`, except under loom, whose atomics cannot be made in a constant.
macro_rules! shared_fn {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block) => {
        $(#[$meta])*
        #[cfg(not(loom))]
        #[must_use]
        $vis const fn $name($($arg: $ty),*) -> $ret $body

        $(#[$meta])*
        #[cfg(loom)]
        #[must_use]
        $vis fn $name($($arg: $ty),*) -> $ret $body
    };
}
pub(crate) use shared_fn;

/// An array of shared values, by the same rule.
macro_rules! shared_array {
    ($value:expr) => {{
        #[cfg(not(loom))]
        {
            [const { $value }; _]
        }
        #[cfg(loom)]
        {
            core::array::from_fn(|_| $value)
        }
    }};
}
pub(crate) use shared_array;

/// A pair of accesses that synchronise with each other: what the first side did before is visible to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edge {
    /// A producer pushes a filled slot; the worker takes it.
    InboxPush,
    /// The worker's side of [`Edge::InboxPush`].
    InboxTake,
    /// A slot is marked to be ended early; the worker sees the mark with the order.
    AbortOrder,
    /// Worker and consumer settle by the slot's mark who gives the slot back; the other one's last access is over then.
    Mark,
    /// A slot's fields are written; a lookup reads them.
    SlotFields,
    /// A slot's word is published; a poller reads it.
    StatusPublish,
    /// The poller's side of [`Edge::StatusPublish`].
    StatusRead,
    /// A consumer gives a slot back; the next producer claims it.
    SlotFree,
    /// The producer's side of [`Edge::SlotFree`].
    SlotClaim,
    /// A context's description is written; producers and worker read it.
    ContextPublish,
    /// The reading side of [`Edge::ContextPublish`].
    ContextRead,
    /// The worker reports a context's task as finished; `retire` reads it.
    ContextFinish,
    /// A rank is given a place, or leaves it; the next registers find that.
    RankPlace,
    /// An armed execution is counted; the worker's gate reads the count.
    Arm,
    /// A record of the black box is written; a dump reads it.
    Record,
    /// The reading side of [`Edge::Record`].
    RecordRead,
    /// A word of the bus is changed; a peer reads it.
    PhoneSignal,
    /// A change and a look at its sleepers, against a count of a sleeper and a second look.
    PhoneSleep,
    /// Sleepers are called after a change; a new sleeper notes the call.
    PhoneCall,
    /// A message is stamped; its reader sees the stamp.
    PhoneMessage,
}

/// The ordering of one side of an edge: `strong`, unless a loom model has weakened the edge.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn edge(_edge: Edge, strong: Ordering) -> Ordering {
    strong
}

/// A full fence on one side of an edge: what stands before it on this side or what stands before its partner on the other is seen.
#[inline(always)]
pub(crate) fn full_fence(edge: Edge) {
    #[cfg(loom)]
    if weaken::is_weakened(edge) {
        return;
    }
    let _ = edge;
    // SeqCst pairs with the other side's fence of the same edge; an acquire-release pair would order neither store before load.
    fence(Ordering::SeqCst);
}

/// An acquire fence on one side of an edge.
#[inline(always)]
pub(crate) fn acquire_fence(edge: Edge) {
    #[cfg(loom)]
    if weaken::is_weakened(edge) {
        return;
    }
    let _ = edge;
    // Acquire pairs with the release fences and stores of the edge's other side.
    fence(Ordering::Acquire);
}

/// What stands for a full fence between a read-modify-write and a load that are both `SeqCst`: nothing, as their own order does it. Loom
/// takes either for acquire-release, so in a model a fence stands here.
#[inline(always)]
pub(crate) fn fence_of_exchange(edge: Edge) {
    #[cfg(loom)]
    full_fence(edge);
    let _ = edge;
}

#[cfg(loom)]
pub(crate) fn edge(edge: Edge, strong: Ordering) -> Ordering {
    if weaken::is_weakened(edge) {
        // Relaxed: pairs with nothing, which the model must notice.
        Ordering::Relaxed
    } else {
        strong
    }
}

/// Lets a loom model weaken one edge, to show that the model notices.
#[cfg(loom)]
pub mod weaken {
    extern crate std;
    use super::Edge;
    use core::cell::Cell;

    std::thread_local! {
        // Loom runs all threads of a model on the OS thread that called it, so a thread-local reaches them all.
        static WEAKENED: Cell<Option<Edge>> = const { Cell::new(None) };
    }

    /// Runs `model` with `edge` weakened to relaxed on both sides that name it.
    pub fn with<R>(edge: Edge, model: impl FnOnce() -> R) -> R {
        WEAKENED.set(Some(edge));
        let result = model();
        WEAKENED.set(None);
        result
    }

    /// Undoes a weakening that a failing model left behind.
    pub fn clear() {
        WEAKENED.set(None);
    }

    pub(super) fn is_weakened(edge: Edge) -> bool {
        WEAKENED.get() == Some(edge)
    }
}

/// A value on a cache line of its own, so that its writers do not slow down the neighbours' readers.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct CacheLine<T>(pub(crate) T);

/// A 64-bit value: one word where a word has 64 bits, else two. It has no atomicity of its own: a reader must know, from the
/// slot's word, that no writer is inside.
#[derive(Debug)]
pub(crate) struct WideCell {
    words: [AtomicUsize; WORDS],
}

const WORDS: usize = if usize::BITS >= 64 { 1 } else { 2 };

#[expect(
    clippy::as_conversions,
    reason = "splitting a u64 into words and back loses nothing"
)]
impl WideCell {
    shared_fn! {
        pub(crate) fn new() -> Self {
            Self { words: shared_array!(AtomicUsize::new(0)) }
        }
    }

    /// Stores all words, each with `order`.
    #[inline]
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        for (word, shift) in self.words.iter().zip([0, 32]) {
            // The caller's ordering, which names its partner there.
            word.store((value >> shift) as usize, order);
        }
    }

    /// Loads all words, each with `order`.
    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        let words = self.words.iter().zip([0, 32]);
        // The caller's ordering, which names its partner there.
        words.fold(0, |value, (word, shift)| {
            value | (word.load(order) as u64) << shift
        })
    }
}
