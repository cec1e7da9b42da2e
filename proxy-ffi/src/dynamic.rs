//! Dynamic sizes: what the collective library asks its host for when an op's sizes are known only as it is posted.
//!
//! A record with `is_dynamic_send_recv_sz` has advisory sizes in its entries. At post time the library asks for size and offset of each
//! element, and tells how much it has received: four functions of its host at version node `NRT_2.0.0` (public header and the names that
//! the library imports). An older header has a fifth, `nec_get_dynamic_recv_size_bytes`, which no library asks for. What stands behind them, the layout of the device's size tables, is the embedder's: it gives its functions once.
#![allow(unsafe_code, reason = "functions of the embedder are called")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::call::{self, Failure};
use crate::fifo::net_ops_info;
use crate::record::{self, record};
use crate::status::{self, NRT_STATUS};

/// The embedder's answer to one question of the library: a size or an offset in bytes.
///
/// - `user`: as given to `enc_proxy_set_dynamic_sizes`.
/// - `host_mem`: the library's, as it is: the host memory (`enc_host_mem`) that the connector names for its dynamic input.
/// - `elem`: the size of an element, by its name: no source says what it is. `peer`: the rank asked about. `rank_n`: ranks of the communicator.
///
/// Called by a worker inside a tick: it must not wait, and must not call the collective library.
pub type enc_proxy_dynamic_get = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        host_mem: *mut c_void,
        elem: usize,
        peer: c_int,
        rank_n: c_int,
    ) -> usize,
>;

/// Takes the number of bytes that were received from the rank `src`. The other arguments and what it may do: as for `enc_proxy_dynamic_get`.
pub type enc_proxy_dynamic_set = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        host_mem: *mut c_void,
        bytes: usize,
        elem: usize,
        src: c_int,
        rank_n: c_int,
    ),
>;

/// The embedder's functions for dynamic sizes, for `enc_proxy_set_dynamic_sizes`; none may be NULL.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_dynamic_sizes {
    /// `sizeof(enc_proxy_dynamic_sizes)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Handed to each function as it is.
    pub user: *mut c_void,
    /// Answers `nec_get_dynamic_send_size_bytes`.
    pub send_size_bytes: enc_proxy_dynamic_get,
    /// Answers `nec_get_dynamic_send_offset_bytes`.
    pub send_offset_bytes: enc_proxy_dynamic_get,
    /// Answers `nec_get_dynamic_recv_offset_bytes`.
    pub recv_offset_bytes: enc_proxy_dynamic_get,
    /// Takes what `nec_set_recv_size_bytes` tells.
    pub set_recv_size_bytes: enc_proxy_dynamic_set,
}
record!(enc_proxy_dynamic_sizes {
    struct_size: usize, flags: u64, user: *mut c_void, send_size_bytes: enc_proxy_dynamic_get,
    send_offset_bytes: enc_proxy_dynamic_get, recv_offset_bytes: enc_proxy_dynamic_get,
    set_recv_size_bytes: enc_proxy_dynamic_set,
});

type Get = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize, c_int, c_int) -> usize;
type Set = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize, usize, c_int, c_int);

/// The embedder's functions, all there.
#[derive(Debug, Clone, Copy)]
struct Functions {
    user: *mut c_void,
    send_size: Get,
    send_offset: Get,
    recv_offset: Get,
    set_recv_size: Set,
}

// SAFETY: `enc_proxy_set_dynamic_sizes`'s caller promises that the functions may be called with the argument from any thread.
unsafe impl Send for Functions {}
// SAFETY: as above.
unsafe impl Sync for Functions {}

impl Functions {
    fn are(&self, given: &enc_proxy_dynamic_sizes) -> bool {
        let same = |own: Get, given: enc_proxy_dynamic_get| {
            given.is_some_and(|given| std::ptr::fn_addr_eq(own, given))
        };
        let set = |given| std::ptr::fn_addr_eq(self.set_recv_size, given);
        self.user == given.user
            && same(self.send_size, given.send_size_bytes)
            && same(self.send_offset, given.send_offset_bytes)
            && same(self.recv_offset, given.recv_offset_bytes)
            && given.set_recv_size_bytes.is_some_and(set)
    }
}

