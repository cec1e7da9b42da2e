//! Settings: read once, each with its origin.
//!
//! A value given through the API beats the environment, which beats the default; what the API gives is not even looked up
//! in the environment. All bad values are reported together, each with its variable, its value and what is accepted.
//! Names and defaults that start with `NEURON_RT_` are those of the reference runtime, but for those that its
//! documentation does not have, which are marked as ours.

mod kind;
mod root;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use kind::{Capped, Chart, Count, Cpus, Folder, Kind, Request, Root, Span, Switch, Verbosity};
pub use root::{BadRootCommId, Host, RootCommId};

use crate::affinity::Placement;
use crate::bananaphone::Within;
use crate::latency::HistogramConfig;
use crate::log::{self, Level};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nobody gave one.
    Default,
    /// An environment variable.
    Environment,
    /// The embedder.
    Api,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Environment => "environment",
            Self::Api => "API",
        })
    }
}

/// One effective value in words, for dumps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The environment variable.
    pub name: &'static str,
    /// The value, as in the environment where possible.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.name, self.value, self.origin)
    }
}

/// A value that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSetting {
    /// The environment variable, also for a value given through the API.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// The part of the value that is wrong, when it is not all of it.
    pub token: Option<String>,
    /// What is accepted, in words.
    pub accepted: String,
    /// Where the value comes from.
    pub origin: Origin,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=\"{}\" ({}) ", self.name, self.value, self.origin)?;
        if let Some(token) = &self.token {
            write!(f, "has the bad part \"{token}\"")?;
        } else {
            f.write_str("is not accepted")?;
        }
        write!(f, "; accepted: {}", self.accepted)
    }
}

/// All values that are not accepted; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(pub Vec<BadSetting>);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, bad) in self.0.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{bad}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

