//! The three FIFO records as C sees them: the core's, with addresses as pointers.
#![allow(
    non_camel_case_types,
    reason = "the records have the names that the field's headers give them"
)]

use std::ffi::c_void;
use std::mem::offset_of;

use proxy_core::fifo::{self, NetDestAddr, NetOpsInfo, NetSrcAddr};

/// `net_addr_mark`: what an entry of an address array is.
pub type net_addr_mark = u32;
/// The entry moves data.
pub const NET_TRANSFER: net_addr_mark = 0;
/// The entry ends one op.
pub const NET_OP_COMPLETE: net_addr_mark = 1;
/// The entry ends the block for one execution; the last entry of each array.
pub const EXEC_COMPLETE: net_addr_mark = 2;

const _: () = assert!(
    NET_TRANSFER == fifo::NET_TRANSFER
        && NET_OP_COMPLETE == fifo::NET_OP_COMPLETE
        && EXEC_COMPLETE == fifo::EXEC_COMPLETE
);

/// One network op of a basic block; 96 bytes, as in release 2.31.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct net_ops_info {
    /// Shift applied to values for the semaphore.
    pub sema_shift_offset: u16,
    /// 0 or 1: a credit may be released before wire completion.
    pub early_send_completion: u8,
    /// 0 or 1: receives may be posted ahead of the op.
    pub early_recv_posting: u8,
    /// Semaphore raised when the sender side is ready; NULL = none.
    pub inc_send_handshake: *mut u32,
    /// Semaphore raised by the number of completed sends.
    pub inc_send_complete: *mut u32,
    /// Semaphore raised when the receiver side is ready; NULL = none.
    pub inc_recv_handshake: *mut u32,
    /// Semaphore raised by the number of completed receives.
    pub inc_recv_complete: *mut u32,
    /// Number of source entries of this op, terminator not counted.
    pub tx_entry_cnt: u32,
    /// Number of destination entries of this op, terminator not counted.
    pub rx_entry_cnt: u32,
    /// Modulus of the host index ring: 512.
    pub net_idx_loop_size: u32,
    /// Credits posted at first touch, 1 to 511.
    pub initial_send_credits: u32,
    /// Credits released at op end, 1 to 511.
    pub ending_recv_credits: u32,
    /// Bytes of one element, 1 to 16.
    pub data_type_sz: usize,
    /// 0 or 1: sizes are known only at post time.
    pub is_dynamic_send_recv_sz: u8,
    /// 0 or 1: the peer is taken per entry rather than from the ring.
    pub variable_peer: u8,
    /// 0 or 1: the op is timed.
    pub add_to_histogram: u8,
    /// The id of the block that the op belongs to.
    pub basic_block_id: u32,
    /// Index of the op inside its function, for messages.
    pub func_rel_op_idx: u32,
    /// Completions after which the next op begins.
    pub unrolled_count: u32,
    /// The op's `enc_channel`; not NULL.
    pub enc_channel: *mut c_void,
}

/// One buffer to send; 72 bytes, as in release 2.31.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct net_src_addr {
    /// Index of the owning op in the same block's op array.
    pub net_op_idx: u32,
    /// Completion weight of the entry.
    pub complete: i32,
    /// Device address of the buffer.
    pub dev_addr: u64,
    /// Host mapping of the buffer.
    pub host_addr: *mut c_void,
    /// Registration handle.
    pub nccl_mhandle: *mut c_void,
    /// Bytes; 0 is legal and makes no network request.
    pub size: u32,
    /// `NET_TRANSFER`, `NET_OP_COMPLETE` or `EXEC_COMPLETE`.
    pub mark: net_addr_mark,
    /// Label for timing.
    pub proxy_histogram_tag: *mut c_void,
    /// Peer of a mesh entry; -1 = the ring neighbour.
    pub dst_rank: i32,
    /// Remote buffer of the local read path.
    pub dst_addr: *mut c_void,
    /// Remote registration of the local read path.
    pub dst_mhandle: *mut c_void,
}

