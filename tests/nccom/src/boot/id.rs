//! The unique id of a communicator: where its rank 0 listens, and the key that its members share.
//!
//! The id is made in the process of rank 0 and carried to the others by the caller. Its listener waits here until
//! `neuronInitComm` of rank 0 takes it over.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::abi::UNIQUE_ID_LEN;
use crate::boot::greeter::Greeter;
use crate::boot::wire::{ADDRESS_LEN, decode_address, encode_address, long, word};
use crate::error::{Error, Result};
use crate::settings::local_address;

const MAGIC: u64 = u64::from_le_bytes(*b"nccomUID");
/// Ids made here and not used yet; each holds one listening socket.
const MAX_UNUSED: usize = 64;

/// The decoded id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UniqueId {
    pub(crate) key: u64,
    pub(crate) address: SocketAddr,
    pub(crate) world: u32,
}

impl UniqueId {
    /// Makes an id for a communicator of `world` ranks whose rank 0 is in this process.
    pub(crate) fn create(world: u32) -> Result<Self> {
        let mut unused = unused();
        if unused.len() >= MAX_UNUSED {
            return Err(Error::resource(format!(
                "{MAX_UNUSED} unique ids of this process are unused already"
            )));
        }
        let greeter = Greeter::listen(SocketAddr::new(local_address(), 0))?;
        let id = Self {
            key: random_key(),
            address: greeter.address()?,
            world,
        };
        unused.insert(id.key, greeter);
        Ok(id)
    }

    /// The listener of an id that was made in this process, once.
    pub(crate) fn take_listener(&self) -> Result<Greeter> {
        unused().remove(&self.key).ok_or_else(|| {
            Error::invalid(
                "rank 0: the unique id was not made in this process or has been used already",
            )
        })
    }

    pub(crate) fn encode(&self) -> [u8; UNIQUE_ID_LEN] {
        let mut out = [0; UNIQUE_ID_LEN];
        out[..8].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&self.key.to_le_bytes());
        out[16..20].copy_from_slice(&self.world.to_le_bytes());
        out[20..20 + ADDRESS_LEN].copy_from_slice(&encode_address(self.address));
        out
    }

    pub(crate) fn decode(bytes: &[u8; UNIQUE_ID_LEN]) -> Result<Self> {
        let address = decode_address(&bytes[20..]).filter(|_| long(bytes, 0) == MAGIC);
        let address = address
            .ok_or_else(|| Error::invalid("the unique id was not made by neuronGetUniqueId"))?;
        Ok(Self {
            key: long(bytes, 8),
            address,
            world: word(bytes, 16),
        })
    }
}

fn unused() -> MutexGuard<'static, HashMap<u64, Greeter>> {
    static UNUSED: OnceLock<Mutex<HashMap<u64, Greeter>>> = OnceLock::new();
    UNUSED
        .get_or_init(Default::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// A key that a stranger cannot guess by accident. Never 0, which stands for no key.
pub(crate) fn random_key() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_caller_and_gives_its_listener_once() {
        let id = UniqueId::create(4).unwrap();
        assert_eq!(UniqueId::decode(&id.encode()).unwrap(), id);
        assert_eq!(id.take_listener().unwrap().address().unwrap(), id.address);
        assert!(
            id.take_listener()
                .unwrap_err()
                .to_string()
                .contains("used already")
        );
    }

    #[test]
    fn bytes_that_are_no_id_are_refused() {
        assert!(UniqueId::decode(&[0; UNIQUE_ID_LEN]).is_err());
        assert!(UniqueId::decode(&[0xFF; UNIQUE_ID_LEN]).is_err());
    }

    #[test]
    fn keys_differ() {
        assert_ne!(random_key(), random_key());
    }
}
