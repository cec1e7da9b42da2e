//! The records by which a rank and the hub greet each other.
//!
//! ```text
//!   rank -> hub   Hello    who it is and what it was told about the bus
//!   hub  -> rank  Welcome  + the segment's descriptor; or Refused
//!   rank -> hub   Ready    it is a member; or Failed: it could not take the segment
//!   hub  -> rank  Failed   some rank could not join
//!   hub  -> rank  Lines    all are ready; + a descriptor for each other process, to watch it by
//! ```
//!
//! All begin with the same four words in every version: magic, stamp of the byte order, version, hash of the layout. Nothing behind
//! them is read when they differ.

use proxy_core::phone::barrier::RankSet;
use proxy_core::phone::layout::{self, Geometry, LayoutError};

use super::cause::{from_parts, parts};
use super::error::{Field, JoinError};

/// First word of every record: "PHON".
const MAGIC: u32 = 0x5048_4F4E;
/// Bytes of a record at most: the lines of a full bus.
pub(super) const RECORD_LIMIT: usize = 4096;

/// Who a rank is, and what it was told about the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello {
    /// Hash of the job id.
    pub(super) job: u64,
    /// Inode of its namespace of process ids; 0 = unknown.
    pub(super) namespace: u64,
    pub(super) rank: u32,
    pub(super) world: u32,
    pub(super) barriers: u32,
    pub(super) cells: u32,
}

/// What hub and ranks tell each other after a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Welcome(Welcome),
    Refused(Refusal),
    Ready,
    Failed(Failure),
    Lines(Vec<Line>),
}

/// A rank is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Welcome {
    /// The number of this bus, no other has it.
    pub(super) bus: [u64; 2],
    /// The rank whose process is the hub.
    pub(super) hub: u16,
    /// Whether the segment is sealed.
    pub(super) sealed: bool,
}

/// A rank is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// As the rank shall report it.
    Error(JoinError),
    /// This rank is dead, so the bus will not be complete.
    PeerDead(u16),
    /// A rank could not join, so the bus will not be complete.
    Failed(Box<Failure>),
}

/// A rank could not join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) rank: Option<u16>,
    pub(super) cause: JoinError,
}

/// Some ranks, watched by one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) ranks: RankSet,
    /// Whether it is their process; else a socket of theirs.
    pub(super) process: bool,
}

/// What can be told from the first words of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadRecord {
    /// Not one of ours.
    Stranger,
    /// One of ours, of another build.
    Layout(LayoutError),
}

const HELLO: u32 = 1;
const WELCOME: u32 = 2;
const REFUSED: u32 = 3;
const FAILED: u32 = 4;
const LINES: u32 = 5;
const READY: u32 = 6;

/// Rank of a failure that has none.
const NOBODY: u32 = u32::MAX;

struct Put(Vec<u8>);

impl Put {
    fn record(kind: u32) -> Self {
        let mut put = Self(Vec::with_capacity(64));
        for word in [MAGIC, layout::STAMP, layout::VERSION, layout::HASH, kind] {
            put.word(word);
        }
        put
    }

    fn word(&mut self, word: u32) {
        self.0.extend(word.to_ne_bytes());
    }

    fn long(&mut self, long: u64) {
        self.0.extend(long.to_ne_bytes());
    }
}

struct Take<'a>(&'a [u8]);

impl Take<'_> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    fn long(&mut self) -> Option<u64> {
        let (long, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*long))
    }

    /// The words that all versions have in common, and the kind.
    fn record(&mut self) -> Result<u32, BadRecord> {
        let mut next = || self.word().ok_or(BadRecord::Stranger);
        let (magic, stamp, version, hash) = (next()?, next()?, next()?, next()?);
        let differs = match () {
            () if magic != MAGIC && magic.swap_bytes() != MAGIC => return Err(BadRecord::Stranger),
            () if stamp != layout::STAMP => LayoutError::StampMismatch {
                ours: layout::STAMP,
                theirs: stamp,
            },
            () if version != layout::VERSION => LayoutError::VersionMismatch {
                ours: layout::VERSION,
                theirs: version,
            },
            () if hash != layout::HASH => LayoutError::HashMismatch {
                ours: layout::HASH,
                theirs: hash,
            },
            () => return next(),
        };
        Err(BadRecord::Layout(differs))
    }
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut put = Put::record(HELLO);
        put.long(self.job);
        put.long(self.namespace);
        for word in [self.rank, self.world, self.barriers, self.cells] {
            put.word(word);
        }
        put.0
    }

    pub(super) fn decode(record: &[u8]) -> Result<Self, BadRecord> {
        let mut take = Take(record);
        let kind = take.record()?;
        let hello = Self::body(&mut take).filter(|_| kind == HELLO && take.0.is_empty());
        hello.ok_or(BadRecord::Stranger)
    }

    fn body(take: &mut Take<'_>) -> Option<Self> {
        Some(Self {
            job: take.long()?,
            namespace: take.long()?,
            rank: take.word()?,
            world: take.word()?,
            barriers: take.word()?,
            cells: take.word()?,
        })
    }

    /// What the rank was told otherwise than the hub, as the rank sees it.
    pub(super) fn differs(&self, hub: &Geometry) -> Option<JoinError> {
        let fields = [
            (Field::World, self.world, hub.world().into()),
            (Field::Barriers, self.barriers, hub.barriers().into()),
            (Field::Cells, self.cells, hub.cells()),
        ];
        let (field, ours, theirs) = fields
            .into_iter()
            .find(|(_, ours, theirs)| ours != theirs)?;
        Some(JoinError::Differs {
            field,
            ours: ours.into(),
            theirs: theirs.into(),
        })
    }
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Welcome(welcome) => {
                let mut put = Put::record(WELCOME);
                welcome.bus.into_iter().for_each(|half| put.long(half));
                put.word(welcome.hub.into());
                put.word(welcome.sealed.into());
                put.0
            }
            Self::Refused(Refusal::Failed(failure)) => failure.encode(),
            Self::Refused(refusal) => {
                let mut put = Put::record(REFUSED);
                let (code, ours, theirs) = refusal.parts();
                put_parts(&mut put, code, ours, theirs);
                put.0
            }
            Self::Ready => Put::record(READY).0,
            Self::Failed(failure) => failure.encode(),
            Self::Lines(lines) => {
                let mut put = Put::record(LINES);
                for line in lines {
                    put.word(line.process.into());
                    let bits = (line.ranks.iter()).fold(0_u128, |bits, rank| bits | 1 << rank);
                    put.0.extend(bits.to_ne_bytes());
                }
                put.0
            }
        }
    }

    pub(super) fn decode(record: &[u8]) -> Result<Self, BadRecord> {
        let mut take = Take(record);
        let kind = take.record()?;
        let reply = match kind {
            WELCOME => take_welcome(&mut take).map(Self::Welcome),
            REFUSED => take_parts(&mut take)
                .and_then(Refusal::from_parts)
                .map(Self::Refused),
            READY => Some(Self::Ready),
            FAILED => Failure::body(&mut take).map(Self::Failed),
            LINES => Some(Self::Lines(take_lines(&mut take))),
            _ => None,
        };
        reply.ok_or(BadRecord::Stranger)
    }
}

