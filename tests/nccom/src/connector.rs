//! What `neuronGetNetConnector` hands out, and how Start finds the host index words again through an `enc_channel`.
#![allow(
    unsafe_code,
    reason = "reads the channel and connector records that the host lent"
)]

use crate::abi::{Channel, NetConnector, PATTERN_MESH, PATTERN_RING};
use crate::error::{Error, Result};
use crate::peers::Direction;

/// Identity of a connector within its communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    pattern: i32,
    channel: i32,
    direction: Direction,
}

/// The connectors that a communicator has handed out. A handle is a number, not an address: it cannot be dereferenced
/// and a wrong one is found out.
#[derive(Debug, Default)]
pub(crate) struct Connectors {
    keys: Vec<Key>,
}

/// Handles start here, so that neither null nor a small number passes for one.
const FIRST_HANDLE: u64 = 0x4E43_0000;
/// Connectors of one communicator: two patterns, 32 channels, two directions.
const MAX_CONNECTORS: usize = 128;

impl Connectors {
    /// The handle of a connector, the same one for the same arguments.
    pub(crate) fn handle(
        &mut self,
        pattern: i32,
        channel: i32,
        direction: Direction,
    ) -> Result<u64> {
        check_pattern(pattern)?;
        let key = Key {
            pattern,
            channel,
            direction,
        };
        let index = match self.keys.iter().position(|known| *known == key) {
            Some(index) => index,
            None if self.keys.len() == MAX_CONNECTORS => {
                return Err(Error::resource(format!(
                    "{MAX_CONNECTORS} connectors are in use already"
                )));
            }
            None => {
                self.keys.push(key);
                self.keys.len() - 1
            }
        };
        Ok(FIRST_HANDLE + u64::try_from(index).unwrap_or(0))
    }

    /// Follows the channel of an op list to the address of the host index word for `direction`.
    ///
    /// # Safety
    /// `channel` is the address of an `enc_channel` and its two connector addresses are null or those of
    /// `enc_net_connector` records, all alive.
    pub(crate) unsafe fn index_word(
        &self,
        channel: u64,
        stream: u32,
        direction: Direction,
    ) -> Result<u64> {
        // SAFETY: the caller's contract.
        let channel: Channel = unsafe { read(channel, "enc_channel") }?;
        check_pattern(channel.pattern)?;
        if u32::try_from(channel.id) != Ok(stream) {
            return Err(Error::invalid(format!(
                "enc_channel.id is {}, accepted: {stream}, the stream",
                channel.id
            )));
        }
        let (name, address) = match direction {
            Direction::Send => ("enc_channel.net_send", channel.net_send),
            Direction::Receive => ("enc_channel.net_recv", channel.net_recv),
        };
        // SAFETY: the caller's contract.
        let connector: NetConnector = unsafe { read(address, name) }?;
        self.check(&connector, channel.pattern, direction)
            .map_err(|error| error.within(name))?;
        Ok(connector.va)
    }

    fn check(&self, connector: &NetConnector, pattern: i32, direction: Direction) -> Result<()> {
        let known = connector
            .nccl_connector
            .checked_sub(FIRST_HANDLE)
            .and_then(|index| usize::try_from(index).ok());
        let key = known.and_then(|index| self.keys.get(index));
        if !key.is_some_and(|key| key.pattern == pattern && key.direction == direction) {
            return Err(Error::invalid(format!(
                "nccl_connector is {:#x}, accepted: what neuronGetNetConnector gave for this pattern and direction",
                connector.nccl_connector
            )));
        }
        if connector.fold_n != 1 {
            return Err(Error::invalid(format!(
                "fold_n is {}, accepted: 1",
                connector.fold_n
            )));
        }
        if connector.va == 0 || !connector.va.is_multiple_of(4) {
            return Err(Error::invalid(format!(
                "net_host_mem.va is {:#x}, accepted: a word address",
                connector.va
            )));
        }
        Ok(())
    }
}

