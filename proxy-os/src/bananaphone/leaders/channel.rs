//! One channel between worker and leaders' thread: a few words, so that neither ever waits for the other.
//!
//! ```text
//!   worker -- vote: generation, arrived or why not; execution id --> thread
//!   worker <-- verdict on a generation; for which machine it waits -- thread
//! ```
//!
//! The worker writes votes and reads verdicts, the thread the other way round. Generations come one after another, and the
//! thread decides none before the worker has voted on the one before it (see `round`), so two verdicts are room enough.
//!
//! A worker that gives up several generations in a row waits for no verdict between them, so a vote may be replaced while it is read: the
//! reader looks at the vote word again behind the execution id, and takes both or neither.
//!
//! The atomics come from the parent module: the loom models compile this file with theirs (tests/loom, `leaders_channel`).

use proxy_core::phone::barrier::Elsewhere;

use super::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How a generation ended for all machines.
pub(super) type Outcome = Result<(), (u8, Elsewhere)>;

/// What this machine says about a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vote {
    /// All its ranks have arrived, for this execution.
    Arrived(u64),
    /// It has failed.
    Failed(Elsewhere),
}

/// A vote, the generation it is on, and how the generation before failed here, which a vote may overtake before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ballot {
    /// 0 = there was no vote.
    pub(super) generation: u32,
    pub(super) vote: Vote,
    pub(super) before: Option<Elsewhere>,
}

impl Ballot {
    /// Before the first vote.
    pub(super) const NONE: Self = Self {
        generation: 0,
        vote: Vote::Arrived(0),
        before: None,
    };
}

/// The words of one channel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// Somebody has its seat.
    taken: AtomicBool,
    /// Generation; 0 or the number of the failure; above it, that of the generation before.
    vote: AtomicU64,
    /// Execution ids, of even and of odd generations.
    exec: [AtomicU64; 2],
    /// Generation and outcome, of even and of odd generations.
    verdict: [AtomicU64; 2],
    /// The machine that is waited for, from 1; 0 = none is known.
    awaits: AtomicU32,
}

/// Bits of one failure's number in a vote.
const FAILURE: u32 = 8;

const PASSED: u32 = 1;
const FAILED: u32 = 0x100;

fn place(generation: u32) -> usize {
    (generation & 1) as usize
}

fn packed(generation: u32, low: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(low)
}

fn unpacked(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Channel {
    /// Takes the only seat; false = it is taken.
    pub(super) fn take(&self) -> bool {
        // Acquire pairs with the release in `leave`: the next worker sees the votes of the last.
        !self.taken.swap(true, Ordering::Acquire)
    }

    /// Gives the seat back.
    pub(super) fn leave(&self) {
        // Release pairs with the acquire in `take`.
        self.taken.store(false, Ordering::Release);
    }

    /// The generation that was voted on last, for a worker that takes over.
    pub(super) fn generation(&self) -> u32 {
        // Relaxed: the taking of the seat has made it visible.
        unpacked(self.vote.load(Ordering::Relaxed)).0
    }

    /// Worker: votes on a generation, the next one or the same once more.
    pub(super) fn cast(&self, generation: u32, vote: Vote) {
        // Relaxed: only the worker writes it.
        let (last, low) = unpacked(self.vote.load(Ordering::Relaxed));
        let before = if last == generation {
            low >> FAILURE
        } else {
            low & 0xFF
        };
        let now = match vote {
            Vote::Arrived(exec) => {
                // Release pairs with the acquire in `vote`: who reads an id of a later generation sees the vote that came before it.
                self.exec[place(generation)].store(exec, Ordering::Release);
                0
            }
            Vote::Failed(why) => why.number(),
        };
        // Release pairs with the acquire in `vote`: who sees it sees the execution id.
        let low = now | before << FAILURE;
        self.vote.store(packed(generation, low), Ordering::Release);
    }

    /// Thread: the last vote.
    pub(super) fn vote(&self) -> Ballot {
        loop {
            // Acquire pairs with the release in `cast`, here and below.
            let word = self.vote.load(Ordering::Acquire);
            let (generation, low) = unpacked(word);
            let ballot = |vote| Ballot {
                generation,
                vote,
                before: Elsewhere::from_number(low >> FAILURE),
            };
            if let Some(why) = Elsewhere::from_number(low & 0xFF) {
                return ballot(Vote::Failed(why));
            }
            // Acquire pairs with the release of the id in `cast`.
            let exec = self.exec[place(generation)].load(Ordering::Acquire);
            // Acquire as above. An id of two generations later was stored after a vote that is seen now.
            if self.vote.load(Ordering::Acquire) == word {
                return ballot(Vote::Arrived(exec));
            }
        }
    }

    /// Thread: tells the worker how a generation ended.
    pub(super) fn decide(&self, generation: u32, outcome: Outcome) {
        let low = match outcome {
            Ok(()) => PASSED,
            Err((machine, why)) => FAILED | why.number() << 16 | u32::from(machine),
        };
        // Release pairs with the acquire in `outcome`.
        self.verdict[place(generation)].store(packed(generation, low), Ordering::Release);
    }

    /// Worker: how a generation ended, if it is decided.
    pub(super) fn outcome(&self, generation: u32) -> Option<Outcome> {
        // Acquire pairs with the release in `decide`: what the other machines did before is visible.
        let word = self.verdict[place(generation)].load(Ordering::Acquire);
        let (decided, low) = unpacked(word);
        if decided != generation || low == 0 {
            return None;
        }
        let [machine, ..] = low.to_le_bytes();
        match Elsewhere::from_number(low >> 16) {
            Some(why) => Some(Err((machine, why))),
            None => Some(Ok(())),
        }
    }

    /// Thread: notes which machine is waited for.
    pub(super) fn set_awaited(&self, machine: Option<u8>) {
        let word = machine.map_or(0, |machine| u32::from(machine) + 1);
        // Relaxed: a word for messages.
        self.awaits.store(word, Ordering::Relaxed);
    }

    /// Worker: which machine is waited for.
    pub(super) fn awaited(&self) -> Option<u8> {
        // Relaxed: a word for messages.
        let word = self.awaits.load(Ordering::Relaxed);
        u8::try_from(word.checked_sub(1)?).ok()
    }
}
