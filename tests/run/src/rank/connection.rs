//! How a rank is connected to the others through the library: global communicator, data communicator, connectors.
#![allow(unsafe_code, reason = "calls of the collective library")]

use std::ffi::CString;
use std::sync::Arc;

use proxy_kit::abi::Topology;
use proxy_kit::device::Connectors;
use proxy_os::bananaphone::bootstrap::Link;
use proxy_os::nccom::abi::DeviceInfo;
use proxy_os::nccom::calls::UniqueId;
use proxy_os::nccom::{CallError, Comm, Library};

use super::meeting::{Meeting, exchange};
use crate::job::Start;
use crate::wire::Failure;

/// What the library puts in front of its own messages.
const HINT: &std::ffi::CStr = c"proxy-run";

/// The library's bootstrap network as a way to exchange with the ranks of all nodes.
struct LibraryLink<'a> {
    library: &'a Library,
    comm: Comm,
}

impl Link for LibraryLink<'_> {
    type Error = CallError;

    fn send(&mut self, peer: u32, message: &[u8]) -> Result<(), CallError> {
        // SAFETY: the communicator is alive, and this thread alone uses it.
        unsafe {
            self.library
                .bootstrap_send(self.comm, peer.cast_signed(), message, HINT)
        }
    }

    fn recv(&mut self, peer: u32, message: &mut [u8]) -> Result<(), CallError> {
        // SAFETY: as above.
        unsafe {
            self.library
                .bootstrap_recv(self.comm, peer.cast_signed(), message, HINT)
        }
    }
}

/// A rank's place among the others. Used by the rank's main thread alone; the driver's worker makes the three proxy
/// calls on the data communicator, and no other.
#[derive(Debug)]
pub(super) struct Connection {
    library: Arc<Library>,
    rank: u32,
    ranks: u32,
    global: Comm,
    comm: Comm,
}

/// What every call here may answer: most failures are those of a peer.
fn failed(error: CallError) -> Failure {
    Failure::by_peer(error)
}

impl Connection {
    /// Joins the world of all ranks, which are at `meeting`. Returns when all have joined.
    pub(super) fn join(
        library: Arc<Library>,
        rank: u32,
        start: &Start,
        meeting: &mut Meeting,
    ) -> Result<Self, Failure> {
        let ranks = start.job.layout.ranks;
        let (me, all) = (rank.cast_signed(), ranks.cast_signed());
        let info = DeviceInfo::standalone(me);
        let root = CString::new(start.root.as_str()).map_err(Failure::own)?;
        // SAFETY: the only call in this process, whose device is rank `me` and has no pod.
        let global = unsafe { library.init_global_comm(me, all, &info, &root, HINT) };
        // No socket has been opened yet: a root that cannot listen is the cause of what the others will say.
        let global = global.map_err(|error| {
            if rank == 0 {
                Failure::own(error)
            } else {
                failed(error)
            }
        })?;
        let make_id = || library.get_unique_id(all, HINT).map_err(Failure::own);
        let make_id = || make_id().map(|id| id.0);
        let signature = start.job.signature(rank);
        let id = if start.job.layout.nodes == 1 {
            exchange(&mut meeting.link(), ranks, rank, &signature, make_id)?
        } else {
            let mut link = LibraryLink {
                library: &library,
                comm: global,
            };
            exchange(&mut link, ranks, rank, &signature, make_id)?
        };
        // SAFETY: the id was made by rank 0 and passed on unchanged; the device as above.
        let comm =
            unsafe { library.init_comm(all, UniqueId(id), me, &info, false) }.map_err(failed)?;
        Ok(Self {
            library,
            rank,
            ranks,
            global,
            comm,
        })
    }

    /// This rank.
    pub(super) const fn rank(&self) -> u32 {
        self.rank
    }

    /// All ranks.
    pub(super) const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The library.
    pub(super) const fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// The data communicator, for the driver.
    pub(super) const fn comm(&self) -> Comm {
        self.comm
    }

    /// The connectors of one stream in both directions.
    pub(super) fn connectors(
        &self,
        topology: Topology,
        stream: usize,
    ) -> Result<Connectors, Failure> {
        let channel = i32::try_from(stream).map_err(Failure::own)?;
        let get = |is_send| {
            // SAFETY: the communicator is alive until `leave`.
            let connector = unsafe {
                self.library
                    .get_net_connector(self.comm, topology as i32, channel, is_send)
            };
            connector
                .map(|connector| connector.as_ptr().expose_provenance() as u64)
                .map_err(failed)
        };
        Ok(Connectors {
            receive: get(false)?,
            send: get(true)?,
        })
    }

    /// Leaves, when all ranks are through. Nothing may use the communicators any more.
    pub(super) fn leave(self) -> Result<(), Failure> {
        // SAFETY: the driver has ended, and this thread makes no further call.
        unsafe { self.library.free_comm(self.comm) }.map_err(Failure::own)?;
        // SAFETY: as above.
        unsafe { self.library.free_comm(self.global) }.map_err(Failure::own)
    }
}
