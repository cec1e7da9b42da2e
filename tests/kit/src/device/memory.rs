//! Buffers that are lent: bytes that the library reads and writes by address while the device holds them.

#![allow(
    unsafe_code,
    reason = "lent memory is reached by pointer, never by a lasting reference"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of every buffer: a page, as registered memory has.
const ALIGN: usize = 4096;

/// Zeroed memory of fixed length. It hands out no reference that outlives one call; who may touch which bytes at
/// which time is the caller's argument (see the callers in [`run`](super::run) and [`program`](super::program)).
#[derive(Debug)]
pub(super) struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
    len: usize,
}

// SAFETY: a Buffer owns its allocation; moving it to another thread moves that ownership.
unsafe impl Send for Buffer {}
// SAFETY: safe methods only compute addresses; those that touch bytes are unsafe and demand exclusion of writers.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `len` zero bytes, or `None` if memory is short.
    pub(super) fn new(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), ALIGN).ok()?;
        // SAFETY: the layout's size is at least 1.
        let start = unsafe { alloc_zeroed(layout) };
        Some(Self {
            start: NonNull::new(start)?,
            layout,
            len,
        })
    }

    /// Bytes of the buffer.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The address of `offset` (at most the length), for the library.
    pub(super) fn address(&self, offset: usize) -> u64 {
        self.at(offset, 0).expose_provenance() as u64
    }

    /// A pointer to `len` bytes from `offset`. A range outside the buffer is a bug of the plan and stops the test.
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        let inside = offset <= self.len && len <= self.len - offset;
        assert!(inside, "bytes {offset}+{len} of a buffer of {}", self.len);
        // SAFETY: offset is at most the length, which is at most the size of the allocation.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// The bytes, for reading.
    ///
    /// # Safety
    /// Until the slice is dropped nobody writes these bytes.
    pub(super) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let start = self.at(offset, len);
        // SAFETY: `at` checked the range; the memory is initialised (zeroed); the caller excludes writers.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// The bytes, for writing.
    ///
    /// # Safety
    /// Until the slice is dropped nobody else reads or writes these bytes.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusion is the caller's duty, stated above"
    )]
    pub(super) unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        let start = self.at(offset, len);
        // SAFETY: `at` checked the range; the memory is initialised (zeroed); the caller excludes everybody else.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `start` was allocated in `new` with this very layout and is freed only here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_zeroed_and_aligned() {
        let buffer = Buffer::new(10).expect("10 bytes");
        assert_eq!(buffer.address(0) % 4096, 0);
        assert_eq!(buffer.address(10), buffer.address(0) + 10);
        // SAFETY: no other thread knows this buffer.
        assert_eq!(unsafe { buffer.bytes(0, 10) }, [0; 10]);
    }

    #[test]
    fn empty_has_an_address() {
        let buffer = Buffer::new(0).expect("no bytes");
        assert_ne!(buffer.address(0), 0);
        assert_eq!(buffer.len(), 0);
    }

    #[test]
    #[should_panic(expected = "bytes 8+3 of a buffer of 10")]
    fn outside_is_refused() {
        let buffer = Buffer::new(10).expect("10 bytes");
        // SAFETY: no other thread knows this buffer.
        let _ = unsafe { buffer.bytes(8, 3) };
    }

    #[test]
    fn too_much_is_none() {
        assert!(Buffer::new(isize::MAX as usize).is_none());
    }
}
