//! Why something on the bus did not work, in words that name who, what and the knob.

use std::fmt;
use std::time::Duration;

use proxy_core::phone::Corrupt;
use proxy_core::phone::barrier::{RankSet, Verdict};
use proxy_core::phone::layout::LayoutError;

use super::frame::Aside;
use super::share::{Named, Ranks, Share, renamed};

/// How long a call may take, and who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within {
    /// The time, from the beginning of the call.
    pub time: Duration,
    /// What sets it, for messages: an option, an environment variable.
    pub knob: &'static str,
}

impl Within {
    /// A time with the name of its knob.
    #[must_use]
    pub const fn new(time: Duration, knob: &'static str) -> Self {
        Self { time, knob }
    }
}

impl From<Duration> for Within {
    fn from(time: Duration) -> Self {
        Self::new(time, "the caller's deadline")
    }
}

/// What a rank was doing when it waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Being let in by the hub.
    Join,
    /// Until all ranks are there.
    Connect,
    /// Until there is room for a message.
    Send,
    /// Until a message is there.
    Receive,
    /// Until all contributions are there.
    AllGather,
    /// At this barrier, in this generation.
    Barrier {
        /// Its slot.
        slot: u16,
        /// How often it has been arrived at, from 1.
        generation: u32,
    },
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join => f.write_str("join"),
            Self::Connect => f.write_str("connect"),
            Self::Send => f.write_str("send"),
            Self::Receive => f.write_str("receive"),
            Self::AllGather => f.write_str("all-gather"),
            Self::Barrier { slot, generation } => write!(f, "barrier {slot} #{generation}"),
        }
    }
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// Its deadline.
    Deadline,
    /// This rank died, and was needed.
    PeerDead(u16),
    /// This rank hung up, and was needed.
    PeerLeft(u16),
    /// The barrier's verdict, the same for all participants.
    Verdict(Verdict),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("timed out"),
            Self::PeerDead(rank) => write!(f, "rank {rank} is dead"),
            Self::PeerLeft(rank) => write!(f, "rank {rank} has left"),
            Self::Verdict(verdict) => verdict.fmt(f),
        }
    }
}

/// A wait that ended without what was waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitError {
    /// What was waited for.
    pub phase: Phase,
    /// What ended it.
    pub why: Why,
    /// The rank that waited.
    pub rank: u16,
    /// Ranks of the bus.
    pub world: u16,
    /// Ranks that the wait still needed. Empty in [`Phase::Join`], where the rank that has not answered is not known yet.
    pub missing: RankSet,
    /// Ranks of the bus that are dead.
    pub dead: RankSet,
    /// Ranks of the bus that have hung up.
    pub left: RankSet,
    /// Time waited.
    pub elapsed: Duration,
    /// The deadline.
    pub within: Within,
    /// Which ranks of a job the bus has, if not all. The numbers here are those of the bus; its words have those of the job.
    pub share: Option<Share>,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |ranks| Ranks(ranks, self.share);
        Named(self.rank, self.share).fmt(f)?;
        if self.share.is_none() {
            write!(f, " of {}", self.world)?;
        }
        write!(
            f,
            ": {}: {} after {:.3} s (deadline {:.3} s, set by {}); missing {}, dead {}, left {}",
            self.phase,
            renamed(self.why, self.share),
            self.elapsed.as_secs_f64(),
            self.within.time.as_secs_f64(),
            self.within.knob,
            named(self.missing),
            named(self.dead),
            named(self.left),
        )?;
        Ok(())
    }
}

impl std::error::Error for WaitError {}

/// A rank that was not let in in time, and what it has tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// Its wait, in [`Phase::Join`].
    pub wait: WaitError,
    /// How often it went to the bus's name.
    pub tries: u32,
    /// What the last time came to.
    pub last: LastTry,
}

/// What may come of going to a bus's name, so that it has to be done again. Which rank opened the bus would be in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LastTry {
    /// Nobody listens at it.
    Unheard,
    /// As many ranks as the system lets wait are waiting there already.
    Crowded,
    /// The rank that opened the bus hung up.
    HungUp,
    /// It was asked, and has not answered.
    Unanswered,
}

