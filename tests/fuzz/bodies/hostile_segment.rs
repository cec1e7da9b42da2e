//! A bus whose every word may be anything at any time: the input becomes a segment, and a list of steps that ranks take
//! in it while somebody scribbles.
//!
//! Whatever it says, no step may panic, index out of bounds or run for longer than its bound, and what a step returns must be
//! possible: a message no longer than the buffer, a rank of this bus, a word of this segment.
//! The same body runs under libFuzzer and, over seeded inputs, as a plain test.

use core::sync::atomic::Ordering;

use proxy_core::phone::barrier::{Elsewhere, Gather, Meeting, Participant, RankSet, Verdict};
use proxy_core::phone::layout::{Geometry, HEADER, LINE, Segment};
use proxy_core::phone::member::Members;
use proxy_core::phone::ring::{Producer, Reader, RecvError, SendError, To, capacity};
use proxy_core::phone::{Corrupt, Wake, Word};

/// Steps of one input at most.
const STEPS: usize = 4096;

/// The input, read from its start. At its end it is all zero.
struct Input<'d>(&'d [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        number % limit
    }

    /// A rank, rarely one that is not on the bus.
    fn rank(&mut self, world: u16) -> u16 {
        match self.byte() {
            0xFF => u16::MAX,
            byte => u16::from(byte) % (world + u16::from(byte >= 0xF0)),
        }
    }

    /// A word: any, or one of those that are near to something.
    fn word(&mut self) -> u32 {
        match self.byte() % 4 {
            0 => self.byte().into(),
            1 => u32::MAX - u32::from(self.byte()),
            2 => 1 << 31 | u32::from(self.byte()),
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }
}

/// One rank's ends of everything.
struct Ends<'w> {
    producer: Producer<'w>,
    readers: Vec<Reader<'w>>,
    participants: Vec<Participant<'w>>,
}

impl<'w> Ends<'w> {
    fn of(segment: Segment<'w>, me: u16) -> Option<Self> {
        let geometry = segment.geometry();
        let all = RankSet::below(geometry.world());
        Some(Self {
            producer: Producer::new(segment, me)?,
            readers: (0..geometry.world())
                .filter_map(|from| Reader::new(segment, from, me))
                .collect(),
            participants: (0..geometry.barriers())
                .filter_map(|barrier| Participant::new(segment, barrier, me, all))
                .collect(),
        })
    }
}

/// What came of the steps of one input, so that a run can show that it got anywhere.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Messages sent.
    pub(crate) sent: u64,
    /// Messages received.
    pub(crate) received: u64,
    /// Verdicts found or read.
    pub(crate) verdicts: u64,
    /// Of these, by a meeting of two.
    pub(crate) met: u64,
    /// Lies that were noticed, by name.
    pub(crate) corrupt: u64,
}

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> Tally {
    let mut input = Input(data);
    let world = u16::from(input.byte() % 4) + 1;
    let barriers = u16::from(input.byte() % 3);
    let cells = 2 << (input.byte() % 4);
    let Ok(geometry) = Geometry::new(world, barriers, cells) else {
        unreachable!("sizes in range");
    };
    let words: Vec<Word> = (0..geometry.words()).map(|_| Word::new(0)).collect();
    match input.byte() % 4 {
        // Nothing but what the input says, the header too.
        0 => fill(&mut input, &words),
        1 => {
            let _ = Segment::create(&words, geometry);
            fill(&mut input, words.get(HEADER..).unwrap_or(&[]));
        }
        _ => {
            let _ = Segment::create(&words, geometry);
        }
    }
    match Segment::attach(&words) {
        Ok(segment) => steps(input.0, segment),
        Err(_) => Tally::default(),
    }
}

fn fill(input: &mut Input<'_>, words: &[Word]) {
    let given = usize::from(input.byte()) * 4;
    for word in words.iter().take(given) {
        word.store(input.word(), Ordering::Relaxed);
    }
}

