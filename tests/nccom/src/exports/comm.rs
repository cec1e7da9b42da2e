//! Exports 1 to 8, 12 to 14, 19 and 20: version, communicators, bootstrap messages.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

use crate::abi::{UNIQUE_ID_LEN, VersionInfo};
use crate::boot::GlobalComm;
use crate::boot::id::UniqueId;
use crate::comm::Comm;
use crate::error::{Error, Result, guard};
use crate::exports::{check_peer, check_place, null, put, text};
use crate::handles::{Object, get, insert, lock, remove, with_global};
use crate::settings::{bootstrap_timeout, parse_root};

const VERSION: VersionInfo = VersionInfo {
    numbers: [2, 31, 24, 0],
    git_hash: *b"stand-in\0\0\0\0\0\0\0\0",
    compatibility: 89,
};

/// `neuronGetVersionInfo`: the four numbers; the hash only if `n` exceeds 0x2F, the compatibility id only if it
/// exceeds 0x37. Returns 0, or 2 for a null record.
///
/// # Safety
/// `info` is null or has room for `n` bytes, at least 32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronGetVersionInfo(info: *mut c_void, n: u32) -> u64 {
    let status = guard("neuronGetVersionInfo", || {
        // SAFETY: 32 bytes of room by the contract.
        unsafe { put(info.cast(), "info", VERSION.numbers) }?;
        if n > 0x2F {
            // SAFETY: n > 47, so bytes 32 to 47 are the caller's.
            unsafe { put(info.wrapping_byte_add(32).cast(), "info", VERSION.git_hash) }?;
        }
        if n > 0x37 {
            // SAFETY: n > 55, so bytes 48 to 55 are the caller's.
            unsafe {
                put(
                    info.wrapping_byte_add(48).cast(),
                    "info",
                    VERSION.compatibility,
                )
            }?;
        }
        Ok(())
    });
    u64::try_from(status).unwrap_or(1)
}

/// `neuronGetUniqueId`: makes the id of a communicator of `rank_n` ranks whose rank 0 will be in this process.
///
/// # Safety
/// `id` is null or has room for 128 bytes; `hint` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronGetUniqueId(
    id: *mut c_char,
    rank_n: c_int,
    hint: *const c_char,
) -> c_int {
    guard("neuronGetUniqueId", || {
        // SAFETY: the caller's contract.
        let hint = unsafe { text(hint) };
        let made = check_place(0, rank_n).and_then(|(_, world)| {
            let id = if id.is_null() {
                Err(null("id"))
            } else {
                Ok(id)
            }?;
            Ok((id, UniqueId::create(world)?.encode()))
        });
        let (id, bytes) = made.map_err(|error| error.within(format_args!("({hint})")))?;
        // SAFETY: 128 bytes of room by the contract.
        unsafe { put(id.cast(), "id", bytes) }
    })
}

/// `neuronInitGlobalComm`: joins the world of `g_cnt` ranks as rank `g_dev`. Rank 0 listens at `root_id`
/// (`host:port` or `[v6]:port`), the others connect there. Blocks until the world is complete or the deadline passes.
///
/// # Safety
/// `info` is null or a device info record; the strings are null or C strings; `comm` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronInitGlobalComm(
    g_dev: c_int,
    g_cnt: c_int,
    info: *const c_void,
    root_id: *const c_char,
    comm: *mut *mut c_void,
    hint: *const c_char,
) -> c_int {
    guard("neuronInitGlobalComm", || {
        // SAFETY: the caller's contract.
        let hint = unsafe { text(hint) };
        // SAFETY: the caller's contract.
        let root = unsafe { text(root_id) };
        // SAFETY: the caller's contract.
        let device = unsafe { device_of(info) };
        let joined = check_out(comm).and_then(|()| {
            let (rank, world) = check_place(g_dev, g_cnt)?;
            let global = GlobalComm::join(
                rank,
                world,
                parse_root(&root)?,
                device,
                bootstrap_timeout()?,
            )?;
            insert(Object::Global(Arc::new(Mutex::new(global))))
        });
        let handle = joined.map_err(|error| error.within(format_args!("rank {g_dev} ({hint})")))?;
        // SAFETY: the caller's contract.
        unsafe { put(comm, "comm", handle) }
    })
}

