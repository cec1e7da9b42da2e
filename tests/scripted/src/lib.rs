//! The scripted library: a `libnccom.so` whose three proxy calls answer from a script and are recorded.
//!
//! It has the 37 exports of release 2.31 (compatibility id 89), so the loader accepts it. All but the three proxy
//! calls succeed trivially. A test opens a communicator with `scripted_open` (or takes the one that
//! `neuronInitComm` hands out, which is the same kind of object), adds rules, runs the driver and reads back which
//! calls came, in which order, on which thread. Nothing here moves data and nothing here has a thread of its own.
//!
//! Built as a shared library for the loader, and as a Rust library so that tests can use the parser and the record.

pub mod control;
mod exit;
pub mod exports;
pub mod rule;
pub mod script;
