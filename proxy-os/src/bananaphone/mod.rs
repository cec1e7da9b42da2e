//! Bananaphone: the host bus on which the ranks of one machine meet, send messages, gather and wait for each other.
//!
//! ```text
//!   create ──> connect ──> send, recv, broadcast, all_gather, barrier ──> hangup ──> cleanup
//!     |           |                                                          |          |
//!   meet at     all ranks                                                peers are    memory and
//!   the hub     are there                                                told         threads back
//! ```
//!
//! The first rank that comes is the hub: it makes the segment of shared memory and hands it to the others over a Unix socket whose name
//! comes from the job id and is in no file system, so that nothing is left behind, however the ranks end. From then
//! on everything is words of the segment, see [`proxy_core::phone`]. Ranks are processes or threads, up to 128 per bus.
//!
//! Every wait has a deadline, and ends early, within milliseconds, when a rank that it needs has died or left; what that rank
//! had published before is still received. A rank that is stopped is late, not dead.
//!
//! | file | what |
//! |---|---|
//! | `join`, `hub`, `hello`, `cause` | how ranks meet |
//! | `segment`, `home` | the memory, and what the ranks of one process share |
//! | `line`, `watch` | how a death is noticed |
//! | `sight` | what a report sees |
//! | `wait` | spin, yield, sleep, deadline |
//! | `channel`, `receive`, `frame`, `gather`, [`barrier`] | messages, all-gather, barrier |
//! | [`task`] | the host barrier of the driver's barrier task |
//! | [`leaders`] | its leg between machines |
//! | [`bootstrap`] | signature and unique id over trees |
//! | [`start`] | starting together: a rank that cannot is heard of at once |
//! | [`counters`], [`error`], `share`, [`kill`] | what is counted, what can fail, how it names ranks, where tests let a process die |

pub mod barrier;
pub mod bootstrap;
mod cause;
mod channel;
pub mod counters;
pub mod error;
mod frame;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod hello;
mod home;
mod hub;
mod join;
#[doc(hidden)]
pub mod kill;
pub mod leaders;
mod line;
mod receive;
mod segment;
mod share;
mod sight;
pub mod start;
pub mod task;
mod wait;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::{Geometry, Segment};
use proxy_core::phone::member::{MemberError, Members, State};
use proxy_core::phone::ring::{self, To};

pub use barrier::{Barrier, Progress};
pub use channel::MAX_TAG;
pub use counters::{Fallback, Snapshot};
pub use error::{BusError, JoinError, LastTry, Late, Phase, WaitError, Why, Within};
pub use share::Share;
pub(crate) use sight::{Death, Member, Seen, all as seen};

use channel::{Ends, EndsOf};
use counters::Counters;
use frame::Place;
use home::Home;
use hub::{Hub, Terms};
use kill::Point;
use wait::{Crowd, Look, Pace, Waiting};
use watch::Connection;

use crate::sys::fork;
use crate::sys::mmap::Tied;

/// What a rank is told about its bus. All ranks must be told the same, but for `rank`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names the bus on this machine; another for every job, and for every bus of a job.
    pub job: String,
    /// This rank.
    pub rank: u16,
    /// Ranks of the bus, 1 to 128.
    pub world: u16,
    /// Barrier slots, 0 to 64.
    pub barriers: u16,
    /// Cells of 64 bytes in each rank's ring, a power of two from 2 to 65536. A message of up to 48 bytes takes one, a
    /// longer one another for each 64 bytes.
    pub cells: u32,
    /// How long [`Bus::create`] may take.
    pub deadline: Within,
    /// Whether ranks may run as different users. Each of them can break the bus for the others.
    pub any_user: bool,
    /// Which ranks of a job these are, where they are not all: messages name them by their numbers in the job.
    pub share: Option<Share>,
    /// How often a rank that waits pauses and looks again before it yields; else 250 times, and not at all where more ranks run on its CPUs
    /// than there are: those of the thread that calls [`Bus::create`], and ranks with the same. A look is some loads and a pause, a
    /// few tens of nanoseconds. Any number is taken: it costs the CPU, and hides neither the deadline nor a death.
    pub spins: Option<u32>,
    /// How often it then yields its CPU and looks before it sleeps; else as long as it has waited for less than 50 microseconds. Any number,
    /// likewise.
    pub yields: Option<u32>,
}

