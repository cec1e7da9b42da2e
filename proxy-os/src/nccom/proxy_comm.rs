//! A communicator as a worker uses it: the three seam calls, made safe by one promise at its creation.
#![allow(unsafe_code, reason = "the seam calls are calls of foreign functions")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proxy_core::Status;
use proxy_core::port::Flags;

use super::{Comm, Hold, Library};
use crate::context::Fifo;
use crate::leave;

/// A communicator whose proxy calls belong to the contexts built on it, and whose network tasks take turns: as many as there are, one at a
/// time has lists in the library. Holds its library against unloading.
#[derive(Debug)]
pub struct ProxyComm {
    hold: Hold,
    comm: Comm,
    ranks: u32,
    /// Slot of the task whose turn it is, plus 1, for reports; 0 = nobody's.
    turn: AtomicU32,
}

impl ProxyComm {
    /// Takes over the proxy calls of `comm`, a communicator of `ranks` ranks.
    ///
    /// # Safety
    /// Until the returned value and every context built on it are gone and their queue has ended:
    /// - `comm` is alive, and nobody else makes proxy calls (start, progress, stop) on it;
    /// - all contexts built on it belong to ranks of one queue, as the library lets one thread at a time progress a communicator;
    /// - every address in the FIFO arrays of those contexts (semaphores, channels, buffers) is what the library takes it
    ///   for and stays valid.
    #[must_use]
    pub unsafe fn new(library: Arc<Library>, comm: Comm, ranks: u32) -> Arc<Self> {
        // Here rather than at the load: making a communicator is when the library registers hooks of its own.
        library.leaving.call_once(leave::arm);
        let hold = Hold::new(
            library,
            format!("proxy contexts of a communicator of {ranks} ranks"),
        );
        Arc::new(Self {
            hold,
            comm,
            ranks,
            turn: AtomicU32::new(0),
        })
    }

    /// Ranks of the communicator.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Notes whose turn it is. The worker only.
    pub(super) fn note_turn(&self, turn: u32) {
        // Relaxed: a message by itself.
        self.turn.store(turn, Ordering::Relaxed);
    }

    /// Whether it is the turn of another task than that of this slot.
    pub(crate) fn is_before(&self, slot: u32) -> bool {
        // Relaxed: as above.
        let turn = self.turn.load(Ordering::Relaxed);
        turn != 0 && turn != slot + 1
    }

    pub(crate) fn library_path(&self) -> &Path {
        self.hold.path()
    }

    /// Seam call B1. `fifo` is validated, and stays where it is until the stream is stopped: it is owned by a context, which
    /// the worker holds as long as the task runs.
    pub(super) fn start(&self, stream: u32, block: u32, fifo: &Fifo) -> Status {
        leave::bar();
        let library = &self.hold;
        // SAFETY: the communicator is alive and ours by the promise of `new`; the arrays are validated by the context's
        // builder and owned by the context, which the worker's ports keep until the task has stopped its streams.
        unsafe {
            library.start_network_proxy(
                self.comm,
                stream,
                block,
                &raw const *fifo.ops,
                &raw const *fifo.src,
                &raw const *fifo.dest,
            )
        }
    }

    /// Seam call B2.
    #[inline]
    pub(super) fn progress(&self, stream: u32, block: u32, flags: &mut Flags) -> Status {
        leave::bar();
        let library = &self.hold;
        // SAFETY: the communicator is alive and ours by the promise of `new`; only the worker calls this.
        unsafe {
            library.network_proxy_progress(
                self.comm,
                stream,
                block,
                &mut flags.idle,
                &mut flags.done,
            )
        }
    }

    /// Seam call B3.
    pub(super) fn stop(&self, stream: u32) -> Status {
        leave::bar();
        // SAFETY: as for `progress`.
        unsafe { self.hold.stop_network_proxy(self.comm, stream) }
    }
}
