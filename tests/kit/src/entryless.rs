//! The shortest FIFO arrays that the driver accepts.

use proxy_core::fifo::{EXEC_COMPLETE, NetDestAddr, NetOpsInfo, NetSrcAddr};

/// The arrays of one stream for a block: one op without entries, and the terminators.
#[must_use]
pub fn arrays(block: u32) -> (Vec<NetOpsInfo>, Vec<NetSrcAddr>, Vec<NetDestAddr>) {
    let op = NetOpsInfo {
        net_idx_loop_size: 512,
        initial_send_credits: 1,
        ending_recv_credits: 1,
        data_type_sz: 4,
        basic_block_id: block,
        enc_channel: 8,
        ..NetOpsInfo::default()
    };
    let src = NetSrcAddr {
        mark: EXEC_COMPLETE,
        ..NetSrcAddr::default()
    };
    let dest = NetDestAddr {
        mark: EXEC_COMPLETE,
        ..NetDestAddr::default()
    };
    (vec![op], vec![src], vec![dest])
}