impl fmt::Display for LastTry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unheard => "the rank that opened the bus does not listen",
            Self::Crowded => "no more ranks may wait for the rank that opened the bus",
            Self::HungUp => "the rank that opened the bus has hung up",
            Self::Unanswered => "the rank that opened the bus has not answered",
        })
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wait, tries, last } = self;
        let tried = if *tries == 1 { "try" } else { "tries" };
        write!(f, "{wait}; {tries} {tried}, the last one: {last}")
    }
}

/// Why a rank is not on the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinError {
    /// Sizes out of range, or two builds that disagree about the layout.
    Layout(LayoutError),
    /// The ranks were given different sizes.
    Differs {
        /// Which.
        field: Field,
        /// Ours.
        ours: u64,
        /// Theirs.
        theirs: u64,
    },
    /// There is no such rank.
    NoSuchRank {
        /// The rank.
        rank: u64,
        /// Ranks of the bus.
        world: u64,
    },
    /// The rank is there already.
    RankTaken {
        /// The rank.
        rank: u64,
    },
    /// The bus of an earlier run under the same job id has not ended.
    Earlier,
    /// The caller is a child that was forked from a process on a bus.
    Forked,
    /// The other side runs as another user.
    WrongUser {
        /// Ours.
        ours: u64,
        /// Theirs.
        theirs: u64,
    },
    /// Another job has the same name.
    OtherJob,
    /// The segment's descriptor was lost on its way: no room for it, or a security module took it.
    FdNotDelivered {
        /// How many descriptors the process may have.
        limit: u64,
    },
    /// The segment that was handed over can be cut by its other users.
    NotSealed,
    /// The segment that was handed over is too small.
    TooSmall {
        /// Bytes it has.
        found: u64,
        /// Bytes it needs.
        wanted: u64,
    },
    /// There is no room for the segment.
    NoSpace {
        /// Bytes wanted.
        wanted: u64,
    },
    /// The system has no way to do this.
    Unsupported {
        /// The call that it refuses.
        call: &'static str,
        /// Its error number.
        errno: i32,
    },
    /// The system refused something else.
    System {
        /// The call.
        call: &'static str,
        /// Its error number.
        errno: i32,
    },
    /// Another rank could not join, and so the bus cannot be complete.
    Peer {
        /// The rank, if it got far enough to say so.
        rank: Option<u16>,
        /// Why it could not, as seen from this side.
        cause: Box<Self>,
    },
    /// Something in the segment cannot be.
    Corrupt(Corrupt),
    /// The deadline passed before it was let in.
    Late(Box<Late>),
    /// It took too long until all were there, or a rank that was needed is gone.
    Wait(WaitError),
}

