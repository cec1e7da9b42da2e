//! The reverse edge: what the collective library calls in its host (specification section 5, considerations).
#![allow(unsafe_code, reason = "an exported C function that takes an address")]

use proxy_os::DeviceWord;

use crate::call;

/// Raises the semaphore at `address` by `value`: tells the device that a network operation has completed.
///
/// On the hardware a plain store does it, as the increment register adds by itself; on host memory the addition is made
/// here, atomically, with release ordering: a device that reads the new value with acquire sees what was written before. A null or
/// misaligned address is ignored. Any thread; one atomic instruction; never blocks.
///
/// # Safety
/// `address`, if not null, is a semaphore of the device that stays mapped during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nec_inc_semaphore(address: *mut u32, value: u32) {
    call::quiet("nec_inc_semaphore", || {
        // SAFETY: the caller keeps the word mapped during the call, and the name does not outlive it.
        if let Some(word) = unsafe { DeviceWord::new(address) } {
            word.add(value);
            proxy_os::trace::semaphore(word.address(), value);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_and_ignores_null() {
        let mut word = 5_u32;
        // SAFETY: a local outlives the call.
        unsafe { nec_inc_semaphore(&raw mut word, 3) };
        // SAFETY: null is allowed.
        unsafe { nec_inc_semaphore(std::ptr::null_mut(), 3) };
        assert_eq!(word, 8);
    }
}