impl Options {
    /// Options for rank `rank` of `world` with the usual sizes: 8 barriers, rings of 256 cells, 60 s to join, one user.
    pub fn new(job: impl Into<String>, rank: u16, world: u16) -> Self {
        Self {
            job: job.into(),
            rank,
            world,
            barriers: 8,
            cells: 256,
            deadline: Within::new(Duration::from_secs(60), "Options::deadline"),
            any_user: false,
            share: None,
            spins: None,
            yields: None,
        }
    }

    fn terms(&self) -> Result<Terms, JoinError> {
        let geometry = Geometry::new(self.world, self.barriers, self.cells)?;
        if self.rank >= self.world {
            return Err(JoinError::NoSuchRank {
                rank: self.rank.into(),
                world: self.world.into(),
            });
        }
        Ok(Terms {
            geometry,
            job: join::hash(&self.job),
            any_user: self.any_user,
            rank: self.rank,
            share: self.share,
        })
    }

    const fn pace(&self) -> Pace {
        Pace::of(self.spins, self.yields)
    }
}

/// One rank's place on a bus. Any thread may use it, one at a time. Dropped, it hangs up and cleans up.
#[derive(Debug)]
pub struct Bus {
    ends: Tied<EndsOf>,
    connection: Arc<Connection>,
    /// If this rank is the hub's.
    hub: Option<Hub>,
    home: Arc<Home>,
    counters: Arc<Counters>,
    geometry: Geometry,
    me: u16,
    hung_up: bool,
}

impl Bus {
    /// Joins the bus of a job, or opens it. Returns when this rank is on it; the others may not be yet.
    ///
    /// # Errors
    /// See [`JoinError`]. Nothing is left of a join that failed.
    pub fn create(options: &Options) -> Result<Self, JoinError> {
        fork::settle();
        if fork::is_child() {
            return Err(JoinError::Forked);
        }
        let terms = options.terms()?;
        let counters = Arc::new(Counters::default());
        sight::remember(&options.job, options.rank, options.world, &counters);
        let joined = join::join(&join::Request {
            job: &options.job,
            terms,
            within: options.deadline,
            counters: &counters,
        })?;
        let me = options.rank;
        let no_ends = JoinError::NoSuchRank {
            rank: me.into(),
            world: options.world.into(),
        };
        let home = &joined.home;
        counters.sight.joined(&home.mapping, home.geometry);
        let ends = Tied::new(&home.mapping, |words| {
            Ends::new(Segment::again(words, home.geometry)?, me, options.pace()).ok_or(no_ends)
        })?;
        let bus = Self {
            ends,
            connection: joined.connection,
            hub: joined.hub,
            home: joined.home,
            counters,
            geometry: terms.geometry,
            me,
            hung_up: false,
        };
        bus.announce()?;
        Ok(bus)
    }

    fn announce(&self) -> Result<(), JoinError> {
        self.ends.with(|ends| {
            Crowd::tell(ends.segment, self.me);
            match Members::of(ends.segment).ready(self.me) {
                Ok(news) => wait::wake(ends.segment.words(), news),
                Err(MemberError::Corrupt(error)) => return Err(error.into()),
                // Somebody has taken us for dead. It is told as that.
                Err(_) => {
                    return Err(JoinError::Peer {
                        rank: Some(self.me),
                        cause: Box::new(JoinError::Earlier),
                    });
                }
            }
            kill::point(Point::Joined);
            self.connection.ready();
            Ok(())
        })
    }

    /// This rank.
    #[must_use]
    pub const fn rank(&self) -> u16 {
        self.me
    }

    /// Ranks of the bus.
    #[must_use]
    pub const fn world(&self) -> u16 {
        self.geometry.world()
    }

    /// Barrier slots of the bus.
    #[must_use]
    pub const fn barriers(&self) -> u16 {
        self.geometry.barriers()
    }

    /// Whether this rank's process lets the others in.
    #[must_use]
    pub const fn is_hub(&self) -> bool {
        self.hub.is_some()
    }

    /// Bytes of the longest message that is sent in one piece.
    #[must_use]
    pub fn capacity(&self) -> usize {
        ring::capacity(self.geometry.cells())
    }

