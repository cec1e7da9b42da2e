//! The proxy driver's core: the worker's queue, status board, device trigger, task machines and tick, without an
//! operating system, an allocator or unsafe code.
//!
//! A collectives runtime pushes the network phase of its collectives forward with one host thread per group of ranks. This
//! crate is that thread's whole logic; where the thread comes from, how it sleeps, what the library and the device are, come
//! in through [`port`].
//!
//! | file | concept (specification) | shared by |
//! |---|---|---|
//! | [`queue`] | `enc_proxy_queue`: enqueue, poll, check | all sides |
//! | `inbox`, [`doorbell`] | work list, wake-up | producers, worker |
//! | `board`, `hint` | `enc_proxy_task_state`, and where a look-up begins | worker, consumers |
//! | [`context`] | the context of a task | producers, worker |
//! | [`trigger`] | start words: arm, gate, consume | arming side, worker |
//! | [`driver`] | `process()`: drain, step, recycle | worker |
//! | `task` | `enc_network_proxy_task`, `enc_barrier_proxy_task` | worker |
//! | [`ladder`] | spin, yield or sleep | worker |
//! | [`fifo`] | the records lent across the seam | context builder |
//! | [`group`] | `g_shared_proxy_queues` | registry |
//! | [`recorder`] | black box | worker, dumps |
//! | [`phone`] | bananaphone: the host bus | ranks of one machine |
//! | [`status`], [`id`], [`limits`], [`port`] | vocabulary | |
//!
//! Absent on purpose: locks on any path that a worker ticks through, pointers, time (a tick reads no clock), logging, and
//! `volatile` as a synchronisation.
#![no_std]

#[cfg(test)]
extern crate std;

mod board;
pub mod context;
pub mod doorbell;
pub mod driver;
pub mod fifo;
pub mod group;
mod hint;
pub mod id;
mod inbox;
pub mod ladder;
pub mod limits;
pub mod phone;
pub mod port;
pub mod queue;
pub mod recorder;
pub mod status;
mod sync;
mod task;
pub mod trigger;

/// What the errors for a forked child say.
pub const FORKED: &str = "this process was forked from the one that owns the worker";

pub use board::Cause;
pub use context::{ContextError, Spec, StopAt};
pub use doorbell::{Bell, Shut};
pub use driver::{Driver, Next, Tick};
pub use id::{BlockIndex, ContextId, ExecId, Gid, Rank, Stream, Ticket};
pub use queue::{Accounts, Appended, EnqueueError, OrderError, Poll, PollError, Queue, TaskView};
pub use status::{RunState, Status, TaskKind};
pub use trigger::{Arming, Polarity};

pub use sync::Edge;
#[cfg(loom)]
pub use sync::weaken;
