//! The bytes of the bootstrap: the hello that opens every connection, peer records, addresses.
//!
//! Everything is little-endian and of fixed size; a receiver checks magic and version before it believes the rest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const MAGIC: u64 = u64::from_le_bytes(*b"nccomTCP");
const VERSION: u32 = 1;

/// Bytes of a hello.
pub(crate) const HELLO_LEN: usize = 40;
/// Bytes of an encoded address.
pub(crate) const ADDRESS_LEN: usize = 20;
/// Bytes of an encoded peer record.
pub(crate) const PEER_LEN: usize = ADDRESS_LEN + 4;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A rank joins a root.
    Join,
    /// Bootstrap messages from one rank to another.
    Pair,
    /// Data of one stream from one rank to another.
    Data,
}

/// The first bytes of every connection, sent by the side that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) purpose: Purpose,
    /// Names the communicator; 0 for a rank that joins a global root and has no key yet.
    pub(crate) key: u64,
    pub(crate) rank: u32,
    pub(crate) world: u32,
    /// Of [`Purpose::Data`] only.
    pub(crate) stream: u32,
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; HELLO_LEN] {
        let purpose = match self.purpose {
            Purpose::Join => 1_u32,
            Purpose::Pair => 2,
            Purpose::Data => 3,
        };
        let mut out = [0; HELLO_LEN];
        out[..8].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&purpose.to_le_bytes());
        out[16..24].copy_from_slice(&self.key.to_le_bytes());
        out[24..28].copy_from_slice(&self.rank.to_le_bytes());
        out[28..32].copy_from_slice(&self.world.to_le_bytes());
        out[32..36].copy_from_slice(&self.stream.to_le_bytes());
        out
    }

    /// None if these are the bytes of a stranger.
    pub(crate) fn decode(bytes: &[u8; HELLO_LEN]) -> Option<Self> {
        if !may_be_hello(bytes) || word(bytes, 8) != VERSION {
            return None;
        }
        let purpose = match word(bytes, 12) {
            1 => Purpose::Join,
            2 => Purpose::Pair,
            3 => Purpose::Data,
            _ => return None,
        };
        Some(Self {
            purpose,
            key: long(bytes, 16),
            rank: word(bytes, 24),
            world: word(bytes, 28),
            stream: word(bytes, 32),
        })
    }
}

/// Whether bytes received so far can be the beginning of a hello.
pub(crate) fn may_be_hello(bytes: &[u8]) -> bool {
    MAGIC
        .to_le_bytes()
        .iter()
        .zip(bytes)
        .all(|(magic, byte)| magic == byte)
}

/// Little-endian u32 at `at`; 0 past the end.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let field = bytes
        .get(at..at + 4)
        .and_then(|field| field.try_into().ok());
    u32::from_le_bytes(field.unwrap_or_default())
}

/// Little-endian u64 at `at`; 0 past the end.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    let field = bytes
        .get(at..at + 8)
        .and_then(|field| field.try_into().ok());
    u64::from_le_bytes(field.unwrap_or_default())
}

/// Family (4 or 6) in two bytes, port in two, the address in sixteen.
pub(crate) fn encode_address(address: SocketAddr) -> [u8; ADDRESS_LEN] {
    let mut out = [0; ADDRESS_LEN];
    out[2..4].copy_from_slice(&address.port().to_le_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            out[0] = 4;
            out[4..8].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out[0] = 6;
            out[4..20].copy_from_slice(&ip.octets());
        }
    }
    out
}

pub(crate) fn decode_address(bytes: &[u8]) -> Option<SocketAddr> {
    let bytes: &[u8; ADDRESS_LEN] = bytes.get(..ADDRESS_LEN)?.try_into().ok()?;
    let port = u16::from_le_bytes([bytes[2], bytes[3]]);
    let ip = match bytes[0] {
        4 => IpAddr::V4(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7])),
        6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[4..20]).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// What every rank tells every other when a communicator is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Where it listens for the other ranks.
    pub(crate) address: SocketAddr,
    /// Its device, -1 if the caller did not say.
    pub(crate) device: i32,
}

impl Peer {
    pub(crate) fn encode(&self) -> [u8; PEER_LEN] {
        let mut out = [0; PEER_LEN];
        out[..ADDRESS_LEN].copy_from_slice(&encode_address(self.address));
        out[ADDRESS_LEN..].copy_from_slice(&self.device.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let address = decode_address(bytes)?;
        let device = i32::from_le_bytes(bytes.get(ADDRESS_LEN..PEER_LEN)?.try_into().ok()?);
        Some(Self { address, device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_survives_the_wire() {
        for purpose in [Purpose::Join, Purpose::Pair, Purpose::Data] {
            let hello = Hello {
                purpose,
                key: 0x0123_4567_89AB_CDEF,
                rank: 3,
                world: 64,
                stream: 2,
            };
            assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        }
    }

    #[test]
    fn one_wrong_byte_of_magic_version_or_purpose_makes_a_stranger() {
        let hello = Hello {
            purpose: Purpose::Join,
            key: 1,
            rank: 0,
            world: 1,
            stream: 0,
        };
        for at in 0..16 {
            let mut bytes = hello.encode();
            bytes[at] ^= 0x40;
            assert_eq!(Hello::decode(&bytes), None, "byte {at}");
        }
        assert!(may_be_hello(&hello.encode()[..3]) && !may_be_hello(b"GET"));
    }

    #[test]
    fn peers_of_both_families_survive_the_wire() {
        for address in ["10.0.0.7:4242", "[fe80::1:2]:65535"] {
            let peer = Peer {
                address: address.parse().unwrap(),
                device: -1,
            };
            assert_eq!(Peer::decode(&peer.encode()), Some(peer));
        }
        assert_eq!(Peer::decode(&[9; PEER_LEN]), None);
        assert_eq!(Peer::decode(&[4; 3]), None);
    }
}