/// Takes the steps that the data says, in a segment whose header was in order.
pub(crate) fn steps(data: &[u8], segment: Segment<'_>) -> Tally {
    let (mut input, mut tally) = (Input(data), Tally::default());
    let (input, tally) = (&mut input, &mut tally);
    let world = segment.geometry().world();
    let mut ends: Vec<_> = (0..world).filter_map(|me| Ends::of(segment, me)).collect();
    for _ in 0..STEPS {
        if input.0.is_empty() {
            break;
        }
        let step = input.byte();
        let me = input.below(ends.len().max(1));
        let Some(own) = ends.get_mut(me) else {
            break;
        };
        match step % 8 {
            0 => scribble(input, segment),
            1 => member(input, segment),
            2 | 3 => send(input, segment, own, tally),
            4 | 5 => receive(input, segment, own, tally),
            6 => barrier(input, segment, own, tally),
            _ => signals(input, segment, own),
        }
        if step == 0xFF
            && let Some(again) = u16::try_from(me).ok().and_then(|me| Ends::of(segment, me))
        {
            *own = again;
        }
    }
    core::mem::take(tally)
}

/// Writes over some word, mostly one that means something.
fn scribble(input: &mut Input<'_>, segment: Segment<'_>) {
    let words = segment.words();
    let line = input.below(words.len().div_ceil(LINE)) * LINE;
    let place = usize::from(input.byte() % 20).min(LINE - 1);
    if let Some(word) = words.get(line + place) {
        word.store(input.word(), Ordering::Relaxed);
    }
}

fn check_wake(segment: Segment<'_>, wake: Wake) {
    if let Wake::Word(index) = wake {
        assert!(index < segment.words().len(), "word {index} is woken");
    }
}

fn member(input: &mut Input<'_>, segment: Segment<'_>) {
    let members = Members::of(segment);
    let rank = input.rank(segment.geometry().world());
    let changed = match input.byte() % 6 {
        0 => members.join(rank, 1, 2).ok(),
        1 => members.ready(rank).ok(),
        2 => members.leave(rank).ok(),
        3 => members.die(rank).ok().flatten(),
        4 => members.process(rank).map(|_| Wake::Nobody),
        _ => Segment::attach(segment.words()).ok().map(|_| Wake::Nobody),
    };
    check_wake(segment, changed.unwrap_or(Wake::Nobody));
    if let Ok(state) = members.state(rank) {
        assert!(rank < segment.geometry().world(), "{rank} is {state}");
    }
}

fn send(input: &mut Input<'_>, segment: Segment<'_>, own: &mut Ends<'_>, tally: &mut Tally) {
    let geometry = segment.geometry();
    let limit = capacity(geometry.cells());
    let length = input.below(limit + 2);
    let message: Vec<u8> = (0..length).map(|at| at.to_le_bytes()[0]).collect();
    let to = match input.byte() % 2 {
        0 => To::Everybody,
        _ => To::Rank(input.rank(geometry.world())),
    };
    match own.producer.try_send(to, input.word(), &message) {
        Ok(wake) => {
            assert!(length <= limit, "{length} bytes are more than a ring");
            tally.sent += 1;
            check_wake(segment, wake);
        }
        Err(SendError::Full { reader }) => {
            assert!(own.producer.room(reader).is_some(), "no such reader");
        }
        Err(SendError::TooLong { bytes, .. }) => assert_eq!((bytes, length), (limit + 1, bytes)),
        Err(SendError::NoSuchRank { rank }) => assert_eq!(to, To::Rank(rank)),
        Err(SendError::Corrupt(corrupt)) => {
            tally.corrupt += 1;
            assert!(corrupt.rank < geometry.world());
        }
    }
}

fn receive(input: &mut Input<'_>, segment: Segment<'_>, own: &mut Ends<'_>, tally: &mut Tally) {
    let room = input.below(capacity(segment.geometry().cells()) + 2);
    let from = input.below(own.readers.len().max(1));
    let mut buffer = vec![0xEE; room + 8];
    let Some(reader) = own.readers.get_mut(from) else {
        return;
    };
    let (inside, outside) = buffer.split_at_mut(room);
    match reader.try_recv(inside) {
        Ok(received) => {
            tally.received += 1;
            assert!(received.bytes <= room, "longer than the buffer");
            check_wake(segment, received.wake);
        }
        Err(RecvError::TooSmall { bytes }) => assert!(bytes > room, "{bytes} bytes fit"),
        Err(RecvError::Corrupt(_)) => tally.corrupt += 1,
        Err(RecvError::Empty) => {}
    }
    assert_eq!(outside, [0xEE; 8], "written behind the buffer");
}

