//! The library's bootstrap network as a link between ranks.
#![allow(unsafe_code, reason = "calls of the collective library")]

use std::ffi::CStr;
use std::sync::Arc;

use super::{CallError, Comm, Hold, Library};
use crate::bananaphone::bootstrap::Link;
use crate::leave;

/// What the library puts in front of its own messages.
const HINT: &CStr = c"proxy-os";

/// Bootstrap send and receive of one global communicator (`neuronBootstrapSend`, `neuronBootstrapRecv`). Both may block as long as the
/// library does, which can be for ever. Holds its library against unloading.
#[derive(Debug)]
pub struct BootstrapLink {
    hold: Hold,
    comm: Comm,
}

impl BootstrapLink {
    /// Takes over the bootstrap calls of `comm`, a global communicator; peers are its ranks.
    ///
    /// # Safety
    /// Until the returned value is gone, `comm` is alive and nobody else makes bootstrap calls on it. Given to
    /// [`Leaders`](crate::bananaphone::leaders::Leaders), it is gone when
    /// [`stop`](crate::bananaphone::leaders::Leaders::stop) answers `Ended`; after `Detached` the communicator must never be freed.
    #[must_use]
    pub unsafe fn new(library: Arc<Library>, comm: Comm) -> Self {
        let hold = Hold::new(library, "bootstrap calls of a global communicator");
        Self { hold, comm }
    }

    fn peer(peer: u32) -> i32 {
        // A rank that no communicator has is refused by the library.
        i32::try_from(peer).unwrap_or(i32::MAX)
    }
}

impl Link for BootstrapLink {
    type Error = CallError;

    fn send(&mut self, peer: u32, message: &[u8]) -> Result<(), CallError> {
        leave::bar();
        // SAFETY: alive and ours by the promise of `new`; `&mut self` keeps it to one call at a time.
        unsafe {
            self.hold
                .bootstrap_send(self.comm, Self::peer(peer), message, HINT)
        }
    }

    fn recv(&mut self, peer: u32, message: &mut [u8]) -> Result<(), CallError> {
        leave::bar();
        // SAFETY: as for `send`.
        unsafe {
            self.hold
                .bootstrap_recv(self.comm, Self::peer(peer), message, HINT)
        }
    }
}
