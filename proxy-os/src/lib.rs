//! The Linux shell of the proxy driver: a worker thread per group, the library it calls, the words it shares with the device.
//!
//! ```text
//!   embedder ── enqueue ──> ProxyQueue ── tick ──> proxy_core::Driver ──> seam ──> libnccom.so
//!      ^                        |                        ^
//!      +── poll, check, consume +                        +── start words of the device
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`registry`] | groups: one queue and worker per gid, shared by count |
//! | [`queue`] | a group's queue; contexts; release |
//! | [`context`] | what a collective's tasks work on, validated once |
//! | [`abort`] | ending one task, a context's, a group's, all |
//! | [`consume`] | blocking wait with warnings and a deadline |
//! | `worker`, `completion` | the thread, and how it wakes consumers |
//! | [`nccom`] | the collective library |
//! | [`device`] | words shared with the device |
//! | [`config`], [`affinity`], [`log`] | settings, CPUs, messages |
//! | [`latency`], [`trace`] | how long tasks wait and run; a timeline of all events |
//! | [`left`] | workers that a release could not end |
//! | [`memory`] | memory that was asked for and not given |
//! | [`diagnosis`] | the reason of a hang: one report of the whole process |
//! | [`watch`], [`waiting`] | what a stuck worker shows; which start words have not fired |
//! | [`watchdog`], [`report`] | deadlines, stalls, health; records and dumps |
//! | [`global_comm`] | setup and free of a rank's bus and group together |
//! | [`bananaphone`] | the host bus of the ranks of one machine |
//! | [`sys`] | system calls |

pub mod abort;
pub mod affinity;
pub mod bananaphone;
mod completion;
pub mod config;
pub mod consume;
pub mod context;
mod dedicated;
pub mod device;
pub mod diagnosis;
pub mod global_comm;
pub mod latency;
mod leave;
pub mod left;
pub mod log;
pub mod memory;
pub mod nccom;
#[doc(hidden)]
pub mod pass;
pub mod queue;
pub mod registry;
pub mod report;
pub mod sys;
pub mod trace;
pub mod waiting;
pub mod watch;
pub mod watchdog;
mod words;
mod worker;

pub use abort::AbortError;
pub use config::Settings;
pub use consume::{ConsumeError, Patience};
pub use context::{BuildError, ContextBuilder, Fifo, HostBarrier};
pub use device::DeviceWord;
pub use global_comm::GlobalComm;
pub use queue::{Context, Execution, ProxyQueue, Release, ReleaseError, StartError};
pub use registry::{AcquireError, Group, Released};
pub use report::{Dump, GroupState, Record};
pub use watchdog::Health;
pub use worker::is_worker_thread;
