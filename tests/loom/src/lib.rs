//! Models of everything that the core shares between threads, and what they stand on.
//!
//! One body, two engines. Under `--cfg loom` a body is explored exhaustively, up to loom's bound on preemptions; without,
//! the same body runs some thousand times on real threads. [`rt`] is the difference. The bodies are in `tests/models`, one file
//! per shared structure, and use the core's public API only.
//!
//! Three rules, because loom can pass a model without having looked at it:
//! - every actor is a spawned thread, and the root only joins;
//! - each model has twins, in which one [`proxy_core::Edge`] is relaxed, and which must fail;
//! - each model states the least number of executions that it must come to.

pub mod bus;
pub mod host;
pub mod rt;
