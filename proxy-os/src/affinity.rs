//! Which CPUs a worker runs on: what was asked for, what the kernel allows, and what is left of it.
//!
//! The kernel silently shrinks a mask to the allowed CPUs and refuses one that shrinks to nothing. Here both are computed
//! first, so that a dropped CPU is named and an empty rest is a decision.

use std::fmt;
use std::io;
use std::str::FromStr;

pub use crate::sys::cpuset::CpuSet;

use crate::words::{agree, named};
use crate::{log, sys};

/// What a CPU list may look like, for error messages.
pub(crate) const GRAMMAR: &str =
    "CPU numbers and rising ranges separated by commas, such as 0-3,8; or none";

/// Where a worker is to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Placement {
    /// Nothing was asked for: the CPUs of the thread that creates the worker.
    #[default]
    Inherit,
    /// `none`: somebody else places threads; no affinity call is made.
    Untouched,
    /// These CPUs, as far as they are allowed.
    Mask {
        /// The CPUs asked for.
        list: CpuSet,
        /// No allowed CPU in the list is an error rather than a warning.
        strict: bool,
    },
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherit => f.write_str("inherited"),
            Self::Untouched => f.write_str("none"),
            Self::Mask { list, .. } => list.fmt(f),
        }
    }
}

impl FromStr for Placement {
    type Err = BadCpuList;

    /// `none` or a CPU list; not strict.
    fn from_str(text: &str) -> Result<Self, BadCpuList> {
        if text == "none" {
            return Ok(Self::Untouched);
        }
        let list = parse_list(text)?;
        Ok(Self::Mask {
            list,
            strict: false,
        })
    }
}

/// The part of a CPU list that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCpuList {
    /// The part between two commas.
    pub token: String,
}

impl fmt::Display for BadCpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = CpuSet::MAX_CPU;
        write!(
            f,
            "\"{}\" is no CPU list; accepted: {GRAMMAR}, up to {max}",
            self.token
        )
    }
}

impl std::error::Error for BadCpuList {}

/// Reads a list such as `0-3,8`: decimal numbers and rising ranges, separated by commas, no spaces, at least one.
///
/// # Errors
/// The first part that is neither.
pub fn parse_list(text: &str) -> Result<CpuSet, BadCpuList> {
    let mut set = CpuSet::new();
    for token in text.split(',') {
        let (first, last) = parse_range(token).ok_or_else(|| BadCpuList {
            token: token.to_owned(),
        })?;
        for cpu in first..=last {
            set.insert(cpu);
        }
    }
    Ok(set)
}

fn parse_range(token: &str) -> Option<(u32, u32)> {
    let (first, last) = token.split_once('-').unwrap_or((token, token));
    let (first, last) = (parse_cpu(first)?, parse_cpu(last)?);
    (first <= last).then_some((first, last))
}

fn parse_cpu(text: &str) -> Option<u32> {
    // `parse` would take a leading plus.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let cpu = digits.then(|| text.parse().ok())??;
    (cpu <= CpuSet::MAX_CPU).then_some(cpu)
}

/// What is left of a placement once the allowed CPUs are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The mask to create the worker with; `None` = leave it with the creator's CPUs.
    pub mask: Option<CpuSet>,
    /// CPUs that were asked for and are not allowed.
    pub dropped: CpuSet,
}

impl Resolved {
    /// One line about the dropped CPUs, if there are any.
    pub fn warning(&self) -> Option<String> {
        let dropped = &self.dropped;
        match &self.mask {
            _ if dropped.is_empty() => None,
            Some(mask) => Some(format!(
                "{}; the worker runs on {mask}",
                not_allowed(dropped)
            )),
            None => Some(format!(
                "{}; none is left, the worker keeps the CPUs of its creator",
                not_allowed(dropped)
            )),
        }
    }
}

fn not_allowed(dropped: &CpuSet) -> String {
    let set = dropped.to_string();
    let (are, were) = (agree(&set, "is", "are"), agree(&set, "was", "were"));
    let dropped = named("CPU", set);
    format!("{dropped} {are} not allowed for this process and {were} dropped")
}

/// Why a worker could not be placed.
#[derive(Debug)]
pub enum PlaceError {
    /// Strict, and none of the CPUs asked for is allowed.
    NotAllowed {
        /// The CPUs asked for.
        asked: CpuSet,
        /// The CPUs allowed.
        allowed: CpuSet,
    },
    /// The kernel did not say which CPUs are allowed.
    Unknown(io::Error),
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed { asked, allowed } => write!(
                f,
                "none of the CPUs {asked} is allowed for this process, and placement is strict; accepted: CPUs of {allowed}"
            ),
            Self::Unknown(error) => {
                write!(f, "cannot find out which CPUs are allowed: {error}")
            }
        }
    }
}

impl std::error::Error for PlaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotAllowed { .. } => None,
            Self::Unknown(error) => Some(error),
        }
    }
}

/// Computes what is left of `placement` when the CPUs in `allowed` may be used. Makes no system call.
///
/// # Errors
/// [`PlaceError::NotAllowed`] for a strict mask without an allowed CPU.
pub fn resolve(placement: &Placement, allowed: &CpuSet) -> Result<Resolved, PlaceError> {
    let Placement::Mask { list, strict } = placement else {
        return Ok(Resolved::default());
    };
    let mask = list.intersection(allowed);
    if mask.is_empty() && *strict {
        return Err(PlaceError::NotAllowed {
            asked: list.clone(),
            allowed: allowed.clone(),
        });
    }
    Ok(Resolved {
        dropped: list.difference(allowed),
        mask: (!mask.is_empty()).then_some(mask),
    })
}

/// The mask to create a worker with, with one warning logged when CPUs were dropped.
///
/// Only [`Placement::Mask`] makes system calls, and none of them touches the caller's own mask.
///
/// # Errors
/// See [`PlaceError`].
pub fn place(placement: &Placement) -> Result<Option<CpuSet>, PlaceError> {
    if !matches!(placement, Placement::Mask { .. }) {
        return Ok(None);
    }
    let allowed = sys::affinity::allowed().map_err(PlaceError::Unknown)?;
    let resolved = resolve(placement, &allowed)?;
    if let Some(warning) = resolved.warning() {
        log::warn(format_args!("{warning}"));
    }
    Ok(resolved.mask)
}
