//! `enc_proxy_comm`: a communicator of the collective library, made here or taken over from the embedder.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use proxy_os::nccom::abi::DeviceInfo;
use proxy_os::nccom::calls::UniqueId;
use proxy_os::nccom::{BootstrapLink, Comm, Library, ProxyComm};

use crate::arg::{self, Out};
use crate::call::{self, Done, Failure};
use crate::handle::Kind;
use crate::library::{LIBRARIES, enc_proxy_library};
use crate::record::{self, record};
use crate::status::{self, NRT_STATUS};
use crate::table::Table;

/// A communicator whose proxy calls (start, progress, stop) belong to the contexts that are made with it.
#[derive(Debug)]
pub struct enc_proxy_comm {
    _opaque: [u8; 0],
}

/// Bytes of a unique id.
pub const ENC_PROXY_UNIQUE_ID_BYTES: usize = 128;

/// More than a process has communicators.
const LIMIT: usize = 1024;
pub(crate) static COMMS: Table<Object, LIMIT> = Table::new(Kind::Comm);

/// A communicator and who frees it.
#[derive(Debug)]
pub(crate) struct Object {
    library: Arc<Library>,
    comm: Comm,
    /// Made here, and so freed here.
    own: bool,
    /// Taken by the destroy that frees the communicator.
    proxy: Mutex<Option<Arc<ProxyComm>>>,
    /// Whether a global communicator has its bootstrap calls.
    leads: Arc<AtomicBool>,
}

/// The bootstrap calls of a communicator, taken by one global communicator; the communicator cannot be destroyed meanwhile.
#[derive(Debug)]
pub(crate) struct Lead {
    _proxy: Arc<ProxyComm>,
    leads: Arc<AtomicBool>,
}

impl Drop for Lead {
    fn drop(&mut self) {
        // Release pairs with the acquire in `Object::lead`: who takes the calls next comes after what was done with them.
        self.leads.store(false, Ordering::Release);
    }
}

impl Object {
    pub(crate) fn proxy(&self) -> Result<Arc<ProxyComm>, Failure> {
        let proxy = self.proxy.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || {
            Failure::new(
                status::NRT_INVALID_HANDLE,
                "the communicator is being freed",
            )
        };
        proxy.clone().ok_or_else(gone)
    }

    /// Takes the bootstrap calls.
    ///
    /// # Safety
    /// Nobody outside of this interface makes bootstrap calls on the communicator until the result is gone, which is when the link is.
    pub(crate) unsafe fn lead(&self) -> Result<(BootstrapLink, Lead), Failure> {
        let proxy = self.proxy()?;
        // Acquire pairs with the release in `Lead::drop`.
        if self.leads.swap(true, Ordering::Acquire) {
            return Err(Failure::new(
                status::ENC_PROXY_BUSY,
                "another global communicator exchanges over leader_comm, accepted: one",
            ));
        }
        let lead = Lead {
            _proxy: proxy,
            leads: Arc::clone(&self.leads),
        };
        // SAFETY: the communicator is alive as long as the result holds it; the calls are ours alone by the flag and the caller's promise.
        let link = unsafe { BootstrapLink::new(Arc::clone(&self.library), self.comm) };
        Ok((link, lead))
    }
}

/// A rank's communicator, for `enc_proxy_comm_create`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_comm_config {
    /// `sizeof(enc_proxy_comm_config)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Ranks of the communicator, 1 or more.
    pub rank_n: u32,
    /// This rank, below `rank_n`.
    pub rank: u32,
    /// What `enc_proxy_get_unique_id` gave to one rank and that rank gave to the others; 128 bytes. NULL = the
    /// communicator of all devices of the job, whose ranks meet at `root_comm_id`.
    pub unique_id: *const u8,
    /// `host:port` where the devices of the job meet; for `unique_id` = NULL only.
    pub root_comm_id: *const c_char,
    /// Device index of this rank; also its id on the host and for routing.
    pub nec_dev_id: u32,
    /// 1 = no routes are searched for: for communicators without network.
    pub bypass_graph: u32,
}
record!(enc_proxy_comm_config {
    struct_size: usize, flags: u64, rank_n: u32, rank: u32, unique_id: *const u8, root_comm_id: *const c_char,
    nec_dev_id: u32, bypass_graph: u32,
});

/// What the library puts in front of its own messages.
pub(crate) const HINT: &std::ffi::CStr = c"proxy";

pub(crate) fn number(value: u32, name: &str) -> Result<i32, Failure> {
    i32::try_from(value).map_err(|_| {
        Failure::invalid(format_args!(
            "{name} is {value}, accepted: up to {}",
            i32::MAX
        ))
    })
}

