//! C records and status codes shared with the host, as far as this library reads or writes them (release 2.31).

use std::ffi::c_int;

pub(crate) const NRT_SUCCESS: c_int = 0;
pub(crate) const NRT_FAILURE: c_int = 1;
pub(crate) const NRT_INVALID: c_int = 2;
pub(crate) const NRT_RESOURCE: c_int = 4;
pub(crate) const NRT_TIMEOUT: c_int = 5;
pub(crate) const NRT_NETWORK_PROXY_FAILURE: c_int = 1206;

/// Streams of a communicator.
pub(crate) const STREAMS: usize = proxy_core::limits::STREAMS;
/// Largest world: the original sizes its per-device arrays so.
pub(crate) const MAX_RANKS: u32 = 256;
/// Bytes of a unique id.
pub(crate) const UNIQUE_ID_LEN: usize = 128;

/// `enc_pattern`: RING.
pub(crate) const PATTERN_RING: i32 = 0;
/// `enc_pattern`: MESH.
pub(crate) const PATTERN_MESH: i32 = 1;

/// What the host index word of a connector holds when the device is ready for a run.
pub(crate) const INDEX_READY: u32 = 0xFFFF_FFFF;

/// `enc_channel`, 88 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Channel {
    pub(crate) id: i32,
    pub(crate) pattern: i32,
    pub(crate) net_recv: u64,
    pub(crate) net_send: u64,
    pub(crate) rest: [u64; 8],
}

/// `enc_net_connector`, 96 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct NetConnector {
    pub(crate) fold_n: i32,
    pub(crate) mem_handle: u64,
    pub(crate) va: u64,
    pub(crate) pa: u64,
    pub(crate) size: u64,
    pub(crate) rest: [u64; 6],
    pub(crate) nccl_connector: u64,
}

/// `nccl_comm_info_t`, 1376 bytes. What this library does not know stays 0.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct CommInfo {
    pub(crate) cluster_id: u64,
    pub(crate) epoch: u64,
    pub(crate) neuron_dev: i32,
    pub(crate) rank: i32,
    pub(crate) rank_n: i32,
    pub(crate) local_rank_n: i32,
    pub(crate) local_rack_rank_n: i32,
    pub(crate) node: i32,
    pub(crate) node_n: i32,
    pub(crate) rest: [u8; 1332],
}

/// `nec_version_info_t` without its tail, 56 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct VersionInfo {
    pub(crate) numbers: [u64; 4],
    pub(crate) git_hash: [u8; 16],
    pub(crate) compatibility: u64,
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Channel>() == 88);
    assert!(offset_of!(Channel, net_recv) == 8 && offset_of!(Channel, net_send) == 16);
    assert!(size_of::<NetConnector>() == 96);
    assert!(offset_of!(NetConnector, va) == 16 && offset_of!(NetConnector, nccl_connector) == 88);
    assert!(size_of::<CommInfo>() == 1376);
    assert!(offset_of!(CommInfo, rank) == 20 && offset_of!(CommInfo, node) == 36);
    assert!(size_of::<VersionInfo>() == 56);
    assert!(
        offset_of!(VersionInfo, git_hash) == 32 && offset_of!(VersionInfo, compatibility) == 48
    );
};
