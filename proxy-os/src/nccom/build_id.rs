//! Which build a file is: the build id that the linker has put into it, so that a report can be matched with symbols and with packages.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use elf::abi;
use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::note::{Note, NoteIterator};
use elf::segment::{ProgramHeader, SegmentTable};

use crate::sys::linkmap;

/// Bytes of the header of a 64-bit file.
const HEADER: usize = 64;
/// A note segment that is longer is not read: a build id has some tens of bytes, and stands among a few others.
const LONGEST: u64 = 1 << 16;

/// The build id of a file in hexadecimal digits; `None` if it has none or cannot be read. Some system calls on a file that is mapped anyway.
pub(super) fn of(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let read = |offset: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    };
    let bytes = read(0, HEADER)?;
    let (ident, tail) = bytes.split_at_checked(abi::EI_NIDENT)?;
    let header = FileHeader::parse_tail(parse_ident::<AnyEndian>(ident).ok()?, tail).ok()?;
    let (endian, class) = (header.endianness, header.class);
    let size = usize::from(header.e_phnum) * usize::from(header.e_phentsize);
    let table = read(header.e_phoff, size)?;
    let notes =
        |segment: &ProgramHeader| segment.p_type == abi::PT_NOTE && segment.p_filesz <= LONGEST;
    let mut notes = SegmentTable::new(endian, class, &table)
        .iter()
        .filter(notes);
    notes.find_map(|segment| {
        let align = usize::try_from(segment.p_align).ok()?;
        let length = usize::try_from(segment.p_filesz).ok()?;
        among((endian, class, align), &read(segment.p_offset, length)?)
    })
}

/// The build id among the notes of one segment.
fn among((endian, class, align): (AnyEndian, Class, usize), data: &[u8]) -> Option<String> {
    NoteIterator::new(endian, class, align, data).find_map(|note| match note {
        Note::GnuBuildId(id) => Some(hexadecimal(id.0)),
        _ => None,
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// The build id of the file that holds this driver: a program, or a library that a program has loaded. Read once.
pub(crate) fn own() -> Option<&'static str> {
    static OWN: OnceLock<Option<String>> = OnceLock::new();
    OWN.get_or_init(|| of(&linkmap::own()?)).as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_found_among_other_notes() {
        let note = |name: &[u8; 4], kind: u32, id: &[u8]| {
            let length = u32::try_from(id.len()).unwrap();
            let words = [4, length, kind].map(u32::to_le_bytes).concat();
            [&words[..], name, id].concat()
        };
        let other = note(b"ABC\0", 7, &[1, 2, 3, 4]);
        let kind = u32::try_from(abi::NT_GNU_BUILD_ID).unwrap();
        let own = note(b"GNU\0", kind, &[0xde, 0xad, 0xbe, 0x0f]);
        let kind = (AnyEndian::Little, Class::ELF64, 4);
        let notes = [other.clone(), own].concat();
        assert_eq!(among(kind, &notes).as_deref(), Some("deadbe0f"));
        assert_eq!(among(kind, &other), None);
    }

    #[test]
    fn the_file_of_this_driver_is_this_program() {
        let program = std::env::current_exe().unwrap();
        assert_eq!(own().map(str::to_owned), of(&program));
        assert_eq!(linkmap::own(), program.canonicalize().ok());
        assert_eq!(of(Path::new("/dev/null")), None);
    }
}
