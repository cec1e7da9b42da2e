//! Opens a library, lets it tell its version, and takes all of its exports or none.
//!
//! A library that was opened and then refused stays mapped: its constructors have run and may have left threads or hooks
//! behind, and an unused mapping harms nobody.
#![allow(unsafe_code, reason = "dlopen, dlsym and the version probe")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};

use libloading::os::unix::{self, RTLD_LOCAL, RTLD_NOW};

use super::abi::{self, Table, VersionInfo};
use super::error::{Attempt, LoadError, loader_text};
use super::{build_id, image, shared};
use crate::{log, sys};

/// A loaded library with all of its exports. Dropping it neither closes the library nor calls anything in it.
#[derive(Debug)]
pub struct Library {
    /// Never closed but by [`unload`](super::unload).
    handle: ManuallyDrop<unix::Library>,
    /// The dynamic loader's handle as a number: equal handles are the same mapped file.
    id: usize,
    path: PathBuf,
    version: Version,
    build_id: Option<String>,
    table: Table,
    /// The workers end before the library does.
    pub(super) leaving: Once,
    /// Who uses the library, by a running number.
    pub(super) holders: Mutex<BTreeMap<u64, String>>,
}

/// What a library says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Major, minor, patch and maintenance.
    pub numbers: [u64; 4],
    /// The hash of its source.
    pub git_hash: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch, maintenance] = self.numbers;
        write!(f, "{major}.{minor}.{patch}.{maintenance}-{}", self.git_hash)
    }
}

impl Version {
    fn new(info: &VersionInfo) -> Self {
        let hash = info.git_hash.split(|&byte| byte == 0).next();
        Self {
            numbers: [info.major, info.minor, info.patch, info.maintenance],
            git_hash: hash.unwrap_or_default().escape_ascii().to_string(),
        }
    }
}

impl Library {
    /// Loads a library, or gives the one that is there when the same file is loaded already.
    ///
    /// A name with a slash is a path and means exactly that file, which is looked at first: what is no library, or a library that was
    /// cut short, is an error instead of a wait or a `SIGBUS`. A bare name is searched by the dynamic loader as usual.
    /// When that is not there (or is a link to nothing) and ends in `.so`, the same with `.1` behind is tried, because the
    /// plain name belongs to development packages, and an information line tells.
    ///
    /// Any thread. Runs the library's constructors.
    ///
    /// # Errors
    /// See [`LoadError`]. The reason is not kept; [`shared`](super::shared()) does that.
    pub fn load(name: &OsStr) -> Result<Arc<Self>, LoadError> {
        let opened = open(name)?;
        let (handle, id, path) = opened.identify();
        // SAFETY: nothing else was looked up, and the probe has had this signature in all public releases.
        let (version, found) = unsafe { probe(&handle) }
            .ok_or_else(|| LoadError::NoVersionProbe { path: path.clone() })?;
        if found != abi::COMPATIBILITY_ID {
            return Err(LoadError::Incompatible {
                path,
                version,
                found,
            });
        }
        // SAFETY: the compatibility id says that the exports have the signatures of the table.
        let table = match unsafe { Table::look_up(&handle) } {
            Ok(table) => table,
            Err(missing) => {
                return Err(LoadError::MissingSymbols {
                    path,
                    version,
                    missing,
                });
            }
        };
        let library = Self {
            handle,
            id,
            build_id: build_id::of(&path),
            path,
            version,
            table,
            leaving: Once::new(),
            holders: Mutex::default(),
        };
        Ok(shared::adopt(library))
    }

    /// The file, symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the library says it is.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The number of its interface, which it was loaded for having.
    pub fn interface(&self) -> u64 {
        abi::COMPATIBILITY_ID
    }

    /// The build id that the linker has given its file, in hexadecimal digits; `None` if there is none.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// All exports but the version probe, for calls that have no method here.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The names of those who use the library at the moment.
    pub fn holders(&self) -> Vec<String> {
        let holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.values().cloned().collect()
    }

    /// Equal for libraries that are the same mapped file.
    pub(super) fn id(&self) -> usize {
        self.id
    }

