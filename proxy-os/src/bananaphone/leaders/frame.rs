//! What leaders say to each other: frames of one size, as a bootstrap receive must know how many bytes will come.
//!
//! ```text
//!   bytes  0 magic | 4 sender's machine | 6 what | 7 entries | 8 patience in us | 12 machines | 14 channels | 16 entries ...
//!   entry  0 channel | 2 kind | 3 cause or machine | 4 generation | 8 execution id | 16 set of machines, or cause: of a
//!          verdict, and beside a vote that of the generation before
//! ```
//!
//! All numbers are little-endian. Whatever comes is checked before it is believed.

use proxy_core::phone::barrier::{Elsewhere, RankSet};

use super::channel::Vote;

/// Entries of a frame; what does not fit goes with the next one.
pub(super) const ENTRIES: usize = 8;
const HEAD: usize = 16;
const ENTRY: usize = 32;
/// Bytes of every frame.
pub(super) const FRAME: usize = HEAD + ENTRIES * ENTRY;
/// Names the protocol and its version: "BPL" 2.
const MAGIC: u32 = u32::from_le_bytes(*b"BPL\x02");

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Machine 0 asks; an answer must come when there is something to say, and after the patience in any case.
    Poll = 1,
    /// The answer.
    Answer = 2,
    /// The sender stops; nothing follows and no answer must come.
    Bye = 3,
}

/// One fact about one generation of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    /// The sender's machine has arrived or failed, and how the generation before has failed there.
    Voted(Vote, Option<Elsewhere>),
    /// Machine 0: all have arrived.
    Passed,
    /// Machine 0: this machine has failed, and so all have.
    Verdict(u8, Elsewhere),
    /// Machine 0: it waits for these machines.
    Waiting(RankSet),
}

/// A fact and what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) channel: u16,
    pub(super) generation: u32,
    pub(super) fact: Fact,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) machine: u16,
    pub(super) what: What,
    /// How long the answer may wait for news, in microseconds.
    pub(super) patience_us: u32,
    /// Machines and channels, which all must have been told alike.
    pub(super) world: (u16, u16),
    /// Up to [`ENTRIES`].
    pub(super) entries: Vec<Entry>,
}

fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) {
    frame[at..at + N].copy_from_slice(&bytes);
}

fn get<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| frame[at + index])
}

fn word(frame: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(frame, at))
}

fn half(frame: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(frame, at))
}

impl Frame {
    /// Its bytes. Entries beyond [`ENTRIES`] are left out.
    pub(super) fn encode(&self) -> [u8; FRAME] {
        let mut frame = [0; FRAME];
        put(&mut frame, 0, MAGIC.to_le_bytes());
        put(&mut frame, 4, self.machine.to_le_bytes());
        let entries = self.entries.len().min(ENTRIES);
        put(&mut frame, 6, [self.what as u8, entries as u8]);
        put(&mut frame, 8, self.patience_us.to_le_bytes());
        put(&mut frame, 12, self.world.0.to_le_bytes());
        put(&mut frame, 14, self.world.1.to_le_bytes());
        let places = frame[HEAD..].chunks_exact_mut(ENTRY);
        for (place, entry) in places.zip(&self.entries) {
            entry.encode(place);
        }
        frame
    }

    /// The frame of these bytes, which machine `from` has sent; the error says which field cannot be.
    pub(super) fn decode(
        bytes: &[u8; FRAME],
        from: u16,
        world: (u16, u16),
    ) -> Result<Self, String> {
        let wrong = |field, found: u64, accepted: String| {
            Err(format!("{field} is {found:#x}, accepted: {accepted}"))
        };
        if word(bytes, 0) != MAGIC {
            return wrong("magic", word(bytes, 0).into(), format!("{MAGIC:#x}"));
        }
        let machine = half(bytes, 4);
        if machine != from {
            return wrong("machine", machine.into(), from.to_string());
        }
        let theirs = (half(bytes, 12), half(bytes, 14));
        if theirs != world {
            let (machines, channels) = theirs;
            return Err(format!(
                "it was told {machines} machines and {channels} channels, accepted: {} and {}",
                world.0, world.1
            ));
        }
        let what = match bytes[6] {
            1 => What::Poll,
            2 => What::Answer,
            3 => What::Bye,
            other => return wrong("kind", other.into(), "1 to 3".into()),
        };
        let count = usize::from(bytes[7]);
        if count > ENTRIES {
            return wrong("entries", count as u64, format!("up to {ENTRIES}"));
        }
        let places = bytes[HEAD..].chunks_exact(ENTRY).take(count);
        let entries = places.map(|place| {
            Entry::decode(place, world)
                .ok_or_else(|| format!("an entry is {place:02x?}, which is none"))
        });
        Ok(Self {
            machine,
            what,
            patience_us: word(bytes, 8),
            world,
            entries: entries.collect::<Result<_, _>>()?,
        })
    }
}

