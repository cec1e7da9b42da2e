//! The shell's errors as codes of C; the text is the shell's own.

use std::sync::Arc;

use proxy_core::phone::barrier::{Elsewhere, Verdict};
use proxy_core::{ContextError, EnqueueError, OrderError, PollError};
use proxy_os::bananaphone::bootstrap::BootstrapError;
use proxy_os::bananaphone::leaders::LeadersError;
use proxy_os::bananaphone::{BusError, JoinError, WaitError, Why};
use proxy_os::config::SettingsError;
use proxy_os::diagnosis::ServeError;
use proxy_os::global_comm::{BarrierError, SetupError};
use proxy_os::nccom::{CallError, LoadError};
use proxy_os::queue::{ReleaseError, StartError};
use proxy_os::registry::AcquireError;
use proxy_os::trace::TraceError;
use proxy_os::{AbortError, BuildError, ConsumeError};

use crate::call::Failure;
use crate::status::{self, NRT_STATUS};

/// Gives an error a code by a function of it, and its own text.
macro_rules! failures {
    ($($error:ty => $code:expr;)+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let code: fn(&$error) -> NRT_STATUS = $code;
                Self::new(code(&error), &error)
            }
        })+
    };
}

failures! {
    Arc<LoadError> => |_| status::ENC_PROXY_LOAD;
    CallError => |error| error.status.0;
    SettingsError => |_| status::ENC_PROXY_SETTING;
    StartError => start;
    TraceError => trace;
    AcquireError => acquire;
    ReleaseError => release;
    BuildError => build;
    ContextError => context;
    EnqueueError => enqueue;
    PollError => poll;
    ConsumeError => consume;
    AbortError => abort;
    BusError => bus;
    JoinError => join;
    SetupError => setup;
    BarrierError => barrier;
    ServeError => serve;
}

const fn start(error: &StartError) -> NRT_STATUS {
    match error {
        StartError::Forked => status::ENC_PROXY_FORKED,
        StartError::Memory(_) => status::NRT_FAIL_HOST_MEM_ALLOC,
        // As the reference runtime answers when its worker cannot be created.
        StartError::Place(_) | StartError::Doorbell(_) | StartError::Thread(_) => {
            status::NRT_RESOURCE
        }
    }
}

const fn trace(error: &TraceError) -> NRT_STATUS {
    match error {
        TraceError::AlreadyTraced => status::ENC_PROXY_BUSY,
        TraceError::Memory(_) => status::NRT_FAIL_HOST_MEM_ALLOC,
    }
}

const fn acquire(error: &AcquireError) -> NRT_STATUS {
    match error {
        AcquireError::Busy { .. } => status::NRT_TIMEOUT,
        AcquireError::Start(error) => start(error),
        AcquireError::Group(_) => status::NRT_RESOURCE,
        AcquireError::Forked => status::ENC_PROXY_FORKED,
    }
}

const fn release(error: &ReleaseError) -> NRT_STATUS {
    match error {
        ReleaseError::Timeout { .. } => status::NRT_TIMEOUT,
        ReleaseError::Stuck { .. } => status::ENC_PROXY_STUCK,
        ReleaseError::FromWorker => status::ENC_PROXY_WRONG_THREAD,
        ReleaseError::Forked => status::ENC_PROXY_FORKED,
        ReleaseError::Invalid => status::NRT_INVALID_HANDLE,
    }
}

const fn build(error: &BuildError) -> NRT_STATUS {
    match error {
        BuildError::Fifo { .. } => status::ENC_PROXY_FIFO,
        BuildError::Closed(_) => status::NRT_CLOSED,
        BuildError::Context(error) => context(error),
        BuildError::Sets { .. }
        | BuildError::Words { .. }
        | BuildError::BadWord { .. }
        | BuildError::SameBlock(_)
        | BuildError::Rank { .. } => status::NRT_INVALID,
    }
}

const fn context(error: &ContextError) -> NRT_STATUS {
    match error {
        ContextError::OutOfRange { .. } => status::NRT_INVALID,
        ContextError::TableFull { .. } | ContextError::TooManyRanks { .. } => status::NRT_RESOURCE,
        ContextError::Busy { .. } | ContextError::Contended => status::ENC_PROXY_BUSY,
        ContextError::Forked => status::ENC_PROXY_FORKED,
        ContextError::Unknown => status::NRT_INVALID_HANDLE,
    }
}

const fn enqueue(error: &EnqueueError) -> NRT_STATUS {
    match error {
        EnqueueError::Full { .. } => status::NRT_QUEUE_FULL,
        EnqueueError::Closed => status::NRT_CLOSED,
        EnqueueError::WorkerDied => status::ENC_PROXY_WORKER_DIED,
        EnqueueError::UnknownContext => status::NRT_INVALID_HANDLE,
        EnqueueError::NoSuchKind(_) => status::NRT_INVALID,
        EnqueueError::Forked => status::ENC_PROXY_FORKED,
        EnqueueError::FiredBeforeArm(_) => status::ENC_PROXY_FIRED_BEFORE_ARM,
    }
}

const fn poll(error: &PollError) -> NRT_STATUS {
    match error {
        PollError::AlreadyConsumed => status::ENC_PROXY_ALREADY_CONSUMED,
        PollError::Unknown => status::ENC_PROXY_UNKNOWN_TASK,
        PollError::Forked => status::ENC_PROXY_FORKED,
    }
}

