//! Pointer arguments: checked for null, alignment and length before anything is touched.
#![allow(unsafe_code, reason = "arguments of C functions are addresses")]

use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::call::Failure;
use crate::status;

/// A timeout that never passes.
pub const ENC_PROXY_FOREVER: u64 = u64::MAX;

/// Texts that C gives are shorter.
const MAX_TEXT: usize = 4096;

/// A timeout in microseconds; `None` = [`ENC_PROXY_FOREVER`].
pub(crate) fn timeout(micros: u64) -> Option<Duration> {
    (micros != ENC_PROXY_FOREVER).then(|| Duration::from_micros(micros))
}

/// A timeout for calls that always have one: for ever is longer than any process lives.
pub(crate) fn long_timeout(micros: u64) -> Duration {
    const YEARS: u64 = 100 * 365 * 86400;
    timeout(micros)
        .unwrap_or(Duration::MAX)
        .min(Duration::from_secs(YEARS))
}

/// A time as C gets it; longer ones than a number holds are the longest.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// An out-parameter: checked at entry, written when the call has succeeded.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks the address.
    ///
    /// # Safety
    /// `to`, if not null and aligned, is writable until [`Self::set`].
    pub(crate) unsafe fn new(to: *mut T, name: &str) -> Result<Self, Failure> {
        checked(to, name)?;
        Ok(Self(to))
    }

    /// As [`Self::new`], for one that may be null.
    ///
    /// # Safety
    /// As for [`Self::new`].
    pub(crate) unsafe fn optional(to: *mut T, name: &str) -> Result<Option<Self>, Failure> {
        if to.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { Self::new(to, name) }.map(Some)
    }

    /// Writes one place of an array.
    ///
    /// # Safety
    /// The array has a place `index`.
    pub(crate) unsafe fn set_at(&self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        let place = unsafe { self.0.add(index) };
        // SAFETY: as in `set`.
        unsafe { place.write(value) };
    }

    pub(crate) fn set(self, value: T) {
        // SAFETY: `new`'s caller keeps it writable; it is aligned. What was there is plain data of C and needs no drop.
        unsafe { self.0.write(value) };
    }
}

fn checked<T>(address: *const T, name: &str) -> Result<(), Failure> {
    if address.is_null() || !address.is_aligned() {
        let align = align_of::<T>();
        return Err(Failure::invalid(format_args!(
            "{name} is {address:p}, accepted: an address aligned to {align} bytes, not null"
        )));
    }
    Ok(())
}

/// An array that C gives; null is accepted for an empty one.
///
/// # Safety
/// `from`, if aligned, is readable for `count` values as long as the result lives, and nobody writes it meanwhile; its bytes are values of `T`.
pub(crate) unsafe fn array<'a, T>(
    from: *const T,
    count: usize,
    limit: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if count > limit {
        return Err(Failure::invalid(format_args!(
            "{name} has {count} elements, accepted: up to {limit}"
        )));
    }
    if count == 0 {
        return Ok(&[]);
    }
    checked(from, name)?;
    // SAFETY: not null, aligned, of a length that fits the address space; readable and unchanged by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(from, count) })
}

/// Bytes that C gives room for; null is accepted for none.
///
/// # Safety
/// `to` is writable for `count` bytes as long as the result lives, and nobody else touches them.
pub(crate) unsafe fn buffer<'a>(
    to: *mut u8,
    count: usize,
    name: &str,
) -> Result<&'a mut [u8], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    if isize::try_from(count).is_err() {
        return Err(Failure::invalid(format_args!("{name} has {count} bytes")));
    }
    checked(to, name)?;
    // SAFETY: not null, of a length that fits the address space; ours by the caller's promise. C may have left it
    // uninitialised, which no byte of foreign memory is to the compiler.
    Ok(unsafe { std::slice::from_raw_parts_mut(to, count) })
}

/// The longest array of elements of `T`.
pub(crate) const fn longest<T>() -> usize {
    isize::MAX.unsigned_abs() / size_of::<T>()
}

/// A text that C gives: terminated, UTF-8, shorter than 4096 bytes.
///
/// # Safety
/// `from`, if not null, is readable up to its terminator or 4096 bytes, and unchanged as long as the result lives.
pub(crate) unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { c_text(from, name) }?;
    text.to_str()
        .map_err(|_| Failure::invalid(format_args!("{name} is not UTF-8")))
}

/// As [`text`], whatever its bytes.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn c_text<'a>(from: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    // SAFETY: the caller's promise.
    unsafe { long_text(from, MAX_TEXT, name) }
}

/// As [`c_text`], shorter than `limit` bytes.
///
/// # Safety
/// `from`, if not null, is readable up to its terminator or `limit` bytes, and unchanged as long as the result lives.
pub(crate) unsafe fn long_text<'a>(
    from: *const c_char,
    limit: usize,
    name: &str,
) -> Result<&'a CStr, Failure> {
    checked(from, name)?;
    for length in 0..limit {
        // SAFETY: readable up to the terminator, which has not been met.
        let byte = unsafe { from.add(length) };
        // SAFETY: as above.
        if unsafe { byte.read() } == 0 {
            // SAFETY: the terminator was found, so it is one string; unchanged by the caller's promise.
            return Ok(unsafe { CStr::from_ptr(from) });
        }
    }
    Err(Failure::invalid(format_args!(
        "{name} has no end within {limit} bytes"
    )))
}

/// Where a text for C goes: buffer, size and the length that it has.
#[derive(Debug)]
pub(crate) struct OutText<'a> {
    buffer: &'a mut [u8],
    length: Option<Out<usize>>,
}

impl OutText<'_> {
    /// Checks the addresses. A buffer of no bytes may be null.
    ///
    /// # Safety
    /// As for [`buffer`] and [`Out::optional`].
    pub(crate) unsafe fn new(
        to: *mut c_char,
        bytes: usize,
        length: *mut usize,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let buffer = unsafe { buffer(to.cast(), bytes, "buffer") }?;
        // SAFETY: the caller's promise.
        let length = unsafe { Out::optional(length, "length") }?;
        Ok(Self { buffer, length })
    }

    /// Writes the text with its terminator and its length without. When there is no room, the length alone is written.
    pub(crate) fn set(self, text: &str) -> Result<(), Failure> {
        let needed = text.len() + 1;
        let fits = needed <= self.buffer.len();
        if fits {
            self.buffer[..text.len()].copy_from_slice(text.as_bytes());
            self.buffer[text.len()] = 0;
        }
        if let Some(length) = self.length {
            length.set(text.len());
        }
        if fits {
            return Ok(());
        }
        Err(Failure::new(
            status::ENC_PROXY_TOO_SMALL,
            format_args!(
                "the buffer has {} bytes, the text needs {needed}",
                self.buffer.len()
            ),
        ))
    }
}

/// The caller's descriptor, as one of our own: it cannot be closed while it is written to.
pub(crate) fn duplicate(fd: c_int) -> Result<File, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::invalid(format_args!(
            "fd is {fd}, accepted: an open descriptor: {why}"
        ))
    };
    if fd < 0 {
        return Err(refused(&"it is negative"));
    }
    // SAFETY: not negative. The name is used for one system call, which refuses a number that is no open descriptor.
    let given = unsafe { BorrowedFd::borrow_raw(fd) };
    let own = given.try_clone_to_owned();
    Ok(File::from(own.map_err(|error| refused(&error))?))
}
