//! The frame around every exported function: a failure becomes a code and a text, a panic too, and a forked child is refused.
//!
//! Only three things cross the boundary outwards: a status, what the out-parameters hold, and the calling thread's last error text.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_char;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use proxy_os::is_worker_thread;
use proxy_os::sys::fork;

use crate::handle::BadHandle;
use crate::status::{self, NRT_STATUS};
use crate::table::{Pin, Reserved, Table};

/// Why a call did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: NRT_STATUS,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: NRT_STATUS, text: impl Display) -> Self {
        let text = text.to_string();
        Self { code, text }
    }

    /// An argument that is not accepted.
    pub(crate) fn invalid(text: impl Display) -> Self {
        Self::new(status::NRT_INVALID, text)
    }
}

/// What the body of an exported function returns.
pub(crate) type Done = Result<(), Failure>;

/// Runs the body of the exported function `name`; for functions that take no handle.
pub(crate) fn plain(name: &'static str, body: impl FnOnce() -> Done) -> NRT_STATUS {
    framed(name, || {
        #[cfg(test)]
        crate::inject::point(name);
        body()
    })
}

/// Runs the body of the exported function `name` with the object of a handle. A panic inside leaves an object that can only be
/// destroyed.
pub(crate) fn with<H, T: Send + Sync, const N: usize>(
    name: &'static str,
    table: &'static Table<T, N>,
    handle: *mut H,
    body: impl FnOnce(&T) -> Done,
) -> NRT_STATUS {
    framed(name, || {
        let object = table.pin(bits(handle)).map_err(bad_handle)?;
        #[cfg(test)]
        crate::inject::point(name);
        body(&object)
    })
}

/// Runs the body of the exported function `name`, which has no way to say that it failed.
pub(crate) fn quiet(name: &'static str, body: impl FnOnce()) {
    let _ = name;
    let _ = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(test)]
        crate::inject::point(name);
        body();
    }));
}

/// Destroys the object of a handle once `prepare` agrees; the handle stays good when it does not, or when it panics.
pub(crate) fn destroy<H, T: Send + Sync, const N: usize>(
    name: &'static str,
    table: &'static Table<T, N>,
    handle: *mut H,
    prepare: impl FnOnce(&T) -> Done,
) -> NRT_STATUS {
    framed(name, || {
        let object = table.pin_poisoned(bits(handle)).map_err(bad_handle)?;
        #[cfg(test)]
        crate::inject::point(name);
        prepare(&object)?;
        let last = table.close(bits(handle)).map_err(bad_handle)?;
        drop(object);
        drop(last);
        Ok(())
    })
}

/// Refuses what waits for other ranks or for a queue on a worker's thread, whose own tasks wait meanwhile.
pub(crate) fn may_wait() -> Done {
    if is_worker_thread() {
        return Err(Failure::new(
            status::ENC_PROXY_WRONG_THREAD,
            "a worker, inside a function that the collective library has called, cannot wait for this",
        ));
    }
    Ok(())
}

/// How long a call that need not wait may do so: not at all on a worker's thread.
pub(crate) fn patience(timeout: Duration) -> Duration {
    match is_worker_thread() {
        true => Duration::ZERO,
        false => timeout,
    }
}

/// The object of a further handle argument.
pub(crate) fn other<H, T: Send + Sync, const N: usize>(
    table: &'static Table<T, N>,
    handle: *mut H,
) -> Result<Pin<'static, T>, Failure> {
    table.pin(bits(handle)).map_err(bad_handle)
}

/// Takes a place for an object that it costs something to make, or to make in vain.
pub(crate) fn reserve<T: Send + Sync, const N: usize>(
    table: &'static Table<T, N>,
) -> Result<Reserved<'static, T>, Failure> {
    let place = table.reserve();
    place.map_err(|full| Failure::new(status::NRT_RESOURCE, full))
}

/// Takes an object in at its place and makes the handle for C.
pub(crate) fn fill<H, T: Send + Sync>(place: Reserved<'static, T>, object: T) -> *mut H {
    let bits = place.fill(object);
    // An address that is never followed, so it needs no provenance. `usize` has 64 bits on every machine with this interface.
    std::ptr::without_provenance_mut(bits as usize)
}

/// Takes in an object that is nothing to others, and makes the handle for C.
pub(crate) fn handle<H, T: Send + Sync, const N: usize>(
    table: &'static Table<T, N>,
    object: T,
) -> Result<*mut H, Failure> {
    Ok(fill(reserve(table)?, object))
}

fn bits<H>(handle: *mut H) -> u64 {
    handle.addr() as u64
}

fn bad_handle(why: BadHandle) -> Failure {
    let code = match why {
        BadHandle::Poisoned => status::ENC_PROXY_POISONED,
        BadHandle::Crowded => status::NRT_RESOURCE,
        _ => status::NRT_INVALID_HANDLE,
    };
    Failure::new(code, format_args!("the handle {why}"))
}

fn framed(name: &'static str, body: impl FnOnce() -> Done) -> NRT_STATUS {
    let failure = match catch_unwind(AssertUnwindSafe(|| {
        fork::settle();
        if fork::is_child() {
            return Err(Failure::new(status::ENC_PROXY_FORKED, proxy_core::FORKED));
        }
        body()
    })) {
        Ok(Ok(())) => return status::NRT_SUCCESS,
        Ok(Err(failure)) => failure,
        Err(payload) => panicked(payload),
    };
    // A text is worth less than the code, so one that cannot be made or kept is left out.
    let _ = catch_unwind(AssertUnwindSafe(|| remember(name, &failure)));
    failure.code
}

fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    let text = match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => {
            // What was thrown may itself panic when it is dropped.
            std::mem::forget(payload);
            return Failure::new(status::ENC_PROXY_PANIC, format_args!("panic: no text"));
        }
    };
    Failure::new(status::ENC_PROXY_PANIC, format_args!("panic: {text}"))
}

thread_local! {
    /// The text with its terminator; empty before the first failure.
    static LAST: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn remember(name: &str, failure: &Failure) {
    let text = format!("{name}: {}", failure.text);
    let mut bytes: Vec<u8> = text.into_bytes();
    bytes.retain(|byte| *byte != 0);
    bytes.push(0);
    // At the end of a thread, when its texts are gone, there is nobody to ask for one.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = bytes;
        }
    });
}

/// The calling thread's last text; an empty one before its first failure.
pub(crate) fn last_text() -> *const c_char {
    let kept = LAST.try_with(|last| match last.try_borrow() {
        Ok(last) if !last.is_empty() => Some(last.as_ptr().cast()),
        _ => None,
    });
    kept.ok().flatten().unwrap_or(c"".as_ptr())
}