/// A size that all ranks must be given alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// Ranks.
    World,
    /// Barriers.
    Barriers,
    /// Cells of each ring.
    Cells,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::World => "world",
            Self::Barriers => "barriers",
            Self::Cells => "cells",
        })
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let os = std::io::Error::from_raw_os_error;
        match self {
            Self::Layout(error) => error.fmt(f),
            Self::Differs {
                field,
                ours,
                theirs,
            } => write!(
                f,
                "bus {field} is {ours} here and {theirs} there, accepted: the same"
            ),
            Self::NoSuchRank { rank, world } => {
                write!(
                    f,
                    "rank {rank}, accepted: below {world}, the bus's world size"
                )
            }
            Self::RankTaken { rank } => write!(f, "rank {rank} is on the bus already"),
            Self::Forked => f.write_str("this process was forked from one that is on a bus"),
            Self::Earlier => {
                f.write_str("the bus of an earlier run with this job id has not ended")
            }
            Self::WrongUser { ours, theirs } => write!(
                f,
                "the other side runs as user {theirs}, accepted: {ours}, our own"
            ),
            Self::OtherJob => f.write_str("the bus's name belongs to another job"),
            Self::FdNotDelivered { limit } => write!(
                f,
                "the segment's descriptor was not delivered; the process may have {limit} descriptors"
            ),
            Self::NotSealed => f.write_str("the segment is not sealed against changes of its size"),
            Self::TooSmall { found, wanted } => {
                write!(
                    f,
                    "the segment has {found} bytes, accepted: {wanted} or more"
                )
            }
            Self::NoSpace { wanted } => {
                write!(f, "no room for the bus's {wanted} bytes of shared memory")
            }
            Self::Unsupported { call, errno } => {
                write!(f, "the system does not support {call}: {}", os(*errno))
            }
            Self::System { call, errno } => write!(f, "{call}: {}", os(*errno)),
            Self::Peer { rank, cause } => match rank {
                Some(rank) => write!(f, "rank {rank} could not join: {cause}"),
                None => write!(f, "a rank could not join: {cause}"),
            },
            Self::Corrupt(error) => error.fmt(f),
            Self::Late(late) => late.fmt(f),
            Self::Wait(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<LayoutError> for JoinError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl From<WaitError> for JoinError {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}

impl From<Corrupt> for JoinError {
    fn from(error: Corrupt) -> Self {
        Self::Corrupt(error)
    }
}

impl JoinError {
    /// The system's refusal of `call`.
    pub(super) fn system(call: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::System {
            call,
            errno: error.raw_os_error().unwrap_or(0),
        }
    }
}

/// Why a message was not sent or received, or a barrier not passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusError {
    /// It took too long, or a rank that was needed is gone.
    Wait(WaitError),
    /// There is no such peer.
    NoSuchRank {
        /// The rank.
        rank: u16,
        /// Ranks of the bus; its own rank is no peer.
        world: u16,
    },
    /// The tag is out of range.
    BadTag {
        /// The tag.
        tag: u32,
    },
    /// The message is longer than the buffer; it stays to be received.
    TooSmall {
        /// Its bytes.
        bytes: usize,
    },
    /// Too many messages with other tags are waiting to be received.
    Crowded {
        /// Their sender.
        rank: u16,
        /// How many may wait; less if they have more than 64 MiB together.
        limit: usize,
    },
    /// There is no such barrier, or this rank is not among the participants.
    BadBarrier {
        /// Its slot.
        slot: u16,
        /// The participants.
        participants: RankSet,
    },
    /// Another rank was told other participants of the same barrier.
    OtherParticipants {
        /// The barrier's slot.
        slot: u16,
        /// This rank's.
        ours: RankSet,
        /// The rank that came first.
        rank: u16,
        /// Its participants.
        theirs: RankSet,
    },
    /// This rank has hung up.
    HungUp,
    /// The caller is a forked child: the rank is its parent's.
    Forked,
    /// Something in the segment cannot be.
    Corrupt(Corrupt),
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(error) => error.fmt(f),
            Self::NoSuchRank { rank, world } => {
                write!(f, "rank {rank}, accepted: another rank below {world}")
            }
            Self::BadTag { tag } => {
                write!(f, "tag {tag}, accepted: 0 to {}", super::MAX_TAG)
            }
            Self::TooSmall { bytes } => {
                write!(f, "the message has {bytes} bytes, more than the buffer")
            }
            Self::Crowded { rank, limit } => write!(
                f,
                "more than {limit} messages of rank {rank} with other tags, or {} MiB of them, wait to be received",
                Aside::BYTES >> 20
            ),
            Self::BadBarrier { slot, participants } => write!(
                f,
                "barrier {slot} of ranks {participants} is not on this bus or without this rank"
            ),
            Self::OtherParticipants {
                slot,
                ours,
                rank,
                theirs,
            } => write!(
                f,
                "barrier {slot} is for ranks {ours} here and for {theirs} on rank {rank}, accepted: the same set"
            ),
            Self::HungUp => f.write_str("this rank has hung up"),
            Self::Forked => f.write_str("this process was forked from the one that is on the bus"),
            Self::Corrupt(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BusError {}

impl From<WaitError> for BusError {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}

impl From<Corrupt> for BusError {
    fn from(error: Corrupt) -> Self {
        Self::Corrupt(error)
    }
}
