//! Panics for tests of this crate: at the point of each exported function where it has its handle and has done nothing yet.

use std::cell::Cell;

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the next exported function that this thread calls panic.
pub(crate) fn arm() {
    ARMED.set(true);
}

/// Whether the last armed panic is still to come.
pub(crate) fn is_armed() -> bool {
    ARMED.get()
}

/// The point of the function `name`.
pub(crate) fn point(name: &str) {
    assert!(!ARMED.replace(false), "injected into {name}");
}

mod tests;
