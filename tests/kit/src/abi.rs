//! `enc_channel` and `enc_net_connector`, the two records behind `net_ops_info.enc_channel`; and the names of a library's exports.
//!
//! Sizes and offsets are those of the public header `nec.h` (February 2026), compiled for x86-64; fields that a
//! consumer never reads are kept as reserved words. See `tests/PROTOCOL.md` for who fills what.

use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

/// What a collective library exports, without the prefix `neuron` (public header): one name is asked for the version first, 36 are
/// bound after that.
pub const EXPORTS: [&str; 37] = [
    "GetVersionInfo",
    "GetUniqueId",
    "InitGlobalComm",
    "InitComm",
    "BuildGraphComm",
    "GetCommInfo",
    "FreeComm",
    "ExpandConnectivity",
    "StartNetworkProxy",
    "StopNetworkProxy",
    "NetworkProxyProgress",
    "BootstrapSend",
    "BootstrapRecv",
    "BootstrapAllGather",
    "PreferredNcRidNic",
    "PreferredNcRidNicBdf",
    "NetRegMr",
    "NetDeregMr",
    "GetPeerDeviceId",
    "SetAffinity",
    "GetNetConnector",
    "InitNet",
    "FiniPlugin",
    "GetOFIHandle",
    "NetListen",
    "NetConnect",
    "NetAccept",
    "NetRegMrOG",
    "NetDeregMrOG",
    "NetGetMrKey",
    "NetIsend",
    "NetIrecv",
    "NetIflush",
    "NetTest",
    "NetCloseSend",
    "NetCloseRecv",
    "NetCloseListen",
];

/// `enc_pattern`: which connector of a communicator an op uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Topology {
    /// Peers are the ring neighbours.
    Ring = 0,
    /// The peer is named by each entry.
    Mesh = 1,
}

/// `enc_net_connector`: one direction of one channel.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct EncNetConnector {
    /// Index words in use.
    pub fold_n: i32,
    /// Handle of the host index memory; 0 here.
    pub mem_handle: u64,
    /// Host address of the index memory ([`HostIndexMemory`]).
    pub va: u64,
    /// Device address of the index memory; the same number here.
    pub pa: u64,
    /// Bytes of the index memory.
    pub size: u64,
    reserved: [u64; 6],
    /// What the library's `neuronGetNetConnector` returned.
    pub nccl_connector: u64,
}

impl EncNetConnector {
    /// A connector over one index memory at `va`, with one fold in use.
    pub fn new(va: u64, nccl_connector: u64) -> Self {
        Self {
            fold_n: 1,
            va,
            pa: va,
            size: size_of::<HostIndexMemory>() as u64,
            nccl_connector,
            ..Self::default()
        }
    }
}

/// `enc_channel`: the two connectors of one stream.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct EncChannel {
    /// The stream.
    pub id: i32,
    /// A [`Topology`], as its number.
    pub pattern: i32,
    /// Address of the receiving [`EncNetConnector`].
    pub net_recv: u64,
    /// Address of the sending [`EncNetConnector`].
    pub net_send: u64,
    reserved: [u64; 8],
}

impl EncChannel {
    /// The channel of one stream over two connectors given by address.
    pub fn new(id: i32, topology: Topology, net_recv: u64, net_send: u64) -> Self {
        Self {
            id,
            pattern: topology as i32,
            net_recv,
            net_send,
            ..Self::default()
        }
    }
}

/// One index word, alone on its line of 128 bytes.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Fold(pub AtomicU32);

/// `enc_net_host_memory`: the index words of one connector. Only fold 0 is used.
#[derive(Debug, Default)]
#[repr(C)]
pub struct HostIndexMemory {
    /// The folds.
    pub folds: [Fold; 16],
}

const _: () = {
    assert!(size_of::<EncNetConnector>() == 96);
    assert!(offset_of!(EncNetConnector, fold_n) == 0);
    assert!(offset_of!(EncNetConnector, mem_handle) == 8);
    assert!(offset_of!(EncNetConnector, va) == 16);
    assert!(offset_of!(EncNetConnector, pa) == 24);
    assert!(offset_of!(EncNetConnector, size) == 32);
    assert!(offset_of!(EncNetConnector, nccl_connector) == 88);
    assert!(size_of::<EncChannel>() == 88);
    assert!(offset_of!(EncChannel, id) == 0);
    assert!(offset_of!(EncChannel, pattern) == 4);
    assert!(offset_of!(EncChannel, net_recv) == 8);
    assert!(offset_of!(EncChannel, net_send) == 16);
    assert!(size_of::<Fold>() == 128);
    assert!(size_of::<HostIndexMemory>() == 2048);
};
