//! The three FIFO records that a network task lends to the library, and their validation.
//!
//! Layouts are those of release 2.31 (96, 72 and 48 bytes), for 64-bit hosts. The core never follows a pointer, so
//! addresses are plain 64-bit numbers here. The original library aborts or reads out of bounds on malformed arrays;
//! here they are checked once, when a context is built, and the error names array, index and field.

use core::fmt;

use crate::limits::{MAX_CREDITS, NET_INDEX_LOOP_SIZE};

/// Mark of an entry that moves data.
pub const NET_TRANSFER: u32 = 0;
/// Mark of the entry that ends one op.
pub const NET_OP_COMPLETE: u32 = 1;
/// Mark of the entry that ends the block for one execution; must be the last of its array.
pub const EXEC_COMPLETE: u32 = 2;

/// `net_ops_info`: one network op of a basic block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NetOpsInfo {
    /// Shift applied to values for the semaphore.
    pub sema_shift_offset: u16,
    /// A credit may be released before wire completion (boolean).
    pub early_send_completion: u8,
    /// Receives may be posted ahead of the op (boolean).
    pub early_recv_posting: u8,
    /// Semaphore raised when the sender side is ready (address).
    pub inc_send_handshake: u64,
    /// Semaphore raised by the number of completed sends (address).
    pub inc_send_complete: u64,
    /// Semaphore raised when the receiver side is ready (address).
    pub inc_recv_handshake: u64,
    /// Semaphore raised by the number of completed receives (address).
    pub inc_recv_complete: u64,
    /// Number of source entries of this op, terminator not counted.
    pub tx_entry_cnt: u32,
    /// Number of destination entries of this op, terminator not counted.
    pub rx_entry_cnt: u32,
    /// Modulus of the host index ring, [`NET_INDEX_LOOP_SIZE`].
    pub net_idx_loop_size: u32,
    /// Credits posted at first touch, 1..=0x1FF.
    pub initial_send_credits: u32,
    /// Credits released at op end, 1..=0x1FF.
    pub ending_recv_credits: u32,
    /// Bytes of one element.
    pub data_type_sz: u64,
    /// Sizes are known only at post time (boolean).
    pub is_dynamic_send_recv_sz: u8,
    /// The peer is taken per entry rather than from the ring (boolean).
    pub variable_peer: u8,
    /// The op is timed (boolean).
    pub add_to_histogram: u8,
    /// Must equal the block passed to start.
    pub basic_block_id: u32,
    /// Index of the op inside its function, for messages.
    pub func_rel_op_idx: u32,
    /// Completions after which the next op begins.
    pub unrolled_count: u32,
    /// `enc_channel` of the op (address).
    pub enc_channel: u64,
}

/// `net_src_addr`: one buffer to send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NetSrcAddr {
    /// Index of the owning op in the same block's op array.
    pub net_op_idx: u32,
    /// Completion weight of the entry.
    pub complete: i32,
    /// Device address of the buffer.
    pub dev_addr: u64,
    /// Host mapping of the buffer (address).
    pub host_addr: u64,
    /// Registration handle (address).
    pub nccl_mhandle: u64,
    /// Bytes; 0 is legal and makes no network request.
    pub size: u32,
    /// [`NET_TRANSFER`], [`NET_OP_COMPLETE`] or [`EXEC_COMPLETE`].
    pub mark: u32,
    /// Label for timing (address).
    pub proxy_histogram_tag: u64,
    /// Peer of a mesh entry; -1 = the ring neighbour.
    pub dst_rank: i32,
    /// Remote buffer of the local read path (address).
    pub dst_addr: u64,
    /// Remote registration of the local read path (address).
    pub dst_mhandle: u64,
}

/// `net_dest_addr`: one buffer to receive into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NetDestAddr {
    /// Index of the owning op in the same block's op array.
    pub net_op_idx: u32,
    /// Completion weight of the entry.
    pub complete: i32,
    /// Device address of the buffer.
    pub dev_addr: u64,
    /// Host mapping of the buffer (address).
    pub host_addr: u64,
    /// Registration handle (address).
    pub nccl_mhandle: u64,
    /// Bytes; 0 is legal and makes no network request.
    pub size: u32,
    /// [`NET_TRANSFER`], [`NET_OP_COMPLETE`] or [`EXEC_COMPLETE`].
    pub mark: u32,
    /// Peer of a mesh entry; -1 = the ring neighbour.
    pub src_rank: i32,
}

#[cfg(target_pointer_width = "64")]
macro_rules! assert_layout {
    ($record:ty, $size:literal, $($field:ident @ $offset:literal),+ $(,)?) => {
        const _: () = {
            assert!(size_of::<$record>() == $size);
            $(assert!(core::mem::offset_of!($record, $field) == $offset);)+
        };
    };
}

