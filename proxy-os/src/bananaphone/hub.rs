//! The hub: the thread that lets ranks in, one per bus, in the process of the rank that came first.
//!
//! ```text
//!   accept -> [stranger] -- a good Hello --> [member] -- hang-up --> dead, unless it had left
//!                 |  \-- Hello of another build, user, size --> Refused
//!                 \----- nothing in time, other bytes, hang-up -> closed, counted
//! ```
//!
//! One poll loop, nothing in it waits for one connection. When all ranks are members, every process is given a descriptor of
//! each other process, so that from then on they watch each other without the hub.

mod admission;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::{Geometry, Segment};
use proxy_core::phone::member::State;

use super::counters::Counters;
use super::error::JoinError;
use super::hello::{self, Failure, RECORD_LIMIT, Reply, Welcome};
use super::kill::{self, Point};
use super::line::Line;
use super::segment::{self, Memory, Segments};
use super::share::Share;
use super::sight::Death;
use super::wait;
use super::watch::bury;
use crate::log;
use crate::sys::eventfd::EventFd;
use crate::sys::mmap::Tied;
use crate::sys::pidfd;
use crate::sys::poll::{For, poll};
use crate::sys::socket::Socket;
use crate::sys::thread::{self, Thread, ThreadName};
use crate::sys::{clock, fork, random};

/// How long somebody who has connected may say nothing: a rank says who it is right away, and one that is stopped
/// in between connects again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a hub that is to stop goes on for ranks that are there but have not said so, or cannot be introduced yet: both are a matter of
/// microseconds, unless one of them is stopped just then.
const FAREWELL: Duration = PATIENCE;
/// Strangers at once; the one that has waited longest makes room. More than ranks can come.
const STRANGERS: usize = 256;
/// Until a refused call is made again: no room for a descriptor, here or on its way.
const RETRY: Duration = Duration::from_millis(5);

/// What every rank of the bus must have been told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) geometry: Geometry,
    /// Hash of the job id.
    pub(super) job: u64,
    /// Whether ranks may run as other users.
    pub(super) any_user: bool,
    /// The rank whose process is the hub.
    pub(super) rank: u16,
    /// For messages.
    pub(super) share: Option<Share>,
}

/// The hub from outside. Dropped, it stops, once those who are there know how to watch each other: the name is free, and nobody is let in
/// any more.
#[derive(Debug)]
pub(super) struct Hub {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Shared {
    bell: EventFd,
    stop: AtomicBool,
}

impl Hub {
    /// Becomes the hub of the name. `Ok(None)` = somebody else is.
    pub(super) fn start(
        name: &[u8],
        terms: Terms,
        counters: &Arc<Counters>,
    ) -> Result<Option<Self>, JoinError> {
        let listener = match Socket::bind(name) {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            Err(error) => return Err(JoinError::system("bind")(error)),
        };
        kill::point(Point::Bound);
        // At once, as whoever finds nobody listening pauses: who comes before there is memory waits for an answer instead.
        listener.listen().map_err(JoinError::system("listen"))?;
        kill::point(Point::Listening);
        let memory = segment::create(&terms.geometry, counters)?;
        let mapping = Arc::new(segment::map(&memory.file, memory.sealed, &terms.geometry)?);
        let segment = Tied::new(&mapping, |words| Segment::create(words, terms.geometry))?;
        let bell = EventFd::new().map_err(JoinError::system("eventfd"))?;
        let shared = Arc::new(Shared {
            bell,
            stop: AtomicBool::new(false),
        });
        let welcome = Welcome {
            bus: [random::u64(), clock::monotonic_ns()],
            hub: terms.rank,
            sealed: memory.sealed,
        };
        let mut service = Service {
            shared: Arc::clone(&shared),
            listener,
            memory,
            segment,
            terms,
            welcome: Reply::Welcome(welcome).encode(),
            namespace: pidfd::namespace(),
            counters: Arc::clone(counters),
            strangers: Vec::new(),
            members: Vec::new(),
            seen: RankSet::default(),
            ready: RankSet::default(),
            failed: None,
            accept_after: None,
            retry: false,
            until: None,
        };
        let name = |tid: u32| ThreadName::new(&format!("bp-hub-{tid}"));
        let thread = thread::spawn(name, None, Box::new(move || service.run()))
            .map_err(JoinError::system("pthread_create"))?;
        Ok(Some(Self {
            shared,
            thread: Some(thread),
        }))
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // A forked child has no such thread.
        if fork::is_child() {
            return;
        }
        // Release pairs with the acquire in `Service::run`.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            // It is never the hub's own thread, which owns no `Hub`.
            let _ = thread.join();
        }
    }
}

