//! Memory whose size is known beforehand, asked for in a way that can be refused: a queue or a trace that finds none is an error of the
//! call, and the program that the driver is part of lives on.

use std::collections::TryReserveError;
use std::fmt;
use std::io;

/// Memory that the system did not give.
#[derive(Debug)]
pub struct NoMemory {
    /// What it was to hold.
    pub what: &'static str,
    /// Bytes asked for.
    pub bytes: usize,
    /// What the system said: `ENOMEM` at a limit of the process or of the machine.
    pub error: io::Error,
}

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, bytes, error } = self;
        write!(f, "Failed to allocate {bytes} bytes for {what}: {error}")
    }
}

impl std::error::Error for NoMemory {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// So many values side by side, each made by `make`; no memory is asked for after the first is made.
///
/// # Errors
/// There is not so much memory, or `length` values are more than an address space has.
pub(crate) fn side_by_side<T>(
    what: &'static str,
    length: usize,
    make: impl FnMut() -> T,
) -> Result<Box<[T]>, NoMemory> {
    let refused = |_: TryReserveError| NoMemory {
        what,
        bytes: length.saturating_mul(size_of::<T>()),
        // The allocator has no other reason, and hands none out.
        error: io::Error::from_raw_os_error(libc::ENOMEM),
    };
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(refused)?;
    values.extend(std::iter::repeat_with(make).take(length));
    Ok(values.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_address_space_holds_is_refused_with_its_size() {
        let refused = side_by_side("events", usize::MAX, || 0_u64).expect_err("too much");
        assert_eq!(refused.bytes, usize::MAX);
        assert_eq!(refused.error.raw_os_error(), Some(libc::ENOMEM));
        let text = refused.to_string();
        let begin = format!("Failed to allocate {} bytes for events: ", usize::MAX);
        assert!(text.starts_with(&begin), "{text}");
        assert_eq!(*side_by_side("ones", 3, || 1).expect("room"), [1; 3]);
    }
}
