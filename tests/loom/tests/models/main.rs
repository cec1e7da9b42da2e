//! The models, one file per shared structure: those of the core, and the one of the shell that hands over without a lock.

mod abort;
mod bell;
mod context;
mod edges;
mod inbox;
mod leaders_channel;
mod lookup;
mod phone_barrier;
mod phone_ring;
mod phone_sleep;
mod ranks;
mod recorder;
mod slab;
mod status;
mod trigger;
