//! Placeholder.
pub mod affinity;
pub mod config;
pub mod log;
pub mod nccom;
pub mod sys;
