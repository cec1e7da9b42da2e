//! Numbers that nobody else has.
#![allow(unsafe_code, reason = "getrandom is a C call")]

use super::clock;

/// A number that is not to be met again, from the kernel; early at boot, or in a sandbox without the call, from clock and process.
pub(crate) fn u64() -> u64 {
    let mut bytes = [0_u8; 8];
    // SAFETY: the buffer is valid for its bytes.
    let got =
        unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if usize::try_from(got) == Ok(bytes.len()) {
        return u64::from_ne_bytes(bytes);
    }
    clock::monotonic_ns() ^ u64::from(std::process::id()).rotate_left(32)
}
