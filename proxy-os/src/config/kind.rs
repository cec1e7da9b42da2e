//! The kinds of settings: how a text is read, which values are taken, how a value is shown. One parser per kind.

use std::path::PathBuf;
use std::time::Duration;

use super::root::{self, RootCommId};
use crate::affinity::{self, Placement};
use crate::latency::{BadHistogramConfig, HISTOGRAM_GRAMMAR, HistogramConfig};
use crate::log::Level;

/// A text or value that is not taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// The part of the text that is wrong, when it is not all of it.
    pub(super) token: Option<String>,
}

/// One kind of setting.
pub(super) trait Kind {
    type Value: Clone;

    /// Reads a text.
    fn parse(&self, text: &str) -> Result<Self::Value, Refused>;

    /// The value to use for `value`, and whether it is another one; refused when out of range.
    fn settle(&self, value: Self::Value) -> Result<(Self::Value, bool), Refused> {
        Ok((value, false))
    }

    /// What is accepted, in words.
    fn accepted(&self) -> String;

    /// A value in words; as in the environment where possible.
    fn show(&self, value: &Self::Value) -> String;
}

/// A switch. The public reference of the runtime's variables accepts words too.
pub(super) struct Switch;

impl Kind for Switch {
    type Value = bool;

    fn parse(&self, text: &str) -> Result<bool, Refused> {
        match text.to_ascii_lowercase().as_str() {
            "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            _ => Err(Refused::default()),
        }
    }

    fn accepted(&self) -> String {
        "0, 1, false or true".to_owned()
    }

    fn show(&self, value: &bool) -> String {
        u8::from(*value).to_string()
    }
}

/// A value as it is, if it is in range.
fn accept_if<T>(in_range: bool, value: T) -> Result<(T, bool), Refused> {
    let settled = in_range.then_some((value, false));
    settled.ok_or_else(Refused::default)
}

/// Reads decimal digits, no sign.
fn parse_digits(text: &str) -> Result<u32, Refused> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(Refused::default)
}

/// A count of `min` and more.
pub(super) struct Count {
    pub(super) min: u32,
}

impl Kind for Count {
    type Value = u32;

    fn parse(&self, text: &str) -> Result<u32, Refused> {
        parse_digits(text)
    }

    fn settle(&self, value: u32) -> Result<(u32, bool), Refused> {
        accept_if(value >= self.min, value)
    }

    fn accepted(&self) -> String {
        format!("a whole number of {}..{}", self.min, u32::MAX)
    }

    fn show(&self, value: &u32) -> String {
        value.to_string()
    }
}

/// A signal that somebody may send to ask for something; 0 is none. Not one that cannot be taken, nor one by which the CPU tells of
/// a fault: its handler would return to the fault.
pub(super) struct Request;

impl Request {
    const REFUSED: [i32; 8] = [
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGKILL,
        libc::SIGSEGV,
        libc::SIGSTOP,
    ];
}

impl Kind for Request {
    type Value = u32;

    fn parse(&self, text: &str) -> Result<u32, Refused> {
        parse_digits(text)
    }

    fn settle(&self, value: u32) -> Result<(u32, bool), Refused> {
        let takes = |signal| signal <= libc::SIGRTMAX() && !Self::REFUSED.contains(&signal);
        accept_if(i32::try_from(value).is_ok_and(takes), value)
    }

    fn accepted(&self) -> String {
        let refused = Self::REFUSED.map(|signal| signal.to_string()).join(", ");
        let last = libc::SIGRTMAX();
        format!("0 (none) or the number of a signal, 1 to {last} without {refused}")
    }

    fn show(&self, value: &u32) -> String {
        value.to_string()
    }
}

/// A count of which at most `max` is used.
pub(super) struct Capped {
    pub(super) max: u32,
}

impl Kind for Capped {
    type Value = u32;

    fn parse(&self, text: &str) -> Result<u32, Refused> {
        parse_digits(text)
    }

    fn settle(&self, value: u32) -> Result<(u32, bool), Refused> {
        Ok((value.min(self.max), value > self.max))
    }

    fn accepted(&self) -> String {
        format!("a whole number, of which at most {} is used", self.max)
    }

    fn show(&self, value: &u32) -> String {
        value.to_string()
    }
}

