//! Whether a file is one that the dynamic loader can map: looked at before the loader does.
//!
//! The loader believes what a file says of itself. It maps the segments of one that was cut short, as a copy to a full disk is,
//! and the first touch of what is not there ends the process by `SIGBUS`; and it opens whatever has the name, so a FIFO without
//! a writer holds it up for ever. Here a file is opened only when it is a regular one, and what its headers promise has to lie
//! within it. Header and segments are those of the ELF specification, read by a crate that trusts no length.
//!
//! Not covered: what the library itself depends on, names without a slash (only the loader knows where it finds them), and a
//! file that is changed between this look and the loader's.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::parse::{ParseAt, ParseError};
use elf::segment::{ProgramHeader, SegmentTable};
use elf::{abi, to_str};

/// Bytes of the header of a 64-bit file, of which the first ones say what kind of file it is.
const HEADER: usize = 64;
/// What a file has to be.
const ACCEPTED: &str = "a regular file that holds a shared library, 64-bit ELF for this machine";
/// The machine that this program runs on, as files name it; none where it was never looked up.
const MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(abi::EM_X86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(abi::EM_AARCH64)
} else {
    None
};

/// Looks at the file that a path leads to. The error says what was found and what is accepted, not the path.
///
/// A path that leads to nothing, or to something that cannot even be looked at, is left to the loader, whose text says that best.
/// Any thread; some system calls, none of which waits for anybody else than the disk.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let Ok(found) = fs::metadata(path) else {
        return Ok(());
    };
    let told = kind(&found).and_then(|()| {
        // Not before it is known to be no FIFO and no device, as opening those waits or does something.
        let file = File::open(path).map_err(unreadable)?;
        library(&file, file.metadata().map_err(unreadable)?.len())
    });
    told.map_err(|what| format!("{what}; accepted: {ACCEPTED}"))
}

fn unreadable(error: io::Error) -> String {
    format!("it cannot be read: {error}")
}

fn kind(found: &fs::Metadata) -> Result<(), String> {
    let kind = found.file_type();
    let name = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(format!("it is {name}"))
}

/// Whether a file of so many bytes is a library that lies within it.
fn library(file: &File, length: u64) -> Result<(), String> {
    let mut bytes = [0; HEADER];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(format!(
                "it has {length} bytes, fewer than the {HEADER} of an ELF header"
            ));
        }
        read => read.map_err(unreadable)?,
    }
    let header = header(&bytes)?;
    let class = header.class;
    let table = u64::from(header.e_phnum) * u64::from(header.e_phentsize);
    let expected = ProgramHeader::size_for(class);
    if usize::from(header.e_phentsize) != expected || header.e_phnum == 0 {
        return Err(format!(
            "its ELF header tells of {} segments in records of {} bytes, each of which has {expected}",
            header.e_phnum, header.e_phentsize
        ));
    }
    within("the list of its segments", header.e_phoff, table, length)?;
    // At most 65535 records, and no more than the file has.
    let mut bytes = vec![0; usize::from(header.e_phnum) * expected];
    file.read_exact_at(&mut bytes, header.e_phoff)
        .map_err(unreadable)?;
    let segments = SegmentTable::new(header.endianness, class, &bytes);
    for (number, segment) in segments.iter().enumerate() {
        // One without bytes of the file, as for zeros alone, may name a place behind its end.
        if segment.p_type == abi::PT_LOAD && segment.p_filesz > 0 {
            let what = format!("its segment {number}");
            within(&what, segment.p_offset, segment.p_filesz, length)?;
        }
    }
    Ok(())
}

/// The header, if it is that of a library for this machine.
fn header(bytes: &[u8; HEADER]) -> Result<FileHeader<AnyEndian>, String> {
    let (ident, tail) = bytes.split_at(abi::EI_NIDENT);
    let ident = parse_ident::<AnyEndian>(ident).map_err(|error| match error {
        ParseError::BadMagic(magic) => {
            format!(
                "it is no ELF file, it begins with \"{}\"",
                magic.escape_ascii()
            )
        }
        other => format!("its ELF header is not good: {other}"),
    })?;
    let (endianness, class, ..) = ident;
    if class != Class::ELF64 {
        return Err("it is a 32-bit ELF file".to_owned());
    }
    let own = if cfg!(target_endian = "little") {
        AnyEndian::Little
    } else {
        AnyEndian::Big
    };
    if endianness != own {
        return Err("it is an ELF file of the other byte order".to_owned());
    }
    let header = FileHeader::parse_tail(ident, tail);
    let header = header.map_err(|error| format!("its ELF header is not good: {error}"))?;
    if MACHINE.is_some_and(|machine| header.e_machine != machine) {
        let name = to_str::e_machine_to_human_str(header.e_machine).unwrap_or("another machine");
        return Err(format!("it is an ELF file for {name}"));
    }
    if header.e_type != abi::ET_DYN {
        let name = to_str::e_type_to_human_str(header.e_type).unwrap_or("unknown");
        return Err(format!("it is an ELF file of another kind ({name})"));
    }
    Ok(header)
}

/// Whether something lies within a file.
fn within(what: &str, offset: u64, bytes: u64, length: u64) -> Result<(), String> {
    match offset.checked_add(bytes) {
        Some(end) if end <= length => Ok(()),
        // A sum that does not fit is far behind the end of any file.
        end => Err(format!(
            "it is cut short: {what} ends at byte {}, the file at {length}",
            end.unwrap_or(u64::MAX)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This program, with its last segment that is no part of what is mapped made one that is: so many bytes, behind the file's end.
    fn with_segment_behind_the_end(bytes: u64) -> (Vec<u8>, u64) {
        let mut image = fs::read("/proc/self/exe").unwrap();
        let length = image.len() as u64;
        let word =
            |image: &[u8], at: usize| u32::from_ne_bytes(image[at..at + 4].try_into().unwrap());
        let (first, size) = (HEADER, ProgramHeader::size_for(Class::ELF64));
        let count = usize::from(u16::from_ne_bytes(image[56..58].try_into().unwrap()));
        let at = (0..count)
            .map(|number| first + number * size)
            .find(|at| word(&image, *at) == abi::PT_GNU_STACK)
            .unwrap();
        image[at..at + 4].copy_from_slice(&abi::PT_LOAD.to_ne_bytes());
        image[at + 8..at + 16].copy_from_slice(&(length + 4096).to_ne_bytes());
        image[at + 32..at + 40].copy_from_slice(&bytes.to_ne_bytes());
        (image, length)
    }

    #[test]
    fn h27_a_segment_of_zeros_alone_may_lie_behind_the_end_of_the_file_and_no_other() {
        let path = std::env::temp_dir().join(format!("proxy-image-{}", std::process::id()));
        for (bytes, good) in [(0, true), (1, false)] {
            let (image, length) = with_segment_behind_the_end(bytes);
            fs::write(&path, image).unwrap();
            let told = library(&File::open(&path).unwrap(), length);
            fs::remove_file(&path).unwrap();
            assert_eq!(told.is_ok(), good, "{bytes}: {told:?}");
        }
    }
}
