//! `enc_proxy_library`: the collective library, opened and checked.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use proxy_os::nccom::{self, Library};

use crate::arg::{self, Out, OutText};
use crate::call;
use crate::handle::Kind;
use crate::record::{OutRecord, record};
use crate::status::NRT_STATUS;
use crate::table::Table;

/// A collective library that has been opened, has the right version and all of its 37 exports.
#[derive(Debug)]
pub struct enc_proxy_library {
    _opaque: [u8; 0],
}

/// More than a process has different libraries.
const LIMIT: usize = 64;
pub(crate) static LIBRARIES: Table<Arc<Library>, LIMIT> = Table::new(Kind::Library);

/// What a collective library says it is.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_library_version {
    /// `sizeof(enc_proxy_library_version)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Major version.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
    /// Patch.
    pub patch: u64,
    /// Maintenance release.
    pub maintenance: u64,
    /// The hash of its source, terminated; cut if longer.
    pub git_hash: [u8; 24],
}
record!(enc_proxy_library_version {
    struct_size: usize,
    flags: u64,
    major: u64,
    minor: u64,
    patch: u64,
    maintenance: u64,
    git_hash: [u8; 24],
});

/// Opens a collective library: a path with a slash is taken as it is, a bare name (`libnccom.so`) as the dynamic loader finds it.
/// A path has to lead to a regular file that is a whole library of this machine: what would wait, or end the process by `SIGBUS`, is an error.
/// The first call for a name decides: later ones get the same library, or the same error. The file stays mapped until the process ends.
///
/// - `name`: terminated, at most 4095 bytes.
/// - `library`: receives the handle; give it back by `enc_proxy_library_close`.
///
/// Errors: `ENC_PROXY_LOAD`, `NRT_INVALID`, `NRT_RESOURCE` (64 are open).
/// Threads: any; may take as long as the file's constructors do.
///
/// # Safety
/// `name` is readable up to its end, `library` writable. The file's exports have the signatures of release 2.31.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_library_open(
    name: *const c_char,
    library: *mut *mut enc_proxy_library,
) -> NRT_STATUS {
    call::plain("enc_proxy_library_open", || {
        // SAFETY: the caller's promise.
        let name = unsafe { arg::c_text(name, "name") }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(library, "library") }?;
        let loaded = nccom::shared(OsStr::from_bytes(name.to_bytes()))?;
        out.set(call::handle(&LIBRARIES, loaded)?);
        Ok(())
    })
}

/// Gives a handle back. The library stays mapped; communicators made with the handle stay good.
///
/// Errors: `NRT_INVALID_HANDLE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_library_close(library: *mut enc_proxy_library) -> NRT_STATUS {
    call::destroy("enc_proxy_library_close", &LIBRARIES, library, |_| Ok(()))
}

/// What the library says it is. Errors: `NRT_INVALID_HANDLE`, `NRT_INVALID`. Threads: any.
///
/// # Safety
/// `version`, if not null, is readable and writable for the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_library_get_version(
    library: *mut enc_proxy_library,
    version: *mut enc_proxy_library_version,
) -> NRT_STATUS {
    call::with(
        "enc_proxy_library_get_version",
        &LIBRARIES,
        library,
        |library| {
            // SAFETY: the caller's promise.
            let out = unsafe { OutRecord::new(version) }?;
            let found = library.version();
            let mut git_hash = [0; 24];
            for (place, byte) in git_hash.iter_mut().take(23).zip(found.git_hash.bytes()) {
                *place = byte;
            }
            let [major, minor, patch, maintenance] = found.numbers;
            out.fill(enc_proxy_library_version {
                struct_size: 0,
                flags: 0,
                major,
                minor,
                patch,
                maintenance,
                git_hash,
            });
            Ok(())
        },
    )
}

/// The file that was opened, links resolved.
///
/// - `buffer`, `bytes`: room for the text and its terminator; `NULL`, 0 to ask for the length.
/// - `length`: receives the length without terminator, also with `ENC_PROXY_TOO_SMALL`; may be NULL.
///
/// Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID_HANDLE`, `NRT_INVALID`. Threads: any.
///
/// # Safety
/// `buffer` is writable for `bytes`, `length` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_library_get_path(
    library: *mut enc_proxy_library,
    buffer: *mut c_char,
    bytes: usize,
    length: *mut usize,
) -> NRT_STATUS {
    call::with(
        "enc_proxy_library_get_path",
        &LIBRARIES,
        library,
        |library| {
            // SAFETY: the caller's promise.
            let out = unsafe { OutText::new(buffer, bytes, length) }?;
            out.set(&library.path().to_string_lossy())
        },
    )
}
