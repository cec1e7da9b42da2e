//! Messages keep their boundaries and their order.

use core::cell::Cell;

std::thread_local! {
    /// Stores that the producer of this thread still makes before it dies.
    static LIFE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Counts a store of the producer; whether it comes after its death.
pub(super) fn is_dead_at_this_store() -> bool {
    let left = LIFE.get();
    LIFE.set(left.map(|left| left.saturating_sub(1)));
    left == Some(0)
}
