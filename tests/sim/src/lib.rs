//! The core under simulation: the real driver, queue, doorbell, board, trigger gate, ladder and bus barrier, one thread, virtual time.
//!
//! - [`choice`]: everything open is a choice: from a seed, enumerated, or shrunk.
//! - [`pair`]: one queue and its driver in lockstep with the oracle of `proxy-kit`.
//! - [`laws`]: what must hold whatever the oracle says.
//! - [`world`]: groups, workers, members, devices, a library; what goes wrong there.
//! - [`explore`]: every state of small worlds.
//! - [`run`]: many worlds, and the report of one that fails.
//!
//! What it proves: for every schedule that ran, at the granularity of operations and of the worker's calls, results, order of calls and
//! every state change are the oracle's, no law is broken, and everything ends. What it does not: orderings of memory, and operations
//! that meet inside one another; those are the loom models'. Nor the shell around the core; that is `tests/checks`'.

mod bus;
pub mod choice;
mod copy;
pub mod counts;
pub mod explore;
mod group;
pub mod laws;
mod library;
mod member;
pub mod pair;
mod ports;
mod profile;
mod replay;
pub mod run;
pub mod world;
