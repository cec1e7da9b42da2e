//! The memory of a bus: made by the hub, checked by everybody who is handed it, reserved before it is touched.

use std::fs::File;
use std::io;
use std::ops::Range;

use proxy_core::phone::Word;
use proxy_core::phone::layout::{Geometry, HEADER, LINE, LayoutError, Segment};

use super::counters::{Counters, Fallback};
use super::error::JoinError;
use crate::sys::memfd;
use crate::sys::mmap::{Family, Mapping};

/// A segment as a borrower of its mapping.
#[derive(Debug)]
pub(super) struct Segments;

impl Family for Segments {
    type Of<'a> = Segment<'a>;
}

/// A segment's file, and whether its size is sealed.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) file: File,
    pub(super) sealed: bool,
}

/// Bytes of so many words.
fn bytes(words: usize) -> u64 {
    (words as u64).saturating_mul(size_of::<Word>() as u64)
}

/// Makes the memory of a new bus: all zero, of its final size, and reserved but for the rings. Of these the first cell is, where ranks look
/// for messages of one that has not come yet: where memory has run out, a read of what is not reserved is as fatal as a write.
pub(super) fn create(geometry: &Geometry, counters: &Counters) -> Result<Memory, JoinError> {
    let (file, can_seal) = file(counters)?;
    let wanted = bytes(geometry.words());
    memfd::resize(&file, wanted).map_err(space(wanted, "ftruncate"))?;
    reserve(&file, 0..geometry.control(), wanted, counters)?;
    for rank in 0..geometry.world() {
        let start = geometry.ring(rank).start;
        reserve(&file, start..start + LINE, wanted, counters)?;
    }
    let sealed = can_seal
        && match memfd::seal(&file) {
            Ok(()) => true,
            Err(error) => {
                counters.fallback(Fallback::Unsealed, format_args!("F_ADD_SEALS: {error}"));
                false
            }
        };
    Ok(Memory { file, sealed })
}

fn file(counters: &Counters) -> Result<(File, bool), JoinError> {
    let refused = match memfd::create() {
        Ok(file) => return Ok((file, true)),
        Err(error) => error,
    };
    match refused.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM | libc::EACCES) => {}
        _ => return Err(JoinError::system("memfd_create")(refused)),
    }
    let file = memfd::unnamed_file().map_err(|_| JoinError::Unsupported {
        call: "memfd_create",
        errno: refused.raw_os_error().unwrap_or(0),
    })?;
    counters.fallback(
        Fallback::UnnamedFile,
        format_args!("memfd_create: {refused}"),
    );
    counters.fallback(
        Fallback::Unsealed,
        format_args!("an unnamed file has no seals"),
    );
    Ok((file, false))
}

/// Reserves the ring of a rank, before it is published that the rank is there.
pub(super) fn reserve_ring(
    file: &File,
    geometry: &Geometry,
    rank: u16,
    counters: &Counters,
) -> Result<(), JoinError> {
    let wanted = bytes(geometry.words());
    reserve(file, geometry.ring(rank), wanted, counters)
}

fn reserve(
    file: &File,
    words: Range<usize>,
    wanted: u64,
    counters: &Counters,
) -> Result<(), JoinError> {
    match memfd::reserve(file, bytes(words.start)..bytes(words.end)) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            counters.fallback(Fallback::Unreserved, format_args!("fallocate: {error}"));
            Ok(())
        }
        other => other.map_err(space(wanted, "fallocate")),
    }
}

/// Errors that say that there is no room, apart from the others.
fn space(wanted: u64, call: &'static str) -> impl Fn(io::Error) -> JoinError {
    move |error| match error.raw_os_error() {
        Some(libc::ENOSPC | libc::ENOMEM | libc::EFBIG | libc::EDQUOT) => {
            JoinError::NoSpace { wanted }
        }
        _ => JoinError::system(call)(error),
    }
}

/// Maps a segment. `sealed` = its maker says that it is.
///
/// Nothing is mapped unless the seals are there, if they were promised, and the size is what a bus of `geometry` needs.
pub(super) fn map(file: &File, sealed: bool, geometry: &Geometry) -> Result<Mapping, JoinError> {
    if sealed && !memfd::is_sealed(file) {
        return Err(JoinError::NotSealed);
    }
    let wanted = bytes(geometry.words());
    let found = file.metadata().map_err(JoinError::system("fstat"))?.len();
    if found < wanted {
        return Err(JoinError::TooSmall { found, wanted });
    }
    Mapping::new(file, geometry.words()).map_err(space(wanted, "mmap"))
}

/// Checks the header of a mapped segment against what this rank was told.
pub(super) fn check(mapping: &Mapping, geometry: &Geometry) -> Result<(), JoinError> {
    let segment = Segment::attach(mapping.words())?;
    if segment.geometry() == geometry {
        return Ok(());
    }
    // Both were checked against each other in the greeting, so a difference means a broken hub.
    Err(JoinError::Layout(LayoutError::OutOfRange {
        field: "header",
        found: HEADER as u32,
        accepted: "the sizes that the hub has agreed to",
    }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(3, 2, 8).unwrap()
    }

    #[test]
    fn h61_memory_that_is_not_sealed_or_too_small_is_not_mapped() {
        let file = memfd::create().unwrap();
        assert_eq!(
            map(&file, true, &geometry()).unwrap_err(),
            JoinError::NotSealed
        );
        let wanted = bytes(geometry().words());
        file.set_len(wanted - 1).unwrap();
        memfd::seal(&file).unwrap();
        let small = JoinError::TooSmall {
            found: wanted - 1,
            wanted,
        };
        assert_eq!(map(&file, true, &geometry()).unwrap_err(), small);
    }

    /// Pages that are allocated for the file, and those that control words and first cells lie on.
    #[test]
    fn h62_what_ranks_look_at_before_all_have_come_is_reserved() {
        let geometry = Geometry::new(5, 2, 4096).unwrap();
        let memory = create(&geometry, &Counters::default()).unwrap();
        let found = memory.file.metadata().unwrap();
        let page = found.blksize();
        let first_cell = |rank| geometry.ring(rank).start..geometry.ring(rank).start + LINE;
        let parts = std::iter::once(0..geometry.control()).chain((0..5).map(first_cell));
        let pages = parts.flat_map(|part| bytes(part.start) / page..=(bytes(part.end) - 1) / page);
        let wanted = pages.collect::<std::collections::BTreeSet<u64>>().len() as u64;
        assert!(wanted > bytes(geometry.control()).div_ceil(page) + 3);
        assert_eq!(found.blocks() * 512, wanted * page);
    }

    #[test]
    fn h61_the_kernel_refuses_to_cut_a_segment() {
        let memory = create(&geometry(), &Counters::default()).unwrap();
        assert!(memory.sealed);
        let refused = memory.file.set_len(0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        assert!(map(&memory.file, true, &geometry()).is_ok());
    }
}
