//! What this library is, and why the last call failed.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::c_char;

use proxy_os::nccom::abi;

use crate::call;
use crate::record::{OutRecord, record};
use crate::status::NRT_STATUS;

/// This library's release.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_version_t {
    /// `sizeof(enc_proxy_version_t)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Grows when something is taken away or changes its meaning.
    pub major: u32,
    /// Grows when something is added.
    pub minor: u32,
    /// Grows with every other release.
    pub patch: u32,
    /// 0.
    pub reserved: u32,
    /// The compatibility id that the collective library must report.
    pub compatibility_id: u64,
}
record!(enc_proxy_version_t {
    struct_size: usize,
    flags: u64,
    major: u32,
    minor: u32,
    patch: u32,
    reserved: u32,
    compatibility_id: u64,
});

/// A part of the package's version.
const fn number(text: &str) -> u32 {
    let (bytes, mut value, mut index) = (text.as_bytes(), 0, 0);
    while index < bytes.len() {
        value = value * 10 + (bytes[index] - b'0') as u32;
        index += 1;
    }
    value
}

/// The release that runs, which may be another than the header's. Errors: `NRT_INVALID`. Threads: any.
///
/// # Safety
/// `version`, if not null, is readable and writable for the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_version(version: *mut enc_proxy_version_t) -> NRT_STATUS {
    call::plain("enc_proxy_version", || {
        // SAFETY: the caller's promise.
        let out = unsafe { OutRecord::new(version) }?;
        out.fill(enc_proxy_version_t {
            struct_size: 0,
            flags: 0,
            major: const { number(env!("CARGO_PKG_VERSION_MAJOR")) },
            minor: const { number(env!("CARGO_PKG_VERSION_MINOR")) },
            patch: const { number(env!("CARGO_PKG_VERSION_PATCH")) },
            reserved: 0,
            compatibility_id: abi::COMPATIBILITY_ID,
        });
        Ok(())
    })
}

/// Why the calling thread's last failed call failed: function, what was wrong, what is accepted. Empty before the first
/// failure, never null. Good until the thread's next failed call, or its end; a call that succeeds leaves it as it is.
///
/// Threads: any, also in a forked child. Never fails.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_last_error() -> *const c_char {
    call::last_text()
}
