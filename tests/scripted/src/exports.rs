//! The 37 exports of release 2.31: three scripted, the rest succeed trivially.
//!
//! Signatures are those of the specification's table of forward names. Nothing here dereferences a handle except
//! the three proxy calls; `neuronFreeComm` frees nothing, so that a test can read the record afterwards.
#![allow(unsafe_code, reason = "C ABI: raw handles and caller-owned memory")]
#![allow(non_snake_case, reason = "the names are the library's")]

use std::ffi::{c_char, c_int, c_void};

use crate::control::{new_handle, script};
use crate::exit::report_late_call;
use crate::rule::{Answer, Call};
use crate::script::{CallRecord, Entered, Script, apply_flags};

const NRT_SUCCESS: c_int = 0;
const NRT_INVALID: c_int = 2;

/// The id that the loader of release 2.31 expects.
const COMPATIBILITY_ID: u64 = 89;
/// Version numbers, then a 16-byte hash, then the compatibility id at byte 48.
const VERSION: [u64; 4] = [2, 31, 24, 0];
const GIT_HASH: &[u8; 16] = b"scripted\0\0\0\0\0\0\0\0";

unsafe extern "C" {
    /// Kernel thread id of the caller.
    safe fn gettid() -> c_int;
}

/// Writes the version record: the hash only if `n` exceeds 0x2F, the compatibility id only if it exceeds 0x37.
///
/// # Safety
/// `info` is null or has room for `n` bytes, at least 32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronGetVersionInfo(info: *mut c_void, n: u32) -> u64 {
    if info.is_null() {
        return 1;
    }
    // SAFETY: 32 bytes of room by the contract; an array of four u64 may be unaligned for the caller's record.
    unsafe { info.cast::<[u64; 4]>().write_unaligned(VERSION) };
    if n > 0x2F {
        // SAFETY: n > 47, so the hash's place (32..48) lies in the caller's record.
        let place = unsafe { info.byte_add(32) };
        // SAFETY: as above.
        unsafe { place.cast::<[u8; 16]>().write_unaligned(*GIT_HASH) };
    }
    if n > 0x37 {
        // SAFETY: n > 55, so the id's place (48..56) lies in the caller's record.
        let place = unsafe { info.byte_add(48) };
        // SAFETY: as above.
        unsafe { place.cast::<u64>().write_unaligned(COMPATIBILITY_ID) };
    }
    0
}

/// Scripted: `start`.
///
/// # Safety
/// `comm` is null or a live handle of this library. The arrays are not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronStartNetworkProxy(
    comm: *mut c_void,
    stream: u32,
    block: u32,
    _ops: *mut c_void,
    n_ops: c_int,
    _src: *mut c_void,
    n_src: c_int,
    _dst: *mut c_void,
    n_dst: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let script = unsafe { script(comm) };
    let counts = CallRecord {
        n_ops,
        n_src,
        n_dst,
        ..CallRecord::default()
    };
    play(script, Call::Start, stream, block, counts, |_| (0, 0))
}

/// Scripted: `progress`.
///
/// # Safety
/// `comm` is null or a live handle of this library; the flags are null or the caller's own booleans.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronNetworkProxyProgress(
    comm: *mut c_void,
    stream: u32,
    block: u32,
    idle: *mut bool,
    done: *mut bool,
) -> c_int {
    // SAFETY: the caller's contract.
    let script = unsafe { script(comm) };
    // SAFETY: null or a boolean of the caller that nobody else uses during the call.
    let idle = unsafe { idle.as_mut() };
    // SAFETY: as for idle; the two are different booleans.
    let done = unsafe { done.as_mut() };
    let (Some(idle), Some(done)) = (idle, done) else {
        return NRT_INVALID;
    };
    play(
        script,
        Call::Progress,
        stream,
        block,
        CallRecord::default(),
        |answer| {
            apply_flags(answer.flags, idle, done);
            (u8::from(*idle), u8::from(*done))
        },
    )
}

/// Scripted: `stop`.
///
/// # Safety
/// `comm` is null or a live handle of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronStopNetworkProxy(comm: *mut c_void, stream: u32) -> c_int {
    // SAFETY: the caller's contract.
    let script = unsafe { script(comm) };
    play(script, Call::Stop, stream, 0, CallRecord::default(), |_| {
        (0, 0)
    })
}

/// One scripted call from entry to return.
fn play(
    script: Option<&Script>,
    call: Call,
    stream: u32,
    block: u32,
    counts: CallRecord,
    flags: impl FnOnce(&Answer) -> (u8, u8),
) -> c_int {
    report_late_call(call, stream);
    let Some(script) = script else {
        return NRT_INVALID;
    };
    let Entered { answer, seq } = script.enter(call, stream, block);
    script.delay(&answer);
    let (idle, done) = flags(&answer);
    script.leave(CallRecord {
        seq,
        call: call as u32,
        stream,
        block,
        ret: answer.ret,
        tid: gettid().unsigned_abs(),
        idle,
        done,
        ..counts
    });
    answer.ret
}

