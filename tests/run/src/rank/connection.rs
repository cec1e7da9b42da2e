//! How a rank is connected to the others through the library: global communicator, data communicator, connectors.
#![allow(unsafe_code, reason = "calls of the collective library")]

use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Instant;

use proxy_kit::abi::Topology;
use proxy_kit::device::Connectors;
use proxy_os::global_comm::GlobalComm;
use proxy_os::nccom::abi::DeviceInfo;
use proxy_os::nccom::calls::UniqueId;
use proxy_os::nccom::{BootstrapLink, CallError, Comm, Library};

use super::meeting::{Meeting, exchange, link};
use crate::job::Start;
use crate::layout::Layout;
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
    /// Joins the world of all ranks, of which `host` has brought those of this node together; returns it with the exchange of the leaders, on a
    /// leader. Returns when all have joined.
    pub(super) fn join(
        library: Arc<Library>,
        rank: u32,
        start: &Start,
        mut host: ManuallyDrop<GlobalComm>,
    ) -> Result<(Self, ManuallyDrop<GlobalComm>), Failure> {
        let (job, ranks) = (&start.job, start.job.layout.ranks);
        let (me, all) = (rank.cast_signed(), ranks.cast_signed());
        let info = DeviceInfo::standalone(me);
        let global = global(&library, rank, start)?;
        let make_id = || library.get_unique_id(all, HINT).map_err(Failure::own);
        let make_id = || make_id().map(|id| id.0);
        let signature = job.signature(rank);
        let id = if job.layout.nodes == 1 {
            let mut link = link(&mut host, job.deadline());
            exchange(&mut link, ranks, rank, &signature, make_id)?
        } else {
            // SAFETY: `leave` frees the communicator after the link has gone, and otherwise it is not freed; nobody else makes
            // bootstrap calls on it.
            let mut link = unsafe { BootstrapLink::new(Arc::clone(&library), global) };
            let id = exchange(&mut link, ranks, rank, &signature, make_id)?;
            if host.bus().rank() == 0 {
                host = lead(host, link, job.layout, rank)?;
            }
            id
        };
        // SAFETY: the id was made by rank 0 and passed on unchanged; the device is rank `me` and has no pod.
        let comm =
            unsafe { library.init_comm(all, UniqueId(id), me, &info, false) }.map_err(failed)?;
        let own = Self {
            library,
            rank,
            ranks,
            global,
            comm,
        };
        Ok((own, host))
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

    /// Leaves, after `meeting`, when all ranks are through. Nothing may use the communicators any more.
    pub(super) fn leave(self, meeting: Meeting) -> Result<(), Failure> {
        let unused = meeting.leave()?;
        // SAFETY: the driver has ended, and this thread makes no further call.
        unsafe { self.library.free_comm(self.comm) }.map_err(Failure::own)?;
        if !unused {
            // A call on the communicator has not returned: it stays until the process ends, which is soon.
            return Ok(());
        }
        // SAFETY: as above, and the leaders' exchange has given its link back.
        unsafe { self.library.free_comm(self.global) }.map_err(Failure::own)
    }
}

/// The library's communicator of all ranks of the job.
fn global(library: &Library, rank: u32, start: &Start) -> Result<Comm, Failure> {
    let (me, all) = (rank.cast_signed(), start.job.layout.ranks.cast_signed());
    let info = DeviceInfo::standalone(me);
    let root = CString::new(start.root.as_str()).map_err(Failure::own)?;
    let since = Instant::now();
    // SAFETY: the only call for this rank, whose device is rank `me` and has no pod.
    let global = unsafe { library.init_global_comm(me, all, &info, &root, HINT) };
    // A root that cannot listen says so at once, and is the cause of what the others will say; one that waits in vain is not.
    global.map_err(|error| {
        if rank == 0 && since.elapsed() < start.job.deadline() / 2 {
            Failure::own(error)
        } else {
            failed(error)
        }
    })
}

/// Starts the exchange of the leaders over `link`, on the leader `rank` of its node.
fn lead(
    host: ManuallyDrop<GlobalComm>,
    link: BootstrapLink,
    layout: Layout,
    rank: u32,
) -> Result<ManuallyDrop<GlobalComm>, Failure> {
    let first = |node| layout.ranks_of(&(node..node + 1)).start;
    let peers: Vec<u32> = (0..layout.nodes).map(first).collect();
    let node = layout.node_of(rank) as usize;
    let host = ManuallyDrop::into_inner(host).between_machines(link, &peers, node);
    host.map(ManuallyDrop::new).map_err(Failure::own)
}