/// Makes the id of a new communicator, on one of its ranks; the embedder passes it on to the others, over a host bus, say.
///
/// - `rank_n`: ranks of the communicator.
/// - `unique_id`: receives 128 bytes.
///
/// Errors: the library's code, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any. May open sockets.
///
/// # Safety
/// `unique_id` is writable for 128 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_get_unique_id(
    library: *mut enc_proxy_library,
    rank_n: u32,
    unique_id: *mut u8,
) -> NRT_STATUS {
    call::with("enc_proxy_get_unique_id", &LIBRARIES, library, |library| {
        // SAFETY: the caller's promise.
        let out = unsafe {
            Out::new(
                unique_id.cast::<[u8; ENC_PROXY_UNIQUE_ID_BYTES]>(),
                "unique_id",
            )
        }?;
        out.set(library.get_unique_id(number(rank_n, "rank_n")?, HINT)?.0);
        Ok(())
    })
}

/// Joins a communicator: waits, as long as the library does, until all of its ranks have called it.
///
/// - `comm`: receives the handle; give it back by `enc_proxy_comm_destroy`, which frees the communicator.
///
/// Errors: the library's code, `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_RESOURCE` (1024 are alive).
/// Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`); one call at a time per device.
///
/// # Safety
/// `config` is readable for the size that it says and its addresses for what they stand for, `comm` writable. The unique id is one of
/// `enc_proxy_get_unique_id`. Nobody but contexts made with the handle makes proxy calls on the communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_comm_create(
    library: *mut enc_proxy_library,
    config: *const enc_proxy_comm_config,
    comm: *mut *mut enc_proxy_comm,
) -> NRT_STATUS {
    call::with("enc_proxy_comm_create", &LIBRARIES, library, |library| {
        // SAFETY: the caller's promise.
        let config = unsafe { record::read(config) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(comm, "comm") }?;
        if config.rank >= config.rank_n || config.bypass_graph > 1 {
            return Err(Failure::invalid(format_args!(
                "rank {} of rank_n {}, bypass_graph {}; accepted: a rank below rank_n, and 0 or 1",
                config.rank, config.rank_n, config.bypass_graph
            )));
        }
        call::may_wait()?;
        // First of all: the other ranks join with this one, and a communicator without a handle could never be freed.
        let place = call::reserve(&COMMS)?;
        // SAFETY: the caller's promise.
        let made = unsafe { join(library, &config) }?;
        // SAFETY: the communicator is alive until the destroy, and all else is the caller's promise.
        let object = unsafe { object(library, made, config.rank_n, true) };
        out.set(call::fill(place, object));
        Ok(())
    })
}

/// # Safety
/// As for `enc_proxy_comm_create`.
unsafe fn join(library: &Library, config: &enc_proxy_comm_config) -> Result<Comm, Failure> {
    let (rank, rank_n) = (
        number(config.rank, "rank")?,
        number(config.rank_n, "rank_n")?,
    );
    let device = DeviceInfo::standalone(number(config.nec_dev_id, "nec_dev_id")?);
    if config.unique_id.is_null() {
        // SAFETY: the caller's promise.
        let root = unsafe { arg::c_text(config.root_comm_id, "root_comm_id") }?;
        // SAFETY: the caller's promise.
        return Ok(unsafe { library.init_global_comm(rank, rank_n, &device, root, HINT) }?);
    }
    // SAFETY: the caller's promise.
    let id = unsafe {
        arg::array(
            config.unique_id,
            ENC_PROXY_UNIQUE_ID_BYTES,
            ENC_PROXY_UNIQUE_ID_BYTES,
            "unique_id",
        )
    }?;
    let mut unique = UniqueId([0; ENC_PROXY_UNIQUE_ID_BYTES]);
    unique.0.copy_from_slice(id);
    let bypass = config.bypass_graph == 1;
    // SAFETY: the caller's promise.
    Ok(unsafe { library.init_comm(rank_n, unique, rank, &device, bypass) }?)
}

/// # Safety
/// As for [`ProxyComm::new`].
unsafe fn object(library: &Arc<Library>, comm: Comm, ranks: u32, own: bool) -> Object {
    // SAFETY: the caller's promise.
    let proxy = unsafe { ProxyComm::new(Arc::clone(library), comm, ranks) };
    Object {
        library: Arc::clone(library),
        comm,
        own,
        proxy: Mutex::new(Some(proxy)),
        leads: Arc::default(),
    }
}

