//! The one error type: a status for the caller and a text for the log, and the guard around every export.

use std::ffi::c_int;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{
    NRT_FAILURE, NRT_INVALID, NRT_NETWORK_PROXY_FAILURE, NRT_RESOURCE, NRT_SUCCESS, NRT_TIMEOUT,
};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Error {
    status: c_int,
    /// Empty if the failure has been logged already.
    text: String,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An argument is not acceptable.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(NRT_INVALID, text)
    }

    /// A deadline passed.
    pub(crate) fn timeout(text: impl Into<String>) -> Self {
        Self::new(NRT_TIMEOUT, text)
    }

    /// Something of the host is used up or taken.
    pub(crate) fn resource(text: impl Into<String>) -> Self {
        Self::new(NRT_RESOURCE, text)
    }

    /// A peer or the system failed.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::new(NRT_FAILURE, text)
    }

    /// A failure on the data path.
    pub(crate) fn proxy(text: impl Into<String>) -> Self {
        Self::new(NRT_NETWORK_PROXY_FAILURE, text)
    }

    /// The data path failed before, and said so then.
    pub(crate) const fn proxy_again() -> Self {
        Self {
            status: NRT_NETWORK_PROXY_FAILURE,
            text: String::new(),
        }
    }

    fn new(status: c_int, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }

    /// The same error with `what` in front of its text.
    pub(crate) fn within(mut self, what: impl fmt::Display) -> Self {
        if !self.text.is_empty() {
            self.text = format!("{what}: {}", self.text);
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Runs the body of the export `name`: an error is logged and becomes its status, a panic becomes NRT_FAILURE.
pub(crate) fn guard(name: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    // The objects behind handles stay usable after a panic in as far as their locks recover; no memory is shared with
    // the caller except through raw pointers.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => NRT_SUCCESS,
        Ok(Err(error)) => {
            if !error.text.is_empty() {
                log(format_args!("{name}: {error}"));
            }
            error.status
        }
        Err(_) => {
            log(format_args!(
                "{name}: internal error, see the panic message above"
            ));
            NRT_FAILURE
        }
    }
}

/// One line on stderr.
pub(crate) fn log(text: fmt::Arguments<'_>) {
    // One write, so that the line is whole whoever else writes there; nobody is left to be told where that fails.
    let _ = std::io::stderr().write_all(format!("nccom: {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_cross_the_boundary() {
        assert_eq!(guard("test", || panic!("on purpose")), NRT_FAILURE);
        assert_eq!(guard("test", || Err(Error::invalid("x"))), NRT_INVALID);
        assert_eq!(guard("test", || Ok(())), NRT_SUCCESS);
    }

    #[test]
    fn context_goes_in_front_unless_the_error_is_a_repetition() {
        assert_eq!(Error::failed("b").within("a").to_string(), "a: b");
        assert_eq!(Error::proxy_again().within("a").to_string(), "");
    }
}
