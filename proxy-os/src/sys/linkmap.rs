//! Where the dynamic loader found a library, and this code.
#![allow(
    unsafe_code,
    reason = "dlinfo and dladdr are C calls that answer with pointers"
)]

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The public head of the loader's `struct link_map` (`link.h`); later fields are not read.
#[repr(C)]
struct LinkMap {
    addr: usize,
    name: *const c_char,
}

/// The file that `handle` was loaded from, symbolic links resolved; `None` when the loader or the file system cannot say.
///
/// # Safety
/// `handle` comes from `dlopen` and has not been closed.
pub(crate) unsafe fn path_of(handle: *mut c_void) -> Option<PathBuf> {
    let mut map: *const LinkMap = std::ptr::null();
    let request = libc::RTLD_DI_LINKMAP;
    // SAFETY: the handle is open (caller's duty), and this request writes one pointer to `map`.
    let answer = unsafe { libc::dlinfo(handle, request, (&raw mut map).cast()) };
    if answer != 0 || map.is_null() {
        return None;
    }
    // SAFETY: the loader's entry lives as long as the handle, and starts with the fields of `LinkMap`.
    let name = unsafe { (*map).name };
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader's names are null-terminated and live as long as the entry.
    let name = unsafe { CStr::from_ptr(name) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

/// The file that this code was loaded from, symbolic links resolved: a program, or a library of one.
pub(crate) fn own() -> Option<PathBuf> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    let here = own as fn() -> Option<PathBuf>;
    // SAFETY: any address may be asked for, and the answer is written to `found`.
    let answer = unsafe { libc::dladdr(here as *const c_void, found.as_mut_ptr()) };
    if answer == 0 {
        return None;
    }
    // SAFETY: all zero is a valid answer without names, and the call may have filled it in.
    let name = unsafe { found.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader's names are null-terminated, and this one lives as long as this code is loaded.
    let name = unsafe { CStr::from_ptr(name) };
    // A program is named as it was called, perhaps relative to a folder that was left since.
    let path = std::fs::canonicalize(OsStr::from_bytes(name.to_bytes()));
    path.or_else(|_| std::fs::canonicalize("/proc/self/exe"))
        .ok()
}
