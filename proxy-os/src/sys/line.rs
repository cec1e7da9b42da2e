//! Has a cache line fetched before it is used, to be written.
//!
//! A line that is looked at and then written comes twice: once to be shared, and once more to be owned. Fetched to be written it comes once,
//! and something else can be done meanwhile.
#![allow(unsafe_code, reason = "prefetch instructions")]

/// Has the line at `address` fetched to be written, and does not wait for it. A hint: it reads and changes nothing, and no address is a wrong
/// one. Any thread; one instruction, and on machines other than x86-64 and AArch64 none.
#[inline(always)]
pub(crate) fn fetch(address: *const ()) {
    let address = address.addr();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on caches and faults at no address; a CPU that does not know it does nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_address_is_taken_and_nothing_changes() {
        let word = 7_u64;
        for address in [
            std::ptr::from_ref(&word).cast(),
            std::ptr::null(),
            std::ptr::without_provenance(usize::MAX),
        ] {
            super::fetch(address);
        }
        assert_eq!(word, 7);
    }
}
