//! How a rank comes to its bus: the first to take the name is the hub, and then all join it, the first one's rank, too; and whether all
//! have come.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::{Geometry, Segment};
use proxy_core::phone::member::{Members, State};

use super::counters::Counters;
use super::error::{JoinError, LastTry, Late, Phase, WaitError, Why, Within};
use super::hello::{BadRecord, Failure, Hello, RECORD_LIMIT, Refusal, Reply, Welcome};
use super::home::Home;
use super::hub::{Hub, Terms};
use super::kill::{self, Point};
use super::segment;
use super::wait::{Look, Waiting, gone};
use super::watch::Connection;
use crate::sys::memfd;
use crate::sys::pidfd;
use crate::sys::poll::{For, poll};
use crate::sys::socket::{self, NAME_LIMIT, Socket};

/// The pause between two tries, growing to the second: a hub is between taking its name and listening for less than that.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];

/// A rank that is let in, but not announced yet.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) home: Arc<Home>,
    pub(super) connection: Arc<Connection>,
    pub(super) hub: Option<Hub>,
}

/// Who joins what.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) job: &'a str,
    pub(super) terms: Terms,
    pub(super) within: Within,
    pub(super) counters: &'a Arc<Counters>,
}

/// One try to be let in.
enum Try {
    Welcome(Socket, Welcome, File),
    /// Nobody there, or not any more, or not in time.
    Again(LastTry),
    /// The bus of an earlier run is ending.
    Earlier,
}

/// The name of a job's bus. Not the user's: a user has another number in another user namespace, and the hub asks the
/// kernel who it is anyway.
pub(super) fn name(job: &str) -> Vec<u8> {
    let plain = format!("bananaphone/{job}").into_bytes();
    if plain.len() <= NAME_LIMIT {
        return plain;
    }
    format!("bananaphone#{:016x}", hash(job)).into_bytes()
}

/// FNV-1a. It keeps jobs apart that share a shortened name; nobody is kept out by it.
pub(super) fn hash(job: &str) -> u64 {
    job.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// Joins: takes the name or finds who has it, is let in, takes the segment.
pub(super) fn join(request: &Request<'_>) -> Result<Joined, JoinError> {
    let terms = &request.terms;
    let waiting = Waiting::new(Phase::Join, terms.rank, request.within).of(terms.share);
    let mut noting = request.counters.sight.noting();
    // Who has not answered is not known before the answer.
    noting.tell(&waiting, RankSet::default());
    let name = name(request.job);
    let (mut hub, mut pause, mut tries) = (None, PAUSES[0], 1_u32);
    loop {
        if hub.is_none() {
            hub = Hub::start(&name, *terms, request.counters)?;
        }
        let last = match attempt(request, &name, &waiting)? {
            Try::Welcome(socket, welcome, file) => {
                return take(request, socket, welcome, &file).map(|(home, connection)| Joined {
                    home,
                    connection,
                    hub,
                });
            }
            Try::Again(last) => Some(last),
            Try::Earlier => None,
        };
        let left = waiting.deadline().saturating_duration_since(Instant::now());
        if left.is_zero() {
            let late = |last| Late {
                wait: waiting.without_bus(terms.geometry.world()),
                tries,
                last,
            };
            return Err(last.map_or(JoinError::Earlier, |last| {
                JoinError::Late(Box::new(late(last)))
            }));
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSES[1]);
        tries = tries.saturating_add(1);
    }
}

fn attempt(request: &Request<'_>, name: &[u8], waiting: &Waiting) -> Result<Try, JoinError> {
    let terms = &request.terms;
    let socket = match Socket::connect(name) {
        Ok(socket) => socket,
        Err(error) => {
            return match error.raw_os_error() {
                Some(libc::ECONNREFUSED) => Ok(Try::Again(LastTry::Unheard)),
                Some(libc::EAGAIN) => Ok(Try::Again(LastTry::Crowded)),
                _ => Err(JoinError::system("connect")(error)),
            };
        }
    };
    kill::point(Point::Connected);
    let peer = socket.peer().map_err(JoinError::system("SO_PEERCRED"))?;
    let own = socket::own_user();
    if !terms.any_user && peer.uid != own {
        return Err(JoinError::WrongUser {
            ours: own.into(),
            theirs: peer.uid.into(),
        });
    }
    let geometry = &terms.geometry;
    let hello = Hello {
        job: terms.job,
        namespace: pidfd::namespace(),
        rank: terms.rank.into(),
        world: geometry.world().into(),
        barriers: geometry.barriers().into(),
        cells: geometry.cells(),
    };
    if socket.send(&hello.encode(), &[]).is_err() {
        return Ok(Try::Again(LastTry::HungUp));
    }
    kill::point(Point::Greeted);
    answer(socket, waiting, geometry)
}

/// Waits for the hub's answer and reads it.
fn answer(socket: Socket, waiting: &Waiting, geometry: &Geometry) -> Result<Try, JoinError> {
    let mut buffer = [0; RECORD_LIMIT];
    let record = loop {
        match socket.receive(&mut buffer) {
            Ok(record) if record.bytes == 0 => return Ok(Try::Again(LastTry::HungUp)),
            Ok(record) => break record,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Ok(Try::Again(LastTry::HungUp)),
        }
        let left = waiting.deadline().saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Try::Again(LastTry::Unanswered));
        }
        poll(&[(socket.as_fd(), For::Input)], Some(left)).map_err(JoinError::system("poll"))?;
    };
    match Reply::decode(&buffer[..record.bytes]) {
        Ok(Reply::Welcome(welcome)) => match record.fds.into_iter().next() {
            Some(fd) if !record.lost_fds => Ok(Try::Welcome(socket, welcome, File::from(fd))),
            _ => {
                let limit = memfd::descriptor_limit();
                Err(report(&socket, JoinError::FdNotDelivered { limit }))
            }
        },
        Ok(Reply::Refused(Refusal::Error(JoinError::Earlier))) => Ok(Try::Earlier),
        Ok(Reply::Refused(Refusal::Error(error))) => Err(error),
        Ok(Reply::Failed(failure)) => Err(failed(failure)),
        Ok(Reply::Refused(Refusal::PeerDead(rank))) => Err(dead(waiting, rank, geometry).into()),
        Err(BadRecord::Layout(error)) => Err(error.into()),
        // Somebody else's program has the name.
        Ok(_) | Err(BadRecord::Stranger) => Err(JoinError::OtherJob),
    }
}

