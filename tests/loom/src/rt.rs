//! The two engines behind one face: loom's threads and atomics, or the standard library's.

#[cfg(loom)]
pub use loom::{
    sync::atomic::{AtomicU32, AtomicUsize},
    sync::{Condvar, Mutex},
    thread::{JoinHandle, spawn, yield_now},
};
#[cfg(not(loom))]
pub use std::{
    sync::atomic::{AtomicU32, AtomicUsize},
    sync::{Condvar, Mutex},
    thread::{JoinHandle, spawn, yield_now},
};

pub use std::sync::Arc;
pub use std::sync::atomic::Ordering;

/// Rounds of a body on real threads.
#[cfg(not(loom))]
const ROUNDS: u64 = 10_000;

/// Runs `body` under the engine. `least` is the number of executions below which a loom run has explored nothing.
#[cfg(not(loom))]
pub fn model(_name: &str, _least: u64, body: impl Fn() + Send + Sync + 'static) {
    for _ in 0..ROUNDS {
        body();
    }
}

/// Runs a `body` of many threads and steps, with fewer preemptions per execution than other models have.
#[cfg(not(loom))]
pub fn large_model(name: &str, least: u64, body: impl Fn() + Send + Sync + 'static) {
    model(name, least, body);
}

/// Runs `body` under the engine. `least` is the number of executions below which a loom run has explored nothing.
#[cfg(loom)]
pub fn model(name: &str, least: u64, body: impl Fn() + Send + Sync + 'static) {
    report(name, least, twin::explore(body));
}

/// Runs a `body` of many threads and steps, with fewer preemptions per execution than other models have.
#[cfg(loom)]
pub fn large_model(name: &str, least: u64, body: impl Fn() + Send + Sync + 'static) {
    /// Three take minutes.
    const PREEMPTIONS: usize = 2;
    report(name, least, twin::explore_within(PREEMPTIONS, body));
}

#[cfg(loom)]
fn report(name: &str, least: u64, executions: u64) {
    println!("loom: {name} {executions} iterations");
    assert!(
        executions >= least,
        "{name}: {executions} executions are fewer than {least}: the model explores nothing"
    );
}

/// Waits for a thread; its panic becomes the caller's.
pub fn join<T>(handle: JoinHandle<T>) -> T {
    match handle.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// An eventfd in small: a count that a waiter takes whole.
#[derive(Debug, Default)]
pub struct Event {
    count: Mutex<u32>,
    rung: Condvar,
}

impl Event {
    /// An event with nothing to take.
    #[must_use]
    pub fn new() -> Self {
        Self {
            count: Mutex::new(0),
            rung: Condvar::new(),
        }
    }

    /// Adds one and wakes the waiter.
    pub fn ring(&self) {
        *self.count.lock().unwrap() += 1;
        self.rung.notify_one();
    }

    /// Blocks until there is a count, and takes it.
    pub fn wait(&self) {
        let mut count = self.count.lock().unwrap();
        while *count == 0 {
            count = self.rung.wait(count).unwrap();
        }
        *count = 0;
    }
}

#[cfg(loom)]
pub use twin::{must_fail, must_fail_without};

/// Twins: models that must fail.
#[cfg(loom)]
mod twin {
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use proxy_core::{Edge, weaken};

    /// Preemptions per execution where the environment sets none. There is always a bound: without one, loom prunes by the
    /// accesses it takes for independent, and misses interleavings whose threads begin with a load (the model of a slot
    /// came to 2 executions of more than 200).
    const PREEMPTIONS: usize = 4;

    /// Explores `body` and returns the number of executions.
    pub(super) fn explore(body: impl Fn() + Send + Sync + 'static) -> u64 {
        let model = loom::model::Builder::new();
        explore_within(model.preemption_bound.unwrap_or(PREEMPTIONS), body)
    }

    /// Explores `body` with at most so many preemptions per execution.
    pub(super) fn explore_within(
        preemptions: usize,
        body: impl Fn() + Send + Sync + 'static,
    ) -> u64 {
        // The standard library's, on purpose: loom must not see it.
        let executions = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&executions);
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(move || {
            // Relaxed: loom runs one execution at a time on this thread.
            counter.fetch_add(1, Ordering::Relaxed);
            body();
        });
        executions.load(Ordering::Relaxed)
    }

    /// Explores `body` with `edge` relaxed; it must fail.
    pub fn must_fail_without(edge: Edge, name: &str, body: impl Fn() + Send + Sync + 'static) {
        let name = format!("{name} without {edge:?}");
        must_fail(&name, || weaken::with(edge, || explore(body)));
        weaken::clear();
    }

    /// Runs `check`, which must panic, and not because loom gave up.
    pub fn must_fail<R>(name: &str, check: impl FnOnce() -> R) {
        let message = Arc::new(Mutex::new(String::new()));
        let first = Arc::clone(&message);
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Loom cancels the threads of a failed execution by panics without a text.
            if info.payload_as_str().is_none() {
                return;
            }
            let mut first = first.lock().unwrap();
            if first.is_empty() {
                *first = info.to_string().replace('\n', " ");
            }
        }));
        let outcome = panic::catch_unwind(AssertUnwindSafe(check));
        panic::set_hook(hook);
        weaken::clear();
        let message = message.lock().unwrap();
        assert!(outcome.is_err(), "{name}: the twin passes");
        assert!(
            !message.contains("maximum number of"),
            "{name}: loom gave up: {message}"
        );
        println!("twin: {name}: fails as it must: {message}");
    }
}
