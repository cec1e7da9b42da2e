//! The core's part of the requirements, each test named after its number. Those that need a thread under test are in
//! `tests/loom` (H10, H14 to H16, H38) and run there on real threads, too.

mod desk;
mod driver;
mod early;
mod status;
mod structure;
mod trigger;
