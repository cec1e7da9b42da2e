//! The collective library (libnccom): found, checked and called.
//!
//! | file | what |
//! |---|---|
//! | [`abi`] | the 37 names, their signatures, the records of their arguments |
//! | `image` | what has to be true of a file before it is opened |
//! | `build_id` | which build a file is, as its linker has noted it |
//! | [`loader`] | opening, version gate, symbols: all or nothing |
//! | [`shared`](shared()) | one [`Library`] per file and process, kept reasons of failure, unloading |
//! | [`calls`] | typed calls |
//! | [`ProxyComm`], `seam` | the worker's side: seam calls, ports |
//! | [`BootstrapLink`] | messages between ranks over the library's bootstrap |
//! | [`error`] | what can go wrong, in words |
//!
//! A library stays mapped for the life of the process: its exit hooks and thread-local destructors may run at any later
//! time, and nothing in it is ever called by a destructor of ours.

pub mod abi;
mod bootstrap;
mod build_id;
pub mod calls;
pub mod error;
mod image;
pub mod loader;
mod proxy_comm;
pub(crate) mod seam;
mod shared;
mod turns;

pub use bootstrap::BootstrapLink;
pub(crate) use build_id::own as own_build_id;
pub use calls::Comm;
pub use error::{Attempt, Busy, CallError, LoadError, MissingSymbol, UnloadError};
pub use loader::{Library, Version};
pub use proxy_comm::ProxyComm;
pub use shared::{Hold, shared, unload};
pub(crate) use shared::{NamedOutcome, outcomes};
