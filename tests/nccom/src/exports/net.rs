//! Exports 15 to 18 and 22 to 37: what belongs to the network plugin of the original.
//!
//! Memory registration is real as far as TCP needs one. The plugin's own connections and transfers are not there:
//! those calls say so and return NRT_INVALID. No caller of this project uses them.

use std::ffi::{c_char, c_int, c_void};

use crate::error::{Error, guard};
use crate::exports::{put, text};
use crate::mr;
use crate::settings::parse_root;

/// `neuronPreferredNcRidNic`: no preference, -1.
///
/// # Safety
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronPreferredNcRidNic(
    _device: u32,
    _core: u32,
    out: *mut c_int,
) -> c_int {
    guard("neuronPreferredNcRidNic", || {
        // SAFETY: the caller's contract.
        unsafe { put(out, "out", -1) }
    })
}

/// `neuronPreferredNcRidNicBdf`: no preference, an empty string.
///
/// # Safety
/// `out` is null or has room for `n` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronPreferredNcRidNicBdf(
    _device: u32,
    _core: u32,
    out: *mut c_char,
    n: usize,
) -> c_int {
    guard("neuronPreferredNcRidNicBdf", || {
        if n == 0 {
            return Err(Error::invalid("room for 0 bytes, accepted: 1 or more"));
        }
        // SAFETY: the caller's contract; room for one byte at least.
        unsafe { put(out, "out", 0) }
    })
}

/// `neuronNetRegMr`: registers memory. TCP needs no registration; the handle only has a key.
///
/// # Safety
/// `handle` is null or valid for a write. The memory is not touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronNetRegMr(
    _comm: *mut c_void,
    _pattern: c_int,
    _channel: c_int,
    _is_send: bool,
    _kind: c_int,
    address: *mut c_void,
    size: usize,
    _pointer_type: c_int,
    handle: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    guard("neuronNetRegMr", || unsafe {
        put(handle, "handle", mr::register(address, size)?)
    })
}

/// `neuronNetDeregMr`: gives a registration back.
#[unsafe(no_mangle)]
pub extern "C" fn neuronNetDeregMr(
    _comm: *mut c_void,
    _pattern: c_int,
    _channel: c_int,
    _is_send: bool,
    _kind: c_int,
    handle: *mut c_void,
) -> c_int {
    guard("neuronNetDeregMr", || mr::deregister(handle))
}

/// `neuronNetRegMrOG`: registers memory, as `neuronNetRegMr` does.
///
/// # Safety
/// `handle` is null or valid for a write. The memory is not touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronNetRegMrOG(
    _comm: *mut c_void,
    address: *mut c_void,
    size: usize,
    _pointer_type: c_int,
    handle: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    guard("neuronNetRegMrOG", || unsafe {
        put(handle, "handle", mr::register(address, size)?)
    })
}

/// `neuronNetDeregMrOG`: gives a registration back.
#[unsafe(no_mangle)]
pub extern "C" fn neuronNetDeregMrOG(_comm: *mut c_void, handle: *mut c_void) -> c_int {
    guard("neuronNetDeregMrOG", || mr::deregister(handle))
}

/// `neuronNetGetMrKey`: the key of a live registration.
///
/// # Safety
/// `key` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronNetGetMrKey(handle: *mut c_void, key: *mut u64) -> c_int {
    // SAFETY: the caller's contract.
    guard("neuronNetGetMrKey", || unsafe {
        put(key, "key", mr::key(handle)?)
    })
}

/// `neuronInitNet`: there is no plugin to set up; checks the root id.
///
/// # Safety
/// `root_comm_id` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn neuronInitNet(root_comm_id: *mut c_char) -> c_int {
    guard("neuronInitNet", || {
        // SAFETY: the caller's contract.
        let root = unsafe { text(root_comm_id) };
        parse_root(&root).map(drop)
    })
}

/// `neuronFiniPlugin`: there is no plugin to shut down.
#[unsafe(no_mangle)]
pub extern "C" fn neuronFiniPlugin() -> c_int {
    guard("neuronFiniPlugin", || Ok(()))
}

/// Exports of the plugin's own transport, which this library does not have.
macro_rules! unsupported {
    ($($name:ident($($argument:ty),*);)+) => {$(
        #[doc = concat!("`", stringify!($name), "`: not supported, NRT_INVALID.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $argument),*) -> c_int {
            guard(stringify!($name), || Err(Error::invalid("the network plugin's own transport is not supported here")))
        }
    )+};
}

unsupported! {
    neuronGetOFIHandle(*mut *mut c_void);
    neuronNetListen(c_int, *mut c_void, *mut *mut c_void);
    neuronNetConnect(c_int, *mut c_void, *mut *mut c_void);
    neuronNetAccept(*mut c_void, *mut *mut c_void);
    neuronNetIsend(*mut c_void, *mut c_void, c_int, *mut c_void, *mut *mut c_void);
    neuronNetIrecv(*mut c_void, *mut c_void, c_int, *mut c_void, *mut *mut c_void);
    neuronNetIflush(*mut c_void, *mut c_void, c_int, *mut c_void, *mut *mut c_void);
    neuronNetTest(*mut c_void, *mut c_int, *mut c_int);
    neuronNetCloseSend(*mut c_void);
    neuronNetCloseRecv(*mut c_void);
    neuronNetCloseListen(*mut c_void);
}
