//! C handles of communicators: a place in a fixed table and a generation, not an address.
//!
//! A null, stale or invented handle is therefore found out instead of being followed. The look-up takes the lock of
//! one place for the time of a reference count; communicators do not contend with each other.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::boot::GlobalComm;
use crate::comm::Comm;
use crate::error::{Error, Result};

/// Communicators of one process at a time.
const PLACES: usize = 4096;
/// Set in every handle, so that small integers are none.
const MARK: usize = 0x4E << 40;
const PLACE_BITS: u32 = 12;
const GENERATION_MASK: usize = (1 << 24) - 1;

/// What a handle stands for.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    Global(Arc<Mutex<GlobalComm>>),
    Comm(Arc<Mutex<Comm>>),
}

#[derive(Debug)]
struct Place {
    generation: usize,
    object: Option<Object>,
}

static TABLE: [Mutex<Place>; PLACES] = [const {
    Mutex::new(Place {
        generation: 0,
        object: None,
    })
}; PLACES];

const _: () = assert!(PLACES == 1 << PLACE_BITS);

/// Locks, going on with what a thread left that panicked: every entry point checks the state it needs.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files an object and returns its handle.
pub(crate) fn insert(object: Object) -> Result<*mut c_void> {
    for (index, place) in TABLE.iter().enumerate() {
        let mut place = lock(place);
        if place.object.is_none() {
            place.object = Some(object);
            return Ok(encode(index, place.generation));
        }
    }
    Err(Error::resource(format!(
        "{PLACES} communicators of this process are in use already"
    )))
}

/// The object behind a handle.
pub(crate) fn get(handle: *mut c_void) -> Result<Object> {
    find(handle)
        .and_then(|place| place.object.clone())
        .ok_or_else(|| unknown(handle))
}

/// The data communicator behind a handle.
pub(crate) fn with_comm<T>(
    handle: *mut c_void,
    body: impl FnOnce(&mut Comm) -> Result<T>,
) -> Result<T> {
    match get(handle)? {
        Object::Comm(comm) => body(&mut lock(&comm)),
        Object::Global(_) => Err(Error::invalid(format!(
            "{handle:p} is a global communicator, accepted: one of InitComm"
        ))),
    }
}

/// The global communicator behind a handle.
pub(crate) fn with_global<T>(
    handle: *mut c_void,
    body: impl FnOnce(&mut GlobalComm) -> Result<T>,
) -> Result<T> {
    match get(handle)? {
        Object::Global(comm) => body(&mut lock(&comm)),
        Object::Comm(_) => Err(Error::invalid(format!(
            "{handle:p} is no global communicator, accepted: one of InitGlobalComm"
        ))),
    }
}

/// Frees a handle. The object goes when the last call on it has returned.
pub(crate) fn remove(handle: *mut c_void) -> Result<()> {
    let mut place = find(handle).ok_or_else(|| unknown(handle))?;
    place.generation = (place.generation + 1) & GENERATION_MASK;
    let object = place.object.take();
    // Closing sockets is no work to do under the lock.
    drop(place);
    object.map(drop).ok_or_else(|| unknown(handle))
}

fn unknown(handle: *mut c_void) -> Error {
    Error::invalid(format!(
        "communicator {handle:p} is null, freed or not from this library"
    ))
}

fn encode(index: usize, generation: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(MARK | generation << PLACE_BITS | index)
}

fn find(handle: *mut c_void) -> Option<MutexGuard<'static, Place>> {
    let index = handle.addr() & (PLACES - 1);
    let place = lock(TABLE.get(index)?);
    (encode(index, place.generation) == handle).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invented_handles_are_refused() {
        for value in [0, 1, 0x4E, MARK | 77 << PLACE_BITS, usize::MAX] {
            let error = get(std::ptr::without_provenance_mut(value))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("null, freed or not from this library"),
                "{error}"
            );
            assert!(remove(std::ptr::without_provenance_mut(value)).is_err());
        }
    }
}
