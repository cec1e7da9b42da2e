//! A rank's communicators of the collective library: made and freed in every round, in processes that live on.
#![allow(unsafe_code, reason = "calls of the collective library")]

use std::ffi::{CStr, CString};
use std::sync::Arc;

use proxy_kit::abi::Topology;
use proxy_kit::device::Connectors;
use proxy_os::nccom::abi::DeviceInfo;
use proxy_os::nccom::calls::UniqueId;
use proxy_os::nccom::{Comm, Library, ProxyComm};

/// What the library puts in front of its own messages.
const HINT: &CStr = c"proxy-soak";

/// Errors of the library in words.
type Done<T> = Result<T, String>;

/// A rank in the library's world, before it has a data communicator.
#[derive(Debug)]
pub(crate) struct World {
    library: Arc<Library>,
    rank: i32,
    ranks: i32,
    info: DeviceInfo,
    comm: Comm,
}

impl World {
    /// Joins the others at `root`. Returns when all are there.
    pub(crate) fn join(library: &Arc<Library>, rank: u32, ranks: u32, root: &str) -> Done<Self> {
        let (rank, ranks) = (rank.cast_signed(), ranks.cast_signed());
        let info = DeviceInfo::standalone(rank);
        let root = CString::new(root).map_err(|error| error.to_string())?;
        // SAFETY: the device is the rank's own and has no pod.
        let comm = unsafe { library.init_global_comm(rank, ranks, &info, &root, HINT) };
        Ok(Self {
            library: Arc::clone(library),
            rank,
            ranks,
            info,
            comm: comm.map_err(|error| error.to_string())?,
        })
    }

    /// A unique id for a communicator of all, on rank 0.
    pub(crate) fn unique_id(&self) -> Done<[u8; 128]> {
        let id = self.library.get_unique_id(self.ranks, HINT);
        id.map(|id| id.0).map_err(|error| error.to_string())
    }

    /// The data communicator of all. Returns when all have joined it.
    pub(crate) fn connect(self, id: [u8; 128]) -> Done<Ends> {
        // SAFETY: the id was made by rank 0 and passed on unchanged; the device as above.
        let data = unsafe {
            self.library
                .init_comm(self.ranks, UniqueId(id), self.rank, &self.info, false)
        };
        let data = data.map_err(|error| error.to_string())?;
        Ok(Ends { world: self, data })
    }
}

/// Both communicators of a rank.
#[derive(Debug)]
pub(crate) struct Ends {
    world: World,
    data: Comm,
}

impl Ends {
    /// The connectors of `streams` streams.
    pub(crate) fn connectors(&self, topology: Topology, streams: usize) -> Done<Vec<Connectors>> {
        let library = &self.world.library;
        let get = |stream: i32, is_send| {
            // SAFETY: the communicator is alive.
            let connector =
                unsafe { library.get_net_connector(self.data, topology as i32, stream, is_send) };
            let address = connector.map(|found| found.as_ptr().expose_provenance() as u64);
            address.map_err(|error| error.to_string())
        };
        let pair = |stream| {
            Ok(Connectors {
                receive: get(stream, false)?,
                send: get(stream, true)?,
            })
        };
        (0..).take(streams).map(pair).collect()
    }

    /// The data communicator for the driver.
    ///
    /// # Safety
    /// `self` is freed after every context on it has been retired and its queue has ended or serves other ranks, and what the contexts'
    /// FIFO arrays point to lives until then.
    pub(crate) unsafe fn proxy(&self) -> Arc<ProxyComm> {
        let library = Arc::clone(&self.world.library);
        // SAFETY: the caller's promise; nobody else makes proxy calls on it.
        unsafe { ProxyComm::new(library, self.data, self.world.ranks.cast_unsigned()) }
    }

    /// Frees both, whoever else is still there. Nothing may use them any more.
    pub(crate) fn free(self) -> Done<()> {
        let Self { world, data } = self;
        // SAFETY: by the contract of this function.
        let data = unsafe { world.library.free_comm(data) };
        // SAFETY: as above.
        let global = unsafe { world.library.free_comm(world.comm) };
        data.and(global).map_err(|error| error.to_string())
    }
}