fn barrier(input: &mut Input<'_>, segment: Segment<'_>, own: &mut Ends<'_>, tally: &mut Tally) {
    let at = input.below(own.participants.len().max(1));
    let Some(participant) = own.participants.get_mut(at) else {
        return;
    };
    let world = segment.geometry().world();
    let exec = u64::from(input.byte() % 2) << 32;
    match input.byte() % 12 {
        0 => check_wake(segment, participant.arrive(exec)),
        1 => match participant.gather(exec) {
            Gather::Pending(rank) | Gather::OtherExecution(rank) => {
                assert!(participant.arrival_of(rank).is_some(), "no such rank");
            }
            Gather::Complete => {}
        },
        2 => {
            let rank = input.rank(world);
            let opinion = match input.byte() % 6 {
                0 => Verdict::Passed,
                1 => Verdict::TimedOut(rank),
                2 => Verdict::Gone(rank),
                3 => Verdict::OtherExecution(rank),
                4 => Verdict::Elsewhere(input.byte(), Elsewhere::Gone),
                _ => Verdict::Cancelled(rank),
            };
            let decided = participant.decide(opinion);
            if let Ok((_, wake)) = decided {
                check_wake(segment, wake);
            }
            check_verdict(decided.map(|(verdict, _)| Some(verdict)), world, tally);
        }
        3 => check_verdict(participant.verdict(), world, tally),
        4 => {
            let (decided, wake) = participant.forgo(exec);
            check_wake(segment, wake);
            check_verdict(decided.map(|(verdict, _)| Some(verdict)), world, tally);
        }
        5 => match participant.claim() {
            Ok(Ok(())) => {}
            Ok(Err(other)) => assert!(other.rank < world, "claimed by {}", other.rank),
            Err(_) => tally.corrupt += 1,
        },
        6 | 7 => check_wake(segment, participant.arrive_ready(exec)),
        8..11 => meet(participant, exec, world, tally),
        _ => {
            participant.await_machine(Some(input.byte()).filter(|machine| *machine != 0));
            let _ = participant.awaited_machine();
        }
    }
    let all = participant.participants();
    assert!(participant.missing().iter().all(|rank| all.has(rank)));
}

fn meet(participant: &mut Participant<'_>, exec: u64, world: u16, tally: &mut Tally) {
    match participant.meet(exec) {
        Ok(Meeting::Over(verdict)) => {
            tally.met += 1;
            check_verdict(Ok(Some(verdict)), world, tally);
        }
        Ok(Meeting::Missing(rank)) => {
            assert!(participant.arrival_of(rank).is_some(), "no such rank");
        }
        Ok(Meeting::None) => {}
        Err(_) => tally.corrupt += 1,
    }
}

fn check_verdict(read: Result<Option<Verdict>, Corrupt>, world: u16, tally: &mut Tally) {
    match read {
        Ok(None) => {}
        Ok(Some(Verdict::Passed | Verdict::Elsewhere(..))) => tally.verdicts += 1,
        Ok(Some(
            Verdict::TimedOut(rank)
            | Verdict::Gone(rank)
            | Verdict::OtherExecution(rank)
            | Verdict::Cancelled(rank),
        )) => {
            tally.verdicts += 1;
            assert!(rank < world, "a verdict on rank {rank}");
        }
        Err(_) => tally.corrupt += 1,
    }
}

fn signals(input: &mut Input<'_>, segment: Segment<'_>, own: &Ends<'_>) {
    let rank = input.rank(segment.geometry().world());
    for signal in segment.signals_of(rank) {
        check_wake(segment, signal.nudge());
    }
    let slept = match input.byte() % 4 {
        0 => segment.member_signal(rank),
        1 => own.producer.room(rank),
        2 => own.readers.first().map(Reader::news),
        _ => own.participants.first().map(Participant::released),
    };
    if let Some(signal) = slept {
        let sleeping = signal.sleep();
        assert!(sleeping.index() < segment.words().len());
        check_wake(segment, signal.nudge());
    }
}