/// What another rank's failure is for this one.
pub(super) fn failed(failure: Failure) -> JoinError {
    JoinError::Peer {
        rank: failure.rank,
        cause: Box::new(failure.cause),
    }
}

fn dead(waiting: &Waiting, rank: u16, geometry: &Geometry) -> WaitError {
    let dead = RankSet::default().with(rank);
    WaitError {
        why: Why::PeerDead(rank),
        missing: dead,
        dead,
        ..waiting.without_bus(geometry.world())
    }
}

/// Tells the hub that this rank cannot join.
fn report(socket: &Socket, cause: JoinError) -> JoinError {
    let failure = Failure { rank: None, cause };
    // If it cannot be told, the hang-up tells it without the reason.
    let _ = socket.send(&failure.encode(), &[]);
    failure.cause
}

/// Takes the segment and reserves this rank's part of it.
fn take(
    request: &Request<'_>,
    socket: Socket,
    welcome: Welcome,
    file: &File,
) -> Result<(Arc<Home>, Arc<Connection>), JoinError> {
    kill::point(Point::Welcomed);
    let terms = &request.terms;
    let entered = Home::enter(
        welcome.bus,
        file,
        welcome.sealed,
        &terms.geometry,
        terms.share,
    )
    .and_then(|home| {
        segment::reserve_ring(file, &terms.geometry, terms.rank, request.counters)?;
        Ok(home)
    });
    let home = match entered {
        Ok(home) => home,
        Err(error) => return Err(report(&socket, error)),
    };
    let counters = Arc::clone(request.counters);
    let connection = Arc::new(Connection::new(socket, welcome.hub, counters));
    home.watch.add(&connection);
    kill::point(Point::Mapped);
    Ok((home, connection))
}

/// Ranks that have not come.
pub(super) fn absent(segment: Segment<'_>) -> RankSet {
    let members = Members::of(segment);
    let is_absent = |rank: &u16| {
        matches!(
            members.state(*rank),
            Ok(State::Free | State::Joining | State::Dead)
        )
    };
    (0..segment.geometry().world()).filter(is_absent).collect()
}

/// One look whether all are there. A rank that was there and has left is not missed, unless others cannot come any more.
pub(super) fn connected<'a>(
    segment: Segment<'a>,
    waiting: &Waiting,
) -> Look<'a, Result<(), JoinError>> {
    let absent = absent(segment);
    // Any of them does, as all have to come. Ranks mostly come in order, and then the last one ends one sleep of each of the others; with the
    // first, each that comes would end one.
    let Some(last) = absent.iter().last() else {
        return Look::Done(Ok(()));
    };
    for rank in 0..segment.geometry().world() {
        match gone(segment, rank) {
            Ok(None) => {}
            Ok(Some(why)) => {
                return Look::Done(Err(waiting.error(segment, why, absent).into()));
            }
            Err(error) => return Look::Done(Err(error.into())),
        }
    }
    match segment.member_signal(last) {
        Some(signal) => Look::Sleep(signal, absent),
        None => Look::Done(Ok(())),
    }
}
