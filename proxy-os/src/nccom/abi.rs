//! The C interface of the library as of release 2.31: 37 exported names, all unversioned, all but the first returning a
//! status (public header and specification section 4).
#![allow(unsafe_code, reason = "dlsym")]

use std::ffi::{c_char, c_int, c_void};

use proxy_core::fifo::{NetDestAddr, NetOpsInfo, NetSrcAddr};

/// The compatibility id that the library must report.
pub const COMPATIBILITY_ID: u64 = 89;

/// Bytes of a unique id.
pub const UNIQUE_ID_BYTES: usize = 128;

/// `NRT_STATUS` as it crosses the boundary: any number, known or not.
pub type RawStatus = c_int;

/// `nec_version_info`: written by the library, as far as the size it is told reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct VersionInfo {
    /// Major version.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
    /// Patch.
    pub patch: u64,
    /// Maintenance release.
    pub maintenance: u64,
    /// Text, not necessarily terminated.
    pub git_hash: [u8; 16],
    /// Must be [`COMPATIBILITY_ID`].
    pub compatibility_id: u64,
    /// The record ends in a tail that newer libraries may fill. Not told to the library, but there, so that one that
    /// ignores the size it is told does no harm.
    pub tail: [u8; 72],
}

impl VersionInfo {
    /// The size told to the library: the record without its tail.
    pub const SIZE: u32 = 56;

    /// What the library is given to fill.
    pub const ZERO: Self = Self {
        major: 0,
        minor: 0,
        patch: 0,
        maintenance: 0,
        git_hash: [0; 16],
        compatibility_id: 0,
        tail: [0; 72],
    };
}

const _: () = assert!(std::mem::offset_of!(VersionInfo, git_hash) == 32);
const _: () = assert!(std::mem::offset_of!(VersionInfo, compatibility_id) == 48);
const _: () = assert!(std::mem::offset_of!(VersionInfo, tail) == VersionInfo::SIZE as usize);

/// `enc_proxy_histogram_config_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HistogramConfig {
    /// Operations are timed (boolean).
    pub enable: u8,
    /// Width of a bucket in microseconds.
    pub bucket_usecs: u64,
    /// Number of buckets.
    pub num_buckets: u64,
    /// Samples skipped after each program load.
    pub per_neff_warmup: u64,
    /// Samples skipped overall.
    pub warmup: u64,
    /// Null-terminated path.
    pub output_path: [u8; 128],
}

/// `enc_neuron_device_info_t`: the device of a rank.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct DeviceInfo {
    /// Device index of the runtime.
    pub nec_dev_id: i32,
    /// Index of the accelerator.
    pub mla_idx: i32,
    /// Index of the core inside the accelerator.
    pub tpb_idx: i32,
    /// Device id on the host.
    pub host_device_id: i32,
    /// Routing id.
    pub routing_id: i32,
    /// Pod.
    pub pod_id: u64,
    /// `nec_pod_type`: 0 none, 1 point to point, 2 switch.
    pub pod_type: i32,
    /// Node inside the pod.
    pub pod_node_id: i32,
    /// Virtual server.
    pub virtual_server_id: i32,
    /// Timing.
    pub histogram_config: HistogramConfig,
}

const _: () = assert!(size_of::<HistogramConfig>() == 168);
const _: () = assert!(size_of::<DeviceInfo>() == 216);
const _: () = assert!(std::mem::offset_of!(DeviceInfo, pod_id) == 24);
const _: () = assert!(std::mem::offset_of!(DeviceInfo, histogram_config) == 48);

impl DeviceInfo {
    /// A device outside of any pod, not timed; `nec_dev_id` serves as its id on the host and for routing too.
    pub const fn standalone(nec_dev_id: i32) -> Self {
        Self {
            nec_dev_id,
            mla_idx: nec_dev_id,
            tpb_idx: 0,
            host_device_id: nec_dev_id,
            routing_id: nec_dev_id,
            pod_id: 0,
            pod_type: 0,
            pod_node_id: 0,
            virtual_server_id: 0,
            histogram_config: HistogramConfig {
                enable: 0,
                bucket_usecs: 0,
                num_buckets: 0,
                per_neff_warmup: 0,
                warmup: 0,
                output_path: [0; 128],
            },
        }
    }
}

/// `nccl_comm_info_t`. Only the head has one layout in all releases; the rest is kept as bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CommInfo {
    /// Cluster.
    pub cluster_id: u64,
    /// Epoch.
    pub epoch: u64,
    /// Device.
    pub neuron_dev: i32,
    /// Rank of this communicator.
    pub rank: i32,
    /// Number of ranks.
    pub rank_n: i32,
    /// Number of ranks on this machine.
    pub local_rank_n: i32,
    /// Topology: nodes, pods, peers, rings.
    pub rest: [u64; 168],
}

const _: () = assert!(size_of::<CommInfo>() == 1376);

