//! Structs that begin with their size, so that they can grow (H76): an older caller's struct is shorter, a newer one's is longer.
//!
//! | given | meaning |
//! |---|---|
//! | shorter | the missing fields are 0, which is the default of every field |
//! | longer, rest all zero | the caller knows fields that we do not, and uses none of them |
//! | longer, rest not all zero | refused: what the caller asks for is not there |
#![allow(unsafe_code, reason = "structs come as addresses and sizes")]

use std::mem::MaybeUninit;

use crate::call::Failure;
use crate::status;

/// No struct of any release is longer.
const MAX_BYTES: usize = 4096;

/// A struct that C fills or that is filled for C.
///
/// # Safety
/// `repr(C)`, no padding, valid for all bytes and all zeroes, aligned to 8, and its first two fields are `struct_size: usize`
/// and `flags: u64`.
pub(crate) unsafe trait Record: Copy {
    /// Its name in C.
    const NAME: &'static str;
}

/// Declares a record and checks its promise as far as the compiler can.
macro_rules! record {
    ($name:ident { $($field:ident: $kind:ty),+ $(,)? }) => {
        // SAFETY: the constants below check first fields, alignment and the absence of padding; every field is an integer, an
        // array of integers, a raw pointer or an optional function, which any bytes are a value of.
        unsafe impl $crate::record::Record for $name {
            const NAME: &'static str = stringify!($name);
        }
        const _: () = {
            assert!(std::mem::offset_of!($name, struct_size) == 0);
            assert!(std::mem::offset_of!($name, flags) == 8);
            assert!(align_of::<$name>() == 8);
            assert!(size_of::<$name>() == 0 $(+ size_of::<$kind>())+);
            // Names every field with its type, so that the sum above is that of the struct.
            let _: fn(&$name) = |record| { $(let _: &$kind = &record.$field;)+ };
        };
    };
}
pub(crate) use record;

/// The size that a caller's struct says it has.
///
/// # Safety
/// `from`, if not null and aligned, is readable for 16 bytes.
unsafe fn size_of_given<T: Record>(from: *const T) -> Result<usize, Failure> {
    let name = T::NAME;
    if from.is_null() || !from.is_aligned() {
        return Err(Failure::invalid(format_args!(
            "{name} at {from:p}, accepted: an address aligned to 8 bytes, not null"
        )));
    }
    // SAFETY: not null, aligned and readable by the caller's promise; the size is its first field.
    let given = unsafe { from.cast::<usize>().read() };
    if !(16..=MAX_BYTES).contains(&given) || !given.is_multiple_of(8) {
        return Err(Failure::invalid(format_args!(
            "{name}.struct_size is {given}, accepted: sizeof({name}) of the release that the caller was built with"
        )));
    }
    Ok(given)
}

/// Reads a struct that the caller has filled.
///
/// # Safety
/// `from`, if not null, is readable for 16 bytes and for as many as its `struct_size` says.
pub(crate) unsafe fn read<T: Record>(from: *const T) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { size_of_given(from) }?;
    let known = size_of::<T>();
    let mut record = MaybeUninit::<T>::zeroed();
    let (source, place) = (from.cast::<u8>(), record.as_mut_ptr().cast::<u8>());
    // SAFETY: both are valid for the smaller of the two sizes, and a local does not overlap the caller's memory.
    unsafe { place.copy_from_nonoverlapping(source, given.min(known)) };
    for offset in known..given {
        // SAFETY: inside of the caller's struct.
        let byte = unsafe { source.add(offset) };
        // SAFETY: as above; a byte is always aligned.
        if unsafe { byte.read() } != 0 {
            return Err(Failure::new(
                status::ENC_PROXY_UNSUPPORTED_FIELD,
                format_args!(
                    "{} has a field at byte {offset} that this release, which knows {known} bytes, does not support",
                    T::NAME
                ),
            ));
        }
    }
    // SAFETY: a record has at least its first two fields, is aligned to 8, and all of its bytes are initialised.
    let flags = unsafe { place.cast::<[u64; 2]>().read() }[1];
    if flags != 0 {
        return Err(Failure::invalid(format_args!(
            "{}.flags is {flags:#x}, accepted: 0",
            T::NAME
        )));
    }
    // SAFETY: any bytes are a value of a record.
    Ok(unsafe { record.assume_init() })
}

/// A caller's struct that is to be filled.
#[derive(Debug)]
pub(crate) struct OutRecord<T> {
    to: *mut T,
    given: usize,
}