/// Somebody who has not said who they are.
struct Stranger {
    socket: Socket,
    until: Instant,
}

/// A rank that was let in.
struct Member {
    socket: Socket,
    rank: u16,
    /// Number of its process here; 0 = it has none.
    pid: u32,
    line: Line,
    /// Its welcome is not sent yet.
    waiting: bool,
    /// Its process has been told how to watch the others.
    introduced: bool,
}

/// The thread's own data.
struct Service {
    shared: Arc<Shared>,
    listener: Socket,
    memory: Memory,
    segment: Tied<Segments>,
    terms: Terms,
    /// The welcome record, the same for all.
    welcome: Vec<u8>,
    namespace: u64,
    counters: Arc<Counters>,
    strangers: Vec<Stranger>,
    members: Vec<Member>,
    /// Every rank that was ever let in.
    seen: RankSet,
    /// Every rank that has said that it is there, or was let in and has hung up.
    ready: RankSet,
    /// A rank that could not join; the bus will not be complete.
    failed: Option<Failure>,
    /// There was no descriptor for a connection; it waits until then.
    accept_after: Option<Instant>,
    /// Something could not be sent and is to be tried again.
    retry: bool,
    /// When it stops at the latest, once it is to.
    until: Option<Instant>,
}

impl Service {
    fn run(&mut self) {
        // Acquire pairs with the release in `Hub::drop`.
        while !self.shared.stop.load(Ordering::Acquire) || self.lingers() {
            match self.poll() {
                Ok(news) => self.handle(&news),
                Err(error) => {
                    log::error(format_args!("bananaphone: poll: {error}"));
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    /// Whether a hub that is to stop must go on: its own rank, like any other, knows from the member table that all are there, which is before
    /// the last of them has said so here. If it went now, nobody could tell them any more how to watch each other.
    fn lingers(&mut self) -> bool {
        let until = *self.until.get_or_insert_with(|| Instant::now() + FAREWELL);
        let absent = [State::Free, State::Joining]
            .map(|state| self.segment.with(|segment| wait::in_state(*segment, state)));
        let is_complete = self.failed.is_none() && absent.iter().all(|ranks| ranks.is_empty());
        let all_know = (0..self.members.len()).all(|index| self.is_introduced(index));
        // It was rung once, to stop, and would end every poll.
        let _ = self.shared.bell.wait(Some(Duration::ZERO));
        is_complete && !all_know && Instant::now() < until
    }

    /// Waits for news: of the bell, the door, the strangers and the members, in this order.
    fn poll(&mut self) -> io::Result<Vec<bool>> {
        let now = Instant::now();
        self.accept_after = self.accept_after.filter(|after| *after > now);
        let retry = self.retry.then(|| now + RETRY);
        let strangers = self.strangers.iter().map(|stranger| stranger.until);
        let others = [self.accept_after, retry, self.until];
        let next = strangers.chain(others.into_iter().flatten()).min();
        let timeout = next.map(|next| next.saturating_duration_since(now));
        let door = match self.accept_after {
            Some(_) => For::HangUp,
            None => For::Input,
        };
        let own = [
            (self.shared.bell.fd(), For::Input),
            (self.listener.as_fd(), door),
        ];
        let strangers = self.strangers.iter().map(|stranger| &stranger.socket);
        let members = self.members.iter().map(|member| &member.socket);
        let sockets = strangers
            .chain(members)
            .map(|socket| (socket.as_fd(), For::Input));
        let fds: Vec<_> = own.into_iter().chain(sockets).collect();
        poll(&fds, timeout)
    }

    fn handle(&mut self, news: &[bool]) {
        let mut news = news.iter().copied();
        let _bell = news.next();
        let door = news.next().unwrap_or(false);
        let strangers = std::mem::take(&mut self.strangers);
        // Members before strangers, so that the death of a rank is known to whoever comes next.
        let (heard, said) = {
            let heard: Vec<bool> = news.by_ref().take(strangers.len()).collect();
            (heard, news.collect::<Vec<bool>>())
        };
        self.hear_members(&said);
        let now = Instant::now();
        for (stranger, heard) in strangers.into_iter().zip(heard) {
            if heard {
                self.greet(stranger);
            } else if stranger.until > now {
                self.strangers.push(stranger);
            } else {
                self.counters.stranger();
            }
        }
        if door && self.accept_after.is_none() {
            self.accept();
        }
        self.send_pending();
    }

    fn hear_members(&mut self, said: &[bool]) {
        let members = std::mem::take(&mut self.members);
        let said = said.iter().copied().chain(std::iter::repeat(false));
        for (member, said) in members.into_iter().zip(said) {
            if !said || self.hear(&member) {
                self.members.push(member);
            }
        }
    }

    /// Reads what a member says. False = it is none any more.
    fn hear(&mut self, member: &Member) -> bool {
        let mut buffer = [0; RECORD_LIMIT];
        let record = match member.socket.receive(&mut buffer) {
            Ok(record) if record.bytes > 0 => record,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            _ => {
                self.segment.with(|segment| {
                    bury(*segment, member.rank, self.terms.share, Death::Connection)
                });
                // It says nothing any more, and the others must not wait for it to be told how to watch each other.
                self.ready = self.ready.with(member.rank);
                return false;
            }
        };
        match Reply::decode(&buffer[..record.bytes]) {
            Ok(Reply::Ready) => self.ready = self.ready.with(member.rank),
            Ok(Reply::Failed(failure)) => {
                let rank = Some(member.rank);
                let cause = failure.cause;
                self.fail(Failure { rank, cause });
                // It is not dead; and the reason, which is on its way, must not be overtaken.
                return false;
            }
            // Nothing else is expected here, and nothing depends on it.
            Ok(_) | Err(_) => {}
        }
        true
    }

    /// Sends what could not be sent before: welcomes, and descriptors once all ranks are in.
    fn send_pending(&mut self) {
        self.retry = false;
        let memory = self.memory.file.as_fd();
        for member in self.members.iter_mut().filter(|member| member.waiting) {
            match member.socket.send(&self.welcome, &[memory]) {
                Err(error) if is_transient(&error) => self.retry = true,
                // If it is gone, its hang-up says so.
                _ => member.waiting = false,
            }
        }
        if self.ready.len() < u32::from(self.terms.geometry.world()) {
            return;
        }
        for index in 0..self.members.len() {
            if self.members[index].waiting || self.is_introduced(index) {
                continue;
            }
            match self.introduce(index) {
                Err(error) if is_transient(&error) => self.retry = true,
                // As above.
                _ => self.members[index].introduced = true,
            }
            kill::point(Point::Introducing);
        }
    }

    /// Whether the process of a member has its descriptors, by this rank or another of its threads.
    fn is_introduced(&self, index: usize) -> bool {
        let own = &self.members[index];
        let same = |other: &Member| own.pid != 0 && other.pid == own.pid;
        own.introduced
            || self
                .members
                .iter()
                .any(|other| other.introduced && same(other))
    }

    /// Gives a member a descriptor of every other process.
    fn introduce(&self, index: usize) -> io::Result<()> {
        let own = &self.members[index];
        let mut lines: Vec<hello::Line> = Vec::new();
        let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
        let mut told = RankSet::default();
        for member in &self.members {
            let same = |other: &Member| other.pid != 0 && other.pid == member.pid;
            if member.rank == own.rank || same(own) || told.has(member.rank) {
                continue;
            }
            let (ranks, fd, process) = match &member.line {
                Line::Process(fd) => {
                    let threads = self.members.iter().filter(|other| same(other));
                    let ranks = threads.map(|other| other.rank).collect::<RankSet>();
                    (ranks.with(member.rank), fd.as_fd(), true)
                }
                Line::Socket => (
                    RankSet::default().with(member.rank),
                    member.socket.as_fd(),
                    false,
                ),
            };
            told = ranks.iter().fold(told, RankSet::with);
            lines.push(hello::Line { ranks, process });
            fds.push(fd);
        }
        own.socket.send(&Reply::Lines(lines).encode(), &fds)
    }
}

/// Whether a record can be sent later: the other side has not taken older ones, or too many descriptors are on their way.
fn is_transient(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ETOOMANYREFS)
}
