//! The C ABI of the proxy driver: what a runtime in C or C++ links.
//!
//! ```text
//!   C ──> exported function ──> call: fork, panic, code, text ──> handle table ──> proxy_os
//! ```
//!
//! | file | object of C | what |
//! |---|---|---|
//! | [`library`], [`comm`] | `enc_proxy_library`, `enc_proxy_comm` | the collective library and its communicators |
//! | [`settings`], [`group`] | `enc_proxy_settings`, `enc_proxy_group` | settings; a share of a group with its worker |
//! | [`context`], [`task`] | `encd_context`, `enc_proxy_ticket` | what tasks work on; enqueue, check, consume |
//! | [`abort`] | | ending tasks early |
//! | [`error`] | | errors of tasks, told as they come up |
//! | [`report`] | `enc_proxy_report_service` | what hangs, and why; metrics |
//! | [`trace`] | | what happened when |
//! | [`bus`], [`members`], [`barrier`] | `bananaphone`, `bp_barrier` | the host bus |
//! | [`glb_comm`] | `enc_glb_comm` | a rank's bus and group together |
//! | [`log`], [`version`], [`status`] | | messages, release, codes and texts |
//! | [`fifo`] | `net_ops_info`, `net_src_addr`, `net_dest_addr` | records of release 2.31 |
//! | `reverse`, [`dynamic`] | | what the collective library calls in its host |
//! | `call`, `callback`, `handle`, `table`, `record`, `arg`, `failure` | | what they share |
//!
//! Rules of the interface, which every function keeps:
//! - A handle is never followed: null, destroyed, made up or of another type is `NRT_INVALID_HANDLE`.
//! - A struct begins with its size and flags that must be 0; 0 is the default of every field, see `record`.
//! - Enumerations are 32-bit numbers; one that is not known is `NRT_INVALID`.
//! - Out-parameters are untouched on error, but where the function says so.
//! - A panic becomes `ENC_PROXY_PANIC`; the handle can only be destroyed then. A forked child gets `ENC_PROXY_FORKED`.

pub mod abort;
mod arg;
pub mod barrier;
pub mod bus;
mod call;
mod callback;
pub mod comm;
pub mod context;
pub mod dynamic;
pub mod error;
mod failure;
pub mod fifo;
pub mod glb_comm;
pub mod group;
mod handle;
#[cfg(test)]
mod inject;
pub mod library;
pub mod log;
pub mod members;
mod record;
pub mod report;
mod reverse;
pub mod settings;
pub mod status;
mod table;
pub mod task;
pub mod trace;
pub mod version;

pub use arg::ENC_PROXY_FOREVER;
pub use reverse::nec_inc_semaphore;
