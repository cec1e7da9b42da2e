//! One [`Library`] per mapped file, the kept reasons of failure, and the way out.
//!
//! A name is loaded once; every later call gets the same library or the same reason. Different names that lead to the same
//! file share one library, so that "is anybody using it?" has one answer.
#![allow(unsafe_code, reason = "closing a library")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::error::{Busy, LoadError, UnloadError};
use super::loader::Library;
use crate::diagnosis;
use crate::log;

/// The id of a library, or why there is none. Filled outside of the lock, because loading runs foreign constructors.
type Outcome = Arc<OnceLock<Result<usize, Arc<LoadError>>>>;

/// Holds the only long-lived references to libraries; all counting of references is done under its lock.
struct Known {
    names: BTreeMap<OsString, Outcome>,
    libraries: BTreeMap<usize, Arc<Library>>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known {
    names: BTreeMap::new(),
    libraries: BTreeMap::new(),
});

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The library of that name (see [`Library::load`]), loaded at the first call in this process.
///
/// # Errors
/// The reason of the first call's failure, at every call: nothing is tried again.
pub fn shared(name: &OsStr) -> Result<Arc<Library>, Arc<LoadError>> {
    let key = key(name);
    loop {
        let outcome = Arc::clone(known().names.entry(key.clone()).or_default());
        let loaded = outcome.get_or_init(|| match Library::load(name) {
            Ok(library) => Ok(library.id()),
            Err(reason) => Err(Arc::new(reason)),
        });
        let id = loaded.clone()?;
        let mut known = known();
        if let Some(library) = known.libraries.get(&id) {
            return Ok(Arc::clone(library));
        }
        // Unloaded in between: forget the outcome and load afresh.
        known.names.retain(|_, other| !Arc::ptr_eq(other, &outcome));
    }
}

/// A name that was asked for, and its library or why there is none.
pub(crate) type NamedOutcome = (String, Result<Arc<Library>, String>);

/// Every name that was asked for, with its library or the reason why there is none; `None` if the list is locked for longer than a
/// report waits.
pub(crate) fn outcomes() -> Option<Vec<NamedOutcome>> {
    let known = diagnosis::lock(&KNOWN)?;
    let one = |(name, outcome): (&OsString, &Outcome)| {
        let loaded = match outcome.get()? {
            Ok(id) => Ok(Arc::clone(known.libraries.get(id)?)),
            Err(reason) => Err(reason.to_string()),
        };
        Some((name.to_string_lossy().into_owned(), loaded))
    };
    Some(known.names.iter().filter_map(one).collect())
}

/// A path means the same file also after the working directory has changed; a bare name stays one.
fn key(name: &OsStr) -> OsString {
    if !name.as_bytes().contains(&b'/') {
        return name.to_owned();
    }
    std::path::absolute(Path::new(name)).map_or_else(|_| name.to_owned(), OsString::from)
}

/// Makes a library known, or gives the known one of the same file.
pub(super) fn adopt(library: Library) -> Arc<Library> {
    let mut known = known();
    if let Some(first) = known.libraries.get(&library.id()) {
        let first = Arc::clone(first);
        drop(known);
        // SAFETY: the first opening of the same file remains.
        if let Err(text) = unsafe { library.close() } {
            log::warn(format_args!(
                "cannot give back a second opening of a library: {text}"
            ));
        }
        return first;
    }
    log::info(format_args!("Using CCOM {}", library.version()));
    let library = Arc::new(library);
    known.libraries.insert(library.id(), Arc::clone(&library));
    library
}

/// A named use of a library; while it is alive, the library is not unloaded.
#[derive(Debug)]
pub struct Hold {
    library: Arc<Library>,
    number: u64,
}

impl Hold {
    /// Registers a user: `what` is shown to whoever asks for the library to be unloaded.
    pub fn new(library: Arc<Library>, what: impl Into<String>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only uniqueness matters, which a read-modify-write gives.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut holders = library
            .holders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        holders.insert(number, what.into());
        drop(holders);
        Self { library, number }
    }
}

impl Deref for Hold {
    type Target = Library;

    fn deref(&self) -> &Library {
        &self.library
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holders = self
            .library
            .holders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        holders.remove(&self.number);
    }
}

/// Shuts a library down and unmaps it, if `library` is the last reference to it.
///
/// `neuronFiniPlugin` is called first, on the calling thread; its failure is logged and does not stop the unloading. Then
/// the names that led to the library are forgotten: asking for one again loads the file afresh.
///
/// # Errors
/// [`UnloadError::Busy`] with all holders, and nothing was done; [`UnloadError::Close`] from the dynamic loader.
///
/// # Safety
/// No thread runs inside the library, and none that has ever called it will end later: its thread-local destructors would
/// be gone. Nobody keeps a pointer into the library, [`Library::table`] included.
pub unsafe fn unload(library: Arc<Library>) -> Result<(), UnloadError> {
    let mut known = known();
    let id = library.id();
    let own = known.libraries.remove(&id);
    drop(own);
    match Arc::try_unwrap(library) {
        Ok(library) => {
            known
                .names
                .retain(|_, outcome| outcome.get() != Some(&Ok(id)));
            // The lock stays held: nobody may load the file again between its shut-down and its end.
            shut_down(library)
        }
        Err(library) => {
            let others = Arc::strong_count(&library) - 1;
            let holders = library.holders();
            known.libraries.insert(id, Arc::clone(&library));
            drop(known);
            let unnamed = others.saturating_sub(holders.len());
            Err(UnloadError::Busy(Busy {
                library,
                holders,
                unnamed,
            }))
        }
    }
}

fn shut_down(library: Library) -> Result<(), UnloadError> {
    // SAFETY: the library is mapped, and no communicator is in use, because the only reference is here.
    if let Err(error) = unsafe { library.fini_plugin() } {
        log::error(format_args!("{error}"));
    }
    // SAFETY: nothing of the library runs or will be called: `unload`'s caller vouches for threads and pointers.
    unsafe { library.close() }.map_err(UnloadError::Close)
}