    /// Waits until all ranks are there.
    ///
    /// # Errors
    /// [`JoinError::Wait`] with the ranks that are missing, at the deadline or at once when one of them died;
    /// [`JoinError::Peer`] when one could not join.
    pub fn connect(&self, within: impl Into<Within>) -> Result<(), JoinError> {
        if fork::is_child() {
            return Err(JoinError::Forked);
        }
        let waiting = Waiting::new(Phase::Connect, self.me, within.into()).of(self.home.share);
        let home = &self.home;
        self.ends.with(|ends| {
            let segment = ends.segment;
            let all = wait::until(segment, ends.pace, &waiting, &self.counters, |_| {
                if let Some(failure) = home.watch.failure() {
                    return Look::Done(Err(join::failed(failure)));
                }
                join::connected(segment, &waiting)
            });
            let missing = || join::absent(segment);
            all.unwrap_or_else(|| Err(waiting.error(segment, Why::Deadline, missing()).into()))
        })
    }

    /// Sends a message to one rank. Returns when it is in this rank's ring; nobody has to have received it then. One that is longer than
    /// [`Self::capacity`] goes in parts, so that the receiver must take the first for the last to be sent.
    ///
    /// # Errors
    /// [`BusError::Wait`] when there was no room until the deadline, with the rank that left none, or when `to` is dead or has
    /// left; [`BusError::NoSuchRank`], [`BusError::BadTag`].
    pub fn send(
        &mut self,
        to: u16,
        tag: u32,
        message: &[u8],
        within: impl Into<Within>,
    ) -> Result<(), BusError> {
        self.send_to(To::Rank(to), tag, message, within.into())
    }

    /// Sends a message to all other ranks; each receives it as any other.
    ///
    /// # Errors
    /// As for [`Self::send`], if any rank is dead. Those that have left are not missed.
    pub fn broadcast(
        &mut self,
        tag: u32,
        message: &[u8],
        within: impl Into<Within>,
    ) -> Result<(), BusError> {
        self.send_to(To::Everybody, tag, message, within.into())
    }

    fn send_to(
        &mut self,
        to: To,
        tag: u32,
        message: &[u8],
        within: Within,
    ) -> Result<(), BusError> {
        let waiting = self.begin(Phase::Send, within, Some(tag))?;
        let counters = &self.counters;
        self.ends
            .with_mut(|ends| ends.send(to, tag, message, &waiting, counters))
    }

    /// Receives the next message of a rank, with this tag or with any; returns tag and bytes. Messages of a rank with the same
    /// tag come in the order in which they were sent.
    ///
    /// # Errors
    /// [`BusError::Wait`] when there was none until the deadline, or `from` is dead or has left and nothing of it is to be received;
    /// [`BusError::Crowded`] when more than 1024 with other tags came instead, or 64 MiB of them.
    pub fn recv(
        &mut self,
        from: u16,
        tag: Option<u32>,
        within: impl Into<Within>,
    ) -> Result<(u32, Vec<u8>), BusError> {
        let waiting = self.begin(Phase::Receive, within.into(), tag)?;
        let counters = &self.counters;
        let mut message = Vec::new();
        let place = Place::Vec(&mut message);
        let received = self
            .ends
            .with_mut(|ends| ends.recv(from, tag, place, &waiting, counters));
        received.map(|(tag, _)| (tag, message))
    }

    /// Receives into a buffer; returns tag and length. Allocates nothing for a message in one piece.
    ///
    /// # Errors
    /// As for [`Self::recv`]; [`BusError::TooSmall`] when the buffer is, and then the message is the next of such a call. Behind the
    /// message, and after an error, the buffer's contents are arbitrary.
    pub fn recv_into(
        &mut self,
        from: u16,
        tag: Option<u32>,
        buffer: &mut [u8],
        within: impl Into<Within>,
    ) -> Result<(u32, usize), BusError> {
        let waiting = self.begin(Phase::Receive, within.into(), tag)?;
        let counters = &self.counters;
        let place = Place::Buffer(buffer);
        self.ends
            .with_mut(|ends| ends.recv(from, tag, place, &waiting, counters))
    }

    /// Gives `own` to all ranks and returns what all have given, in order of rank. All ranks must call it, in the same order if more than
    /// once; sizes may differ.
    ///
    /// # Errors
    /// [`BusError::Wait`] with the rank whose part is missing.
    pub fn all_gather(
        &mut self,
        own: &[u8],
        within: impl Into<Within>,
    ) -> Result<Vec<Vec<u8>>, BusError> {
        let waiting = self.begin(Phase::AllGather, within.into(), None)?;
        let counters = &self.counters;
        self.ends
            .with_mut(|ends| ends.all_gather(own, &waiting, counters))
    }

