//! Contexts: what the tasks of one loaded collective work on, checked once when the context is built.

pub(crate) mod note;
mod table;

use std::fmt;
use std::sync::Arc;

use proxy_core::fifo::{self, FifoError, NetDestAddr, NetOpsInfo, NetSrcAddr};
use proxy_core::limits::STREAMS;
use proxy_core::phone::barrier::RankSet;
use proxy_core::port::{BarrierPoll, DeviceWords};
use proxy_core::{
    Arming, ContextError, ContextId, ExecId, Gid, Polarity, Rank, Spec, Status, StopAt, Stream,
    TaskKind,
};

use crate::device::DeviceWord;
use crate::nccom::ProxyComm;
use crate::sys::clock;
use crate::trace::Lane;

pub(crate) use table::{ContextTable, Listed};

/// The three FIFO arrays of one stream of one basic block. They are lent to the library from start to stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fifo {
    /// `net_ops_info`, at least one.
    pub ops: Vec<NetOpsInfo>,
    /// `net_src_addr`, the last one marked `EXEC_COMPLETE`.
    pub src: Vec<NetSrcAddr>,
    /// `net_dest_addr`, the last one marked `EXEC_COMPLETE`.
    pub dest: Vec<NetDestAddr>,
}

/// The host's execution barrier of one context; see [`proxy_core::port::Barrier`] for what each call means.
///
/// Called by the worker only. No call may wait.
pub trait HostBarrier: fmt::Debug + Send + Sync {
    /// Announces this rank's arrival.
    fn arrive(&self, exec: ExecId) -> BarrierPoll;
    /// Raises the done semaphores, on a leader.
    fn signal(&self, exec: ExecId) -> Status;
    /// Whether this rank has been released.
    fn release(&self, exec: ExecId) -> BarrierPoll;
    /// The task ends without a release, perhaps before it has arrived.
    fn cancel(&self, exec: ExecId);
    /// Who is there and who is not, for a report; nothing if nobody knows at this moment. Any thread; must not wait.
    fn attendance(&self) -> Option<Attendance> {
        None
    }
}

/// Ranks of a host barrier, as far as one rank sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attendance {
    /// Slot of the barrier on its bus.
    pub slot: u16,
    /// How often the barrier has been arrived at, from 1.
    pub generation: u32,
    /// Have arrived.
    pub arrived: RankSet,
    /// Have not.
    pub missing: RankSet,
    /// Of those that have not, are known to be dead.
    pub dead: RankSet,
    /// All ranks of this machine have arrived, and this other machine is waited for.
    pub machine: Option<u8>,
}

