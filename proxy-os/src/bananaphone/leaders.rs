//! Leaders: the leg of the execution barrier between machines.
//!
//! ```text
//!      machine 0                      machine 1                      machine 2
//!   ranks --bus--> leader          ranks --bus--> leader          ranks --bus--> leader
//!                    |  votes, verdicts  |                                         |
//!                  thread <============ thread                                     |
//!                    ^=================== bootstrap send/recv =================> thread
//! ```
//!
//! The ranks of a machine meet on its bus; the leader of each machine, the lowest rank there, exchanges with the other leaders before it
//! lets its ranks pass. The only channel of the host between machines is the collective library's bootstrap send and receive (specification
//! section 4: the seam's table), whose calls block, so they have a thread of their own: one per group of ranks,
//! not per barrier or rank. The worker leaves votes in a few words and finds verdicts there; it makes no call but to ring a bell.
//!
//! What a leader tells travels with the execution id. A machine that is at another execution, whose ranks gave up, died or waited too long, or
//! that cannot be reached, makes the generation fail on every rank of every machine. A machine that says nothing at all ends
//! it at the deadline of the ranks that wait ([`TaskBarrier`](super::task::TaskBarrier)'s `within`), and the error names it. What cannot be had, as with
//! any exchange over a network: when a deadline passes on one machine just while the verdict is on its way to it, the
//! others may pass; the next generation then shows it.
//!
//! Cost: one system call of the worker per execution; a poll and an answer of 272 bytes per machine between the last arrival and the
//! verdict, all through machine 0; one poll and answer per 200 ms while nothing happens.
//!
//! | file | what |
//! |---|---|
//! | `channel`, `desk` | the words between worker and thread, per barrier and in all |
//! | `round` | what follows from votes |
//! | `service` | the thread |
//! | `frame` | the bytes |

mod channel;
mod desk;
mod frame;
mod round;
mod service;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use proxy_core::phone::barrier::Elsewhere;

use super::bootstrap::Link;
use crate::log;
use crate::sys::clock;
use crate::sys::thread::{self, Thread, ThreadName};
use channel::{Channel, Outcome, Vote};
use desk::Desk;
use service::Service;

/// Machines of one exchange at most: a set of them fits a `RankSet`.
pub const MACHINES: usize = 128;
/// Channels at most: a bus has so many barriers.
pub const CHANNELS: u16 = 64;
/// How long a dropped exchange waits for its thread.
const DROP: Duration = Duration::from_secs(1);
/// A machine that has been asked so long ago and has not answered is silent: twenty times the longest answer.
const SILENT: Duration = Duration::from_millis(320);

/// Threads that were left behind in a call of their link.
static DETACHED: AtomicUsize = AtomicUsize::new(0);

/// Why leaders cannot exchange.
#[derive(Debug)]
pub enum LeadersError {
    /// No machine, too many, or this one is not among them.
    Machines {
        /// How many were given.
        machines: usize,
        /// This machine's number.
        machine: usize,
    },
    /// No channel or too many.
    Channels(u16),
    /// There is no such channel.
    NoSuchChannel {
        /// The channel.
        channel: u16,
        /// How many there are.
        channels: u16,
    },
    /// The channel's only seat is in use.
    SeatTaken(u16),
    /// The system refused what the thread needs.
    System {
        /// The call.
        call: &'static str,
        /// Its error.
        error: io::Error,
    },
}

impl fmt::Display for LeadersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machines { machines, machine } => write!(
                f,
                "machine {machine} of {machines}, accepted: 1 to {MACHINES} machines and a number below that"
            ),
            Self::Channels(channels) => {
                write!(f, "{channels} channels, accepted: 1 to {CHANNELS}")
            }
            Self::NoSuchChannel { channel, channels } => {
                write!(f, "channel {channel}, accepted: below {channels}")
            }
            Self::SeatTaken(channel) => write!(f, "the seat of channel {channel} is taken"),
            Self::System { call, error } => write!(f, "{call}: {error}"),
        }
    }
}

impl std::error::Error for LeadersError {}