/// A span of time in whole units.
pub(super) struct Span {
    pub(super) unit: Duration,
    pub(super) name: &'static str,
}

impl Span {
    /// The public documentation gives INT_MAX as the largest timeout.
    const MAX: u32 = i32::MAX.unsigned_abs();
}

impl Kind for Span {
    type Value = Duration;

    fn parse(&self, text: &str) -> Result<Duration, Refused> {
        let units = parse_digits(text)?;
        // Above the limit a product could overflow.
        if units > Self::MAX {
            return Err(Refused::default());
        }
        Ok(self.unit * units)
    }

    fn settle(&self, value: Duration) -> Result<(Duration, bool), Refused> {
        accept_if(value <= self.unit * Self::MAX, value)
    }

    fn accepted(&self) -> String {
        format!("a whole number of {}, 0..{}", self.name, Self::MAX)
    }

    fn show(&self, value: &Duration) -> String {
        format!("{} {}", value.as_nanos() / self.unit.as_nanos(), self.name)
    }
}

/// The CPUs of workers.
pub(super) struct Cpus;

impl Kind for Cpus {
    type Value = Placement;

    fn parse(&self, text: &str) -> Result<Placement, Refused> {
        text.parse().map_err(|bad: affinity::BadCpuList| Refused {
            token: Some(bad.token),
        })
    }

    fn settle(&self, value: Placement) -> Result<(Placement, bool), Refused> {
        let empty = matches!(&value, Placement::Mask { list, .. } if list.is_empty());
        accept_if(!empty, value)
    }

    fn accepted(&self) -> String {
        affinity::GRAMMAR.to_owned()
    }

    fn show(&self, value: &Placement) -> String {
        value.to_string()
    }
}

/// The meeting point of a job.
pub(super) struct Root;

impl Kind for Root {
    type Value = Option<RootCommId>;

    fn parse(&self, text: &str) -> Result<Self::Value, Refused> {
        text.parse().map(Some).map_err(|_| Refused::default())
    }

    fn accepted(&self) -> String {
        root::ACCEPTED.to_owned()
    }

    fn show(&self, value: &Self::Value) -> String {
        value
            .as_ref()
            .map_or_else(|| "unset".to_owned(), ToString::to_string)
    }
}

/// A directory, which must be there.
pub(super) struct Folder;

impl Kind for Folder {
    type Value = Option<PathBuf>;

    fn parse(&self, text: &str) -> Result<Self::Value, Refused> {
        Ok(Some(text.into()))
    }

    fn settle(&self, value: Self::Value) -> Result<(Self::Value, bool), Refused> {
        accept_if(value.as_ref().is_none_or(|path| path.is_dir()), value)
    }

    fn accepted(&self) -> String {
        "a directory".to_owned()
    }

    fn show(&self, value: &Self::Value) -> String {
        value
            .as_ref()
            .map_or_else(|| "unset".to_owned(), |path| path.display().to_string())
    }
}

/// The reference runtime's histogram.
pub(super) struct Chart;

impl Kind for Chart {
    type Value = Option<HistogramConfig>;

    fn parse(&self, text: &str) -> Result<Self::Value, Refused> {
        let config = text.parse();
        config
            .map(Some)
            .map_err(|bad: BadHistogramConfig| Refused { token: bad.token })
    }

    fn accepted(&self) -> String {
        HISTOGRAM_GRAMMAR.to_owned()
    }

    fn show(&self, value: &Self::Value) -> String {
        value
            .as_ref()
            .map_or_else(|| "unset".to_owned(), ToString::to_string)
    }
}

/// A log level. The runtime knows one, TRACE, that this part has no messages for; it is taken as DEBUG.
pub(super) struct Verbosity;

impl Kind for Verbosity {
    type Value = Level;

    fn parse(&self, text: &str) -> Result<Level, Refused> {
        match text.to_ascii_uppercase().as_str() {
            "ERROR" => Ok(Level::Error),
            "WARN" | "WARNING" => Ok(Level::Warn),
            "INFO" => Ok(Level::Info),
            "DEBUG" | "TRACE" => Ok(Level::Debug),
            _ => Err(Refused::default()),
        }
    }

    fn accepted(&self) -> String {
        "ERROR, WARNING, INFO, DEBUG or TRACE".to_owned()
    }

    fn show(&self, value: &Level) -> String {
        value.to_string()
    }
}