/// Why a context could not be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// A FIFO array is malformed.
    Fifo {
        /// Stream of the array.
        stream: usize,
        /// Block id of the array.
        block: u32,
        /// What is wrong.
        error: FifoError,
    },
    /// A block does not bring one FIFO set per stream.
    Sets {
        /// Block id.
        block: u32,
        /// Sets found.
        found: usize,
        /// Sets wanted, which is what the first block brings.
        wanted: usize,
    },
    /// The number of start words is not the number of streams.
    Words {
        /// Kind of the task.
        kind: TaskKind,
        /// Words found.
        found: usize,
        /// Words wanted.
        wanted: usize,
    },
    /// A start word inside the valid prefix is null or misaligned.
    BadWord {
        /// Kind of the task.
        kind: TaskKind,
        /// Its stream.
        stream: usize,
    },
    /// Two blocks have the same id.
    SameBlock(u32),
    /// The rank is outside of its communicator.
    Rank {
        /// The rank.
        rank: Rank,
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// The queue of this group has been released, or its worker has died.
    Closed(Gid),
    /// The queue refused the context.
    Context(ContextError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo {
                stream,
                block,
                error,
            } => write!(f, "stream {stream}, block {block}: {error}"),
            Self::Sets {
                block,
                found,
                wanted,
            } => {
                write!(
                    f,
                    "block {block} has {found} FIFO sets, accepted: {wanted}, one per stream"
                )
            }
            Self::Words {
                kind,
                found,
                wanted,
            } => {
                write!(
                    f,
                    "{found} start words for the {kind} task, accepted: {wanted}"
                )
            }
            Self::BadWord { kind, stream } => write!(
                f,
                "start word of the {kind} task, stream {stream}, is null or not aligned to 4 bytes"
            ),
            Self::SameBlock(block) => write!(f, "block id {block} is given twice"),
            Self::Rank { rank, ranks } => write!(
                f,
                "{rank} is not in its communicator; accepted: below {ranks}"
            ),
            Self::Closed(gid) => write!(f, "the queue of {gid} takes no contexts any more"),
            Self::Context(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BuildError {}

/// Describes a context. Streams and blocks come from [`block`](Self::block), everything else has a default.
#[derive(Debug)]
pub struct ContextBuilder {
    comm: Arc<ProxyComm>,
    spec: Spec,
    blocks: Vec<(u32, Vec<Fifo>)>,
    network_words: Vec<Option<DeviceWord>>,
    barrier_words: Vec<Option<DeviceWord>>,
    barrier: Option<Box<dyn HostBarrier>>,
}

impl ContextBuilder {
    /// A context of `rank` on a communicator.
    #[must_use]
    pub fn new(comm: Arc<ProxyComm>, rank: Rank) -> Self {
        Self {
            comm,
            spec: Spec {
                streams: 0,
                ..Spec::new(rank)
            },
            blocks: Vec::new(),
            network_words: Vec::new(),
            barrier_words: Vec::new(),
            barrier: None,
        }
    }

    /// Adds a basic block with one FIFO set per stream. Blocks run in the order in which they are added.
    #[must_use]
    pub fn block(mut self, id: u32, sets: Vec<Fifo>) -> Self {
        self.blocks.push((id, sets));
        self
    }

    /// The network task waits for these start words, one per stream. `None` = a null or misaligned address, which `build` refuses.
    #[must_use]
    pub fn device_wait(mut self, words: Vec<Option<DeviceWord>>) -> Self {
        self.spec.device_wait = true;
        self.network_words = words;
        self
    }

    /// Sense of the start words. Default: the specification's.
    #[must_use]
    pub const fn polarity(mut self, polarity: Polarity) -> Self {
        self.spec.polarity = polarity;
        self
    }

    /// Who arms the start words. Default: enqueue.
    #[must_use]
    pub const fn arming(mut self, arming: Arming) -> Self {
        self.spec.arming = arming;
        self
    }

    /// When the library is told to stop. Default: at the end of the task.
    #[must_use]
    pub const fn stop_at(mut self, stop_at: StopAt) -> Self {
        self.spec.stop_at = stop_at;
        self
    }

    /// The network stage is skipped: its task is done at its first step.
    #[must_use]
    pub const fn skip(mut self, skip: bool) -> Self {
        self.spec.skip = skip;
        self
    }

    /// An execution also has a barrier task, gated by these start words (none: it starts at once).
    #[must_use]
    pub fn barrier(
        mut self,
        barrier: Box<dyn HostBarrier>,
        words: Vec<Option<DeviceWord>>,
    ) -> Self {
        self.spec.barrier = true;
        self.barrier = Some(barrier);
        self.barrier_words = words;
        self
    }

    /// Checks everything and makes the context's data. The queue's `context` registers it.
    pub(crate) fn finish(self) -> Result<(Spec, ContextData), BuildError> {
        let (rank, ranks) = (self.spec.rank, self.comm.ranks());
        if rank.0 >= ranks {
            return Err(BuildError::Rank { rank, ranks });
        }
        let streams = self.blocks.first().map_or(0, |(_, sets)| sets.len());
        let mut spec = self.spec;
        spec.streams = count(streams, "streams", "0 to 4")?;
        spec.blocks = count(self.blocks.len().max(1), "blocks", "1 to 1024")?;
        spec.barrier_triggers = count(self.barrier_words.len(), "barrier_triggers", "0 to 4")?;
        spec.validate().map_err(BuildError::Context)?;
        for index in 0..self.blocks.len() {
            self.check_block(index, streams)?;
        }
        let wanted = if spec.device_wait { streams } else { 0 };
        let data = ContextData {
            comm: self.comm,
            rank,
            gate: (spec.polarity, spec.arming),
            network_words: words(TaskKind::Network, &self.network_words, wanted)?,
            barrier_words: words(
                TaskKind::Barrier,
                &self.barrier_words,
                self.barrier_words.len(),
            )?,
            note: note::Note::default(),
            times_appends: false,
            blocks: self.blocks,
            barrier: self.barrier.map(Arc::from),
        };
        Ok((spec, data))
    }

    /// One block: its id is new, it brings one FIFO set per stream, and each is well-formed.
    fn check_block(&self, index: usize, streams: usize) -> Result<(), BuildError> {
        let (before, rest) = self.blocks.split_at(index);
        let Some((block, sets)) = rest.first() else {
            return Ok(());
        };
        let block = *block;
        if before.iter().any(|(other, _)| *other == block) {
            return Err(BuildError::SameBlock(block));
        }
        if sets.len() != streams {
            return Err(BuildError::Sets {
                block,
                found: sets.len(),
                wanted: streams,
            });
        }
        for (stream, set) in sets.iter().enumerate() {
            fifo::validate(block, self.comm.ranks(), &set.ops, &set.src, &set.dest).map_err(
                |error| BuildError::Fifo {
                    stream,
                    block,
                    error,
                },
            )?;
        }
        Ok(())
    }
}

/// A count as the core takes it; one that does not even fit its field is refused with the core's error for the field.
fn count<T: TryFrom<usize>>(
    found: usize,
    field: &'static str,
    accepted: &'static str,
) -> Result<T, BuildError> {
    T::try_from(found).map_err(|_| {
        BuildError::Context(ContextError::OutOfRange {
            field,
            found: u32::try_from(found).unwrap_or(u32::MAX),
            accepted,
        })
    })
}

type Words = [Option<DeviceWord>; STREAMS];

fn words(kind: TaskKind, given: &[Option<DeviceWord>], wanted: usize) -> Result<Words, BuildError> {
    if given.len() != wanted {
        return Err(BuildError::Words {
            kind,
            found: given.len(),
            wanted,
        });
    }
    let mut words = [None; STREAMS];
    for (stream, (place, word)) in words.iter_mut().zip(given).enumerate() {
        *place = Some(word.ok_or(BuildError::BadWord { kind, stream })?);
    }
    Ok(words)
}

/// What the worker and the arming side reach through a context id.
#[derive(Debug)]
pub(crate) struct ContextData {
    pub(crate) comm: Arc<ProxyComm>,
    pub(crate) rank: Rank,
    /// Sense of the start words, and who arms them.
    pub(crate) gate: (Polarity, Arming),
    pub(crate) blocks: Vec<(u32, Vec<Fifo>)>,
    /// Shared with a report while it asks who is there, so that the context and its communicator are not.
    pub(crate) barrier: Option<Arc<dyn HostBarrier>>,
    network_words: Words,
    barrier_words: Words,
    /// How far the library is with it.
    pub(crate) note: note::Note,
    /// The queue wants to know when tasks are appended.
    pub(crate) times_appends: bool,
}

impl ContextData {
    /// A stream of this context in a trace.
    pub(crate) fn lane(&self, context: ContextId, stream: Stream) -> Lane {
        Lane {
            rank: self.rank,
            context,
            stream,
        }
    }

    pub(crate) fn word(&self, kind: TaskKind, stream: Stream) -> Option<DeviceWord> {
        let words = match kind {
            TaskKind::Network => &self.network_words,
            TaskKind::Barrier => &self.barrier_words,
        };
        words.get(usize::from(stream.0)).copied().flatten()
    }

    /// A word's value. A stream without a word reads as consumed, which opens no gate that counts its arms; the core
    /// asks for no such stream.
    pub(crate) fn load(&self, kind: TaskKind, stream: Stream) -> u32 {
        self.word(kind, stream)
            .map_or(proxy_core::trigger::CONSUMED, DeviceWord::load)
    }

    pub(crate) fn exchange(&self, kind: TaskKind, stream: Stream, seen: u32, new: u32) -> bool {
        self.word(kind, stream)
            .is_some_and(|word| word.compare_exchange(seen, new))
    }
}

/// The arming side's port: one context's words, whatever id is asked for.
impl DeviceWords for ContextData {
    fn load(&self, _: ContextId, kind: TaskKind, stream: Stream) -> u32 {
        self.load(kind, stream)
    }

    fn compare_exchange(
        &self,
        _: ContextId,
        kind: TaskKind,
        stream: Stream,
        seen: u32,
        new: u32,
    ) -> bool {
        self.exchange(kind, stream, seen, new)
    }

    fn append_time(&self) -> u64 {
        match self.times_appends {
            true => clock::monotonic_ns(),
            false => 0,
        }
    }
}
