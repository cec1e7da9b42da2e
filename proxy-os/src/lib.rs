//! Placeholder.
pub mod sys;