impl Failure {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut put = Put::record(FAILED);
        put.word(self.rank.map_or(NOBODY, u32::from));
        let (code, ours, theirs) = parts(&self.cause);
        put_parts(&mut put, code, ours, theirs);
        put.0
    }

    fn body(take: &mut Take<'_>) -> Option<Self> {
        let rank = u16::try_from(take.word()?).ok();
        let cause = take_parts(take).and_then(from_parts)?;
        Some(Self { rank, cause })
    }
}

fn put_parts(put: &mut Put, code: u32, ours: u64, theirs: u64) {
    put.word(code);
    put.long(ours);
    put.long(theirs);
}

fn take_parts(take: &mut Take<'_>) -> Option<(u32, u64, u64)> {
    Some((take.word()?, take.long()?, take.long()?))
}

fn take_welcome(take: &mut Take<'_>) -> Option<Welcome> {
    Some(Welcome {
        bus: [take.long()?, take.long()?],
        hub: take.word()?.try_into().ok()?,
        sealed: take.word()? != 0,
    })
}

fn take_lines(take: &mut Take<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    while let (Some(process), Some((bits, rest))) = (take.word(), take.0.split_first_chunk()) {
        take.0 = rest;
        let bits = u128::from_ne_bytes(*bits);
        lines.push(Line {
            ranks: (0..128).filter(|rank| bits >> rank & 1 == 1).collect(),
            process: process != 0,
        });
    }
    lines
}

impl Refusal {
    const PEER_DEAD: u32 = 100;

    fn parts(&self) -> (u32, u64, u64) {
        match self {
            Self::Error(error) => parts(error),
            Self::PeerDead(rank) => (Self::PEER_DEAD, (*rank).into(), 0),
            Self::Failed(failure) => parts(&failure.cause),
        }
    }

    fn from_parts((code, ours, theirs): (u32, u64, u64)) -> Option<Self> {
        if code == Self::PEER_DEAD {
            return Some(Self::PeerDead(ours.try_into().ok()?));
        }
        from_parts((code, ours, theirs)).map(Self::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let hello = Hello {
            job: 1,
            namespace: 2,
            rank: 3,
            world: 4,
            barriers: 5,
            cells: 6,
        };
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let lines = [0, 127].map(|rank| Line {
            ranks: RankSet::default().with(rank).with(5),
            process: rank == 0,
        });
        let failure = Failure {
            rank: Some(3),
            cause: JoinError::FdNotDelivered { limit: 20 },
        };
        let differs = JoinError::Differs {
            field: Field::Cells,
            ours: 1,
            theirs: 2,
        };
        for reply in [
            Reply::Welcome(Welcome {
                bus: [7, 8],
                hub: 2,
                sealed: true,
            }),
            Reply::Refused(Refusal::PeerDead(9)),
            Reply::Refused(Refusal::Error(differs)),
            Reply::Failed(failure),
            Reply::Ready,
            Reply::Lines(lines.to_vec()),
        ] {
            assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn a_full_bus_has_room_in_a_record() {
        let line = Line {
            ranks: RankSet::below(128),
            process: true,
        };
        let record = Reply::Lines(vec![line; 128]).encode();
        assert!(record.len() <= RECORD_LIMIT);
    }

    #[test]
    fn another_version_is_told_by_its_first_words_alone() {
        let mut record = Put::record(HELLO).0;
        record[8..12].copy_from_slice(&77_u32.to_ne_bytes());
        let mismatch = LayoutError::VersionMismatch {
            ours: layout::VERSION,
            theirs: 77,
        };
        assert_eq!(Hello::decode(&record), Err(BadRecord::Layout(mismatch)));
        for bytes in [0, 3, 8, 15] {
            assert_eq!(Hello::decode(&record[..bytes]), Err(BadRecord::Stranger));
        }
        assert_eq!(Hello::decode(&[b'x'; 64]), Err(BadRecord::Stranger));
    }
}