impl<T: Record> OutRecord<T> {
    /// Checks address, size and flags; nothing is written.
    ///
    /// # Safety
    /// As for [`read`]; and writable until [`Self::fill`].
    pub(crate) unsafe fn new(to: *mut T) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let given = unsafe { size_of_given(to) }?;
        // SAFETY: 16 bytes are readable by the caller's promise.
        let flags = unsafe { to.cast::<u64>().add(1) };
        // SAFETY: as above, aligned.
        match unsafe { flags.read() } {
            0 => Ok(Self { to, given }),
            flags => Err(Failure::invalid(format_args!(
                "{}.flags is {flags:#x}, accepted: 0",
                T::NAME
            ))),
        }
    }

    /// As [`Self::new`], for one that may be null.
    ///
    /// # Safety
    /// As for [`Self::new`].
    pub(crate) unsafe fn optional(to: *mut T) -> Result<Option<Self>, Failure> {
        if to.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { Self::new(to) }.map(Some)
    }

    /// Fills what the caller has room for, but for size and flags; bytes that we do not know are zeroed.
    pub(crate) fn fill(self, record: T) {
        let known = size_of::<T>().min(self.given);
        let source = (&raw const record).cast::<u8>();
        let to = self.to.cast::<u8>();
        // SAFETY: `new`'s caller keeps `given` bytes writable.
        let rest = unsafe { to.add(known) };
        // SAFETY: as above: what is left of `given` after `known`.
        unsafe { rest.write_bytes(0, self.given - known) };
        // SAFETY: every record has more than the 16 bytes that are left out.
        let source = unsafe { source.add(16) };
        // SAFETY: as above; `given` is 16 at least.
        let to = unsafe { to.add(16) };
        // SAFETY: the local is valid for its size, the caller's struct for `given`.
        unsafe { to.copy_from_nonoverlapping(source, known - 16) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(C)]
    struct Old {
        struct_size: usize,
        flags: u64,
        first: u64,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(C)]
    struct New {
        struct_size: usize,
        flags: u64,
        first: u64,
        second: u64,
    }
    record!(Old {
        struct_size: usize,
        flags: u64,
        first: u64
    });
    record!(New {
        struct_size: usize,
        flags: u64,
        first: u64,
        second: u64
    });

    fn new(second: u64) -> New {
        New {
            struct_size: size_of::<New>(),
            flags: 0,
            first: 7,
            second,
        }
    }

    #[test]
    fn h76_a_shorter_struct_has_defaults_and_a_longer_one_must_ask_for_nothing_unknown() {
        let mut short = new(9);
        short.struct_size = size_of::<Old>();
        // SAFETY: a local that is longer than it says.
        let read_short = unsafe { read::<New>(&raw const short) }.unwrap();
        assert_eq!((read_short.first, read_short.second), (7, 0));
        let long = new(0);
        // SAFETY: a local of the size that it says.
        let read_long = unsafe { read::<Old>((&raw const long).cast()) }.unwrap();
        assert_eq!(read_long.first, 7);
        let asking = new(1 << 40);
        // SAFETY: as above.
        let refused = unsafe { read::<Old>((&raw const asking).cast()) }.unwrap_err();
        assert_eq!(refused.code, status::ENC_PROXY_UNSUPPORTED_FIELD);
        assert!(refused.text.contains("byte 29"), "{}", refused.text);
    }

    #[test]
    fn h76_sizes_and_flags_that_cannot_be_are_refused() {
        for size in [0, 8, 17, 20, 4104, usize::MAX] {
            let mut record = new(0);
            record.struct_size = size;
            // SAFETY: refused before the size is believed.
            let refused = unsafe { read::<New>(&raw const record) }.unwrap_err();
            assert_eq!(refused.code, status::NRT_INVALID, "{size}");
        }
        let mut record = new(0);
        record.flags = 4;
        // SAFETY: a local of the size that it says.
        assert!(unsafe { read::<New>(&raw const record) }.is_err());
        // SAFETY: null is refused.
        assert!(unsafe { read::<New>(std::ptr::null()) }.is_err());
    }

    #[test]
    fn h76_an_answer_fills_what_the_caller_has_room_for() {
        let mut given = new(5);
        given.struct_size = size_of::<Old>();
        let answer = New { first: 1, ..new(2) };
        // SAFETY: a local that is longer than it says.
        let out = unsafe { OutRecord::new(&raw mut given) }.unwrap();
        out.fill(answer);
        assert_eq!((given.first, given.second), (1, 5));
        let mut longer = new(5);
        // SAFETY: a local of the size that it says.
        let out = unsafe { OutRecord::<Old>::new((&raw mut longer).cast()) }.unwrap();
        out.fill(Old {
            struct_size: 0,
            flags: 0,
            first: 3,
        });
        assert_eq!(longer, New { first: 3, ..new(0) });
    }
}
