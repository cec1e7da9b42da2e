//! Starting together: what one rank could not initialise, every rank hears about at once.
//!
//! Where each rank starts by itself, one whose network cannot be initialised goes away, and the others sit through the long
//! waits of their first connections (requirement H30). Here every rank tells the others how its own start went.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use super::error::{BusError, Phase, Why, Within};
use super::wait::Waiting;
use super::{Bus, MAX_TAG};

/// How long one rank is listened to before the next one's turn, so that the first failure to come is the one that is heard.
const TURN: Duration = Duration::from_millis(2);

/// How long the failure of the own start may wait for room to tell it.
const FAREWELL: Duration = Duration::from_millis(100);

/// First byte of a message: the rank has started.
const STARTED: u8 = 1;
/// First byte of a message: it has not, and the reason follows.
const FAILED: u8 = 0;

/// Why the ranks did not start together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError<E> {
    /// This rank's own start failed. The others have been told.
    Own(E),
    /// Another rank's start failed.
    PeerFailed {
        /// The rank.
        rank: u16,
        /// Its reason, as it was displayed there; the first bytes of it if it is longer than a message of the bus.
        text: String,
    },
    /// A rank died, left or said nothing until the deadline.
    Bus(BusError),
}

impl<E: Display> Display for StartError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(error) => error.fmt(f),
            Self::PeerFailed { rank, text } => write!(f, "rank {rank} could not start: {text}"),
            Self::Bus(error) => write!(f, "cannot start together: {error}"),
        }
    }
}

impl<E: Display + fmt::Debug> std::error::Error for StartError<E> {}

impl<E> From<BusError> for StartError<E> {
    fn from(error: BusError) -> Self {
        Self::Bus(error)
    }
}

/// Runs this rank's own `start` and returns what it made once every rank of the bus has started.
///
/// All ranks must call it, with the same `tag` (at most [`MAX_TAG`]). What only fails while nobody waits for anybody belongs
/// into `start`: opening the library, its devices, its network. `within` counts from the end of this rank's own start.
/// May wait; never on a worker's thread. Cost: a broadcast, and a message received from every other rank.
///
/// # Errors
/// [`StartError::Own`] at once, without waiting for anybody but, up to 100 ms, for room to tell it; [`StartError::PeerFailed`] as soon as
/// the first failure of another rank is heard, and what `start` made is dropped; [`StartError::Bus`] otherwise.
pub fn together<T, E: Display>(
    bus: &mut Bus,
    tag: u32,
    within: impl Into<Within>,
    start: impl FnOnce() -> Result<T, E>,
) -> Result<T, StartError<E>> {
    let within = within.into();
    if tag > MAX_TAG {
        return Err(BusError::BadTag { tag }.into());
    }
    match start() {
        Ok(made) => {
            let whole = Waiting::new(Phase::Receive, bus.rank(), within);
            // It begins here: what the others leave no room for is part of it.
            let _ = whole.since();
            bus.broadcast(tag, &[STARTED], within)?;
            hear(bus, tag, &whole)?;
            Ok(made)
        }
        Err(error) => {
            let text = error.to_string();
            let message: Vec<u8> = [FAILED].into_iter().chain(text.bytes()).collect();
            let length = message.len().min(bus.capacity());
            // This rank's own reason is the one to report, also where nobody is left to be told.
            let short = Within::new(within.time.min(FAREWELL), within.knob);
            let _ = bus.broadcast(tag, &message[..length], short);
            Err(StartError::Own(error))
        }
    }
}

/// Listens to all others by turns until each has said that it has started.
fn hear<E>(bus: &mut Bus, tag: u32, whole: &Waiting) -> Result<(), StartError<E>> {
    let (since, within) = (whole.since(), whole.within);
    // A turn is too short to be seen by itself.
    let counters = Arc::clone(&bus.counters);
    let mut noting = counters.sight.noting();
    let mut silent: Vec<u16> = (0..bus.world())
        .filter(|rank| *rank != bus.rank())
        .collect();
    while !silent.is_empty() {
        noting.tell(whole, silent.iter().copied().collect());
        let left = within.time.saturating_sub(since.elapsed());
        let mut still = Vec::with_capacity(silent.len());
        for rank in silent {
            let turn = Within::new(TURN.min(left), within.knob);
            match bus.recv(rank, Some(tag), turn) {
                Ok((_, message)) => told(rank, &message)?,
                Err(BusError::Wait(error)) if error.why == Why::Deadline && !left.is_zero() => {
                    still.push(rank);
                }
                Err(BusError::Wait(error)) if error.why == Why::Deadline => {
                    let (elapsed, within) = (since.elapsed(), within);
                    return Err(BusError::Wait(super::WaitError {
                        elapsed,
                        within,
                        ..error
                    })
                    .into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        silent = still;
    }
    Ok(())
}

/// What a rank said.
fn told<E>(rank: u16, message: &[u8]) -> Result<(), StartError<E>> {
    match message {
        [STARTED] => Ok(()),
        _ => Err(StartError::PeerFailed {
            rank,
            text: String::from_utf8_lossy(message.get(1..).unwrap_or_default()).into_owned(),
        }),
    }
}
