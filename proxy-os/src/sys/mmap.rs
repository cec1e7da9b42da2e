//! Shared memory as a slice of atomic words, and values that borrow from it and own it at once.
#![allow(
    unsafe_code,
    reason = "mmap is a C call, and its memory is reached through a pointer"
)]

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use proxy_core::phone::Word;

/// A shared mapping of whole words. Nothing but atomics is ever referenced in it, as others write it, too.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<Word>,
    words: usize,
}

// SAFETY: the memory is only reached through atomic words, which any thread may use.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `words` words of a file, which must be that large and stay so: see the seals in `memfd`.
    ///
    /// # Errors
    /// `ENOMEM` when there is no room in the address space, `EINVAL` for no words.
    pub(crate) fn new(file: &File, words: usize) -> io::Result<Self> {
        let bytes = words
            .checked_mul(size_of::<Word>())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; it touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, words })
    }

    /// The words.
    pub(crate) fn words(&self) -> &[Word] {
        // SAFETY: mapped, page-aligned and writable as long as `self`; all bits are valid for atomics, whoever writes them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let bytes = self.words * size_of::<Word>();
        // SAFETY: the mapping is ours, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}

/// A type with a lifetime: that of the words it borrows.
pub(crate) trait Family {
    /// The type for words that live for `'a`.
    type Of<'a>;
}

/// A value that borrows the words of a mapping, and keeps them mapped.
pub(crate) struct Tied<F: Family> {
    // Before the mapping, and so dropped before it.
    value: F::Of<'static>,
    mapping: Arc<Mapping>,
}

impl<F: Family> Tied<F> {
    /// Makes the value. What is made for every lifetime cannot keep the words anywhere but in the value.
    pub(crate) fn new<E>(
        mapping: &Arc<Mapping>,
        make: impl for<'a> FnOnce(&'a [Word]) -> Result<F::Of<'a>, E>,
    ) -> Result<Self, E> {
        let (start, words) = (mapping.start.as_ptr(), mapping.words);
        // SAFETY: as for `Mapping::words`, but for the lifetime: `make` works for any, so it has no place but its result for
        // the reference; `with` and `with_mut` let none out of there either; and the result is dropped before the mapping.
        let words: &'static [Word] = unsafe { slice::from_raw_parts(start, words) };
        Ok(Self {
            value: make(words)?,
            mapping: Arc::clone(mapping),
        })
    }

    /// Lends the value.
    pub(crate) fn with<R>(&self, body: impl for<'a> FnOnce(&F::Of<'a>) -> R) -> R {
        body(&self.value)
    }

    /// Lends the value for changes.
    pub(crate) fn with_mut<R>(&mut self, body: impl for<'a> FnOnce(&mut F::Of<'a>) -> R) -> R {
        body(&mut self.value)
    }
}

impl<F: Family> fmt::Debug for Tied<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tied")
            .field("mapping", &self.mapping)
            .finish_non_exhaustive()
    }
}
