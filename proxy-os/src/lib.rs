//! Placeholder.
pub mod affinity;
pub mod config;
pub mod log;
pub mod sys;