/// Hands a value to the caller through an out pointer, if there is one.
///
/// # Safety
/// `out` is null or valid for a write.
unsafe fn put<T>(out: *mut T, value: T) -> c_int {
    if out.is_null() {
        return NRT_INVALID;
    }
    // SAFETY: not null, and valid by the contract.
    unsafe { out.write(value) };
    NRT_SUCCESS
}

/// Exports that do nothing and succeed.
macro_rules! succeed {
    ($($name:ident($($argument:ty),*);)+) => {$(
        #[doc = concat!("`", stringify!($name), "`: touches nothing and succeeds.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $argument),*) -> c_int {
            NRT_SUCCESS
        }
    )+};
}

succeed! {
    neuronGetUniqueId(*mut c_char, c_int, *const c_char);
    neuronBuildGraphComm(*mut c_void);
    neuronGetCommInfo(*mut c_void, *mut c_void);
    neuronFreeComm(*mut c_void);
    neuronExpandConnectivity(*mut c_void, u32);
    neuronBootstrapSend(*mut c_void, c_int, *mut c_void, usize, *const c_char);
    neuronBootstrapRecv(*mut c_void, c_int, *mut c_void, usize, *const c_char);
    neuronBootstrapAllGather(*mut c_void, *mut c_void, usize, *const c_char);
    neuronPreferredNcRidNicBdf(u32, u32, *mut c_char, usize);
    neuronNetDeregMr(*mut c_void, u32, c_int, bool, u32, *mut c_void);
    neuronSetAffinity(*mut c_void, *mut c_void, *mut c_void, c_int);
    neuronInitNet(*mut c_char);
    neuronFiniPlugin();
    neuronNetDeregMrOG(*mut c_void, *mut c_void);
    neuronNetCloseSend(*mut c_void);
    neuronNetCloseRecv(*mut c_void);
    neuronNetCloseListen(*mut c_void);
}

/// Exports that succeed and hand out one value through the pointer argument named `out`.
macro_rules! hand_out {
    ($($name:ident($($before:ty),*; out: *mut $kind:ty $(; $($after:ty),+)?) = $value:expr;)+) => {$(
        #[doc = concat!("`", stringify!($name), "`: hands out a value of no further meaning.")]
        ///
        /// # Safety
        /// The out pointer is null (then refused) or valid for a write.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($(_: $before,)* out: *mut $kind $($(, _: $after)+)?) -> c_int {
            // SAFETY: the caller's contract.
            unsafe { put(out, $value) }
        }
    )+};
}

/// A handle that is not null and that nobody dereferences.
const DUMMY: *mut c_void = std::ptr::dangling_mut::<u64>().cast();

hand_out! {
    neuronInitGlobalComm(c_int, c_int, *const c_void, *const c_char; out: *mut *mut c_void; *const c_char) = new_handle();
    neuronInitComm(; out: *mut *mut c_void; c_int, *mut c_char, c_int, *const c_void, bool) = new_handle();
    neuronPreferredNcRidNic(u32, u32; out: *mut c_int) = -1;
    neuronNetRegMr(*mut c_void, u32, c_int, bool, u32, *mut c_void, usize, c_int; out: *mut *mut c_void) = DUMMY;
    neuronGetPeerDeviceId(*mut c_void, c_int; out: *mut c_int) = 0;
    neuronGetNetConnector(*mut c_void, u32, c_int, bool; out: *mut *mut c_void) = DUMMY;
    neuronGetOFIHandle(; out: *mut *mut c_void) = DUMMY;
    neuronNetListen(c_int, *mut c_void; out: *mut *mut c_void) = DUMMY;
    neuronNetConnect(c_int, *mut c_void; out: *mut *mut c_void) = DUMMY;
    neuronNetAccept(*mut c_void; out: *mut *mut c_void) = DUMMY;
    neuronNetRegMrOG(*mut c_void, *mut c_void, usize, c_int; out: *mut *mut c_void) = DUMMY;
    neuronNetGetMrKey(*mut c_void; out: *mut u64) = 1;
    neuronNetIsend(*mut c_void, *mut c_void, c_int, *mut c_void; out: *mut *mut c_void) = DUMMY;
    neuronNetIrecv(*mut c_void, *mut c_void, c_int, *mut c_void; out: *mut *mut c_void) = DUMMY;
    neuronNetIflush(*mut c_void, *mut c_void, c_int, *mut c_void; out: *mut *mut c_void) = DUMMY;
    neuronNetTest(*mut c_void; out: *mut c_int; *mut c_int) = 1;
}
