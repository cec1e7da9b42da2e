//! The models, one file per shared structure of the core.

mod abort;
mod bell;
mod context;
mod edges;
mod inbox;
mod lookup;
mod phone_barrier;
mod phone_ring;
mod phone_sleep;
mod recorder;
mod slab;
mod status;
mod trigger;
