//! The words through which a device, the library and the host meet: semaphores, host index words, start words.

#![allow(
    unsafe_code,
    reason = "start words may live in memory of the embedder, given by address"
)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proxy_core::limits;

use crate::abi::{EncChannel, EncNetConnector, Fold, HostIndexMemory, Topology};
use crate::plan::{Direction, Semaphore};

/// Index word and start word value of all ones.
pub(super) const ALL_ONES: u32 = u32::MAX;

/// What the library's `neuronGetNetConnector` returned for the two directions of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connectors {
    /// Address of the receiving connector.
    pub receive: u64,
    /// Address of the sending connector.
    pub send: u64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line(AtomicU32);

/// All words of one device. Never moved once made: the library holds their addresses.
#[derive(Debug)]
pub(super) struct Words {
    semaphores: Box<[[Line; Semaphore::COUNT]]>,
    index: Arc<[[HostIndexMemory; 2]]>,
    channels: Box<[EncChannel]>,
    /// Reached by the library through `channels`.
    _connectors: Box<[[EncNetConnector; 2]]>,
}

/// Exposes an address to the library. Words are atomics and records are read-only, so a shared reference gives
/// the pointer all the rights that the library needs.
fn expose<T>(target: &T) -> u64 {
    std::ptr::from_ref(target).expose_provenance() as u64
}

impl Words {
    pub(super) fn new(topology: Topology, connectors: &[Connectors]) -> Self {
        let index: Arc<[[HostIndexMemory; 2]]> =
            connectors.iter().map(|_| Default::default()).collect();
        let records: Box<[[EncNetConnector; 2]]> = connectors
            .iter()
            .zip(index.iter())
            .map(|(connector, [receive, send])| {
                [
                    EncNetConnector::new(expose(receive), connector.receive),
                    EncNetConnector::new(expose(send), connector.send),
                ]
            })
            .collect();
        let channels = (0..)
            .zip(&records)
            .map(|(id, [receive, send])| {
                EncChannel::new(id, topology, expose(receive), expose(send))
            })
            .collect();
        Self {
            semaphores: connectors.iter().map(|_| Default::default()).collect(),
            index,
            channels,
            _connectors: records,
        }
    }

    pub(super) fn streams(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn channel_address(&self, stream: usize) -> u64 {
        expose(&self.channels[stream])
    }

    pub(super) fn semaphore(&self, stream: usize, semaphore: Semaphore) -> &AtomicU32 {
        &self.semaphores[stream][semaphore as usize].0
    }

    pub(super) fn semaphore_address(&self, stream: usize, semaphore: Semaphore) -> u64 {
        expose(self.semaphore(stream, semaphore))
    }

    /// The index word (fold 0) of one connector.
    pub(super) fn index(&self, stream: usize, direction: Direction) -> &AtomicU32 {
        let [Fold(word), ..] = &self.index[stream][direction as usize].folds;
        word
    }
}

/// What a start word means to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polarity {
    /// All ones = not fired; the device fires any other value (here never 0, so that it differs from a consumed
    /// word too). This is the sense of the specification.
    AsSpecified,
    /// All ones = fired; the host clears to 0. This is the sense of the public header.
    Header,
}

impl Polarity {
    /// The value of a word that has never been fired.
    pub const fn idle(self) -> u32 {
        match self {
            Self::AsSpecified => ALL_ONES,
            Self::Header => 0,
        }
    }

    /// Whether a word of this value has been fired and not been consumed.
    const fn is_fired(self, value: u32) -> bool {
        match self {
            Self::AsSpecified => value != ALL_ONES && value != 0,
            Self::Header => value == ALL_ONES,
        }
    }

    /// What the device stores to fire execution `exec_id`.
    pub const fn fired(self, exec_id: u64) -> u32 {
        match self {
            Self::Header => ALL_ONES,
            // Any value but the two that mean idle and consumed; the remainder is below 2^32 - 2.
            Self::AsSpecified => (exec_id % (ALL_ONES as u64 - 1)) as u32 + 1,
        }
    }
}

/// The start words of one context: one per stream, fired by the device, consumed by the host.
#[derive(Debug, Clone)]
pub struct StartWords {
    words: Arc<[NonNull<AtomicU32>]>,
    /// Keeps owned words alive; empty if they are the embedder's.
    _owned: Arc<[AtomicU32]>,
    polarity: Polarity,
}

// SAFETY: the pointers are only ever dereferenced to shared references to atomics, which are Sync; that they stay
// valid is the promise of `from_addresses`, or held by `_owned`.
unsafe impl Send for StartWords {}
// SAFETY: as above.
unsafe impl Sync for StartWords {}