/// Makes the table of symbols from one line per name, in the order in which they are looked up.
macro_rules! table {
    ($($field:ident = $name:literal ($($argument:ty),*);)+) => {
        /// The functions of a loaded library; the version probe is called before this table is made.
        #[derive(Debug, Clone, Copy)]
        #[allow(missing_docs, reason = "each field is the export whose name it carries")]
        pub struct Table {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> RawStatus,)+
        }

        /// The names in the order in which they are looked up, the version probe apart.
        pub const NAMES: &[&str] = &[$($name),+];

        impl Table {
            /// Looks up every name, also after one is missing.
            ///
            /// # Safety
            /// Each export that exists has the signature of this table.
            pub(super) unsafe fn look_up(
                library: &libloading::os::unix::Library,
            ) -> Result<Self, Vec<super::MissingSymbol>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the caller vouches for the signature; the copied function is used only while the
                    // library is mapped, because the table belongs to it.
                    let $field = unsafe { library.get(concat!($name, "\0").as_bytes()) };
                    let $field = $field.map(|symbol| *symbol).map_err(|reason| {
                        missing.push(super::MissingSymbol::new($name, &reason));
                    });
                )+
                match ($($field),+,) {
                    ($(Ok($field)),+,) => Ok(Self { $($field),+ }),
                    _ => Err(missing),
                }
            }
        }
    };
}
table! {
    get_unique_id = "neuronGetUniqueId" (*mut c_char, c_int, *const c_char);
    init_global_comm = "neuronInitGlobalComm"
        (c_int, c_int, *const DeviceInfo, *const c_char, *mut *mut c_void, *const c_char);
    init_comm = "neuronInitComm" (*mut *mut c_void, c_int, *mut c_char, c_int, *const DeviceInfo, bool);
    build_graph_comm = "neuronBuildGraphComm" (*mut c_void);
    get_comm_info = "neuronGetCommInfo" (*mut c_void, *mut CommInfo);
    free_comm = "neuronFreeComm" (*mut c_void);
    expand_connectivity = "neuronExpandConnectivity" (*mut c_void, c_int);
    start_network_proxy = "neuronStartNetworkProxy"
        (*mut c_void, u32, u32, *const NetOpsInfo, c_int, *const NetSrcAddr, c_int, *const NetDestAddr, c_int);
    stop_network_proxy = "neuronStopNetworkProxy" (*mut c_void, u32);
    network_proxy_progress = "neuronNetworkProxyProgress" (*mut c_void, u32, u32, *mut u8, *mut u8);
    bootstrap_send = "neuronBootstrapSend" (*mut c_void, c_int, *mut c_void, usize, *const c_char);
    bootstrap_recv = "neuronBootstrapRecv" (*mut c_void, c_int, *mut c_void, usize, *const c_char);
    bootstrap_all_gather = "neuronBootstrapAllGather" (*mut c_void, *mut c_void, usize, *const c_char);
    preferred_nc_rid_nic = "neuronPreferredNcRidNic" (u32, u32, *mut c_int);
    preferred_nc_rid_nic_bdf = "neuronPreferredNcRidNicBdf" (u32, u32, *mut c_char, usize);
    net_reg_mr = "neuronNetRegMr"
        (*mut c_void, c_int, c_int, bool, c_int, *mut c_void, usize, c_int, *mut *mut c_void);
    net_dereg_mr = "neuronNetDeregMr" (*mut c_void, c_int, c_int, bool, c_int, *mut c_void);
    get_peer_device_id = "neuronGetPeerDeviceId" (*mut c_void, c_int, *mut c_int);
    set_affinity = "neuronSetAffinity" (*mut c_void, *mut c_void, *mut c_void, c_int);
    get_net_connector = "neuronGetNetConnector" (*mut c_void, c_int, c_int, bool, *mut *mut c_void);
    init_net = "neuronInitNet" (*mut c_char);
    fini_plugin = "neuronFiniPlugin" ();
    get_ofi_handle = "neuronGetOFIHandle" (*mut *mut c_void);
    net_listen = "neuronNetListen" (c_int, *mut c_void, *mut *mut c_void);
    net_connect = "neuronNetConnect" (c_int, *mut c_void, *mut *mut c_void);
    net_accept = "neuronNetAccept" (*mut c_void, *mut *mut c_void);
    net_reg_mr_og = "neuronNetRegMrOG" (*mut c_void, *mut c_void, usize, c_int, *mut *mut c_void);
    net_dereg_mr_og = "neuronNetDeregMrOG" (*mut c_void, *mut c_void);
    net_get_mr_key = "neuronNetGetMrKey" (*mut c_void, *mut u64);
    net_isend = "neuronNetIsend" (*mut c_void, *mut c_void, c_int, *mut c_void, *mut *mut c_void);
    net_irecv = "neuronNetIrecv" (*mut c_void, *mut c_void, c_int, *mut c_void, *mut *mut c_void);
    net_iflush = "neuronNetIflush" (*mut c_void, *mut c_void, c_int, *mut c_void, *mut *mut c_void);
    net_test = "neuronNetTest" (*mut c_void, *mut c_int, *mut c_int);
    net_close_send = "neuronNetCloseSend" (*mut c_void);
    net_close_recv = "neuronNetCloseRecv" (*mut c_void);
    net_close_listen = "neuronNetCloseListen" (*mut c_void);
}

/// The export that is looked up and called first.
pub const VERSION_PROBE: &str = "neuronGetVersionInfo";

/// Signature of the version probe; whatever it returns is not looked at, because releases differ in it.
pub type GetVersionInfo = unsafe extern "C" fn(*mut VersionInfo, u32);

const _: () = assert!(NAMES.len() == 36);
