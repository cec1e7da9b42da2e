//! Why a library could not be loaded, unloaded or made to do something.
//!
//! Texts that the reference runtime writes are kept where it has one, so that a search for them finds the same advice.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use proxy_core::Status;

use super::abi;
use super::loader::{Library, Version};

/// One string that was tried, and why it led to no library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The string.
    pub name: String,
    /// The loader's own text, or what is wrong with the file, found and accepted, where the loader was not let near it.
    pub text: String,
}

/// One export that the library does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSymbol {
    /// The export.
    pub name: &'static str,
    /// The loader's own text.
    pub text: String,
}

impl MissingSymbol {
    pub(super) fn new(name: &'static str, reason: &libloading::Error) -> Self {
        Self {
            name,
            text: loader_text(reason),
        }
    }
}

/// Why a library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// No string led to a library.
    Open {
        /// Every string tried.
        attempts: Vec<Attempt>,
    },
    /// The library does not tell its version.
    NoVersionProbe {
        /// The file.
        path: PathBuf,
    },
    /// The library's interface is another one. Nothing but the version probe was called.
    Incompatible {
        /// The file.
        path: PathBuf,
        /// What the library says it is.
        version: Version,
        /// The compatibility id it reports.
        found: u64,
    },
    /// The library lacks exports.
    MissingSymbols {
        /// The file.
        path: PathBuf,
        /// What the library says it is.
        version: Version,
        /// All of them.
        missing: Vec<MissingSymbol>,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { attempts } => {
                f.write_str(
                    "cannot open the collectives library, collectives cannot be used; check LD_LIBRARY_PATH. Tried:",
                )?;
                attempts
                    .iter()
                    .try_for_each(|attempt| write!(f, "\n  \"{}\": {}", attempt.name, attempt.text))
            }
            Self::NoVersionProbe { path } => write!(
                f,
                "Get Version Info API is not implemented by aws-neuronx-collectives. Library: {}, missing: {}",
                path.display(),
                abi::VERSION_PROBE
            ),
            Self::Incompatible {
                path,
                version,
                found,
            } => write!(
                f,
                "Incompatible version of aws-neuronx-collectives.  Compatibility id: {found}, expected: {}. \
                 Library: {}, version {version}",
                abi::COMPATIBILITY_ID,
                path.display()
            ),
            Self::MissingSymbols {
                path,
                version,
                missing,
            } => {
                for MissingSymbol { name, text } in missing {
                    writeln!(f, "cannot find symbol \"{name}\" in NCCL. Reason: {text}")?;
                }
                let (missing, all) = (missing.len(), abi::NAMES.len() + 1);
                write!(
                    f,
                    "{missing} of {all} symbols are missing. Library: {}, version {version}",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// A call of the library that answered with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The export.
    pub name: &'static str,
    /// What it answered, unchanged.
    pub status: Status,
    /// The library's file.
    pub library: PathBuf,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "failed {} request to NCCL: {}. Library: {}",
            self.name,
            self.status,
            self.library.display()
        )
    }
}

impl std::error::Error for CallError {}

/// Who keeps a library from being unloaded.
#[derive(Debug)]
pub struct Busy {
    /// The library, handed back.
    pub library: Arc<Library>,
    /// The names of the holders.
    pub holders: Vec<String>,
    /// References without a name.
    pub unnamed: usize,
}

/// Why a library was not unloaded.
#[derive(Debug)]
pub enum UnloadError {
    /// Somebody uses it; nothing was done.
    Busy(Busy),
    /// It was shut down, and the dynamic loader did not close it: the loader's own text.
    Close(String),
}

impl fmt::Display for UnloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(busy) => {
                let path = busy.library.path().display();
                write!(f, "{path} is in use")?;
                for holder in &busy.holders {
                    write!(f, "; held by {holder}")?;
                }
                if busy.unnamed > 0 {
                    write!(f, "; {} more references", busy.unnamed)?;
                }
                Ok(())
            }
            Self::Close(text) => write!(f, "the library was shut down but not closed: {text}"),
        }
    }
}

impl std::error::Error for UnloadError {}

/// The dynamic loader's own text without the wrapping of the crate that asked it.
pub(super) fn loader_text(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source }
        | libloading::Error::DlSym { source }
        | libloading::Error::DlClose { source } => source.to_string(),
        other => other.to_string(),
    }
}