// The offsets of release 2.31. A 32-bit target may align u64 to 4 and has no such library: not asserted there.
#[cfg(target_pointer_width = "64")]
assert_layout!(NetOpsInfo, 96,
    sema_shift_offset @ 0, early_send_completion @ 2, early_recv_posting @ 3, inc_send_handshake @ 8,
    inc_send_complete @ 16, inc_recv_handshake @ 24, inc_recv_complete @ 32, tx_entry_cnt @ 40, rx_entry_cnt @ 44,
    net_idx_loop_size @ 48, initial_send_credits @ 52, ending_recv_credits @ 56, data_type_sz @ 64,
    is_dynamic_send_recv_sz @ 72, variable_peer @ 73, add_to_histogram @ 74, basic_block_id @ 76,
    func_rel_op_idx @ 80, unrolled_count @ 84, enc_channel @ 88);
#[cfg(target_pointer_width = "64")]
assert_layout!(NetSrcAddr, 72,
    net_op_idx @ 0, complete @ 4, dev_addr @ 8, host_addr @ 16, nccl_mhandle @ 24, size @ 32, mark @ 36,
    proxy_histogram_tag @ 40, dst_rank @ 48, dst_addr @ 56, dst_mhandle @ 64);
#[cfg(target_pointer_width = "64")]
assert_layout!(NetDestAddr, 48,
    net_op_idx @ 0, complete @ 4, dev_addr @ 8, host_addr @ 16, nccl_mhandle @ 24, size @ 32, mark @ 36, src_rank @ 40);

/// Which of the three arrays an error speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Array {
    /// `net_ops_info`
    Ops,
    /// `net_src_addr`
    Src,
    /// `net_dest_addr`
    Dest,
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ops => "net_ops_info",
            Self::Src => "net_src_addr",
            Self::Dest => "net_dest_addr",
        })
    }
}

/// A malformed array: where, which field, what stood there and what is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FifoError {
    /// The array.
    pub array: Array,
    /// Index into the array.
    pub index: usize,
    /// The field's name.
    pub field: &'static str,
    /// The value found (sign-extended where the field is signed).
    pub found: i64,
    /// What is accepted, in words.
    pub accepted: &'static str,
}

impl fmt::Display for FifoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}[{}].{} is {}, accepted: {}",
            self.array, self.index, self.field, self.found, self.accepted
        )
    }
}

impl core::error::Error for FifoError {}

/// The parts of an address entry that both directions share, so that one walk checks either.
trait Entry {
    const ARRAY: Array;
    const PEER_FIELD: &'static str;
    fn op(&self) -> u32;
    fn mark(&self) -> u32;
    fn size(&self) -> u32;
    fn complete(&self) -> i32;
    fn host_addr(&self) -> u64;
    fn peer(&self) -> i32;
}

macro_rules! entry {
    ($record:ty, $array:expr, $peer:ident) => {
        impl Entry for $record {
            const ARRAY: Array = $array;
            const PEER_FIELD: &'static str = stringify!($peer);
            fn op(&self) -> u32 {
                self.net_op_idx
            }
            fn mark(&self) -> u32 {
                self.mark
            }
            fn size(&self) -> u32 {
                self.size
            }
            fn complete(&self) -> i32 {
                self.complete
            }
            fn host_addr(&self) -> u64 {
                self.host_addr
            }
            fn peer(&self) -> i32 {
                self.$peer
            }
        }
    };
}
entry!(NetSrcAddr, Array::Src, dst_rank);
entry!(NetDestAddr, Array::Dest, src_rank);

/// Checks the three arrays of one basic block before they are lent to the library.
///
/// `block` is the block id they are for, `ranks` the world size that peers are checked against. Cost: one pass over
/// each array plus one per op; call it once, when a context is built (facts: the original checks nothing but the
/// terminator, and aborts on that).
pub fn validate(
    block: u32,
    ranks: u32,
    ops: &[NetOpsInfo],
    src: &[NetSrcAddr],
    dest: &[NetDestAddr],
) -> Result<(), FifoError> {
    if ops.is_empty() {
        return Err(empty(Array::Ops, "at least one op"));
    }
    for (index, op) in ops.iter().enumerate() {
        check_op(block, index, op)?;
    }
    check_entries(ranks, ops, src, |op| {
        (
            op.tx_entry_cnt,
            "tx_entry_cnt",
            op.inc_send_complete,
            "inc_send_complete",
        )
    })?;
    check_entries(ranks, ops, dest, |op| {
        (
            op.rx_entry_cnt,
            "rx_entry_cnt",
            op.inc_recv_complete,
            "inc_recv_complete",
        )
    })
}

const fn empty(array: Array, accepted: &'static str) -> FifoError {
    FifoError {
        array,
        index: 0,
        field: "len",
        found: 0,
        accepted,
    }
}

