//! How a rank meets the others: global communicator, unique id, data communicator, connectors.
#![allow(unsafe_code, reason = "calls of the collective library")]

use std::ffi::CString;
use std::sync::Arc;

use proxy_kit::abi::Topology;
use proxy_kit::device::Connectors;
use proxy_os::nccom::abi::{DeviceInfo, UNIQUE_ID_BYTES};
use proxy_os::nccom::calls::UniqueId;
use proxy_os::nccom::{CallError, Comm, Library};

use crate::wire::Failure;

/// What the library puts in front of its own messages.
const HINT: &std::ffi::CStr = c"proxy-run";

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
    /// Joins the world of `ranks` ranks that meet at `root`. Returns when all have joined.
    pub(super) fn join(
        library: Arc<Library>,
        rank: u32,
        ranks: u32,
        root: &str,
    ) -> Result<Self, Failure> {
        let (me, all) = (rank.cast_signed(), ranks.cast_signed());
        let info = DeviceInfo::standalone(me);
        let root = CString::new(root).map_err(Failure::own)?;
        // SAFETY: the only call in this process, whose device is rank `me` and has no pod.
        let global = unsafe { library.init_global_comm(me, all, &info, &root, HINT) };
        // Nobody has met anybody yet: a root that cannot listen is the cause of what the others will say.
        let global = global.map_err(|error| {
            if rank == 0 {
                Failure::own(error)
            } else {
                failed(error)
            }
        })?;
        let id = share_id(&library, global, rank, ranks)?;
        // SAFETY: the id was made by rank 0 and passed on unchanged; the device as above.
        let comm = unsafe { library.init_comm(all, id, me, &info, false) }.map_err(failed)?;
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

    /// Returns when every rank has called it as often as this one.
    pub(super) fn barrier(&self) -> Result<(), Failure> {
        let mut all = vec![0; self.ranks as usize];
        // SAFETY: the communicator is alive, this thread alone makes bootstrap calls, one byte for each rank.
        unsafe {
            self.library
                .bootstrap_all_gather(self.global, &mut all, 1, HINT)
        }
        .map_err(failed)
    }

    /// Waits for the others and leaves. Nothing may use the communicators any more.
    pub(super) fn leave(self) -> Result<(), Failure> {
        // Who leaves early looks like a rank that died to those who are not through.
        self.barrier()?;
        // SAFETY: the driver has ended, and this thread makes no further call.
        unsafe { self.library.free_comm(self.comm) }.map_err(Failure::own)?;
        // SAFETY: as above.
        unsafe { self.library.free_comm(self.global) }.map_err(Failure::own)
    }
}

/// Rank 0 makes the id of the data communicator and sends it to every other rank.
fn share_id(library: &Library, global: Comm, rank: u32, ranks: u32) -> Result<UniqueId, Failure> {
    if rank == 0 {
        let id = library
            .get_unique_id(ranks.cast_signed(), HINT)
            .map_err(Failure::own)?;
        for peer in 1..ranks.cast_signed() {
            // SAFETY: the communicator is alive, and this thread alone makes bootstrap calls.
            unsafe { library.bootstrap_send(global, peer, &id.0, HINT) }.map_err(failed)?;
        }
        return Ok(id);
    }
    let mut id = [0; UNIQUE_ID_BYTES];
    // SAFETY: as above.
    unsafe { library.bootstrap_recv(global, 0, &mut id, HINT) }.map_err(failed)?;
    Ok(UniqueId(id))
}