/// `neuronInitComm`: joins the data communicator that `id` names, as `rank` of `rank_n`. Blocks until all its ranks
/// have joined or the deadline passes. `bypass_graph` has no meaning here.
///
/// # Safety
/// `comm` is null or valid for a write; `id` is null or 128 bytes; `info` is null or a device info record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronInitComm(
    comm: *mut *mut c_void,
    rank_n: c_int,
    id: *mut c_char,
    rank: c_int,
    info: *const c_void,
    _bypass_graph: bool,
) -> c_int {
    guard("neuronInitComm", || {
        // SAFETY: the caller's contract.
        let device = unsafe { device_of(info) };
        // SAFETY: the caller's contract.
        let bytes = unsafe { id.cast::<[u8; UNIQUE_ID_LEN]>().as_ref() };
        let joined = check_out(comm).and_then(|()| {
            let (rank, world) = check_place(rank, rank_n)?;
            let id = UniqueId::decode(bytes.ok_or_else(|| null("id"))?)?;
            if id.world != world {
                return Err(Error::invalid(format!(
                    "rank_n is {world}, accepted: {}, as in the unique id",
                    id.world
                )));
            }
            let joined = Comm::join(&id, rank, world, device, bootstrap_timeout()?)?;
            insert(Object::Comm(Arc::new(Mutex::new(joined))))
        });
        let handle = joined.map_err(|error| error.within(format_args!("rank {rank}")))?;
        // SAFETY: the caller's contract.
        unsafe { put(comm, "comm", handle) }
    })
}

/// `neuronBuildGraphComm`: there is no graph to build; succeeds for a live communicator.
#[unsafe(no_mangle)]
pub extern "C" fn neuronBuildGraphComm(comm: *mut c_void) -> c_int {
    guard("neuronBuildGraphComm", || get(comm).map(drop))
}

/// `neuronGetCommInfo`: fills the 1376-byte record as far as this library knows it: device, rank, ranks, ranks and
/// place of the node. The rest is 0.
///
/// # Safety
/// `info` is null or has room for 1376 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronGetCommInfo(comm: *mut c_void, info: *mut c_void) -> c_int {
    guard("neuronGetCommInfo", || {
        let record = match get(comm)? {
            Object::Comm(comm) => lock(&comm).info(),
            Object::Global(comm) => lock(&comm).info(),
        };
        // SAFETY: the caller's contract.
        unsafe { put(info.cast(), "info", record) }
    })
}

/// `neuronFreeComm`: frees a communicator of either kind. Ranks may free in any order.
#[unsafe(no_mangle)]
pub extern "C" fn neuronFreeComm(comm: *mut c_void) -> c_int {
    guard("neuronFreeComm", || remove(comm))
}

/// `neuronExpandConnectivity`: every rank reaches every other already; succeeds for a live communicator.
#[unsafe(no_mangle)]
pub extern "C" fn neuronExpandConnectivity(comm: *mut c_void, _connectivity: c_int) -> c_int {
    guard("neuronExpandConnectivity", || get(comm).map(drop))
}

/// `neuronBootstrapSend`: sends `n` bytes to `peer`. Blocks only if the peer's buffers are full.
///
/// # Safety
/// `data` is readable for `n` bytes (null only if `n` is 0); `hint` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronBootstrapSend(
    state: *mut c_void,
    peer: c_int,
    data: *mut c_void,
    n: usize,
    hint: *const c_char,
) -> c_int {
    guard("neuronBootstrapSend", || {
        // SAFETY: the caller's contract.
        let hint = unsafe { text(hint) };
        // SAFETY: the caller's contract.
        let data = unsafe { bytes(data, n) }?;
        with_global(state, |global| global.send(check_peer(peer)?, data, &hint))
    })
}