impl SettingsError {
    /// There is no setting of this name.
    #[must_use]
    pub fn no_such(name: &str) -> Self {
        let names: Vec<&str> = (Settings::default().effective().iter())
            .map(|setting| setting.name)
            .collect();
        Self(vec![BadSetting {
            name: "setting",
            value: name.to_owned(),
            token: None,
            accepted: names.join(", "),
            origin: Origin::Api,
        }])
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting<T> {
    value: T,
    origin: Origin,
}

/// What was found wrong while settings were read.
#[derive(Default)]
struct Findings {
    bad: Vec<BadSetting>,
    warnings: Vec<String>,
}

/// Makes [`Settings`] and [`Builder`] from one line per setting: `field: type = default, variable, kind`.
macro_rules! settings {
    ($($(#[$doc:meta])* $field:ident: $value:ty = $default:expr, $name:literal, $kind:expr;)+) => {
        /// The effective settings. A snapshot: later changes of the environment have no effect.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $($field: Setting<$value>,)+
            warnings: Vec<String>,
        }

        /// Collects the values that the embedder gives, then looks up the others.
        #[derive(Debug, Clone, Default)]
        pub struct Builder {
            $($field: Option<$value>,)+
        }

        impl Settings {
            $(
                $(#[$doc])*
                #[doc = concat!("\n\nVariable: `", $name, "`.")]
                pub fn $field(&self) -> &$value {
                    &self.$field.value
                }
            )+

            /// Every setting with its value and origin.
            pub fn effective(&self) -> Vec<Effective> {
                vec![$(effective($name, &$kind, &self.$field),)+]
            }
        }

        impl Default for Settings {
            fn default() -> Self {
                Self {
                    $($field: Setting { value: $default, origin: Origin::Default },)+
                    warnings: Vec::new(),
                }
            }
        }

        impl Builder {
            $(
                #[doc = concat!("Sets [`Settings::", stringify!($field), "`], whatever `", $name, "` says.")]
                #[must_use]
                pub fn $field(mut self, value: $value) -> Self {
                    self.$field = Some(value);
                    self
                }
            )+

            /// Sets a setting by the name of its variable, from a text as the variable would have it.
            ///
            /// # Errors
            /// No setting has this name, or the value is not accepted; nothing is set then.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
                match name {
                    $($name => self.$field = Some(read($name, &$kind, text)?),)+
                    _ => return Err(SettingsError::no_such(name)),
                }
                Ok(())
            }

            /// The settings, with `lookup` standing for the environment.
            ///
            /// # Errors
            /// Every value that is not accepted.
            pub fn from_lookup(
                self,
                lookup: impl Fn(&str) -> Option<OsString>,
            ) -> Result<Settings, SettingsError> {
                let mut found = Findings::default();
                let defaults = Settings::default();
                let mut settings = Settings {
                    $($field: {
                        let given = self.$field;
                        pick($name, &$kind, given, &lookup, &mut found).unwrap_or(defaults.$field)
                    },)+
                    warnings: Vec::new(),
                };
                settings.warnings = found.warnings;
                if found.bad.is_empty() { Ok(settings) } else { Err(SettingsError(found.bad)) }
            }
        }
    };
}

settings! {
    /// Ranks (devices) that share one worker.
    ranks_per_network_proxy: u32 = 1, "NEURON_RT_RANKS_PER_NETWORK_PROXY", Count { min: 1 };
    /// Each worker has a core for itself: it spins and never yields.
    one_thread_per_core: bool = false, "NEURON_RT_ONE_THREAD_PER_CORE", Switch;
    /// The CPUs of workers; [`Settings::placement`] adds the strictness.
    low_latency_cpus: Placement = Placement::Inherit, "NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY", Cpus;
    /// No allowed CPU among those of workers is an error. Ours.
    strict_affinity: bool = false, "NEURON_RT_PROXY_STRICT_AFFINITY", Switch;
    /// A send credit may be released before the wire has completed the send.
    early_completion: bool = true, "NEURON_RT_DBG_EARLY_COMPLETION", Switch;
    /// Receives may be posted ahead of their op.
    early_posting: bool = true, "NEURON_RT_DBG_EARLY_POSTING", Switch;
    /// Executions have no barrier task.
    disable_execution_barrier: bool = false, "NEURON_RT_DISABLE_EXECUTION_BARRIER", Switch;
    /// The execution barrier includes the leaders of other nodes.
    internode_execution_barrier: bool = true, "NEURON_RT_ENABLE_INTERNODE_EXECUTION_BARRIER", Switch;
    /// Collectives do nothing.
    cc_nop: bool = false, "NEURON_RT_DBG_CC_NOP", Switch;
    /// Ranks compare the signatures of their collectives.
    cc_check_sigs: bool = true, "NEURON_RT_DBG_CC_CHECK_SIGS", Switch;
    /// Where the ranks of the job meet.
    root_comm_id: Option<RootCommId> = None, "NEURON_RT_ROOT_COMM_ID", Root;
    /// How long an execution may take.
    exec_timeout: Duration = Duration::from_secs(600), "NEURON_RT_EXEC_TIMEOUT",
        Span { unit: Duration::from_secs(1), name: "seconds" };
    /// Executions in flight at once; 0 = each is waited for. At most 63 are used.
    async_exec_max_inflight: u32 = 0, "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", Capped { max: 63 };
    /// Network times as a chart in a file.
    proxy_histogram: Option<HistogramConfig> = None, "NEURON_RT_DBG_CC_PROXY_HISTOGRAM_CONFIG", Chart;
    /// Latencies count from the append, for which each append reads the clock; else from the tick that drains it. Ours.
    latency_from_append: bool = false, "NEURON_RT_PROXY_LATENCY_FROM_APPEND", Switch;
    /// How long a task may take, from the watchdog's first look at it; then it ends with a timeout. 0 = for ever. Ours.
    task_deadline: Duration = Duration::ZERO, "NEURON_RT_PROXY_TASK_DEADLINE_MS",
        Span { unit: Duration::from_millis(1), name: "milliseconds" };
    /// A task that has not moved for this long is told as stalled. 0 = never. Ours.
    stall_threshold: Duration = Duration::from_secs(10), "NEURON_RT_PROXY_STALL_MS",
        Span { unit: Duration::from_millis(1), name: "milliseconds" };
    /// A task is first recorded when this much of its deadline has passed, in percent. 0 = not. Ours.
    first_record_percent: u32 = 25, "NEURON_RT_PROXY_FIRST_RECORD_PERCENT", Capped { max: 100 };
    /// A task is recorded again when this much of its deadline has passed, in percent. 0 = not. Ours.
    second_record_percent: u32 = 75, "NEURON_RT_PROXY_SECOND_RECORD_PERCENT", Capped { max: 100 };
    /// Reports are served to tools of the same user, as long as the process has a queue. Ours.
    report: bool = false, "NEURON_RT_PROXY_REPORT", Switch;
    /// A signal that asks for a report; 0 = none. Ours.
    report_signal: u32 = 0, "NEURON_RT_PROXY_REPORT_SIGNAL", Request;
    /// Where reports go as files, besides the log. Ours.
    report_directory: Option<PathBuf> = None, "NEURON_RT_PROXY_REPORT_DIR", Folder;
    /// How often a report is written, as a file that is replaced; its verdict goes to the log. 0 = never. Ours.
    report_every: Duration = Duration::ZERO, "NEURON_RT_PROXY_REPORT_EVERY",
        Span { unit: Duration::from_secs(1), name: "seconds" };
    /// The least important messages that are written.
    log_level: Level = Level::Warn, "NEURON_RT_LOG_LEVEL", Verbosity;
    /// How long a worker without tasks spins before it sleeps: waking a sleeper takes longer than a spin hand-off. However long, it sees an append,
    /// an abort and its release. Ours.
    spin_before_sleep: Duration = Duration::from_micros(50), "NEURON_RT_PROXY_SPIN_US",
        Span { unit: Duration::from_micros(1), name: "microseconds" };
    /// How long a rank may wait for the others on the host bus; [`Settings::bus_within`] is what calls take. Ours.
    bus_timeout: Duration = Duration::from_secs(60), "NEURON_RT_PROXY_BUS_TIMEOUT",
        Span { unit: Duration::from_secs(1), name: "seconds" };
    /// Idle ticks in a row that a worker on a shared core spins through before it yields; the largest number is hours, and so never. Ours.
    spin_ticks: u32 = 16, "NEURON_RT_PROXY_SPIN_TICKS", Count { min: 0 };
    /// Looks of a consumer at a task before it sleeps, some 130 ns apart: the hand-off of an awake worker takes less than a microsecond, a wake-up five and
    /// more. The largest number is some ten minutes; the consumer's deadline ends them. Ours.
    wait_spins: u32 = 300, "NEURON_RT_PROXY_WAIT_SPINS", Count { min: 0 };
}

impl Settings {
    /// The settings of this process's environment. Logs the warnings.
    ///
    /// # Errors
    /// Every value that is not accepted.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::builder().from_env()
    }

    /// The settings, with `lookup` standing for the environment. Logs nothing.
    ///
    /// # Errors
    /// Every value that is not accepted.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, SettingsError> {
        Self::builder().from_lookup(lookup)
    }

    /// For values given through the API.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// [`Self::bus_timeout`] as the bus's calls take it: when it passes, the error names its variable.
    pub fn bus_within(&self) -> Within {
        Within::new(*self.bus_timeout(), "NEURON_RT_PROXY_BUS_TIMEOUT")
    }

    /// Where workers run: [`Self::low_latency_cpus`], strict when either says so.
    pub fn placement(&self) -> Placement {
        match self.low_latency_cpus() {
            Placement::Mask { list, strict } => Placement::Mask {
                list: list.clone(),
                strict: *strict || *self.strict_affinity(),
            },
            other => other.clone(),
        }
    }

    /// Values that are used in another form than given.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Sets the log level, if one was given, and logs the warnings. The environment's level counts only if the embedder has set none.
    pub fn apply(&self) {
        match self.log_level.origin {
            Origin::Default => {}
            Origin::Environment => log::set_default_level(*self.log_level()),
            Origin::Api => log::set_level(*self.log_level()),
        }
        for warning in self.warnings() {
            log::warn(format_args!("{warning}"));
        }
    }
}

impl fmt::Display for Settings {
    /// One line per setting: variable, effective value, origin.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.effective()
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Builder {
    /// The settings, with this process's environment for what was not given, [applied](Settings::apply).
    ///
    /// # Errors
    /// Every value that is not accepted.
    pub fn from_env(self) -> Result<Settings, SettingsError> {
        let settings = self.from_lookup(|name| std::env::var_os(name))?;
        settings.apply();
        Ok(settings)
    }
}

fn effective<K: Kind>(name: &'static str, kind: &K, setting: &Setting<K::Value>) -> Effective {
    Effective {
        name,
        value: kind.show(&setting.value),
        origin: setting.origin,
    }
}

/// A value that the embedder gives as a text.
fn read<K: Kind>(name: &'static str, kind: &K, text: &str) -> Result<K::Value, SettingsError> {
    // Not the settled value: what is changed in it is warned of where it is used.
    let accepted = |value: K::Value| kind.settle(value.clone()).map(|_| value);
    kind.parse(text).and_then(accepted).map_err(|refused| {
        SettingsError(vec![BadSetting {
            name,
            value: text.to_owned(),
            token: refused.token,
            accepted: kind.accepted(),
            origin: Origin::Api,
        }])
    })
}

/// The value given by API or environment. `None` = neither, or a bad one, which is noted.
fn pick<K: Kind>(
    name: &'static str,
    kind: &K,
    given: Option<K::Value>,
    lookup: &impl Fn(&str) -> Option<OsString>,
    found: &mut Findings,
) -> Option<Setting<K::Value>> {
    let (text, parsed, origin) = if let Some(value) = given {
        (kind.show(&value), Ok(value), Origin::Api)
    } else {
        let text = lookup(name)?;
        // A text that is not UTF-8 is none of what is accepted; the replacement characters see to that.
        let text = text.to_string_lossy().into_owned();
        let parsed = kind.parse(&text);
        (text, parsed, Origin::Environment)
    };
    match parsed.and_then(|value| kind.settle(value)) {
        Ok((value, changed)) => {
            if changed {
                let used = kind.show(&value);
                let warning = format!("{name}={text} ({origin}) is too large; {used} is used");
                found.warnings.push(warning);
            }
            Some(Setting { value, origin })
        }
        Err(refused) => {
            found.bad.push(BadSetting {
                name,
                value: text,
                token: refused.token,
                accepted: kind.accepted(),
                origin,
            });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_lookup(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn switches_take_digits_and_words_and_nothing_else() {
        const NAME: &str = "NEURON_RT_DBG_CC_NOP";
        for (text, value) in [("0", false), ("1", true), ("False", false), ("TRUE", true)] {
            assert_eq!(*read(&[(NAME, text)]).unwrap().cc_nop(), value);
        }
        for text in ["", "2", "yes", " 1"] {
            assert_eq!(read(&[(NAME, text)]).unwrap_err().0.len(), 1, "{text}");
        }
    }

    #[test]
    fn numbers_take_digits_in_range_and_nothing_else() {
        let bad = [
            ("NEURON_RT_RANKS_PER_NETWORK_PROXY", "0"),
            ("NEURON_RT_PROXY_SPIN_TICKS", "+1"),
            ("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "-1"),
            ("NEURON_RT_EXEC_TIMEOUT", "2147483648"),
            ("NEURON_RT_PROXY_SPIN_US", ""),
        ];
        assert_eq!(read(&bad).unwrap_err().0.len(), bad.len());
        let good = read(&[("NEURON_RT_EXEC_TIMEOUT", "2147483647")]).unwrap();
        assert_eq!(good.exec_timeout().as_secs(), 0x7FFF_FFFF);
    }

    #[test]
    fn a_setting_is_set_by_the_name_of_its_variable() {
        let mut builder = Settings::builder();
        builder.set("NEURON_RT_PROXY_SPIN_TICKS", "7").unwrap();
        let refused = builder.set("NEURON_RT_PROXY_SPIN_TICKS", "x").unwrap_err();
        assert_eq!((refused.0[0].origin, refused.0.len()), (Origin::Api, 1));
        let unknown = builder.set("NEURON_RT_NOTHING", "7").unwrap_err();
        assert!(
            unknown
                .to_string()
                .starts_with("setting=\"NEURON_RT_NOTHING\" (API) is not accepted"),
            "{unknown}"
        );
        let settings = builder.from_lookup(|_| None).unwrap();
        assert_eq!(*settings.spin_ticks(), 7);
    }

    #[test]
    fn strictness_comes_from_either_side() {
        let loose = Placement::Mask {
            list: [1].into_iter().collect(),
            strict: false,
        };
        let build = |strict| {
            Settings::builder()
                .low_latency_cpus(loose.clone())
                .strict_affinity(strict)
        };
        let strict = build(true).from_lookup(|_| None).unwrap().placement();
        assert!(matches!(strict, Placement::Mask { strict: true, .. }));
        assert_eq!(
            build(false).from_lookup(|_| None).unwrap().placement(),
            loose
        );
    }
}
