//! Typed calls of the library. None of them locks; which thread may call what is said per call.
//!
//! All calls that take a communicator are unsafe: whether the handle is alive only the library knows.
#![allow(unsafe_code, reason = "calls of foreign functions")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use proxy_core::Status;
use proxy_core::fifo::{NetDestAddr, NetOpsInfo, NetSrcAddr};

use super::abi::{CommInfo, DeviceInfo, RawStatus, UNIQUE_ID_BYTES};
use super::error::CallError;
use super::loader::Library;

/// An opaque communicator of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Comm(NonNull<c_void>);

// SAFETY: the handle is a number to us; it is used in unsafe calls only, whose callers see to the library's threading rules.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

impl Comm {
    /// A handle that came from elsewhere; `None` for null.
    pub fn new(raw: *mut c_void) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// The handle as the library takes it.
    pub fn as_ptr(self) -> *mut c_void {
        self.0.as_ptr()
    }
}

/// What ranks pass on to each other to make a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct UniqueId(pub [u8; UNIQUE_ID_BYTES]);

impl Library {
    fn check(&self, name: &'static str, status: RawStatus) -> Result<(), CallError> {
        if Status(status).is_success() {
            return Ok(());
        }
        Err(CallError {
            name,
            status: Status(status),
            library: self.path().to_owned(),
        })
    }

    /// A pointer that the library wrote after a call that succeeded; null is an answer of the library too.
    fn check_pointer(
        &self,
        name: &'static str,
        status: RawStatus,
        pointer: *mut c_void,
    ) -> Result<NonNull<c_void>, CallError> {
        self.check(name, status)?;
        NonNull::new(pointer).ok_or_else(|| CallError {
            name,
            status: Status::INVALID_HANDLE,
            library: self.path().to_owned(),
        })
    }

    /// Makes the id of a new communicator of `rank_n` ranks; on one of them. `hint` is for the library's messages.
    ///
    /// # Errors
    /// The library's.
    pub fn get_unique_id(&self, rank_n: i32, hint: &CStr) -> Result<UniqueId, CallError> {
        let mut id = [0_u8; UNIQUE_ID_BYTES];
        // SAFETY: the id is valid for the 128 bytes that the library writes; the hint is terminated.
        let status =
            unsafe { (self.table().get_unique_id)(id.as_mut_ptr().cast(), rank_n, hint.as_ptr()) };
        self.check("neuronGetUniqueId", status)?;
        Ok(UniqueId(id))
    }

    /// Joins the communicator of all devices of the job: waits until every device has called it.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// One call at a time per device; the device is described truly.
    pub unsafe fn init_global_comm(
        &self,
        device: i32,
        device_n: i32,
        info: &DeviceInfo,
        root_id: &CStr,
        hint: &CStr,
    ) -> Result<Comm, CallError> {
        let mut comm = std::ptr::null_mut();
        let init = self.table().init_global_comm;
        // SAFETY: all pointers are valid for the call, texts are terminated; the rest is the caller's duty.
        let status = unsafe {
            init(
                device,
                device_n,
                info,
                root_id.as_ptr(),
                &raw mut comm,
                hint.as_ptr(),
            )
        };
        self.check_pointer("neuronInitGlobalComm", status, comm)
            .map(Comm)
    }

    /// Joins the communicator `id` as `rank` of `rank_n`: waits until every rank has called it.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `id` comes from [`Self::get_unique_id`] on one rank of the job; the device is described truly.
    pub unsafe fn init_comm(
        &self,
        rank_n: i32,
        mut id: UniqueId,
        rank: i32,
        info: &DeviceInfo,
        bypass_graph: bool,
    ) -> Result<Comm, CallError> {
        let mut comm = std::ptr::null_mut();
        let init = self.table().init_comm;
        let id = id.0.as_mut_ptr().cast();
        // SAFETY: all pointers are valid for the call; the rest is the caller's duty.
        let status = unsafe { init(&raw mut comm, rank_n, id, rank, info, bypass_graph) };
        self.check_pointer("neuronInitComm", status, comm).map(Comm)
    }

