//! The reason of a hang in one look: one record of the whole process, its verdict first.
//!
//! | file | what |
//! |---|---|
//! | [`record`] | what a report says: plain data, a versioned schema |
//! | `collect`, `buses`, `environment`, `known` | reading it from the live process, without waiting for anybody |
//! | `task` | one task, and what its context says of it |
//! | `moments` | since when each task is in its state |
//! | `verdict` | from the facts to one sentence |
//! | `text`, `merge` | for people; many ranks' reports in one sentence |
//! | `latencies`, `prometheus` | for monitoring |
//! | `serve`, `door`, `fetch` | on request: signal, tool, interval, and when something went wrong |

mod buses;
mod collect;
mod door;
mod environment;
mod fetch;
mod known;
mod latencies;
mod merge;
mod moments;
mod prometheus;
mod ranges;
pub mod record;
mod serve;
mod task;
mod text;
mod verdict;

pub use fetch::{FetchError, fetch, fetch_all, served};
pub(crate) use known::{lock, remember};
pub use merge::{Behind, MERGED, Merged, Wait, merge};
pub use prometheus::prometheus;
pub use record::{Report, SCHEMA};
pub use serve::{Options, ServeError, Service};
pub(crate) use serve::{for_queue, leave_behind};
pub use verdict::stalls_of;