    /// Gives back one opening; the last one unmaps the file. The error is the loader's own text.
    ///
    /// # Safety
    /// Unless another opening of the file remains, nothing of it may run or be called from now on.
    pub(super) unsafe fn close(self) -> Result<(), String> {
        let handle = ManuallyDrop::into_inner(self.handle);
        handle.close().map_err(|error| loader_text(&error))
    }
}

/// An open library and the string that led to it.
struct Opened {
    handle: unix::Library,
    name: OsString,
}

impl Opened {
    /// The handle, now kept open for ever, its number and its file.
    fn identify(self) -> (ManuallyDrop<unix::Library>, usize, PathBuf) {
        let raw = self.handle.into_raw();
        // SAFETY: the handle is open.
        let path = unsafe { sys::linkmap::path_of(raw) };
        // SAFETY: the handle is the one just taken out.
        let handle = unsafe { unix::Library::from_raw(raw) };
        let path = path.unwrap_or_else(|| PathBuf::from(self.name));
        (ManuallyDrop::new(handle), raw.addr(), path)
    }
}

/// Opens the first candidate that is there.
fn open(asked: &OsStr) -> Result<Opened, LoadError> {
    let mut attempts = Vec::new();
    for name in candidates(asked) {
        match open_one(&name) {
            Ok(handle) => {
                if let Some(Attempt { name: first, text }) = attempts.first() {
                    let name = name.display();
                    log::info(format_args!(
                        "\"{first}\" is not there, loaded \"{name}\" instead ({text})"
                    ));
                }
                return Ok(Opened { handle, name });
            }
            Err(text) => {
                let absent = is_absent(&name, &text);
                let name = name.to_string_lossy().into_owned();
                attempts.push(Attempt { name, text });
                if !absent {
                    break;
                }
            }
        }
    }
    Err(LoadError::Open { attempts })
}

/// The strings to try: what was asked for, unchanged, and with the interface number that runtime packages carry.
fn candidates(asked: &OsStr) -> Vec<OsString> {
    let mut names = vec![asked.to_owned()];
    if asked.as_bytes().ends_with(b".so") {
        let mut numbered = asked.to_owned();
        numbered.push(".1");
        names.push(numbered);
    }
    names
}

fn open_one(name: &OsStr) -> Result<unix::Library, String> {
    // The dynamic loader takes the empty name for the program itself.
    if name.is_empty() {
        return Err("the name is empty".to_owned());
    }
    if is_path(name) {
        image::check(Path::new(name))?;
    }
    // SAFETY: the constructors are those of the library that the caller wants; it is not closed before it has been
    // shut down.
    let opened = unsafe { unix::Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
    opened.map_err(|error| loader_text(&error))
}

/// Whether a name means exactly one file, as opposed to one that the loader searches.
fn is_path(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}

/// Whether the file is not there, as opposed to being there and broken.
///
/// Of a bare name only the dynamic loader knows where it looked: its text starts with the name itself when it found no
/// file, and with a path or with the name of a dependency otherwise, in every language.
fn is_absent(name: &OsStr, text: &str) -> bool {
    if is_path(name) {
        // Follows links: one that leads to nothing counts as absent.
        return !Path::new(name).exists();
    }
    let own = format!("{}: ", name.display());
    text.starts_with(&own)
}

/// Calls the version probe: the version and the compatibility id. `None` = the library has none.
///
/// # Safety
/// The export, if there is one, has the signature [`abi::GetVersionInfo`].
unsafe fn probe(handle: &unix::Library) -> Option<(Version, u64)> {
    let name = format!("{}\0", abi::VERSION_PROBE);
    // SAFETY: the caller vouches for the signature; the symbol does not outlive the borrowed handle.
    let symbol = unsafe { handle.get::<abi::GetVersionInfo>(name.as_bytes()) };
    let get_version_info = *symbol.ok()?;
    let mut info = VersionInfo::ZERO;
    // SAFETY: the record is valid for the size told and for a tail behind it.
    unsafe { get_version_info(&raw mut info, VersionInfo::SIZE) };
    Some((Version::new(&info), info.compatibility_id))
}