/// How an exchange was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Its thread has ended and the link is given back.
    Ended,
    /// Its thread sits in a call of the link. It is left behind, with the link and all memory that the call may use, and ends when the
    /// call returns; until then, what the link stands on (a communicator) must stay. [`Leaders::detached`] counts it.
    Detached,
}

/// The exchange of one machine's leader with the others. Any thread may use it; no call but [`Self::stop`] waits.
///
/// Dropped, it stops, and waits a second at most.
#[derive(Debug)]
pub struct Leaders {
    desk: Arc<Desk>,
    peers: Arc<[u32]>,
    machine: u8,
    channels: u16,
    thread: Option<Thread>,
    /// The process that has the thread: a forked child has not.
    process: u32,
}

impl Leaders {
    /// Starts the exchange, and its thread.
    ///
    /// - `link`: carries messages of known length between leaders, in order; its calls may block, and only the new thread makes them.
    ///   Nobody else may use the connection under it meanwhile. [`BootstrapLink`](crate::nccom::BootstrapLink) is the library's.
    /// - `peers`: the number of each machine's leader on the link (its rank in the global communicator), the same on all machines.
    /// - `machine`: the own place in `peers`; machine 0 decides.
    /// - `channels`: barriers that may be used, 1 to [`CHANNELS`], the same on all machines. A channel is for one barrier of all machines; the
    ///   slot of the barrier on the bus is the natural number for it.
    ///
    /// # Errors
    /// See [`LeadersError`]; no thread is left, and the link is dropped.
    pub fn start<L: Link + Send + 'static>(
        link: L,
        peers: &[u32],
        machine: usize,
        channels: u16,
    ) -> Result<Self, LeadersError> {
        let machines = peers.len();
        let number = u8::try_from(machine).ok();
        let number = number.filter(|_| machine < machines && machines <= MACHINES);
        let Some(machine) = number else {
            return Err(LeadersError::Machines { machines, machine });
        };
        if channels == 0 || channels > CHANNELS {
            return Err(LeadersError::Channels(channels));
        }
        let system = |call| move |error| LeadersError::System { call, error };
        let desk = Arc::new(Desk::new(channels).map_err(system("eventfd"))?);
        let peers: Arc<[u32]> = peers.into();
        let mut service = Service {
            desk: Arc::clone(&desk),
            link,
            peers: Arc::clone(&peers),
            machine,
            channels,
        };
        let name = |tid: u32| ThreadName::new(&format!("bp-lead-{tid}"));
        let thread = thread::spawn(name, None, Box::new(move || service.run()))
            .map_err(system("pthread_create"))?;
        Ok(Self {
            desk,
            peers,
            machine,
            channels,
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    /// The seat of a channel, for the barrier of this machine's leader. It goes on where the last one stopped.
    ///
    /// # Errors
    /// [`LeadersError::NoSuchChannel`], [`LeadersError::SeatTaken`].
    pub fn seat(&self, channel: u16) -> Result<Seat, LeadersError> {
        let channels = self.channels;
        let Some(place) = self.desk.channels.get(usize::from(channel)) else {
            return Err(LeadersError::NoSuchChannel { channel, channels });
        };
        if !place.take() {
            return Err(LeadersError::SeatTaken(channel));
        }
        let generation = place.generation();
        Ok(Seat {
            desk: Arc::clone(&self.desk),
            peers: Arc::clone(&self.peers),
            machine: self.machine,
            channel,
            generation,
        })
    }

    /// This machine.
    #[must_use]
    pub const fn machine(&self) -> u8 {
        self.machine
    }

    /// All machines.
    #[must_use]
    pub fn machines(&self) -> usize {
        self.peers.len()
    }

    /// Tells the others that this machine stops, and ends the thread; waits for it up to `within`. Every generation that is not decided fails.
    ///
    /// Call it on all machines when no barrier will be used any more: a machine that stops alone makes the next barrier fail on the others.
    /// A thread inside a call of the link cannot be ended by anybody: it is left behind then, see [`Stopped::Detached`].
    pub fn stop(mut self, within: Duration) -> Stopped {
        self.end(within)
    }

    /// Threads of this process that were left behind in a call of their link, since its start.
    #[must_use]
    pub fn detached() -> usize {
        // Relaxed: a count for messages.
        DETACHED.load(Ordering::Relaxed)
    }

    fn end(&mut self, within: Duration) -> Stopped {
        let Some(mut thread) = self.thread.take() else {
            return Stopped::Ended;
        };
        if self.process != std::process::id() {
            // A forked child: the thread, and the count of those left behind, are its parent's.
            std::mem::forget(thread);
            return Stopped::Ended;
        }
        // Release pairs with the acquire in `Service::must_stop`.
        self.desk.stop.store(true, Ordering::Release);
        self.desk.bell.ring();
        if thread.join_timeout(within) {
            return Stopped::Ended;
        }
        // Relaxed: a count for messages.
        DETACHED.fetch_add(1, Ordering::Relaxed);
        let asked = self.desk.asked(clock::monotonic_ns());
        log::error(format_args!(
            "bananaphone: the leaders' thread {} is left behind after {within:?} in a call of its link{}; its memory stays",
            thread.tid(),
            Asked(asked, &self.peers)
        ));
        // Detaches it.
        drop(thread);
        Stopped::Detached
    }
}

impl Drop for Leaders {
    fn drop(&mut self) {
        self.end(DROP);
    }
}

/// Whom the thread has asked, and for how long it has waited, in words.
struct Asked<'a>(Option<(u8, Duration)>, &'a [u32]);

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((machine, time)) = self.0 else {
            return Ok(());
        };
        let rank = self.1.get(usize::from(machine)).copied().unwrap_or(0);
        let time = time.as_secs_f64();
        write!(
            f,
            ", silent for {time:.3} s: machine {machine} (rank {rank})"
        )
    }
}

