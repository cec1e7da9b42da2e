//! Who is let in: strangers become members, or are turned away.

use std::io;
use std::time::Instant;

use proxy_core::phone::member::{MemberError, Members, State};

use super::super::cause::mirrored;
use super::super::error::JoinError;
use super::super::hello::{BadRecord, Failure, Hello, RECORD_LIMIT, Refusal, Reply};
use super::super::kill::{self, Point};
use super::super::line;
use super::super::sight::Death;
use super::super::wait;
use super::super::watch::bury;
use super::{Member, PATIENCE, RETRY, STRANGERS, Service, Stranger};
use crate::log;
use crate::sys::socket::{self, Peer, Socket};

impl Service {
    /// Takes everybody who is waiting at the door.
    pub(super) fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(Some(socket)) => {
                    if self.strangers.len() >= STRANGERS {
                        self.strangers.remove(0);
                        self.counters.stranger();
                    }
                    let until = Instant::now() + PATIENCE;
                    // Ranks have greeted by now, most times.
                    self.greet(Stranger { socket, until });
                }
                Ok(None) => return,
                Err(error) => {
                    log::warn(format_args!("bananaphone: accept: {error}; trying again"));
                    self.accept_after = Some(Instant::now() + RETRY * 4);
                    return;
                }
            }
        }
    }

    /// Reads what a stranger says.
    pub(super) fn greet(&mut self, stranger: Stranger) {
        let mut buffer = [0; RECORD_LIMIT];
        let record = match stranger.socket.receive(&mut buffer) {
            Ok(record) => record,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.strangers.push(stranger);
                return;
            }
            Err(_) => return self.counters.stranger(),
        };
        let hello = match Hello::decode(&buffer[..record.bytes]) {
            Ok(hello) => hello,
            Err(BadRecord::Stranger) => return self.counters.stranger(),
            Err(BadRecord::Layout(error)) => {
                return self.refuse(&stranger.socket, None, mirrored(error.into()));
            }
        };
        let Ok(peer) = stranger.socket.peer() else {
            return self.counters.stranger();
        };
        match self.admit(&hello, peer) {
            Ok(rank) => self.let_in(stranger.socket, rank, peer, hello.namespace),
            Err(Refusal::Error(error)) => {
                let rank = u16::try_from(hello.rank).ok();
                self.refuse(&stranger.socket, rank, error);
            }
            // A refusal that is not delivered is noticed by the hang-up.
            Err(refusal) => drop(stranger.socket.send(&Reply::Refused(refusal).encode(), &[])),
        }
    }

    /// Whether a rank is let in; errors as the rank sees them.
    fn admit(&self, hello: &Hello, peer: Peer) -> Result<u16, Refusal> {
        let own = socket::own_user();
        let refuse = |error| Err(Refusal::Error(error));
        if !self.terms.any_user && peer.uid != own {
            return refuse(JoinError::WrongUser {
                ours: peer.uid.into(),
                theirs: own.into(),
            });
        }
        if hello.job != self.terms.job {
            return refuse(JoinError::OtherJob);
        }
        if let Some(error) = hello.differs(&self.terms.geometry) {
            return refuse(error);
        }
        let world = self.terms.geometry.world();
        let rank = match u16::try_from(hello.rank) {
            Ok(rank) if rank < world => rank,
            _ => {
                return refuse(JoinError::NoSuchRank {
                    rank: hello.rank.into(),
                    world: world.into(),
                });
            }
        };
        self.is_needed(rank).map(|()| rank)
    }

    /// Whether the bus still waits for this rank.
    fn is_needed(&self, rank: u16) -> Result<(), Refusal> {
        if let Some(failure) = &self.failed {
            return Err(Refusal::Failed(Box::new(failure.clone())));
        }
        let gone = |state| self.segment.with(|segment| wait::in_state(*segment, state));
        let (dead, left) = (gone(State::Dead), gone(State::Left));
        if self.seen.len() == u32::from(self.terms.geometry.world()) {
            // Complete: whoever comes now belongs to another run, if this one is ending.
            return Err(Refusal::Error(if dead.is_empty() && left.is_empty() {
                JoinError::RankTaken { rank: rank.into() }
            } else {
                JoinError::Earlier
            }));
        }
        match dead.first() {
            Some(dead) => Err(Refusal::PeerDead(dead)),
            None if self.seen.has(rank) => {
                Err(Refusal::Error(JoinError::RankTaken { rank: rank.into() }))
            }
            None => Ok(()),
        }
    }

    fn let_in(&mut self, socket: Socket, rank: u16, peer: Peer, namespace: u64) {
        let same_namespace = namespace != 0 && namespace == self.namespace;
        let line = line::of(&socket, peer, same_namespace, &self.counters);
        // Its low half tells namespaces apart in messages.
        let namespace = (namespace & u64::from(u32::MAX)) as u32;
        let joined =
            (self.segment).with(|segment| Members::of(*segment).join(rank, peer.pid, namespace));
        match joined {
            Ok(news) => self
                .segment
                .with(|segment| wait::wake(segment.words(), news)),
            Err(MemberError::Corrupt(error)) => {
                return log::error(format_args!("bananaphone: {error}"));
            }
            // `admit` has seen that it was not let in before, and only the hub lets in.
            Err(_) => return,
        }
        self.seen = self.seen.with(rank);
        let Ok(line) = line else {
            self.segment
                .with(|segment| bury(*segment, rank, self.terms.share, Death::Process));
            return;
        };
        kill::point(Point::LetIn);
        self.members.push(Member {
            socket,
            rank,
            pid: peer.pid,
            line,
            waiting: true,
            introduced: false,
        });
    }

    /// Turns somebody away, and tells the others if the bus cannot become complete for the same reason.
    fn refuse(&mut self, socket: &Socket, rank: Option<u16>, error: JoinError) {
        log::warn(format_args!("bananaphone: a rank was turned away: {error}"));
        // As above.
        let _ = socket.send(&Reply::Refused(Refusal::Error(error.clone())).encode(), &[]);
        if matches!(error, JoinError::Layout(_) | JoinError::Differs { .. }) {
            self.fail(Failure {
                rank,
                cause: mirrored(error),
            });
        }
    }

    /// Tells everybody that the bus cannot become complete, and why.
    pub(super) fn fail(&mut self, failure: Failure) {
        let record = failure.encode();
        self.failed.get_or_insert(failure);
        for member in &self.members {
            // One that cannot be told learns it by its deadline, or is gone.
            let _ = member.socket.send(&record, &[]);
        }
    }
}
