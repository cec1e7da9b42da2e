//! Exports 9 to 11 and 21: the three proxy calls and the connectors they need.

use std::ffi::{c_int, c_void};

use proxy_core::fifo::{NetDestAddr, NetOpsInfo, NetSrcAddr, validate};

use crate::comm::Comm;
use crate::error::{Error, Result, guard};
use crate::exports::{null, put};
use crate::handles::with_comm;
use crate::oplist::{Entries, Lent, OpList};
use crate::peers::Direction;
use crate::stream::Lists;

/// `neuronStartNetworkProxy`: files the op lists of a block of a stream. Nothing moves. The arrays stay lent until
/// `neuronStopNetworkProxy`. Malformed arrays are NRT_INVALID; the log line names array, index and field.
///
/// # Safety
/// Each array is null or holds as many records as its count says, unchanged until Stop; the channel, its connectors
/// and their index words live until Stop; buffers are readable (source) or writable (destination) for their size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronStartNetworkProxy(
    comm: *mut c_void,
    stream: u32,
    block: u32,
    ops: *mut c_void,
    n_ops: c_int,
    src: *mut c_void,
    n_src: c_int,
    dst: *mut c_void,
    n_dst: c_int,
) -> c_int {
    guard("neuronStartNetworkProxy", || {
        with_comm(comm, |comm| {
            // SAFETY: the caller's contract.
            let ops = unsafe { lent(ops.cast(), n_ops, "net_ops_info") }?;
            // SAFETY: the caller's contract.
            let src = unsafe { lent(src.cast(), n_src, "net_src_addr") }?;
            // SAFETY: the caller's contract.
            let dst = unsafe { lent(dst.cast(), n_dst, "net_dest_addr") }?;
            // SAFETY: the caller's contract.
            let lists = unsafe { lists(comm, stream, block, ops, src, dst) };
            let (rank, _) = comm.place();
            lists
                .and_then(|lists| comm.start(stream, block, lists))
                .map_err(|error| {
                    error.within(format_args!("rank {rank}: stream {stream} block {block}"))
                })
        })
    })
}

/// `neuronNetworkProxyProgress`: one pass over the active lists of a stream. ANDs into the flags: idle = nothing
/// moved, done = nothing is active and no other block waits. After an error the flags are untouched, and the stream
/// fails until Stop.
///
/// # Safety
/// The flags are null or booleans of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronNetworkProxyProgress(
    comm: *mut c_void,
    stream: u32,
    block: u32,
    idle: *mut bool,
    done: *mut bool,
) -> c_int {
    guard("neuronNetworkProxyProgress", || {
        if idle.is_null() || done.is_null() {
            return Err(null("idle or done"));
        }
        let (quiet, drained) = with_comm(comm, |comm| comm.progress(stream, block))?;
        if !quiet {
            // SAFETY: not null, and the caller's boolean.
            unsafe { idle.write(false) };
        }
        if !drained {
            // SAFETY: not null, and the caller's boolean.
            unsafe { done.write(false) };
        }
        Ok(())
    })
}

/// `neuronStopNetworkProxy`: drops every list of the stream. Outstanding transfers are not awaited; a second Stop is
/// harmless. A stream that is stopped in the middle of a run and started again must be so on all ranks, and every
/// Stop must have returned before the first Start.
#[unsafe(no_mangle)]
pub extern "C" fn neuronStopNetworkProxy(comm: *mut c_void, stream: u32) -> c_int {
    guard("neuronStopNetworkProxy", || {
        with_comm(comm, |comm| comm.stop(stream))
    })
}

/// `neuronGetNetConnector`: the handle that the host keeps in its connector record.
///
/// # Safety
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronGetNetConnector(
    comm: *mut c_void,
    pattern: c_int,
    channel: c_int,
    is_send: bool,
    out: *mut *mut c_void,
) -> c_int {
    guard("neuronGetNetConnector", || {
        let direction = if is_send {
            Direction::Send
        } else {
            Direction::Receive
        };
        let handle = with_comm(comm, |comm| {
            comm.connectors().handle(pattern, channel, direction)
        })?;
        let handle = std::ptr::without_provenance_mut(usize::try_from(handle).unwrap_or(0));
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", handle) }
    })
}

/// # Safety
/// `pointer` is null or holds `count` records that stay unchanged until Stop.
unsafe fn lent<T>(pointer: *const T, count: c_int, name: &str) -> Result<Lent<T>> {
    let length = usize::try_from(count)
        .map_err(|_| Error::invalid(format!("{name} has {count} entries")))?;
    if length > 0 && (pointer.is_null() || !pointer.is_aligned()) {
        return Err(Error::invalid(format!(
            "{name} of {count} entries is at {pointer:p}, accepted: an array address"
        )));
    }
    // SAFETY: the caller's contract; the op lists that get it are dropped at Stop.
    Ok(unsafe { Lent::new(pointer, length) })
}

/// Checks the arrays of a block and makes its two op lists.
///
/// # Safety
/// As for [`neuronStartNetworkProxy`].
unsafe fn lists(
    comm: &mut Comm,
    stream: u32,
    block: u32,
    ops: Lent<NetOpsInfo>,
    src: Lent<NetSrcAddr>,
    dst: Lent<NetDestAddr>,
) -> Result<Lists> {
    let (_, world) = comm.place();
    let checked = validate(block, world, ops.get(), src.get(), dst.get());
    checked.map_err(|error| Error::invalid(error.to_string()))?;
    check_supported(ops.get())?;
    // SAFETY: the caller's contract.
    let send = unsafe { list(comm, stream, ops, Entries::Source(src), Direction::Send) }?;
    // SAFETY: the caller's contract.
    let receive = unsafe {
        list(
            comm,
            stream,
            ops,
            Entries::Destination(dst),
            Direction::Receive,
        )
    }?;
    Ok(Lists {
        send: Some(send),
        receive: Some(receive),
    })
}

/// What is well-formed but not done here.
fn check_supported(ops: &[NetOpsInfo]) -> Result<()> {
    let channel = ops.first().map_or(0, |op| op.enc_channel);
    for (index, op) in ops.iter().enumerate() {
        if op.is_dynamic_send_recv_sz != 0 {
            let text = format!(
                "net_ops_info[{index}].is_dynamic_send_recv_sz is 1, accepted: 0 (not supported here)"
            );
            return Err(Error::invalid(text));
        }
        if op.enc_channel != channel {
            let found = op.enc_channel;
            return Err(Error::invalid(format!(
                "net_ops_info[{index}].enc_channel is {found:#x}, accepted: {channel:#x}, that of the block's first op"
            )));
        }
    }
    Ok(())
}

/// # Safety
/// As for [`neuronStartNetworkProxy`]; the arrays have been validated.
unsafe fn list(
    comm: &mut Comm,
    stream: u32,
    ops: Lent<NetOpsInfo>,
    entries: Entries,
    direction: Direction,
) -> Result<OpList> {
    let channel = ops.get().first().map_or(0, |op| op.enc_channel);
    let word = if entries.transfers() == 0 {
        0
    } else {
        // SAFETY: validated to be non-null; a live channel by the caller's contract.
        unsafe { comm.connectors().index_word(channel, stream, direction) }?
    };
    // SAFETY: validated arrays; the word is alive until Stop by the caller's contract.
    Ok(unsafe { OpList::new(ops, entries, comm.neighbour(direction), word) })
}
