//! The two exchanges of the bootstrap: do all ranks have the same collectives, and what is the communicator's unique id.
//!
//! ```text
//!   signature, up a binary heap           unique id, down a binomial tree
//!            0                                0 ──> 4 ──> 5
//!          1   2                              ├───> 2 ──> 3
//!         3 4 5                               └───> 1
//! ```
//!
//! Message sizes and tree shapes are those of the reference runtime: 17 bytes up, digest and an ok byte, and 129 bytes down, id and a valid
//! byte. There a rank that fails leaves the exchange and the others wait for ever; here every rank does its part to the
//! end, with ok = 0 or valid = 0, so that all fail together.

use std::fmt;

use super::error::{BusError, Within};
use super::{Bus, MAX_TAG};

/// Bytes of a signature's digest.
pub const DIGEST: usize = 16;
/// Bytes of a unique id.
pub const UNIQUE_ID: usize = 128;
/// Bytes of a message up the tree.
const SIGNATURE_MESSAGE: usize = DIGEST + 1;
/// Bytes of a message down the tree.
const ID_MESSAGE: usize = UNIQUE_ID + 1;

/// A way to send messages of known length to ranks of the bus or of the whole job.
pub trait Link {
    /// Why it did not work.
    type Error: fmt::Display + fmt::Debug;

    /// Sends all of the message to a peer. May wait.
    ///
    /// # Errors
    /// The link's.
    fn send(&mut self, peer: u32, message: &[u8]) -> Result<(), Self::Error>;

    /// Receives a message of exactly the buffer's length from a peer. Waits for it.
    ///
    /// # Errors
    /// The link's.
    fn recv(&mut self, peer: u32, message: &mut [u8]) -> Result<(), Self::Error>;
}

/// Why a bootstrap failed on this rank. It has failed on every rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootstrapError<E> {
    /// This rank is not a participant.
    NotAParticipant,
    /// A message was not received.
    Receive {
        /// Its sender.
        peer: u32,
        /// Why.
        error: E,
    },
    /// A message was not sent.
    Send {
        /// Its receiver.
        peer: u32,
        /// Why.
        error: E,
    },
    /// The ranks have different collectives, or another rank has failed.
    Mismatch,
    /// The root has no unique id, or another rank has failed.
    NoUniqueId,
}

impl<E: fmt::Display> fmt::Display for BootstrapError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAParticipant => f.write_str("this rank is not a participant of the bootstrap"),
            Self::Receive { peer, error } => {
                write!(
                    f,
                    "failed to receive a bootstrap message from {peer}: {error}"
                )
            }
            Self::Send { peer, error } => {
                write!(f, "failed to send a bootstrap message to {peer}: {error}")
            }
            Self::Mismatch => {
                f.write_str("failed signature validation: mismatched collectives between the peers")
            }
            Self::NoUniqueId => f.write_str("failed to get unique ID"),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for BootstrapError<E> {}

/// Children of a rank in the heap, left before right, and its parent.
fn heap(rank: usize, ranks: usize) -> (impl Iterator<Item = usize>, Option<usize>) {
    let children = [2 * rank + 1, 2 * rank + 2];
    let parent = rank.checked_sub(1).map(|above| above / 2);
    (
        children.into_iter().filter(move |child| *child < ranks),
        parent,
    )
}

/// From whom a rank has the id, and to whom it gives it, in order.
fn binomial(rank: usize, ranks: usize) -> (Option<usize>, impl Iterator<Item = usize>) {
    let (mask, parent) = match rank {
        0 => (ranks.next_power_of_two(), None),
        _ => {
            let lowest = 1 << rank.trailing_zeros();
            (lowest, Some(rank - lowest))
        }
    };
    let steps = std::iter::successors(Some(mask / 2), |step| Some(step / 2));
    let to = steps
        .take_while(|step| *step > 0)
        .map(move |step| rank + step);
    (parent, to.filter(move |child| *child < ranks))
}

/// Runs both exchanges over `participants`, whose first is the root, as `rank` of them.
///
/// `digest` = this rank's signature; `make_id` is called on the root only, when all signatures are the same. Returns the unique id, the
/// same on every rank. May wait as long as the link does; never on a worker's thread.
///
/// # Errors
/// See [`BootstrapError`]: the first of this rank's own, else that the exchange has failed.
pub fn bootstrap<L: Link>(
    link: &mut L,
    participants: &[u32],
    rank: usize,
    digest: &[u8; DIGEST],
    make_id: impl FnOnce() -> Option<[u8; UNIQUE_ID]>,
) -> Result<[u8; UNIQUE_ID], BootstrapError<L::Error>> {
    if rank >= participants.len() {
        return Err(BootstrapError::NotAParticipant);
    }
    let mut exchange = Exchange {
        link,
        participants,
        first: None,
    };
    let same = exchange.reduce(rank, digest);
    // The root alone knows about all; the others learn it by the valid byte.
    let id = match rank {
        0 if !same => exchange.fail(BootstrapError::Mismatch),
        0 => match make_id() {
            Some(id) => Some(id),
            None => exchange.fail(BootstrapError::NoUniqueId),
        },
        _ => None,
    };
    let id = exchange.spread(rank, id, same);
    match (exchange.first, id) {
        (Some(error), _) => Err(error),
        (None, Some(id)) => Ok(id),
        (None, None) if !same => Err(BootstrapError::Mismatch),
        (None, None) => Err(BootstrapError::NoUniqueId),
    }
}

