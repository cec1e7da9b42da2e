//! The thread that notices deaths: one per bus and process.
//!
//! It sleeps in `poll` on a descriptor per other process and on this process's sockets to the hub. When one has news it marks the
//! ranks behind it as dead in the member table, which all processes share, and wakes every sleeper. So one process that notices is
//! enough for all; and while nobody dies nothing runs.
//!
//! A process that is at its limit of open files when the descriptors come (requirement H58) goes on without those that were lost, and says
//! so ([`Fallback::Unwatched`]): the others watch for it. If it lost the hub's, perhaps the only other process, then the hang-up of
//! the hub's sockets stands for it. Nothing else is kept open for a descriptor that never came.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::{Geometry, Segment};
use proxy_core::phone::member::Members;

use super::counters::{Counters, Fallback};
use super::error::JoinError;
use super::hello::{Failure, Line, RECORD_LIMIT, Reply};
use super::segment::Segments;
use super::share::{Named, Share};
use super::sight::{self, Death};
use super::wait;
use crate::log;
use crate::sys::eventfd::EventFd;
use crate::sys::fork;
use crate::sys::mmap::{Mapping, Tied};
use crate::sys::poll::{For, poll};
use crate::sys::socket::{Record, Socket};
use crate::sys::thread::{self, Thread, ThreadName};

/// A rank's socket to the hub.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    /// The rank whose process is the hub.
    pub(super) hub: u16,
    /// This side is hanging up, so the end of the connection means nothing.
    closing: AtomicBool,
    counters: Arc<Counters>,
}

impl Connection {
    pub(super) fn new(socket: Socket, hub: u16, counters: Arc<Counters>) -> Self {
        Self {
            socket,
            hub,
            closing: AtomicBool::new(false),
            counters,
        }
    }

    /// Tells the hub that its rank is a member.
    pub(super) fn ready(&self) {
        // A hub that cannot be told is gone, which the watcher notices.
        let _ = self.socket.send(&Reply::Ready.encode(), &[]);
    }

    /// Hangs up. The watcher, which may be polling the socket, lets go of it.
    pub(super) fn close(&self) {
        // Release pairs with the acquire in `Watcher::heard`: whoever sees the hang-up sees whose it is.
        self.closing.store(true, Ordering::Release);
        self.socket.shut_down();
    }
}

/// Marks a rank as dead and wakes everybody. False = it had left, or was known to be dead.
pub(super) fn bury(segment: Segment<'_>, rank: u16, share: Option<Share>, death: Death) -> bool {
    match Members::of(segment).die(rank) {
        Ok(Some(_)) => {
            log::warn(format_args!("bananaphone: {} is dead", Named(rank, share)));
            wait::wake_everybody(segment);
            sight::died(segment, rank, death);
            true
        }
        Ok(None) => false,
        Err(error) => {
            log::error(format_args!("bananaphone: {error}"));
            false
        }
    }
}

/// The watcher from outside.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Shared {
    bell: EventFd,
    stop: AtomicBool,
    /// Connections that the thread has not taken over yet.
    arrivals: Mutex<Vec<Arc<Connection>>>,
    failure: Mutex<Option<Failure>>,
    /// Counts what the thread has noticed.
    news: AtomicU32,
    /// Looks that were asked for, and how many of them the thread has had.
    looks: Mutex<(u64, u64)>,
    looked: Condvar,
}