    /// Finds the routes of a communicator that was made without.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `comm` is alive and no other call uses it meanwhile.
    pub unsafe fn build_graph_comm(&self, comm: Comm) -> Result<(), CallError> {
        // SAFETY: the caller's duty.
        let status = unsafe { (self.table().build_graph_comm)(comm.as_ptr()) };
        self.check("neuronBuildGraphComm", status)
    }

    /// Rank, sizes and topology of a communicator.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `comm` is alive.
    pub unsafe fn get_comm_info(&self, comm: Comm) -> Result<Box<CommInfo>, CallError> {
        let mut info = Box::new(MaybeUninit::<CommInfo>::zeroed());
        // SAFETY: the record is valid for its size, which is that of this interface; the rest is the caller's duty.
        let status = unsafe { (self.table().get_comm_info)(comm.as_ptr(), info.as_mut_ptr()) };
        self.check("neuronGetCommInfo", status)?;
        // SAFETY: the record is all integers, so its zeroed bytes and whatever was written over them are valid.
        Ok(unsafe { info.assume_init() })
    }

    /// Ends a communicator.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `comm` is alive, no other call uses it, and none will.
    pub unsafe fn free_comm(&self, comm: Comm) -> Result<(), CallError> {
        // SAFETY: the caller's duty.
        let status = unsafe { (self.table().free_comm)(comm.as_ptr()) };
        self.check("neuronFreeComm", status)
    }

    /// Connects the ranks of `comm` by the pattern `connectivity` (`enc_net_connectivity`: 0 mesh, 1 RDH, 2 default).
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `comm` is alive and no other call uses it meanwhile.
    pub unsafe fn expand_connectivity(
        &self,
        comm: Comm,
        connectivity: i32,
    ) -> Result<(), CallError> {
        // SAFETY: the caller's duty.
        let status = unsafe { (self.table().expand_connectivity)(comm.as_ptr(), connectivity) };
        self.check("neuronExpandConnectivity", status)
    }

    /// Sends `data` to rank `peer` over the bootstrap network; may wait for the peer.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `comm` is alive and no other bootstrap call uses it meanwhile.
    pub unsafe fn bootstrap_send(
        &self,
        comm: Comm,
        peer: i32,
        data: &[u8],
        hint: &CStr,
    ) -> Result<(), CallError> {
        let (send, hint) = (self.table().bootstrap_send, hint.as_ptr());
        // SAFETY: the library reads the data, which is valid for its length; the rest is the caller's duty.
        let status = unsafe {
            send(
                comm.as_ptr(),
                peer,
                data.as_ptr().cast_mut().cast(),
                data.len(),
                hint,
            )
        };
        self.check("neuronBootstrapSend", status)
    }

    /// Receives as many bytes as `data` has from rank `peer`; waits for them.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `comm` is alive and no other bootstrap call uses it meanwhile.
    pub unsafe fn bootstrap_recv(
        &self,
        comm: Comm,
        peer: i32,
        data: &mut [u8],
        hint: &CStr,
    ) -> Result<(), CallError> {
        let (receive, hint) = (self.table().bootstrap_recv, hint.as_ptr());
        // SAFETY: the data is valid for its length; the rest is the caller's duty.
        let status = unsafe {
            receive(
                comm.as_ptr(),
                peer,
                data.as_mut_ptr().cast(),
                data.len(),
                hint,
            )
        };
        self.check("neuronBootstrapRecv", status)
    }

    /// Every rank gives its part of `all` and gets the others': part `rank` is at `rank * part`. Waits for all ranks.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `comm` is alive, no other bootstrap call uses it meanwhile, and `all` has `part` bytes for each of its ranks.
    pub unsafe fn bootstrap_all_gather(
        &self,
        comm: Comm,
        all: &mut [u8],
        part: usize,
        hint: &CStr,
    ) -> Result<(), CallError> {
        let gather = self.table().bootstrap_all_gather;
        // SAFETY: the caller's duty.
        let status = unsafe { gather(comm.as_ptr(), all.as_mut_ptr().cast(), part, hint.as_ptr()) };
        self.check("neuronBootstrapAllGather", status)
    }