/// `neuronBootstrapRecv`: receives the next message of `peer`, which must be of `n` bytes.
///
/// # Safety
/// `data` is writable for `n` bytes (null only if `n` is 0) and nobody else uses it; `hint` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronBootstrapRecv(
    state: *mut c_void,
    peer: c_int,
    data: *mut c_void,
    n: usize,
    hint: *const c_char,
) -> c_int {
    guard("neuronBootstrapRecv", || {
        // SAFETY: the caller's contract.
        let hint = unsafe { text(hint) };
        // SAFETY: the caller's contract.
        let data = unsafe { bytes(data, n) }?;
        with_global(state, |global| {
            global.receive(check_peer(peer)?, data, &hint)
        })
    })
}

/// `neuronBootstrapAllGather`: `all` holds a part of `n` bytes per rank; this rank's own is filled in by the caller.
///
/// # Safety
/// `all` is writable for `n` bytes per rank of the world and nobody else uses it; `hint` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronBootstrapAllGather(
    state: *mut c_void,
    all: *mut c_void,
    n: usize,
    hint: *const c_char,
) -> c_int {
    guard("neuronBootstrapAllGather", || {
        // SAFETY: the caller's contract.
        let hint = unsafe { text(hint) };
        with_global(state, |global| {
            let (_, world) = global.place();
            let size = usize::try_from(world)
                .ok()
                .and_then(|world| n.checked_mul(world));
            let size =
                size.ok_or_else(|| Error::invalid(format!("a part of {n} bytes is too large")))?;
            // SAFETY: the caller's contract.
            let all = unsafe { bytes(all, size) }?;
            global.all_gather(all, n, &hint)
        })
    })
}

/// `neuronGetPeerDeviceId`: the device that a rank gave when it joined.
///
/// # Safety
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronGetPeerDeviceId(
    comm: *mut c_void,
    peer: c_int,
    out: *mut c_int,
) -> c_int {
    guard("neuronGetPeerDeviceId", || {
        let peer = check_peer(peer)?;
        let device = match get(comm)? {
            Object::Comm(comm) => lock(&comm).device(peer),
            Object::Global(comm) => lock(&comm).device(peer),
        };
        let device = device.ok_or_else(|| {
            Error::invalid(format!("peer rank {peer} is not in the communicator"))
        })?;
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", device) }
    })
}

/// `neuronSetAffinity`: has no opinion on where threads run. If `save` is given, the calling thread's mask is written
/// there, so that the caller can restore it.
///
/// # Safety
/// `save` is null or a `cpu_set_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronSetAffinity(
    _comm: *mut c_void,
    _override: *mut c_void,
    save: *mut c_void,
    _core: c_int,
) -> c_int {
    guard("neuronSetAffinity", || {
        if save.is_null() {
            return Ok(());
        }
        // SAFETY: `save` is a cpu_set_t by the caller's contract; 0 stands for the calling thread.
        let status =
            unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), save.cast()) };
        match status {
            0 => Ok(()),
            _ => Err(Error::failed(format!(
                "sched_getaffinity: {}",
                std::io::Error::last_os_error()
            ))),
        }
    })
}

fn check_out(comm: *mut *mut c_void) -> Result<()> {
    if comm.is_null() {
        Err(null("comm"))
    } else {
        Ok(())
    }
}

/// `nec_dev_id` of a device info record, its first field; -1 without a record.
///
/// # Safety
/// `info` is null or a device info record.
unsafe fn device_of(info: *const c_void) -> c_int {
    // SAFETY: the record begins with an int.
    unsafe { info.cast::<c_int>().as_ref() }
        .copied()
        .unwrap_or(-1)
}

/// Memory of the caller.
///
/// # Safety
/// `data` is null or writable for `n` bytes that nobody else uses during the call.
unsafe fn bytes<'a>(data: *mut c_void, n: usize) -> Result<&'a mut [u8]> {
    if n == 0 {
        return Ok(&mut []);
    }
    if data.is_null() || isize::try_from(n).is_err() {
        return Err(Error::invalid(format!(
            "{n} bytes at {data:p}, accepted: memory of the caller"
        )));
    }
    // SAFETY: not null, of an acceptable size, and the caller's by the contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), n) })
}