fn check_pattern(pattern: i32) -> Result<()> {
    match pattern {
        PATTERN_RING | PATTERN_MESH => Ok(()),
        _ => Err(Error::invalid(format!(
            "pattern is {pattern}, accepted: 0 (ring), 1 (mesh)"
        ))),
    }
}

/// Copies a record of the host.
///
/// # Safety
/// `address` is 0 or that of a live record `T`, valid for any bit pattern.
unsafe fn read<T>(address: u64, name: &str) -> Result<T> {
    let pointer = std::ptr::with_exposed_provenance::<T>(usize::try_from(address).unwrap_or(0));
    if pointer.is_null() {
        return Err(Error::invalid(format!("{name} is null")));
    }
    // SAFETY: not null, and a live record by the contract.
    Ok(unsafe { pointer.read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connector(handle: u64, va: u64) -> NetConnector {
        NetConnector {
            fold_n: 1,
            mem_handle: 0,
            va,
            pa: 0,
            size: 2048,
            rest: [0; 6],
            nccl_connector: handle,
        }
    }

    fn channel(send: &NetConnector) -> Channel {
        let net_send = std::ptr::from_ref(send).expose_provenance() as u64;
        Channel {
            id: 2,
            pattern: 0,
            net_recv: 0,
            net_send,
            rest: [0; 8],
        }
    }

    fn look(
        connectors: &Connectors,
        channel: &Channel,
        direction: Direction,
    ) -> std::result::Result<u64, String> {
        let address = std::ptr::from_ref(channel).expose_provenance() as u64;
        // SAFETY: the records live on the stack of the test.
        unsafe { connectors.index_word(address, 2, direction) }.map_err(|error| error.to_string())
    }

    #[test]
    fn the_index_word_is_found_through_channel_and_connector() {
        let mut connectors = Connectors::default();
        let handle = connectors.handle(0, 2, Direction::Send).unwrap();
        assert_eq!(connectors.handle(0, 2, Direction::Send).unwrap(), handle);
        assert_ne!(connectors.handle(1, 2, Direction::Send).unwrap(), handle);
        let record = connector(handle, 0x1000);
        assert_eq!(
            look(&connectors, &channel(&record), Direction::Send),
            Ok(0x1000)
        );
    }

    #[test]
    fn each_wrong_field_is_named() {
        let mut connectors = Connectors::default();
        let handle = connectors.handle(0, 2, Direction::Send).unwrap();
        let mesh = connectors.handle(1, 2, Direction::Send).unwrap();
        let receive = connectors.handle(0, 2, Direction::Receive).unwrap();
        let good = connector(handle, 0x1000);
        let error = |record: &NetConnector| {
            look(&connectors, &channel(record), Direction::Send).unwrap_err()
        };
        for wrong in [0, 5, mesh, receive, u64::MAX] {
            assert!(
                error(&connector(wrong, 0x1000)).contains("net_send: nccl_connector"),
                "{wrong:#x}"
            );
        }
        assert!(error(&NetConnector { fold_n: 16, ..good }).contains("fold_n is 16"));
        assert!(error(&connector(handle, 0)).contains("net_host_mem.va"));
        assert!(error(&connector(handle, 0x1002)).contains("net_host_mem.va"));
        let missing = look(&connectors, &channel(&good), Direction::Receive).unwrap_err();
        assert!(missing.contains("net_recv is null"), "{missing}");
        let other = look(
            &connectors,
            &Channel {
                id: 1,
                ..channel(&good)
            },
            Direction::Send,
        )
        .unwrap_err();
        assert!(other.contains("enc_channel.id is 1"), "{other}");
        let odd = look(
            &connectors,
            &Channel {
                pattern: 2,
                ..channel(&good)
            },
            Direction::Send,
        )
        .unwrap_err();
        assert!(odd.contains("pattern is 2"), "{odd}");
        assert!(connectors.handle(3, 0, Direction::Send).is_err());
    }
}