const fn consume(error: &ConsumeError) -> NRT_STATUS {
    match error {
        ConsumeError::Timeout { .. } => status::NRT_TIMEOUT,
        ConsumeError::Poll(error) => poll(error),
        ConsumeError::FromWorker => status::ENC_PROXY_WRONG_THREAD,
    }
}

const fn abort(error: &AbortError) -> NRT_STATUS {
    match error {
        AbortError::Task(OrderError::Done) => status::ENC_PROXY_TASK_DONE,
        AbortError::Task(OrderError::AlreadyConsumed) => status::ENC_PROXY_ALREADY_CONSUMED,
        AbortError::Task(OrderError::Unknown) => status::ENC_PROXY_UNKNOWN_TASK,
        AbortError::Overruled {
            inside: Some(_), ..
        } => status::ENC_PROXY_STUCK,
        AbortError::Overruled { inside: None, .. } => status::NRT_TIMEOUT,
        AbortError::Forked => status::ENC_PROXY_FORKED,
    }
}

const fn wait(error: &WaitError) -> NRT_STATUS {
    match error.why {
        Why::Deadline => status::NRT_TIMEOUT,
        Why::PeerDead(_) | Why::PeerLeft(_) => status::ENC_PROXY_PEER_DEAD,
        Why::Verdict(verdict) => of_verdict(verdict),
    }
}

const fn of_verdict(verdict: Verdict) -> NRT_STATUS {
    match verdict {
        Verdict::Gone(_) | Verdict::Elsewhere(_, Elsewhere::Gone) => status::ENC_PROXY_PEER_DEAD,
        Verdict::TimedOut(_) | Verdict::Elsewhere(_, Elsewhere::TimedOut | Elsewhere::Missing) => {
            status::ENC_PROXY_BARRIER_TIMEOUT
        }
        Verdict::OtherExecution(_) | Verdict::Elsewhere(_, Elsewhere::OtherExecution) => {
            status::ENC_PROXY_MPMD
        }
        Verdict::Cancelled(_) | Verdict::Elsewhere(_, Elsewhere::Cancelled) => {
            status::ENC_PROXY_PEER_CANCELLED
        }
        Verdict::Passed => status::NRT_FAILURE,
    }
}

const fn bus(error: &BusError) -> NRT_STATUS {
    match error {
        BusError::Wait(error) => wait(error),
        BusError::NoSuchRank { .. }
        | BusError::BadTag { .. }
        | BusError::BadBarrier { .. }
        | BusError::OtherParticipants { .. } => status::NRT_INVALID,
        BusError::TooSmall { .. } => status::ENC_PROXY_TOO_SMALL,
        BusError::Crowded { .. } => status::ENC_PROXY_CROWDED,
        BusError::HungUp => status::NRT_CLOSED,
        BusError::Corrupt(_) => status::ENC_PROXY_BUS_CORRUPT,
        BusError::Forked => status::ENC_PROXY_FORKED,
    }
}

const fn join(error: &JoinError) -> NRT_STATUS {
    match error {
        JoinError::Late(late) => wait(&late.wait),
        JoinError::Wait(error) => wait(error),
        JoinError::Layout(_) | JoinError::NoSuchRank { .. } => status::NRT_INVALID,
        JoinError::NoSpace { .. } | JoinError::Unsupported { .. } | JoinError::System { .. } => {
            status::NRT_RESOURCE
        }
        JoinError::Corrupt(_) => status::ENC_PROXY_BUS_CORRUPT,
        JoinError::Forked => status::ENC_PROXY_FORKED,
        _ => status::ENC_PROXY_JOIN,
    }
}

const fn setup(error: &SetupError) -> NRT_STATUS {
    match error {
        SetupError::Join(error) | SetupError::Connect(error) => join(error),
        SetupError::Exchange(error) => exchange(error),
        SetupError::Group(error) => acquire(error),
        SetupError::Leaders(error) => leaders(error),
    }
}

const fn leaders(error: &LeadersError) -> NRT_STATUS {
    match error {
        LeadersError::System { .. } => status::NRT_RESOURCE,
        _ => status::NRT_INVALID,
    }
}

const fn exchange(error: &BootstrapError<BusError>) -> NRT_STATUS {
    match error {
        BootstrapError::Receive { error, .. } | BootstrapError::Send { error, .. } => bus(error),
        BootstrapError::NotAParticipant => status::NRT_INVALID,
        BootstrapError::Mismatch => status::ENC_PROXY_MISMATCH,
        BootstrapError::NoUniqueId => status::ENC_PROXY_NO_UNIQUE_ID,
    }
}

const fn barrier(error: &BarrierError) -> NRT_STATUS {
    match error {
        BarrierError::Bus(error) => bus(error),
        BarrierError::Semaphores(_) | BarrierError::Seat(_) => status::NRT_INVALID,
    }
}

const fn serve(error: &ServeError) -> NRT_STATUS {
    match error {
        ServeError::Forked => status::ENC_PROXY_FORKED,
        ServeError::Running => status::ENC_PROXY_BUSY,
        ServeError::Signal(..) => status::NRT_INVALID,
        ServeError::Thread(_) => status::NRT_RESOURCE,
    }
}