impl Watch {
    /// Starts the thread.
    pub(super) fn start(
        mapping: &Arc<Mapping>,
        geometry: Geometry,
        share: Option<Share>,
    ) -> Result<Self, JoinError> {
        let bell = EventFd::new().map_err(JoinError::system("eventfd"))?;
        let shared = Arc::new(Shared {
            bell,
            stop: AtomicBool::new(false),
            arrivals: Mutex::default(),
            failure: Mutex::default(),
            news: AtomicU32::new(0),
            looks: Mutex::default(),
            looked: Condvar::new(),
        });
        let mut watcher = Watcher {
            shared: Arc::clone(&shared),
            segment: Tied::<Segments>::new(mapping, |words| Segment::again(words, geometry))?,
            share,
            lines: Vec::new(),
            connections: Vec::new(),
            with_hub: Some(RankSet::default()),
        };
        let name = |tid: u32| ThreadName::new(&format!("bp-watch-{tid}"));
        let thread = thread::spawn(name, None, Box::new(move || watcher.run()))
            .map_err(JoinError::system("pthread_create"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Has one more socket to the hub watched.
    pub(super) fn add(&self, connection: &Arc<Connection>) {
        let arrivals = &self.shared.arrivals;
        let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.push(Arc::clone(connection));
        drop(arrivals);
        self.shared.bell.ring();
    }

    /// A rank that could not join, if the hub has told of one.
    pub(super) fn failure(&self) -> Option<Failure> {
        let failure = self.shared.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns when the member table has every death of before this call that this process can notice; after `patience` in any case.
    pub(super) fn catch_up(&self, patience: Duration) {
        let shared = &self.shared;
        let mut looks = shared.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.0 += 1;
        let asked = looks.0;
        shared.bell.ring();
        let waited = (shared.looked).wait_timeout_while(looks, patience, |looks| looks.1 < asked);
        drop(waited);
    }

    /// Changes whenever this process has noticed a death: a hint to look at the member table, for those who poll often.
    pub(super) fn news(&self) -> u32 {
        // Relaxed: a hint; the table itself orders what it says.
        self.shared.news.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A forked child has no such thread.
        if fork::is_child() {
            return;
        }
        // Release pairs with the acquire in `Watcher::run`.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            // It cannot be this thread, as the watcher holds nothing that owns a `Watch`.
            let _ = thread.join();
        }
    }
}

/// Ranks that are watched by one descriptor.
struct Watched {
    ranks: RankSet,
    fd: OwnedFd,
    news: For,
}

/// The thread's own data.
struct Watcher {
    shared: Arc<Shared>,
    segment: Tied<Segments>,
    /// For messages.
    share: Option<Share>,
    lines: Vec<Watched>,
    connections: Vec<Arc<Connection>>,
    /// The end of the hub's sockets is the end of its process, and these are the other ranks there as far as they are known. `None` =
    /// that process has a line, so the end of its sockets is nobody's death.
    with_hub: Option<RankSet>,
}

impl Watcher {
    fn run(&mut self) {
        // Acquire pairs with the release in `Watch::drop`.
        while !self.shared.stop.load(Ordering::Acquire) {
            // Whoever has asked by now is answered by a look that begins now.
            let (asked, had) = *self.looks();
            let wait = (asked != had).then_some(Duration::ZERO);
            let news = match self.poll(wait) {
                Ok(news) => news,
                Err(error) => {
                    log::error(format_args!("bananaphone: poll: {error}"));
                    // No memory for the call; nothing else can fail it.
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            self.handle(&news);
            if asked != had {
                self.looks().1 = asked;
                self.shared.looked.notify_all();
            }
        }
    }

    fn looks(&self) -> MutexGuard<'_, (u64, u64)> {
        let looks = self.shared.looks.lock();
        looks.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for news: of the bell, then of the connections, then of the lines, in this order.
    fn poll(&self, wait: Option<Duration>) -> std::io::Result<Vec<bool>> {
        let bell = [(self.shared.bell.fd(), For::Input)];
        let connections = self
            .connections
            .iter()
            .map(|connection| (connection.socket.as_fd(), For::Input));
        let lines = self.lines.iter().map(|line| (line.fd.as_fd(), line.news));
        let fds: Vec<_> = bell.into_iter().chain(connections).chain(lines).collect();
        poll(&fds, wait)
    }

    fn handle(&mut self, news: &[bool]) {
        let mut news = news.iter().copied();
        let bell = news.next().unwrap_or(false);
        let connections = std::mem::take(&mut self.connections);
        let lines = std::mem::take(&mut self.lines);
        for connection in connections {
            if !news.next().unwrap_or(false) || self.heard(&connection) {
                self.connections.push(connection);
            }
        }
        for line in lines {
            if news.next().unwrap_or(false) {
                for rank in line.ranks.iter() {
                    self.bury(rank, Death::Process);
                }
            } else {
                self.lines.push(line);
            }
        }
        if bell {
            // Not blocking: the bell was rung.
            let _ = self.shared.bell.wait(Some(Duration::ZERO));
            let arrivals = &self.shared.arrivals;
            let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
            self.connections.append(&mut arrivals);
        }
    }

    /// False = it had left, or was known to be dead.
    fn bury(&self, rank: u16, death: Death) -> bool {
        let is_news = self
            .segment
            .with(|segment| bury(*segment, rank, self.share, death));
        if is_news {
            // Relaxed: see `Watch::news`.
            self.shared.news.fetch_add(1, Ordering::Relaxed);
        }
        is_news
    }

    /// The hub has hung up, without having been asked to.
    fn lost_hub(&self, hub: u16) {
        let Some(others) = self.with_hub else {
            return;
        };
        // A hub's rank that has left says nothing of its process's others.
        if self.bury(hub, Death::Connection) {
            for rank in others.iter() {
                self.bury(rank, Death::Connection);
            }
        }
    }

    /// Takes the descriptors of the other processes, as far as they were delivered: the kernel drops the last ones.
    fn introduced(&mut self, connection: &Connection, lines: Vec<Line>, record: Record) {
        let (delivered, wanted) = (record.fds.len(), lines.len());
        let lost = lines.get(delivered..).unwrap_or_default();
        if record.lost_fds || !lost.is_empty() {
            connection.counters.fallback(
                Fallback::Unwatched,
                format_args!("{delivered} of {wanted} descriptors of peers were delivered"),
            );
        }
        let hub = lost.iter().find(|line| line.ranks.has(connection.hub));
        self.with_hub = hub.map(|line| line.ranks);
        let watched = lines.into_iter().zip(record.fds).map(|(line, fd)| Watched {
            ranks: line.ranks,
            fd,
            news: if line.process {
                For::Input
            } else {
                For::HangUp
            },
        });
        self.lines.extend(watched);
    }

    /// Reads what the hub says. False = the connection is over.
    fn heard(&mut self, connection: &Connection) -> bool {
        let mut buffer = [0; RECORD_LIMIT];
        let record = match connection.socket.receive(&mut buffer) {
            Ok(record) if record.bytes > 0 => record,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
            _ => {
                // Acquire pairs with the release in `Connection::close`.
                let ours = connection.closing.load(Ordering::Acquire);
                if !ours {
                    self.lost_hub(connection.hub);
                }
                return false;
            }
        };
        match Reply::decode(&buffer[..record.bytes]) {
            Ok(Reply::Lines(lines)) => self.introduced(connection, lines, record),
            Ok(Reply::Failed(failure)) => self.failed(failure),
            // Nothing else is expected here, and nothing depends on it.
            Ok(_) | Err(_) => {}
        }
        true
    }

    fn failed(&self, failure: Failure) {
        let mut place = self
            .shared
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert(failure);
        drop(place);
        self.segment.with(|segment| wait::wake_everybody(*segment));
    }
}