    /// The connector of a channel in one direction (`pattern`: 0 ring, 1 mesh).
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// `comm` is alive.
    pub unsafe fn get_net_connector(
        &self,
        comm: Comm,
        pattern: i32,
        channel: i32,
        is_send: bool,
    ) -> Result<NonNull<c_void>, CallError> {
        let mut connector = std::ptr::null_mut();
        let get = self.table().get_net_connector;
        // SAFETY: the result is a valid local; the rest is the caller's duty.
        let status = unsafe { get(comm.as_ptr(), pattern, channel, is_send, &raw mut connector) };
        self.check_pointer("neuronGetNetConnector", status, connector)
    }

    /// Registers the ops and addresses of one basic block of a stream. Moves nothing.
    ///
    /// # Safety
    /// `comm` is alive and no other call of the three proxy calls uses it meanwhile. The arrays are validated, and neither
    /// move nor change until the stream is stopped: the library keeps pointers into them.
    pub unsafe fn start_network_proxy(
        &self,
        comm: Comm,
        stream: u32,
        block: u32,
        ops: *const [NetOpsInfo],
        src: *const [NetSrcAddr],
        dst: *const [NetDestAddr],
    ) -> Status {
        let counts = [ops.len(), src.len(), dst.len()].map(c_int::try_from);
        let [Ok(op_n), Ok(src_n), Ok(dst_n)] = counts else {
            return Status::INVALID;
        };
        let start = self.table().start_network_proxy;
        let (ops, src, dst) = (ops.cast(), src.cast(), dst.cast());
        // SAFETY: the caller's duty.
        Status(unsafe {
            start(
                comm.as_ptr(),
                stream,
                block,
                ops,
                op_n,
                src,
                src_n,
                dst,
                dst_n,
            )
        })
    }

    /// One pass over the ops of a stream: the hot call, so nothing is checked or counted here.
    ///
    /// The library ANDs its answers into `idle` and `done`: seed both true before the first stream of a task. On an error
    /// their values mean nothing.
    ///
    /// # Safety
    /// `comm` is alive and no other call of the three proxy calls uses it meanwhile.
    #[inline]
    pub unsafe fn network_proxy_progress(
        &self,
        comm: Comm,
        stream: u32,
        block: u32,
        idle: &mut bool,
        done: &mut bool,
    ) -> Status {
        // A foreign library may store any byte, which no bool may hold.
        let mut flags = [u8::from(*idle), u8::from(*done)];
        let [idle_byte, done_byte] = flags.each_mut();
        let progress = self.table().network_proxy_progress;
        // SAFETY: both flags are valid bytes; the rest is the caller's duty.
        let status = unsafe { progress(comm.as_ptr(), stream, block, idle_byte, done_byte) };
        [*idle, *done] = flags.map(|flag| flag != 0);
        Status(status)
    }

    /// Frees all blocks of a stream. Requests on their way are not waited for.
    ///
    /// # Safety
    /// `comm` is alive and no other call of the three proxy calls uses it meanwhile.
    pub unsafe fn stop_network_proxy(&self, comm: Comm, stream: u32) -> Status {
        // SAFETY: the caller's duty.
        Status(unsafe { (self.table().stop_network_proxy)(comm.as_ptr(), stream) })
    }

    /// Shuts the library's network plugin down.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// No communicator is alive, and nothing of the library is called later.
    pub unsafe fn fini_plugin(&self) -> Result<(), CallError> {
        // SAFETY: the caller's duty.
        let status = unsafe { (self.table().fini_plugin)() };
        self.check("neuronFiniPlugin", status)
    }
}
