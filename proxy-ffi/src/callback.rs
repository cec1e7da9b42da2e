//! A function of the embedder that may be replaced at any time: who replaces it knows afterwards that no call of the former one is running.
//!
//! ```text
//!   begin ──> the function as it is now, counted until the call has returned        (no lock is held meanwhile)
//!   replace ──> another function, then waits for the calls that have begun before
//! ```
//!
//! Who replaces a function inside a call of one, of any, waits for nothing: two that did so would wait for each other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use proxy_os::is_worker_thread;

thread_local! {
    /// This thread is inside of a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The function, with its argument, and the calls that run.
#[derive(Debug)]
struct Slot<F> {
    function: Option<F>,
    /// How often it was replaced.
    number: u64,
    /// Calls that run, by the number under which they began.
    running: BTreeMap<u64, usize>,
}

/// One such function.
#[derive(Debug)]
pub(crate) struct Callback<F: 'static> {
    slot: Mutex<Slot<F>>,
    /// A call has returned.
    returned: Condvar,
}

/// A call that runs, until it is dropped: also if a panic leaves the function.
#[derive(Debug)]
pub(crate) struct Running<F: 'static> {
    callback: &'static Callback<F>,
    number: u64,
    /// Whether the thread was inside of a call before.
    outer: bool,
}

impl<F: Copy> Callback<F> {
    /// One that calls nobody.
    pub(crate) const fn new() -> Self {
        Self {
            slot: Mutex::new(Slot {
                function: None,
                number: 0,
                running: BTreeMap::new(),
            }),
            returned: Condvar::new(),
        }
    }

    /// Begins a call: what to call, if anything, and what to hold until it has returned.
    pub(crate) fn begin(&'static self) -> Option<(Running<F>, F)> {
        let mut slot = self.slot();
        let (function, number) = (slot.function?, slot.number);
        *slot.running.entry(number).or_default() += 1;
        let running = Running {
            callback: self,
            number,
            outer: INSIDE.replace(true),
        };
        Some((running, function))
    }

    /// Replaces the function. Of two that do so at once the later one's `also`, too, is the later one. Then waits for the calls that have begun
    /// before; not inside of a call, and not on a worker's thread.
    pub(crate) fn replace(&self, function: Option<F>, also: impl FnOnce()) {
        let mut slot = self.slot();
        slot.function = function;
        slot.number += 1;
        let number = slot.number;
        also();
        if INSIDE.get() || is_worker_thread() {
            return;
        }
        while slot.running.range(..number).next().is_some() {
            slot = (self.returned.wait(slot)).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<F> Callback<F> {
    fn slot(&self) -> MutexGuard<'_, Slot<F>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Drop for Running<F> {
    fn drop(&mut self) {
        INSIDE.set(self.outer);
        let mut slot = self.callback.slot();
        if let Some(count) = slot.running.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                slot.running.remove(&self.number);
            }
        }
        self.callback.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn who_replaces_a_function_waits_for_its_calls_and_not_for_those_of_the_next() {
        static CALLBACK: Callback<u32> = Callback::new();
        assert!(CALLBACK.begin().is_none());
        CALLBACK.replace(Some(1), || ());
        let (first, function) = CALLBACK.begin().expect("set");
        assert_eq!(function, 1);
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let tell_set = tell.clone();
                CALLBACK.replace(Some(2), move || tell_set.send("set").expect("heard"));
                tell.send("replaced").expect("heard");
            });
            assert_eq!(told.recv(), Ok("set"));
            let (_second, function) = CALLBACK.begin().expect("set");
            assert_eq!(function, 2);
            assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
            drop(first);
            assert_eq!(told.recv(), Ok("replaced"));
        });
    }

    #[test]
    fn inside_of_a_call_nothing_is_waited_for() {
        static CALLBACK: Callback<u32> = Callback::new();
        static OTHER: Callback<u32> = Callback::new();
        CALLBACK.replace(Some(1), || ());
        OTHER.replace(Some(2), || ());
        let (outer, _) = CALLBACK.begin().expect("set");
        let (inner, _) = OTHER.begin().expect("set");
        CALLBACK.replace(None, || ());
        drop(inner);
        OTHER.replace(None, || ());
        CALLBACK.replace(None, || ());
        drop(outer);
        assert!(!INSIDE.get());
    }
}
