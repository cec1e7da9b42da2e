//! Memory registrations. TCP needs none; a handle is handed out, has a key, and can be given back once.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Mutex;

use crate::error::{Error, Result};
use crate::handles::lock;

#[derive(Debug)]
struct Registry {
    live: BTreeSet<u64>,
    next: u64,
}

/// Handles start above this, so that small integers are none.
const FIRST: u64 = 0x4D52_0000;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    live: BTreeSet::new(),
    next: FIRST,
});

/// Registers memory. Only null and empty ranges are refused.
pub(crate) fn register(address: *mut c_void, size: usize) -> Result<*mut c_void> {
    if address.is_null() || size == 0 {
        return Err(Error::invalid(format!(
            "memory of {size} bytes at {address:p}, accepted: 1 or more, not null"
        )));
    }
    let mut registry = lock(&REGISTRY);
    registry.next += 1;
    let key = registry.next;
    registry.live.insert(key);
    Ok(std::ptr::without_provenance_mut(
        usize::try_from(key).unwrap_or(0),
    ))
}

/// Gives a registration back.
pub(crate) fn deregister(handle: *mut c_void) -> Result<()> {
    let key = key_of(handle);
    lock(&REGISTRY)
        .live
        .remove(&key)
        .then_some(())
        .ok_or_else(|| unknown(handle))
}

/// The key of a live registration.
pub(crate) fn key(handle: *mut c_void) -> Result<u64> {
    let key = key_of(handle);
    lock(&REGISTRY)
        .live
        .contains(&key)
        .then_some(key)
        .ok_or_else(|| unknown(handle))
}

fn key_of(handle: *mut c_void) -> u64 {
    u64::try_from(handle.addr()).unwrap_or(0)
}

fn unknown(handle: *mut c_void) -> Error {
    Error::invalid(format!("memory handle {handle:p} is not registered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_has_a_key_until_it_is_given_back_once() {
        let memory = std::ptr::without_provenance_mut(0x1000);
        let (a, b) = (register(memory, 1).unwrap(), register(memory, 1).unwrap());
        assert_ne!(key(a).unwrap(), key(b).unwrap());
        deregister(a).unwrap();
        assert!(key(a).is_err() && deregister(a).is_err());
        deregister(b).unwrap();
        assert!(register(std::ptr::null_mut(), 1).is_err() && register(memory, 0).is_err());
    }
}