struct Exchange<'a, L: Link> {
    link: &'a mut L,
    participants: &'a [u32],
    /// The first error of this rank.
    first: Option<BootstrapError<L::Error>>,
}

impl<L: Link> Exchange<'_, L> {
    /// Notes an error and goes on.
    fn fail<T>(&mut self, error: BootstrapError<L::Error>) -> Option<T> {
        self.first.get_or_insert(error);
        None
    }

    fn send(&mut self, to: usize, message: &[u8]) {
        let peer = self.participants[to];
        if let Err(error) = self.link.send(peer, message) {
            self.fail::<()>(BootstrapError::Send { peer, error });
        }
    }

    fn recv<const N: usize>(&mut self, from: usize) -> Option<[u8; N]> {
        let peer = self.participants[from];
        let mut message = [0; N];
        match self.link.recv(peer, &mut message) {
            Ok(()) => Some(message),
            Err(error) => self.fail(BootstrapError::Receive { peer, error }),
        }
    }

    /// Up the heap: whether this rank and all below it have the same digest.
    fn reduce(&mut self, rank: usize, digest: &[u8; DIGEST]) -> bool {
        let (children, parent) = heap(rank, self.participants.len());
        let mut ok = true;
        for child in children {
            let message = self.recv::<SIGNATURE_MESSAGE>(child);
            // A child whose message is missing is one that does not agree.
            ok &=
                message.is_some_and(|message| message[..DIGEST] == *digest && message[DIGEST] == 1);
        }
        if let Some(parent) = parent {
            let mut message = [0; SIGNATURE_MESSAGE];
            message[..DIGEST].copy_from_slice(digest);
            message[DIGEST] = ok.into();
            self.send(parent, &message);
        }
        ok
    }

    /// Down the binomial tree: the root's id, if it is valid.
    fn spread(
        &mut self,
        rank: usize,
        own: Option<[u8; UNIQUE_ID]>,
        same: bool,
    ) -> Option<[u8; UNIQUE_ID]> {
        let (parent, children) = binomial(rank, self.participants.len());
        let mut message = [0; ID_MESSAGE];
        match (parent, own) {
            (None, Some(id)) if same => {
                message[..UNIQUE_ID].copy_from_slice(&id);
                message[UNIQUE_ID] = 1;
            }
            (None, _) => {}
            // Without the parent's message this rank has no id, and those below it have none either.
            (Some(parent), _) => message = self.recv(parent).unwrap_or([0; ID_MESSAGE]),
        }
        for child in children {
            self.send(child, &message);
        }
        let (id, valid) = message.split_first_chunk()?;
        (valid == [1]).then_some(*id)
    }
}

/// The bus as a link: every message of one exchange has the same tag, so that exchanges of several groups do not mix.
#[derive(Debug)]
pub struct BusLink<'a> {
    bus: &'a mut Bus,
    tag: u32,
    within: Within,
}

impl<'a> BusLink<'a> {
    /// A link whose messages carry `tag`, one per group; each send and receive may take `within`.
    pub fn new(bus: &'a mut Bus, tag: u32, within: impl Into<Within>) -> Self {
        Self {
            bus,
            tag,
            within: within.into(),
        }
    }

    fn rank(&self, peer: u32) -> Result<u16, BusError> {
        u16::try_from(peer).map_err(|_| BusError::NoSuchRank {
            rank: u16::MAX,
            world: self.bus.world(),
        })
    }
}

impl Link for BusLink<'_> {
    type Error = BusError;

    fn send(&mut self, peer: u32, message: &[u8]) -> Result<(), BusError> {
        let rank = self.rank(peer)?;
        self.bus
            .send(rank, self.tag.min(MAX_TAG), message, self.within)
    }

    fn recv(&mut self, peer: u32, message: &mut [u8]) -> Result<(), BusError> {
        let rank = self.rank(peer)?;
        let (_, bytes) = self
            .bus
            .recv_into(rank, Some(self.tag), message, self.within)?;
        if bytes == message.len() {
            return Ok(());
        }
        Err(BusError::TooSmall { bytes })
    }
}

#[cfg(test)]
mod tests;
