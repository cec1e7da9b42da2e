//! The proxy driver's core.
#![cfg_attr(not(test), no_std)]
pub mod fifo;
pub mod limits;
