//! The control exports: open a communicator, add rules, read back the calls.
//!
//! All may be called from any thread. A handle stays valid until `scripted_free`; a null handle is refused where the
//! call has a way to say so and ignored elsewhere.
#![allow(unsafe_code, reason = "C ABI: raw handles and caller-owned memory")]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::rule::{Call, Rule};
use crate::script::{CallRecord, Script};

/// The script behind a handle.
///
/// # Safety
/// `comm` is null or came from [`new_handle`] and has not been freed.
pub(crate) unsafe fn script<'a>(comm: *const c_void) -> Option<&'a Script> {
    // SAFETY: by the contract above the pointer is null or that of a live Script, which is Sync.
    unsafe { comm.cast::<Script>().as_ref() }
}

/// A new handle with the default script.
pub(crate) fn new_handle() -> *mut c_void {
    Box::into_raw(Box::new(Script::new())).cast()
}

/// Opens a communicator with the default script: start 0, progress 0 with idle=0 and done=1, stop 0.
#[unsafe(no_mangle)]
pub extern "C" fn scripted_open() -> *mut c_void {
    new_handle()
}

/// Adds a rule; later rules win. 0, or -1 with a line on stderr that names the word at fault.
///
/// # Safety
/// `comm` is null or a live handle; `rule` is null or a string that ends in a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scripted_rule(comm: *mut c_void, rule: *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    let script = unsafe { script(comm) };
    let (Some(script), false) = (script, rule.is_null()) else {
        eprintln!("scripted: scripted_rule: null argument");
        return -1;
    };
    // SAFETY: not null, and a C string by the caller's contract.
    let text = unsafe { CStr::from_ptr(rule) }.to_string_lossy();
    match text.parse::<Rule>() {
        Ok(rule) => {
            script.add_rule(rule);
            0
        }
        Err(error) => {
            eprintln!("scripted: bad rule '{text}': {error}");
            -1
        }
    }
}

/// Lets calls that wait at a `block` answer, and all later ones, go on.
///
/// # Safety
/// `comm` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scripted_release(comm: *mut c_void) {
    // SAFETY: the caller's contract.
    if let Some(script) = unsafe { script(comm) } {
        script.release();
    }
}

/// Copies the first `max` recorded calls to `out` and returns how many calls have left in all.
///
/// # Safety
/// `comm` is null or a live handle; `out` is null or has room for `max` records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scripted_calls(comm: *mut c_void, out: *mut CallRecord, max: u64) -> u64 {
    // SAFETY: the caller's contract.
    let Some(script) = (unsafe { script(comm) }) else {
        return 0;
    };
    if out.is_null() || max == 0 {
        return script.copy_records(&mut []);
    }
    let max = usize::try_from(max)
        .unwrap_or(usize::MAX)
        .min(crate::script::MAX_RECORDS);
    // The caller's memory may be uninitialised: it is filled before a reference to it is made.
    // SAFETY: room for `max` records by the caller's contract; all-zero bytes are a valid record.
    unsafe { out.write_bytes(0, max) };
    // SAFETY: not null, initialised above, and nobody else uses the caller's buffer during the call.
    let out = unsafe { std::slice::from_raw_parts_mut(out, max) };
    script.copy_records(out)
}

/// Calls of one kind (0 start, 1 progress, 2 stop) that have entered; 0 for any other number.
///
/// # Safety
/// `comm` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scripted_count(comm: *mut c_void, call: u32) -> u64 {
    let call = match call {
        0 => Call::Start,
        1 => Call::Progress,
        2 => Call::Stop,
        _ => return 0,
    };
    // SAFETY: the caller's contract.
    unsafe { script(comm) }.map_or(0, |script| script.count(call))
}

/// Forgets recorded calls and restarts counting; rules stay.
///
/// # Safety
/// `comm` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scripted_clear(comm: *mut c_void) {
    // SAFETY: the caller's contract.
    if let Some(script) = unsafe { script(comm) } {
        script.clear();
    }
}

/// Frees a communicator. No call on it may be running or follow.
///
/// # Safety
/// `comm` is null or a live handle, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scripted_free(comm: *mut c_void) {
    if !comm.is_null() {
        // SAFETY: the handle came from Box::into_raw in `new_handle` and is given back once.
        drop(unsafe { Box::from_raw(comm.cast::<Script>()) });
    }
}
