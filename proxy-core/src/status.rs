//! `NRT_STATUS`, task kinds and run states, with the specification's names and numbers.

use core::fmt;

/// A status code. Open on purpose: a code of the library that we do not know passes through unchanged.
///
/// Non-negative values are `NRT_STATUS` (all 28 have a constant here) or a library's own; negative values are this
/// project's, and no library uses them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($(#[$meta:meta])* $name:ident = $code:literal, $text:literal;)+) => {
        impl Status {
            $($(#[$meta])* #[doc = $text] pub const $name: Self = Self($code);)+

            /// Every code that has a name, in numeric order of `NRT_STATUS`, then ours.
            pub const KNOWN: &'static [Self] = &[$(Self::$name),+];

            /// The constant's name, if the code is known.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)+
                    _ => None,
                }
            }

            /// A sentence for the code, if it is known. Texts are unique.
            #[must_use]
            pub const fn text(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($text),)+
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0, "success";
    FAILURE = 1, "non-specific failure";
    INVALID = 2, "invalid argument";
    INVALID_HANDLE = 3, "invalid handle";
    RESOURCE = 4, "a resource could not be had";
    TIMEOUT = 5, "timed out";
    HW_ERROR = 6, "hardware error";
    QUEUE_FULL = 7, "queue full";
    LOAD_NOT_ENOUGH_NC = 9, "not enough neuron cores to load";
    UNSUPPORTED_NEFF_VERSION = 10, "unsupported program version";
    FAIL_HOST_MEM_ALLOC = 11, "host memory could not be allocated";
    UNINITIALIZED = 13, "the runtime is not initialised";
    CLOSED = 14, "the runtime is closed";
    QUEUE_EMPTY = 15, "queue empty";
    EXEC_UNIT_UNRECOVERABLE = 101, "the execution unit cannot recover";
    EXEC_BAD_INPUT = 1002, "bad input of an execution";
    EXEC_COMPLETED_WITH_NUM_ERR = 1003, "execution completed with numerical errors";
    EXEC_COMPLETED_WITH_ERR = 1004, "execution completed with errors";
    EXEC_NC_BUSY = 1005, "the neuron core is busy";
    EXEC_OOB = 1006, "out-of-bounds access in an execution";
    COLL_PENDING = 1100, "a collective is pending";
    EXEC_HW_ERR_COLLECTIVES = 1200, "hardware error in collectives";
    EXEC_HW_ERR_HBM_UE = 1201, "uncorrectable device memory error";
    EXEC_HW_ERR_NC_UE = 1202, "uncorrectable neuron core error";
    EXEC_HW_ERR_DMA_ABORT = 1203, "DMA abort";
    EXEC_SW_NQ_OVERFLOW = 1204, "notification queue overflow";
    EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205, "repairable device memory error";
    NETWORK_PROXY_FAILURE = 1206, "network proxy failure";
    ABORTED = -1, "aborted by its owner";
    WORKER_DIED = -2, "the worker died";
    STALE_CONTEXT = -3, "the context was retired before its task ran";
    BARRIER_MISUSE = -4, "the host barrier is not set up for this context";
    PEER_DEAD = -5, "a rank that the host barrier needs is dead or has left";
    BARRIER_TIMEOUT = -6, "a rank waited at the host barrier longer than its deadline";
    MPMD = -7, "MPMD execution is not supported";
    PEER_CANCELLED = -8, "a rank gave up at the host barrier";
    BUS_CORRUPT = -9, "the host bus is corrupt";
}

impl Status {
    /// Whether this is [`Status::SUCCESS`].
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == Self::SUCCESS.0
    }

    /// The code carried as the bits of a word.
    #[expect(clippy::as_conversions, reason = "same width, bits kept")]
    pub(crate) const fn to_bits(self) -> u32 {
        self.0 as u32
    }

    #[expect(clippy::as_conversions, reason = "same width, bits kept")]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits as i32)
    }

    /// `self` if it is an error, else `other`: the first error of a task is the one that is kept.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if self.is_success() { other } else { self }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write!(f, "{text} ({})", self.0),
            None => write!(f, "unknown library code {}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}({})", self.0),
            None => write!(f, "Status({})", self.0),
        }
    }
}

/// `proxy_task_state_type_t`: the kind of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum TaskKind {
    /// `PROXY_TASK_NETWORK`: crosses the seam into the library.
    Network = 1,
    /// `PROXY_TASK_BARRIER`: the host's execution barrier; never crosses the seam.
    Barrier = 2,
}

impl TaskKind {
    /// The kind with this number; `PROXY_TASK_UNKNOWN` (0) and anything above 2 are no kind.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Network),
            2 => Some(Self::Barrier),
            _ => None,
        }
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => "network",
            Self::Barrier => "barrier",
        })
    }
}

/// `proxy_task_run_state_t`: the five states of every task. There is no sixth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum RunState {
    /// Appended, not stepped yet.
    #[default]
    Init = 0,
    /// In flight, and moved in its last step.
    Progressing = 1,
    /// Its streams' start words have not all been written by the device.
    WaitingDeviceTrigger = 2,
    /// In flight, but nothing moved in its last step. Not terminal.
    Idle = 3,
    /// Terminal, with a status code.
    Done = 4,
}

impl RunState {
    /// All five, in numeric order.
    pub const ALL: [Self; 5] = [
        Self::Init,
        Self::Progressing,
        Self::WaitingDeviceTrigger,
        Self::Idle,
        Self::Done,
    ];
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init => "INIT",
            Self::Progressing => "PROGRESSING",
            Self::WaitingDeviceTrigger => "WAITING_DEVICE_TRIGGER",
            Self::Idle => "IDLE",
            Self::Done => "DONE",
        })
    }
}