/// Set once: a worker reads it in the middle of a tick, where no lock may be taken, and may be inside a function at any later time.
static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Gives the functions that answer for dynamic sizes; once per process, before the first context with a dynamic op is made.
///
/// - `sizes`: copied.
///
/// Errors: `NRT_INVALID` (a function is NULL; or other functions have been given before, which stay: the same ones again are accepted).
/// Threads: any.
///
/// # Safety
/// `sizes` is readable for the size that it says. Until the process ends the functions may be called with `user` from any worker's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_set_dynamic_sizes(
    sizes: *const enc_proxy_dynamic_sizes,
) -> NRT_STATUS {
    call::plain("enc_proxy_set_dynamic_sizes", || {
        // SAFETY: the caller's promise.
        let given = unsafe { record::read(sizes) }?;
        let missing = |name: &str| Failure::invalid(format_args!("{name} is NULL"));
        let functions = Functions {
            user: given.user,
            send_size: (given.send_size_bytes).ok_or_else(|| missing("send_size_bytes"))?,
            send_offset: (given.send_offset_bytes).ok_or_else(|| missing("send_offset_bytes"))?,
            recv_offset: (given.recv_offset_bytes).ok_or_else(|| missing("recv_offset_bytes"))?,
            set_recv_size: (given.set_recv_size_bytes)
                .ok_or_else(|| missing("set_recv_size_bytes"))?,
        };
        if FUNCTIONS.get_or_init(|| functions).are(&given) {
            return Ok(());
        }
        Err(Failure::invalid(
            "functions have been given before, accepted: the same ones",
        ))
    })
}

/// Refuses ops whose sizes nobody answers for.
pub(crate) fn answered(ops: &[net_ops_info]) -> Result<(), Failure> {
    let dynamic = ops.iter().position(|op| op.is_dynamic_send_recv_sz == 1);
    match dynamic {
        Some(index) if FUNCTIONS.get().is_none() => Err(Failure::new(
            status::ENC_PROXY_NO_DYNAMIC_SIZES,
            format_args!(
                "net_ops_info_fifo[{index}].is_dynamic_send_recv_sz is 1, accepted: 0 until enc_proxy_set_dynamic_sizes was called"
            ),
        )),
        _ => Ok(()),
    }
}

/// Asks the embedder; 0 if there is nobody to ask, or the function threw.
fn ask(
    name: &'static str,
    which: fn(&Functions) -> Get,
    host_mem: *mut c_void,
    (elem, peer, rank_n): (usize, c_int, c_int),
) -> usize {
    let mut answer = 0;
    call::quiet(name, || {
        if let Some(functions) = FUNCTIONS.get() {
            let get = which(functions);
            // SAFETY: `enc_proxy_set_dynamic_sizes`'s caller promises that the function may be called with its argument; the rest is the
            // library's, handed on as it is.
            answer = unsafe { get(functions.user, host_mem, elem, peer, rank_n) };
        }
    });
    answer
}

/// Bytes that an op with dynamic sizes sends to `peer`. Asked by the collective library as it posts the send.
///
/// - `host_mem`: host memory of the connector's dynamic input, not looked at here.
/// - `elem`, `peer`, `rank_n`: as for `enc_proxy_dynamic_get`.
///
/// 0, which sends nothing, if no functions were given; a context with such an op is refused then, so only a library that asks without being told
/// to sees it. Any thread; never blocks.
///
/// # Safety
/// The arguments are what the embedder's function takes them for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nec_get_dynamic_send_size_bytes(
    host_mem: *mut c_void,
    elem: usize,
    peer: c_int,
    rank_n: c_int,
) -> usize {
    let name = "nec_get_dynamic_send_size_bytes";
    ask(name, |f| f.send_size, host_mem, (elem, peer, rank_n))
}

/// Where in the send buffer the bytes for `peer` begin. Arguments and the rest: as for `nec_get_dynamic_send_size_bytes`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nec_get_dynamic_send_offset_bytes(
    host_mem: *mut c_void,
    elem: usize,
    peer: c_int,
    rank_n: c_int,
) -> usize {
    let name = "nec_get_dynamic_send_offset_bytes";
    ask(name, |f| f.send_offset, host_mem, (elem, peer, rank_n))
}

/// Where in the receive buffer the bytes of `peer` go. Arguments and the rest: as for `nec_get_dynamic_send_size_bytes`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nec_get_dynamic_recv_offset_bytes(
    host_mem: *mut c_void,
    elem: usize,
    peer: c_int,
    rank_n: c_int,
) -> usize {
    let name = "nec_get_dynamic_recv_offset_bytes";
    ask(name, |f| f.recv_offset, host_mem, (elem, peer, rank_n))
}

/// Tells that `bytes` have been received from the rank `src`. Nothing happens if no functions were given. The other arguments and the rest: as for
/// `nec_get_dynamic_send_size_bytes`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nec_set_recv_size_bytes(
    host_mem: *mut c_void,
    bytes: usize,
    elem: usize,
    src: c_int,
    rank_n: c_int,
) {
    call::quiet("nec_set_recv_size_bytes", || {
        if let Some(functions) = FUNCTIONS.get() {
            let (set, user) = (functions.set_recv_size, functions.user);
            // SAFETY: as in `ask`.
            unsafe { set(user, host_mem, bytes, elem, src, rank_n) };
        }
    });
}