impl StartWords {
    /// Makes `streams` words (at most 4), idle, that live as long as any clone of the result.
    pub fn new(streams: usize, polarity: Polarity) -> Self {
        let owned: Arc<[AtomicU32]> = (0..streams.min(limits::STREAMS))
            .map(|_| AtomicU32::new(polarity.idle()))
            .collect();
        let words = owned.iter().map(NonNull::from).collect();
        Self {
            words,
            _owned: owned,
            polarity,
        }
    }

    /// No words: for a context that waits for no device trigger.
    pub fn none() -> Self {
        Self::new(0, Polarity::AsSpecified)
    }

    /// Words of the embedder, by address; `None` if one is null.
    ///
    /// # Safety
    /// Each address is that of an aligned `AtomicU32` that is only accessed atomically, and stays valid until every
    /// clone of the result is dropped and every execution launched with it has ended.
    pub unsafe fn from_addresses(addresses: &[u64], polarity: Polarity) -> Option<Self> {
        let pointer = |address: &u64| {
            let address = usize::try_from(*address).ok()?;
            NonNull::new(std::ptr::with_exposed_provenance_mut::<AtomicU32>(address))
        };
        let words = addresses.iter().map(pointer).collect::<Option<_>>()?;
        Some(Self {
            words,
            _owned: Arc::new([]),
            polarity,
        })
    }

    /// Their meaning.
    pub const fn polarity(&self) -> Polarity {
        self.polarity
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The address of the word of `stream`, or `None` beyond the last.
    pub fn address(&self, stream: usize) -> Option<u64> {
        self.words
            .get(stream)
            .map(|word| word.as_ptr().expose_provenance() as u64)
    }

    /// The word of `stream`, or `None` beyond the last.
    pub fn word(&self, stream: usize) -> Option<&AtomicU32> {
        // SAFETY: the word outlives `self`: it is owned by it, or promised by the caller of `from_addresses`.
        self.words.get(stream).map(|word| unsafe { word.as_ref() })
    }

    /// Whether a word has been fired and not been consumed.
    pub(super) fn is_any_fired(&self) -> bool {
        (0..self.len())
            .filter_map(|stream| self.word(stream))
            // Acquire pairs with the release of the host, which has consumed what was fired before.
            .any(|word| self.polarity.is_fired(word.load(Ordering::Acquire)))
    }

    /// Stores `value` into the word of `stream`, as the device does.
    pub(super) fn store(&self, stream: usize, value: u32) {
        if let Some(word) = self.word(stream) {
            // Release: the host's acquire load of a fired word sees all that the device did before.
            word.store(value, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fired_is_never_idle_nor_consumed() {
        for exec_id in [
            0,
            1,
            u64::from(u32::MAX) - 2,
            u64::from(u32::MAX) - 1,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let value = Polarity::AsSpecified.fired(exec_id);
            assert!(value != 0 && value != ALL_ONES, "{exec_id}: {value}");
            assert_eq!(Polarity::Header.fired(exec_id), ALL_ONES);
            for sense in [Polarity::AsSpecified, Polarity::Header] {
                let is_fired = |value| sense.is_fired(value);
                assert!(is_fired(sense.fired(exec_id)) && !is_fired(sense.idle()) && !is_fired(0));
            }
        }
    }

    #[test]
    fn channels_lead_to_the_index_words() {
        let given = [Connectors {
            receive: 7,
            send: 9,
        }; 2];
        let words = Words::new(Topology::Mesh, &given);
        for (stream, channel) in words.channels.iter().enumerate() {
            assert_eq!((channel.id, channel.pattern), (stream as i32, 1));
            let [receive, send] = &words._connectors[stream];
            assert_eq!(
                (channel.net_recv, channel.net_send),
                (expose(receive), expose(send))
            );
            assert_eq!(receive.va, expose(words.index(stream, Direction::Receive)));
            assert_eq!(send.va, expose(words.index(stream, Direction::Send)));
            assert_eq!((receive.nccl_connector, send.nccl_connector), (7, 9));
            assert_eq!((send.fold_n, send.size), (1, 2048));
        }
    }

    #[test]
    fn foreign_words_are_reached() {
        let word = AtomicU32::new(5);
        // SAFETY: `word` outlives `start`.
        let start = unsafe { StartWords::from_addresses(&[expose(&word)], Polarity::Header) };
        let start = start.expect("no null address");
        assert_eq!(start.address(0), Some(expose(&word)));
        start.store(0, 6);
        start.store(1, 7);
        assert_eq!(word.into_inner(), 6);
    }

    #[test]
    fn null_is_refused() {
        // SAFETY: the null address is refused, no other is given.
        assert!(unsafe { StartWords::from_addresses(&[0], Polarity::Header) }.is_none());
    }
}
