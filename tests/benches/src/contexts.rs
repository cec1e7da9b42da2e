//! Contexts on the library of the benches, whose progress call does what its communicator says.
#![allow(unsafe_code, reason = "communicators are promises to the driver")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use proxy_core::{ExecId, Gid, Rank};
use proxy_kit::entryless;
use proxy_os::nccom::{self, Comm, ProxyComm};
use proxy_os::pass::ByHand;
use proxy_os::{ContextBuilder, Fifo, Settings};

use crate::{clock, tools};

/// What a communicator's progress call does: see `cc/library.c`.
#[derive(Debug)]
pub struct What(AtomicU64);

/// Never done.
pub const IDLE: u64 = 0;
/// Done at once.
pub const DONE: u64 = 1;

impl What {
    /// One that lives as long as the process, as a worker may use it to the end.
    pub fn new(what: u64) -> &'static Self {
        Box::leak(Box::new(Self(AtomicU64::new(what))))
    }

    /// Busy for a microsecond in each call.
    pub fn microsecond() -> &'static Self {
        Self::new((1000.0 / clock::ns(1)) as u64)
    }

    /// Changes it.
    pub fn set(&self, what: u64) {
        // Relaxed: the library reads it some time.
        self.0.store(what, Ordering::Relaxed);
    }
}

/// A context of a rank with one stream and one block, to be built by one queue alone.
pub fn builder(rank: u32, what: &'static What) -> ContextBuilder {
    let path = tools::library().expect("a C compiler");
    let library = nccom::shared(path.as_os_str()).expect("the library loads");
    let address: *const What = what;
    let comm = Comm::new(address.cast_mut().cast::<c_void>()).expect("not null");
    // SAFETY: the communicator lives as long as the process, is used from one queue only, and its library follows no address.
    let comm = unsafe { ProxyComm::new(library, comm, 1 << 16) };
    let (ops, src, dest) = entryless::arrays(1);
    ContextBuilder::new(comm, Rank(rank)).block(1, vec![Fifo { ops, src, dest }])
}

/// A queue whose passes are made by its owner; its doorbell is never armed, so an append makes no system call.
pub fn by_hand() -> ByHand {
    let settings = Settings::from_lookup(|_| None).expect("good settings");
    ByHand::new(Gid(0), &settings).expect("a queue")
}

/// The same with so many tasks, each of a rank and context of its own, which are idle from the next pass on.
pub fn by_hand_over(tasks: u32, what: &'static What) -> ByHand {
    let mut worker = by_hand();
    for rank in 0..tasks {
        let context = worker.queue().context(builder(rank, what));
        let context = context.expect("a context");
        context.enqueue(ExecId(1)).expect("room");
        std::mem::forget(context);
    }
    // Drained, started, and idle from the third pass on; and past those that pause before the first that yields.
    (0..100).for_each(|_| worker.pass());
    worker
}
