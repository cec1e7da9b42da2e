//! The C ABI of the proxy driver.
//!
//! So far it holds the reverse edge that the stand-in library needs; the embedder's interface is built on the shell's.

mod reverse;

pub use reverse::nec_inc_semaphore;
