//! Large objects that are valid when all bytes are zero, in pages that the kernel hands out at first touch. Not in a `Box`: the standard
//! library's zeroed memory of an alignment above 16, as cache lines ask for, is written, and so resident, from the start.
#![allow(
    unsafe_code,
    reason = "a value is claimed to be valid by its bytes; mmap is a C call"
)]

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use proxy_core::recorder::Recorder;
use proxy_core::{Driver, Queue};

use super::fault::{self, Call};
use crate::latency::Latencies;
use crate::memory::NoMemory;

/// A `T` in pages of its own.
pub(crate) struct Zeroed<T> {
    at: NonNull<T>,
}

// SAFETY: it owns its `T`, as a box does.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Zeroed<T> {}

impl<T> Zeroed<T> {
    /// `what` it is, for the error.
    ///
    /// # Errors
    /// The system has no memory for it, or the process may have no more.
    ///
    /// # Safety
    /// A `T` whose bytes are all zero is valid.
    unsafe fn new(what: &'static str) -> Result<Self, NoMemory> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096, "whole pages") };
        let bytes = size_of::<T>();
        let refused = |error| NoMemory { what, bytes, error };
        fault::point(Call::MapMemory).map_err(refused)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice; it touches no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(refused(io::Error::last_os_error()));
        }
        // The kernel gives page zero to nobody who does not ask for it.
        let none = || refused(io::Error::from_raw_os_error(libc::ENOMEM));
        let at = NonNull::new(start.cast()).ok_or_else(none)?;
        Ok(Self { at })
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped as long as `self`, aligned as pages are, and valid as `new` was promised.
        unsafe { self.at.as_ref() }
    }
}

impl<T> DerefMut for Zeroed<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and borrowed from nobody else.
        unsafe { self.at.as_mut() }
    }
}

impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: valid, and not used any more.
        unsafe { self.at.drop_in_place() };
        // SAFETY: this very mapping, to which nothing points any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), size_of::<T>()) };
    }
}

impl<T: fmt::Debug> fmt::Debug for Zeroed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// An empty queue. Only the pages of slots and contexts that are used become resident.
pub(crate) fn queue<const R: usize, const T: usize, const C: usize>()
-> Result<Zeroed<Queue<R, T, C>>, NoMemory> {
    // SAFETY: the core promises that an all-zero queue is a valid, empty one: it consists of atomic integers only.
    unsafe { Zeroed::new("the queue") }
}

/// An empty recorder, likewise.
pub(crate) fn recorder<const N: usize>() -> Result<Zeroed<Recorder<N>>, NoMemory> {
    // SAFETY: as for the queue.
    unsafe { Zeroed::new("the black box") }
}

/// Tables that have counted nothing.
pub(crate) fn latencies() -> Result<Zeroed<Latencies>, NoMemory> {
    // SAFETY: it consists of atomic integers only.
    unsafe { Zeroed::new("the latencies") }
}

/// Zeros, which are `what`.
pub(crate) fn numbers<const M: usize, const N: usize>(
    what: &'static str,
) -> Result<Zeroed<[[u64; M]; N]>, NoMemory> {
    // SAFETY: numbers have no invalid bytes.
    unsafe { Zeroed::new(what) }
}

/// A driver with nothing active. Only the pages of list entries that are used become resident, and it is never on a stack, where it would
/// leave half a megabyte.
pub(crate) fn driver<const R: usize, const T: usize>() -> Result<Zeroed<Driver<R, T>>, NoMemory> {
    // SAFETY: the core promises that an all-zero driver is a valid one with nothing active: it consists of integers and of vectors, each a
    // length and entries that nobody reads beyond it.
    unsafe { Zeroed::new("the driver") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_objects_are_empty() {
        let queue = queue::<2, 4, 2>().unwrap();
        assert_eq!(queue.tasks().count(), 0);
        assert!(queue.is_inbox_empty());
        assert_eq!(queue.shut_by(), None);
        let spec = proxy_core::Spec::new(proxy_core::Rank(0));
        assert_eq!(
            queue
                .register(&spec)
                .map(|id| (id.index(), id.generation())),
            Ok((0, 1))
        );
        assert_eq!(recorder::<8>().unwrap().iter().count(), 0);
        assert_eq!(driver::<2, 4>().unwrap().active(), 0);
    }
}
