//! The 37 C exports of release 2.31. Signatures are those of the specification's table of forward names.
//!
//! An export checks its arguments, turns them into Rust values and calls the module that does the work. None unwinds:
//! a panic becomes NRT_FAILURE. All pointers may be null, which is refused or, where the table says so, means absent.
//!
//! Threads: any thread, and calls on different communicators never wait for each other; calls on one communicator
//! take turns.
#![allow(unsafe_code, reason = "C ABI: raw handles and caller-owned memory")]

pub mod comm;
pub mod net;
pub mod proxy;

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int};

use crate::abi::MAX_RANKS;
use crate::error::{Error, Result};

/// Hands a value to the caller.
///
/// # Safety
/// `out` is null or valid for a write.
unsafe fn put<T>(out: *mut T, name: &str, value: T) -> Result<()> {
    if out.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, and valid by the contract; the caller's record may be unaligned.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// A string of the caller; empty if null.
///
/// # Safety
/// `text` is null or a string that ends in a zero byte and stays unchanged during the call.
unsafe fn text<'a>(text: *const c_char) -> Cow<'a, str> {
    if text.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: not null, and a C string by the contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

fn null(name: &str) -> Error {
    Error::invalid(format!("{name} is null"))
}

/// Checks a world size and a rank in it.
fn check_place(rank: c_int, world: c_int) -> Result<(u32, u32)> {
    let size = u32::try_from(world)
        .ok()
        .filter(|size| (1..=MAX_RANKS).contains(size));
    let size = size.ok_or_else(|| {
        Error::invalid(format!(
            "a world of {world} ranks, accepted: 1 to {MAX_RANKS}"
        ))
    })?;
    let place = u32::try_from(rank).ok().filter(|place| *place < size);
    let place =
        place.ok_or_else(|| Error::invalid(format!("rank {rank}, accepted: 0 to {}", size - 1)))?;
    Ok((place, size))
}

fn check_peer(peer: c_int) -> Result<u32> {
    u32::try_from(peer)
        .map_err(|_| Error::invalid(format!("peer rank {peer}, accepted: 0 or more")))
}