impl Entry {
    fn encode(&self, place: &mut [u8]) {
        let (kind, small, exec, set) = match self.fact {
            Fact::Voted(vote, before) => {
                let set = [before.map_or(0, Elsewhere::number), 0, 0, 0];
                match vote {
                    Vote::Arrived(exec) => (1, 0, exec, set),
                    Vote::Failed(why) => (2, why.number() as u8, 0, set),
                }
            }
            Fact::Passed => (3, 0, 0, [0; 4]),
            Fact::Verdict(machine, why) => (4, machine, 0, [why.number(), 0, 0, 0]),
            Fact::Waiting(machines) => (5, 0, 0, machines.words()),
        };
        put(place, 0, self.channel.to_le_bytes());
        put(place, 2, [kind, small]);
        put(place, 4, self.generation.to_le_bytes());
        put(place, 8, exec.to_le_bytes());
        for (index, word) in set.into_iter().enumerate() {
            put(place, 16 + 4 * index, word.to_le_bytes());
        }
    }

    fn decode(place: &[u8], (machines, channels): (u16, u16)) -> Option<Self> {
        let (channel, small) = (half(place, 0), place[3]);
        let set = std::array::from_fn(|index| word(place, 16 + 4 * index));
        let fact = match place[2] {
            1 => Fact::Voted(
                Vote::Arrived(u64::from_le_bytes(get(place, 8))),
                Elsewhere::from_number(set[0]),
            ),
            2 => Fact::Voted(
                Vote::Failed(Elsewhere::from_number(small.into())?),
                Elsewhere::from_number(set[0]),
            ),
            3 => Fact::Passed,
            4 if u16::from(small) < machines => {
                Fact::Verdict(small, Elsewhere::from_number(set[0])?)
            }
            5 => Fact::Waiting(RankSet::from_words(set)),
            _ => return None,
        };
        (channel < channels).then_some(Self {
            channel,
            generation: word(place, 4),
            fact,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORLD: (u16, u16) = (128, 64);

    fn frame() -> Frame {
        let facts = [
            Fact::Voted(Vote::Arrived(u64::MAX - 1), Some(Elsewhere::TimedOut)),
            Fact::Voted(Vote::Failed(Elsewhere::Cancelled), None),
            Fact::Passed,
            Fact::Verdict(127, Elsewhere::OtherExecution),
            Fact::Waiting(RankSet::default().with(1).with(127)),
        ];
        let entry = |(channel, fact)| Entry {
            channel,
            generation: u32::MAX,
            fact,
        };
        Frame {
            machine: 3,
            what: What::Poll,
            patience_us: 16_000,
            world: WORLD,
            entries: (59..).zip(facts).map(entry).collect(),
        }
    }

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let sent = frame();
        assert_eq!(Frame::decode(&sent.encode(), 3, WORLD), Ok(sent));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let good = frame().encode();
        let change = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Frame::decode(&bytes, 3, WORLD).unwrap_err()
        };
        assert!(change(0, 0).contains("magic"));
        assert!(change(4, 4).contains("machine"));
        assert!(change(6, 9).contains("kind is 0x9"));
        assert!(change(7, 9).contains("entries"));
        assert!(change(12, 1).contains("told 1 machines and 64 channels"));
        assert!(change(HEAD, 64).contains("an entry"), "channel");
        assert!(change(HEAD + 2, 6).contains("an entry"), "kind");
        assert!(
            change(HEAD + 3 * ENTRY + 3, 128).contains("an entry"),
            "machine"
        );
        assert!(change(HEAD + ENTRY + 3, 0).contains("an entry"), "cause");
    }
}
