//! What any build of the core must do, whatever it runs on: a `no_std` suite without allocator, output or clock.
//!
//! A case is a function that returns its first failure. The host runs all of them as a test, the images of `tests/bare` run
//! them on a processor without an operating system. [`traffic`] is the part for two threads of control: one
//! enqueues and consumes, the other ticks; a host test gives each a thread, an image a core or an interrupt.
//!
//! The suite is small enough for 16 KiB of memory: no case keeps more than two queues or one bus.
#![no_std]

mod barrier;
mod desk;
mod gate;
mod network;
mod phone;
mod queue;
mod records;
pub mod traffic;

/// One case of the suite.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it shows, as one sentence in snake case.
    pub name: &'static str,
    /// Runs it. Bounded; may be called any number of times.
    pub run: fn() -> Outcome,
}

/// What was not as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The broken promise.
    pub what: &'static str,
    /// File of the check.
    pub file: &'static str,
    /// Line of the check.
    pub line: u32,
}

/// How a case ends.
pub type Outcome = Result<(), Failure>;

/// How a whole suite ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that passed.
    pub passed: u32,
    /// Cases that failed.
    pub failed: u32,
}

/// Runs every case and tells `report` about each.
pub fn run_all(mut report: impl FnMut(&Case, Outcome)) -> Tally {
    let mut tally = Tally::default();
    let modules = [
        queue::CASES,
        gate::CASES,
        network::CASES,
        barrier::CASES,
        phone::CASES,
        records::CASES,
    ];
    for case in modules.into_iter().flatten() {
        let outcome = (case.run)();
        match outcome {
            Ok(()) => tally.passed += 1,
            Err(_) => tally.failed += 1,
        }
        report(case, outcome);
    }
    tally
}

/// Lists cases under the names of their functions.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const CASES: &[$crate::Case] = &[
            $($crate::Case { name: stringify!($name), run: $name }),+
        ];
    };
}
pub(crate) use cases;

/// Ends a case with a failure unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $what:literal) => {
        if !$condition {
            return Err($crate::Failure {
                what: $what,
                file: file!(),
                line: line!(),
            });
        }
    };
}
pub(crate) use ensure;

/// The value of a `Result` or an `Option`, or the end of the case.
macro_rules! take {
    ($value:expr, $what:literal) => {
        match $crate::Take::take($value) {
            Some(value) => value,
            None => {
                return Err($crate::Failure {
                    what: $what,
                    file: file!(),
                    line: line!(),
                });
            }
        }
    };
}
pub(crate) use take;

/// What [`take!`] takes from.
pub(crate) trait Take {
    type Value;
    fn take(self) -> Option<Self::Value>;
}

impl<T> Take for Option<T> {
    type Value = T;
    fn take(self) -> Option<T> {
        self
    }
}

impl<T, E> Take for Result<T, E> {
    type Value = T;
    fn take(self) -> Option<T> {
        self.ok()
    }
}
