//! The models, one file per shared structure: those of the core, and those of the shell that hand over without a lock.

mod abort;
mod bell;
mod completion;
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
mod shared;
mod slab;
mod status;
mod trigger;