/// Takes over the proxy calls of a communicator that the embedder has made by itself, and will free.
///
/// - `nccl_comm`: as the library gave it.
/// - `rank_n`: its ranks.
/// - `comm`: receives the handle; give it back by `enc_proxy_comm_destroy` before the communicator is freed.
///
/// Errors: `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_RESOURCE`. Threads: any.
///
/// # Safety
/// `nccl_comm` is a communicator of `library` and alive until the handle is destroyed; nobody else makes proxy calls on it. `comm` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_comm_adopt(
    library: *mut enc_proxy_library,
    nccl_comm: *mut c_void,
    rank_n: u32,
    comm: *mut *mut enc_proxy_comm,
) -> NRT_STATUS {
    call::with("enc_proxy_comm_adopt", &LIBRARIES, library, |library| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(comm, "comm") }?;
        let null = || Failure::invalid("nccl_comm is null");
        let adopted = Comm::new(nccl_comm).ok_or_else(null)?;
        // SAFETY: the caller's promise.
        let object = unsafe { object(library, adopted, rank_n, false) };
        out.set(call::handle(&COMMS, object)?);
        Ok(())
    })
}

/// The connector of a channel in one direction, which the collective's channel records point to.
///
/// - `pattern`: 0 ring, 1 mesh. `channel`: its number. `is_send`: 1 send, 0 receive.
/// - `connector`: receives the library's handle, which lives as long as the communicator.
///
/// Errors: the library's code, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
///
/// # Safety
/// `connector` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_comm_get_connector(
    comm: *mut enc_proxy_comm,
    pattern: u32,
    channel: u32,
    is_send: u32,
    connector: *mut *mut c_void,
) -> NRT_STATUS {
    call::with("enc_proxy_comm_get_connector", &COMMS, comm, |comm| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(connector, "connector") }?;
        if pattern > 1 || is_send > 1 {
            return Err(Failure::invalid(format_args!(
                "pattern {pattern}, is_send {is_send}; accepted: 0 or 1 each"
            )));
        }
        let (pattern, channel) = (number(pattern, "pattern")?, number(channel, "channel")?);
        // Holds the communicator against a destroy beside this.
        let _alive = comm.proxy()?;
        // SAFETY: the communicator is alive.
        let found = unsafe {
            comm.library
                .get_net_connector(comm.comm, pattern, channel, is_send == 1)
        };
        out.set(found?.as_ptr());
        Ok(())
    })
}

/// Destroys a communicator: one that was made here is freed, one that was taken over is the embedder's again.
///
/// - `timeout_us`: how long to wait, in microseconds, until the worker lets go of contexts that were just destroyed; not at all on a worker's thread.
///
/// Errors: `ENC_PROXY_BUSY` (contexts, or a global communicator, use it; the handle stays good), `NRT_INVALID_HANDLE`, the library's code (the handle is gone).
/// Threads: any but a worker's.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_comm_destroy(comm: *mut enc_proxy_comm, timeout_us: u64) -> NRT_STATUS {
    let mut freed = Ok(());
    let closed = call::destroy("enc_proxy_comm_destroy", &COMMS, comm, |comm| {
        unused(comm, call::patience(arg::long_timeout(timeout_us)))?;
        if comm.own {
            // SAFETY: made here, nobody else has a reference to its proxy calls, and the destroy is the last call.
            freed = unsafe { comm.library.free_comm(comm.comm) };
        }
        Ok(())
    });
    match (closed, freed) {
        (status::NRT_SUCCESS, Err(error)) => {
            call::plain("enc_proxy_comm_destroy", || Err(error.into()))
        }
        (closed, _) => closed,
    }
}

/// Takes the proxy calls away when nobody else uses them, within `patience`.
fn unused(comm: &Object, patience: Duration) -> Done {
    /// The worker lets go between two ticks, which is a matter of microseconds unless it is inside the library.
    const PAUSE: Duration = Duration::from_micros(50);
    let since = Instant::now();
    loop {
        let mut proxy = comm.proxy.lock().unwrap_or_else(PoisonError::into_inner);
        match proxy.take().map(Arc::try_unwrap) {
            Some(Ok(_)) => return Ok(()),
            Some(Err(used)) => *proxy = Some(used),
            None => {
                return Err(Failure::new(
                    status::NRT_INVALID_HANDLE,
                    "the communicator is being freed",
                ));
            }
        }
        drop(proxy);
        if since.elapsed() >= patience {
            return Err(Failure::new(
                status::ENC_PROXY_BUSY,
                format_args!(
                    "contexts, or a global communicator, use the communicator after {:?}; destroy them first",
                    since.elapsed()
                ),
            ));
        }
        std::thread::sleep(PAUSE);
    }
}