/// One buffer to receive into; 48 bytes, as in release 2.31.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct net_dest_addr {
    /// Index of the owning op in the same block's op array.
    pub net_op_idx: u32,
    /// Completion weight of the entry.
    pub complete: i32,
    /// Device address of the buffer.
    pub dev_addr: u64,
    /// Host mapping of the buffer.
    pub host_addr: *mut c_void,
    /// Registration handle.
    pub nccl_mhandle: *mut c_void,
    /// Bytes; 0 is legal and makes no network request.
    pub size: u32,
    /// `NET_TRANSFER`, `NET_OP_COMPLETE` or `EXEC_COMPLETE`.
    pub mark: net_addr_mark,
    /// Peer of a mesh entry; -1 = the ring neighbour.
    pub src_rank: i32,
}

/// Checks that a record of C and one of the core have the same layout.
macro_rules! same_layout {
    ($c:ty, $core:ty, $($field:ident)+) => {
        const _: () = {
            assert!(size_of::<$c>() == size_of::<$core>());
            $(assert!(offset_of!($c, $field) == offset_of!($core, $field));)+
        };
    };
}
same_layout!(net_ops_info, NetOpsInfo,
    sema_shift_offset early_send_completion early_recv_posting inc_send_handshake inc_send_complete inc_recv_handshake
    inc_recv_complete tx_entry_cnt rx_entry_cnt net_idx_loop_size initial_send_credits ending_recv_credits data_type_sz
    is_dynamic_send_recv_sz variable_peer add_to_histogram basic_block_id func_rel_op_idx unrolled_count enc_channel);
same_layout!(net_src_addr, NetSrcAddr,
    net_op_idx complete dev_addr host_addr nccl_mhandle size mark proxy_histogram_tag dst_rank dst_addr dst_mhandle);
same_layout!(net_dest_addr, NetDestAddr,
    net_op_idx complete dev_addr host_addr nccl_mhandle size mark src_rank);

/// An address that the collective library will follow, as the core keeps it.
fn address<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}

impl From<&net_ops_info> for NetOpsInfo {
    fn from(op: &net_ops_info) -> Self {
        Self {
            sema_shift_offset: op.sema_shift_offset,
            early_send_completion: op.early_send_completion,
            early_recv_posting: op.early_recv_posting,
            inc_send_handshake: address(op.inc_send_handshake),
            inc_send_complete: address(op.inc_send_complete),
            inc_recv_handshake: address(op.inc_recv_handshake),
            inc_recv_complete: address(op.inc_recv_complete),
            tx_entry_cnt: op.tx_entry_cnt,
            rx_entry_cnt: op.rx_entry_cnt,
            net_idx_loop_size: op.net_idx_loop_size,
            initial_send_credits: op.initial_send_credits,
            ending_recv_credits: op.ending_recv_credits,
            data_type_sz: op.data_type_sz as u64,
            is_dynamic_send_recv_sz: op.is_dynamic_send_recv_sz,
            variable_peer: op.variable_peer,
            add_to_histogram: op.add_to_histogram,
            basic_block_id: op.basic_block_id,
            func_rel_op_idx: op.func_rel_op_idx,
            unrolled_count: op.unrolled_count,
            enc_channel: address(op.enc_channel),
        }
    }
}

impl From<&net_src_addr> for NetSrcAddr {
    fn from(entry: &net_src_addr) -> Self {
        Self {
            net_op_idx: entry.net_op_idx,
            complete: entry.complete,
            dev_addr: entry.dev_addr,
            host_addr: address(entry.host_addr),
            nccl_mhandle: address(entry.nccl_mhandle),
            size: entry.size,
            mark: entry.mark,
            proxy_histogram_tag: address(entry.proxy_histogram_tag),
            dst_rank: entry.dst_rank,
            dst_addr: address(entry.dst_addr),
            dst_mhandle: address(entry.dst_mhandle),
        }
    }
}

impl From<&net_dest_addr> for NetDestAddr {
    fn from(entry: &net_dest_addr) -> Self {
        Self {
            net_op_idx: entry.net_op_idx,
            complete: entry.complete,
            dev_addr: entry.dev_addr,
            host_addr: address(entry.host_addr),
            nccl_mhandle: address(entry.nccl_mhandle),
            size: entry.size,
            mark: entry.mark,
            src_rank: entry.src_rank,
        }
    }
}