/// One barrier's place in the exchange, used by the worker of the machine's leader. No call waits.
#[derive(Debug)]
pub struct Seat {
    desk: Arc<Desk>,
    peers: Arc<[u32]>,
    machine: u8,
    channel: u16,
    generation: u32,
}

impl Seat {
    fn place(&self) -> &Channel {
        // The number was checked when the seat was made.
        &self.desk.channels[usize::from(self.channel)]
    }

    /// Begins the next generation; the one before it must be over.
    pub(super) fn begin(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// All ranks of this machine have arrived for `exec`.
    pub(super) fn arrive(&self, exec: u64) {
        if self.machine != 0 {
            // What machine 0 waited for last is not what it waits for now.
            self.place().set_awaited(None);
        }
        self.cast(Vote::Arrived(exec));
    }

    /// This machine's part has failed.
    pub(super) fn fail(&self, why: Elsewhere) {
        self.cast(Vote::Failed(why));
    }

    fn cast(&self, vote: Vote) {
        self.place().cast(self.generation, vote);
        self.desk.bell.ring();
    }

    /// How the generation ended, if it has.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        if let Some(outcome) = self.place().outcome(self.generation) {
            return Some(outcome);
        }
        let gone = self.desk.ended()?;
        // It may have been decided right before the end.
        let decided = self.place().outcome(self.generation);
        Some(decided.unwrap_or(Err((gone, Elsewhere::Gone))))
    }

    /// The machine that is to blame if nothing comes.
    pub(super) fn awaited(&self) -> Option<u8> {
        if self.machine != 0 {
            return Some(self.place().awaited().unwrap_or(0));
        }
        let asked = self.desk.asked(clock::monotonic_ns());
        let silent = asked.filter(|(_, time)| *time > SILENT);
        silent
            .or_else(|| Some((self.place().awaited()?, Duration::ZERO)))
            .or(asked)
            .map(|(machine, _)| machine)
    }

    /// Where the exchange stands, for messages.
    pub(super) fn account(&self) -> String {
        let rank = |machine: u8| self.peers.get(usize::from(machine)).copied().unwrap_or(0);
        let asked = self.desk.asked(clock::monotonic_ns());
        let asked = asked.filter(|(_, time)| *time > SILENT);
        let machines = self.peers.len();
        format!(
            "leaders' exchange, channel {} #{}, machine {} (rank {}) of {machines}{}",
            self.channel,
            self.generation,
            self.machine,
            rank(self.machine),
            Asked(asked, &self.peers)
        )
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.place().leave();
    }
}

#[cfg(test)]
mod tests;