fn check_op(block: u32, index: usize, op: &NetOpsInfo) -> Result<(), FifoError> {
    let fail = |field, found: i64, accepted| {
        Err(FifoError {
            array: Array::Ops,
            index,
            field,
            found,
            accepted,
        })
    };
    if op.basic_block_id != block {
        return fail(
            "basic_block_id",
            op.basic_block_id.into(),
            "the block that is started",
        );
    }
    if op.net_idx_loop_size != NET_INDEX_LOOP_SIZE {
        return fail("net_idx_loop_size", op.net_idx_loop_size.into(), "512");
    }
    for (field, credits) in [
        ("initial_send_credits", op.initial_send_credits),
        ("ending_recv_credits", op.ending_recv_credits),
    ] {
        if credits == 0 || credits > MAX_CREDITS {
            return fail(field, credits.into(), "1 to 511");
        }
    }
    if op.data_type_sz == 0 || op.data_type_sz > 16 {
        let found = i64::try_from(op.data_type_sz).unwrap_or(i64::MAX);
        return fail("data_type_sz", found, "1 to 16 bytes");
    }
    for (field, flag) in [
        ("early_send_completion", op.early_send_completion),
        ("early_recv_posting", op.early_recv_posting),
        ("is_dynamic_send_recv_sz", op.is_dynamic_send_recv_sz),
        ("variable_peer", op.variable_peer),
        ("add_to_histogram", op.add_to_histogram),
    ] {
        if flag > 1 {
            return fail(field, flag.into(), "0 or 1");
        }
    }
    if op.enc_channel == 0 {
        return fail("enc_channel", 0, "a non-null address");
    }
    Ok(())
}

/// Walks one address array: marks, op order, peers, buffers, and the count of each op.
fn check_entries<E: Entry>(
    ranks: u32,
    ops: &[NetOpsInfo],
    entries: &[E],
    expected: impl Fn(&NetOpsInfo) -> (u32, &'static str, u64, &'static str),
) -> Result<(), FifoError> {
    let Some((last, body)) = entries.split_last() else {
        return Err(empty(E::ARRAY, "at least the EXEC_COMPLETE entry"));
    };
    let fail = |index, field, found, accepted| FifoError {
        array: E::ARRAY,
        index,
        field,
        found,
        accepted,
    };
    if last.mark() != EXEC_COMPLETE {
        let found = last.mark().into();
        return Err(fail(
            body.len(),
            "mark",
            found,
            "2 (EXEC_COMPLETE) on the last entry",
        ));
    }
    // The lowest op that an entry may belong to: that of the entry before, or the next one once that has ended.
    let mut lowest = 0;
    for (index, entry) in body.iter().enumerate() {
        if entry.mark() > NET_OP_COMPLETE {
            let accepted = "0 (NET_TRANSFER) or 1 (NET_OP_COMPLETE) before the last entry";
            return Err(fail(index, "mark", entry.mark().into(), accepted));
        }
        if usize::try_from(entry.op()).map_or(true, |op| op >= ops.len()) {
            return Err(fail(
                index,
                "net_op_idx",
                entry.op().into(),
                "an index into net_ops_info",
            ));
        }
        if entry.op() < lowest {
            return Err(fail(
                index,
                "net_op_idx",
                entry.op().into(),
                "not below the entry before, and above an op that has ended",
            ));
        }
        lowest = entry.op();
        if entry.mark() == NET_TRANSFER {
            check_transfer(ranks, index, entry, ops)?;
        } else {
            lowest = lowest.saturating_add(1);
        }
    }
    check_counts(ops, body, expected)
}

/// Compares each op's counts with its entries, which stand together as their order has been checked.
fn check_counts<E: Entry>(
    ops: &[NetOpsInfo],
    mut rest: &[E],
    expected: impl Fn(&NetOpsInfo) -> (u32, &'static str, u64, &'static str),
) -> Result<(), FifoError> {
    for (index, op) in ops.iter().enumerate() {
        let end =
            rest.partition_point(|entry| usize::try_from(entry.op()).is_ok_and(|op| op <= index));
        let (owned, later) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        rest = later;
        let transfers = owned
            .iter()
            .filter(|entry| entry.mark() == NET_TRANSFER)
            .count();
        let (count, field, semaphore, semaphore_field) = expected(op);
        let fail = |field, found, accepted| {
            Err(FifoError {
                array: Array::Ops,
                index,
                field,
                found,
                accepted,
            })
        };
        if usize::try_from(count) != Ok(transfers) {
            return fail(
                field,
                count.into(),
                "the number of NET_TRANSFER entries of this op",
            );
        }
        if count > 0 && semaphore == 0 {
            return fail(
                semaphore_field,
                0,
                "a non-null address, as the op has entries",
            );
        }
    }
    Ok(())
}

fn check_transfer<E: Entry>(
    ranks: u32,
    index: usize,
    entry: &E,
    ops: &[NetOpsInfo],
) -> Result<(), FifoError> {
    let fail = |field, found, accepted| {
        Err(FifoError {
            array: E::ARRAY,
            index,
            field,
            found,
            accepted,
        })
    };
    let variable = usize::try_from(entry.op())
        .ok()
        .and_then(|op| ops.get(op))
        .is_some_and(|op| op.variable_peer == 1);
    let in_world = u32::try_from(entry.peer()).is_ok_and(|peer| peer < ranks);
    if !in_world && (variable || entry.peer() != -1) {
        return fail(
            E::PEER_FIELD,
            entry.peer().into(),
            "a rank of the world, or -1 where the op's peer is fixed",
        );
    }
    if entry.complete() < 0 {
        return fail("complete", entry.complete().into(), "0 or more");
    }
    if entry.size() > 0 && entry.host_addr() == 0 {
        return fail("host_addr", 0, "a non-null address, as size is not 0");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
