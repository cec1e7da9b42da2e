//! The models, one file per shared structure of the core.

mod bell;
mod context;
mod edges;
mod inbox;
mod lookup;
mod recorder;
mod slab;
mod status;
mod trigger;
