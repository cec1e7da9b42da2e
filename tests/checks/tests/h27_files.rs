//! H27: a file that cannot be a library is refused by what it is, before the dynamic loader opens or maps it.
//!
//! A loader that is let near these files waits for ever (a FIFO) or ends the process by `SIGBUS` (a library that was cut short), so
//! a check that is missing shows as a test that is late or killed.
#![allow(unsafe_code, reason = "mkfifo and geteuid are C calls")]

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use proxy_checks::stub::Scratch;
use proxy_os::nccom::{Library, LoadError};

/// Much more than a load takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Where the program headers begin, and the bytes of each, in what a 64-bit linker writes.
const SEGMENTS: usize = 64;
const SEGMENT: usize = 56;

/// The text of a refused load, which has to come in time and to name the file.
fn refusal(path: &Path) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    let name = path.as_os_str().to_owned();
    let thread = std::thread::spawn(move || sender.send(Library::load(&name)));
    let loaded = receiver.recv_timeout(LIMIT);
    let loaded = loaded.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    thread
        .join()
        .expect("it has answered")
        .expect("it was heard");
    let error = loaded.err()?;
    let LoadError::Open { attempts } = &error else {
        panic!("{}: {error}", path.display())
    };
    assert_eq!(attempts.len(), 1, "no other name is tried: {error}");
    assert_eq!(Path::new(&attempts[0].name), path, "{error}");
    Some(error.to_string())
}

fn assert_refused(path: &Path, found: &str) {
    let text = refusal(path).unwrap_or_else(|| panic!("{} was loaded", path.display()));
    assert!(text.contains(found), "no {found:?} in {text}");
    let accepted =
        "; accepted: a regular file that holds a shared library, 64-bit ELF for this machine";
    assert!(text.ends_with(accepted), "{text}");
}

fn fifo(path: PathBuf) -> PathBuf {
    let name = CString::new(path.as_os_str().as_bytes()).expect("no null in it");
    // SAFETY: the name ends with a null.
    let made = unsafe { libc::mkfifo(name.as_ptr(), 0o600) };
    assert_eq!(made, 0, "{}", path.display());
    path
}

#[test]
fn h27_what_is_no_regular_file_is_named_and_never_waited_for() {
    let scratch = Scratch::new();
    let pipe = fifo(scratch.path("fifo.so"));
    let link = scratch.path("link.so");
    symlink(&pipe, &link).expect("a link");
    let _listener = UnixListener::bind(scratch.path("socket.so")).expect("a socket");
    assert_refused(&pipe, "it is a FIFO");
    assert_refused(&link, "it is a FIFO");
    assert_refused(&scratch.path("socket.so"), "it is a socket");
    assert_refused(&scratch.path("."), "it is a folder");
    for device in ["/dev/null", "/dev/zero", "/dev/full"] {
        assert_refused(Path::new(device), "it is a device");
    }
}

#[test]
fn h27_a_file_without_the_right_to_read_it_is_said_to_be_so() {
    // SAFETY: no memory is passed.
    if unsafe { libc::geteuid() } == 0 {
        println!("SKIPPED: a user who may not read every file not available");
        return;
    }
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &[]);
    fs::set_permissions(&stub.path, Permissions::from_mode(0o200)).expect("our own file");
    assert_refused(&stub.path, "it cannot be read: Permission denied");
}

/// A change to a good library, and what is then found.
type Spoilt = (&'static str, fn(&mut Vec<u8>), &'static str);

const SPOILT: [Spoilt; 14] = [
    (
        "empty",
        |all| all.clear(),
        "it has 0 bytes, fewer than the 64",
    ),
    (
        "short",
        |all| all.truncate(63),
        "it has 63 bytes, fewer than the 64",
    ),
    (
        "text",
        |all| all[..6].copy_from_slice(b"#!/bin"),
        "it is no ELF file, it begins with \"#!/b\"",
    ),
    ("class", |all| all[4] = 1, "it is a 32-bit ELF file"),
    ("no_class", |all| all[4] = 7, "its ELF header is not good"),
    (
        "order",
        |all| all[5] = 2,
        "an ELF file of the other byte order",
    ),
    ("version", |all| all[6] = 9, "its ELF header is not good"),
    ("machine", |all| all[18] = 8, "it is an ELF file for MIPS"),
    (
        "kind",
        |all| all[16] = 1,
        "of another kind (Relocatable file)",
    ),
    (
        "record",
        |all| all[54] = 32,
        "in records of 32 bytes, each of which has 56",
    ),
    ("none", |all| all[56] = 0, "tells of 0 segments"),
    (
        "header",
        |all| all.truncate(SEGMENTS + SEGMENT),
        "it is cut short: the list of its segments ends at byte",
    ),
    (
        "beyond",
        |all| all[32..40].copy_from_slice(&u64::MAX.to_le_bytes()),
        "it is cut short: the list of its segments ends at byte 18446744073709551615",
    ),
    (
        "huge",
        |all| all[SEGMENTS + 32..SEGMENTS + 40].copy_from_slice(&u64::MAX.to_le_bytes()),
        "it is cut short: its segment 0 ends at byte",
    ),
];

#[test]
fn h27_a_file_that_is_no_library_of_this_machine_is_said_to_be_so() {
    let scratch = Scratch::new();
    let good = fs::read(scratch.stub("libgood.so", &[]).path).expect("the stub");
    for (name, spoil, found) in SPOILT {
        let (path, mut bytes) = (scratch.path(&format!("{name}.so")), good.clone());
        spoil(&mut bytes);
        fs::write(&path, bytes).expect("a file");
        assert_refused(&path, found);
    }
}

/// Wherever a copy has stopped: refused, as long as a segment is not all there. What stands behind the segments nobody maps.
#[test]
fn h27_a_library_that_was_cut_short_is_refused_and_kills_nobody() {
    let scratch = Scratch::new();
    let good = fs::read(scratch.stub("libgood.so", &[]).path).expect("the stub");
    let (mut refused, mut loaded) = (0, 0);
    for (number, length) in (64..=good.len()).step_by(509).enumerate() {
        let path = scratch.path(&format!("cut{number}.so"));
        fs::write(&path, &good[..length]).expect("a file");
        match refusal(&path) {
            Some(text) => {
                assert!(text.contains("it is cut short: "), "{length}: {text}");
                assert!(text.contains(&format!("the file at {length};")), "{text}");
                assert_eq!(loaded, 0, "shorter ones were loaded: {length}");
                refused += 1;
            }
            None => loaded += 1,
        }
    }
    println!("{refused} lengths refused, {loaded} with all segments loaded");
    assert!(refused > 10);
}
