//! What the library takes from the process that opened it: the semaphore increment.
#![allow(unsafe_code, reason = "calls a symbol that the host process provides")]

unsafe extern "C" {
    /// Adds `value` to the device semaphore at `address`.
    fn nec_inc_semaphore(address: *mut u32, value: u32);
}

/// Raises a semaphore of the device. A null address or a value of 0 raises nothing.
pub(crate) fn raise(address: u64, value: u32) {
    if address == 0 || value == 0 {
        return;
    }
    let word = std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0));
    // SAFETY: the address is a semaphore word that the host lent with the op list; only the host's function touches
    // it, atomically, as its contract says.
    unsafe { nec_inc_semaphore(word, value) };
}

/// The unit tests are their own host.
#[cfg(test)]
mod provided {
    use std::sync::atomic::{AtomicU32, Ordering};

    #[unsafe(no_mangle)]
    extern "C" fn nec_inc_semaphore(address: *mut u32, value: u32) {
        // SAFETY: the tests pass words that live as long as their op lists.
        let word = unsafe { AtomicU32::from_ptr(address) };
        // Release: pairs with the test's acquire load.
        word.fetch_add(value, Ordering::Release);
    }
}