    /// Gives `own` to all ranks and puts what all have given into `all`, in order of rank: the form for contributions of one length.
    /// Allocates nothing. All ranks must call it with the same length, in the same order with [`Self::all_gather`].
    ///
    /// # Errors
    /// [`BusError::Wait`] with the rank whose part is missing; [`BusError::TooSmall`] if `all` has not the length of one
    /// contribution per rank, or if a rank has given another length.
    pub fn all_gather_into(
        &mut self,
        own: &[u8],
        all: &mut [u8],
        within: impl Into<Within>,
    ) -> Result<(), BusError> {
        let waiting = self.begin(Phase::AllGather, within.into(), None)?;
        let counters = &self.counters;
        self.ends
            .with_mut(|ends| ends.all_gather_into(own, all, &waiting, counters))
    }

    /// This rank's handle of a barrier. All participants must use the same slot, and no other set of ranks the slot.
    ///
    /// # Errors
    /// [`BusError::BadBarrier`] when there is no such slot, or this rank is not among the participants;
    /// [`BusError::OtherParticipants`] when the slot was first used for another set, with both sets.
    pub fn barrier(&self, slot: u16, participants: RankSet) -> Result<Barrier, BusError> {
        if fork::is_child() {
            return Err(BusError::Forked);
        }
        let me = (self.me, self.ends.with(|ends| ends.pace));
        Barrier::new(&self.home, &self.counters, me, slot, participants)
    }

    /// Leaves: peers that wait for this rank are told at once. Their messages are not received any more; barriers that need this
    /// rank fail.
    pub fn hangup(&mut self) {
        if std::mem::replace(&mut self.hung_up, true) || fork::is_child() {
            return;
        }
        kill::point(Point::Leaving);
        self.ends.with(|ends| {
            // Refused when somebody has taken us for dead; there is nothing to leave then.
            if let Ok(news) = Members::of(ends.segment).leave(self.me) {
                kill::point(Point::Left);
                wait::wake(ends.segment.words(), news);
                wait::wake_everybody(ends.segment);
            }
        });
    }

    /// Hangs up and gives back memory, descriptors and threads. Barrier handles keep the memory until they are dropped.
    pub fn cleanup(self) {
        drop(self);
    }

    /// What was counted on this rank; the hub's counts are on its rank.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.counters.snapshot()
    }

    /// The state of every rank, with its process id as the hub sees it (0 = it has none there).
    ///
    /// # Errors
    /// A state cannot be.
    pub fn members(&self) -> Result<Vec<(State, u32)>, BusError> {
        self.ends.with(|ends| {
            let members = Members::of(ends.segment);
            let one = |rank| match members.state(rank) {
                Ok(state) => Ok((
                    state,
                    members.process(rank).map_or(0, |(process, _)| process),
                )),
                Err(MemberError::Corrupt(error)) => Err(error.into()),
                Err(_) => Ok((State::Free, 0)),
            };
            (0..self.world()).map(one).collect()
        })
    }

    /// The ranks that died without hanging up, those of a moment ago included: the thread that watches gets `patience` to look again. Any
    /// thread. What only other processes can see (another namespace's, a lost descriptor's end) comes when they have told.
    ///
    /// # Errors
    /// A state cannot be.
    pub fn dead(&self, patience: Duration) -> Result<RankSet, BusError> {
        if fork::is_child() {
            return Err(BusError::Forked);
        }
        self.home.watch.catch_up(patience);
        let members = (0..).zip(self.members()?);
        let dead = members.filter(|(_, (state, _))| *state == State::Dead);
        Ok(dead.map(|(rank, _)| rank).collect())
    }

    fn begin(&self, phase: Phase, within: Within, tag: Option<u32>) -> Result<Waiting, BusError> {
        match tag {
            _ if fork::is_child() => Err(BusError::Forked),
            Some(tag) if tag > MAX_TAG => Err(BusError::BadTag { tag }),
            _ if self.hung_up => Err(BusError::HungUp),
            _ => Ok(Waiting::new(phase, self.me, within).of(self.home.share)),
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.hangup();
        // A forked child has a copy of this value; what it stands for is its parent's.
        if !fork::is_child() {
            kill::point(Point::CleaningUp);
            self.connection.close();
        }
    }
}

#[cfg(test)]
mod tests;
