//! Words in host memory that the device writes, too: the only way to reach foreign memory in the shell.
//!
//! Nothing but an atomic is ever referenced there, and every access is an atomic one: a volatile load would order nothing.
#![allow(
    unsafe_code,
    reason = "words of the device are reached through raw addresses"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// One 32-bit word shared with the device. A copy of it is another name for the same word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceWord(NonNull<AtomicU32>);

// SAFETY: the word is only ever accessed through an `AtomicU32`, which any thread may share.
unsafe impl Send for DeviceWord {}
// SAFETY: as above.
unsafe impl Sync for DeviceWord {}

impl DeviceWord {
    /// Names the word at `address`; `None` if the address is null or not aligned to 4 bytes.
    ///
    /// # Safety
    /// The word must stay mapped for reading and writing as long as a `DeviceWord` of it, or a context built with one, exists. Whoever
    /// else writes it must do so in single 32-bit accesses.
    #[must_use]
    pub unsafe fn new(address: *mut u32) -> Option<Self> {
        if !address.is_aligned() {
            return None;
        }
        NonNull::new(address.cast()).map(Self)
    }

    /// The address, for messages and handles.
    #[must_use]
    pub fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Reads the word. What the device wrote before it is visible after it.
    #[must_use]
    pub fn load(self) -> u32 {
        // Acquire pairs with the device's write of the word.
        self.word().load(Ordering::Acquire)
    }

    /// Replaces `seen` by `new`; false, and no change, if the word has another value.
    pub fn compare_exchange(self, seen: u32, new: u32) -> bool {
        // Release pairs with the device's read: it sees what we did before. Acquire on both outcomes, as for `load`.
        (self.word())
            .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Adds to the word, as the increment register of a semaphore does.
    pub fn add(self, value: u32) {
        // Release pairs with the device's read of the semaphore: it sees the data that is announced.
        self.word().fetch_add(value, Ordering::Release);
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: `new`'s contract keeps the word mapped; it was checked for null and alignment there.
        unsafe { self.0.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_misaligned_addresses_are_no_words() {
        let mut memory = [0_u32; 2];
        let address = memory.as_mut_ptr();
        // SAFETY: the memory outlives the words.
        assert!(unsafe { DeviceWord::new(std::ptr::null_mut()) }.is_none());
        // SAFETY: as above; a misaligned address is never accessed.
        assert!(unsafe { DeviceWord::new(address.wrapping_byte_add(1)) }.is_none());
        // SAFETY: as above.
        let word = unsafe { DeviceWord::new(address) }.unwrap();
        assert_eq!(word.address(), address.addr());
        assert!(word.compare_exchange(0, 7));
        assert!(!word.compare_exchange(0, 9));
        word.add(3);
        assert_eq!(word.load(), 10);
    }
}
