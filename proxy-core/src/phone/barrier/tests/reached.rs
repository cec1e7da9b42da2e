//! Every state that a small barrier can reach, by the real code and by a plain second one that remembers how every generation ended.
//!
//! Requirements: H21.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails"
)]

use std::collections::{BTreeSet, HashSet};
use std::vec::Vec;

use super::on_barrier;
use crate::phone::Wake;
use crate::phone::barrier::{Gather, Meeting, Participant, RankSet, Verdict};
use crate::phone::layout::Segment;
use crate::sync::Ordering;

/// What a rank does next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Arrive(u64),
    /// To do nothing but to pass.
    Ready(u64),
    Forgo,
    /// The leader's: gather, and decide what it has found.
    Look,
    TimeOut,
    Read,
}

const STEPS: [Step; 8] = [
    Step::Arrive(1),
    Step::Arrive(2),
    Step::Ready(1),
    Step::Ready(2),
    Step::Forgo,
    Step::Look,
    Step::TimeOut,
    Step::Read,
];

/// A rank as the plain barrier knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Rank {
    generation: usize,
    exec: u64,
    /// It has arrived and does not know the verdict.
    waits: bool,
    /// It arrived ready at this generation.
    ready: bool,
}

/// The plain barrier.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Plain {
    ranks: Vec<Rank>,
    /// How each generation ended, from the first.
    ends: Vec<Verdict>,
}

impl Plain {
    /// What a rank at this generation is told. Of a failure it may be told a later one.
    fn standing(&self, generation: usize) -> Option<Verdict> {
        match *self.ends.get(generation - 1)? {
            Verdict::Passed => Some(Verdict::Passed),
            _ => self.ends.last().copied(),
        }
    }

    fn decide(&mut self, generation: usize, opinion: Verdict) -> Verdict {
        if self.ends.len() < generation {
            assert_eq!(self.ends.len() + 1, generation, "one after the other");
            self.ends.push(opinion);
        }
        self.standing(generation).unwrap()
    }

    /// A rank has come ready: two that are, for one execution, pass.
    fn meet(&mut self, generation: usize) {
        let [one, other] = self.ranks[..] else { return };
        let met = one.ready && other.ready && one.generation == other.generation;
        if met && one.exec == other.exec && self.ends.len() < generation {
            self.ends.push(Verdict::Passed);
        }
    }

    fn gather(&self) -> Gather {
        let Rank {
            generation, exec, ..
        } = self.ranks[0];
        let others = (0..).zip(&self.ranks);
        let mut found = others.filter_map(|(number, rank)| match rank {
            rank if rank.generation < generation => Some(Gather::Pending(number)),
            rank if rank.exec != exec => Some(Gather::OtherExecution(number)),
            _ => None,
        });
        found.next().unwrap_or(Gather::Complete)
    }

    fn may(&self, me: usize, step: Step, last: usize) -> bool {
        let rank = self.ranks[me];
        match step {
            // It is enough that one of them differs; and of three all are alike, ready or not.
            Step::Arrive(2) | Step::Ready(2) if me == 0 => false,
            Step::Ready(_) if self.ranks.len() > 2 => false,
            Step::Arrive(_) | Step::Ready(_) | Step::Forgo => !rank.waits && rank.generation < last,
            Step::Look => rank.waits && me == 0,
            Step::TimeOut | Step::Read => rank.waits,
        }
    }
}

/// Everything: the words that are not 0, what each rank keeps for itself, and the plain barrier.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    words: Vec<(usize, u32)>,
    own: Vec<(u32, u32, RankSet)>,
    plain: Plain,
}

/// What is there now.
fn saved(segment: Segment<'_>, all: &[Participant<'_>], plain: Plain) -> State {
    let words = segment.words().iter().enumerate();
    // Relaxed: one thread.
    let words = words.map(|(at, word)| (at, word.load(Ordering::Relaxed)));
    let own = (all.iter()).map(|rank| (rank.generation, rank.passed, rank.pending));
    State {
        words: words.filter(|(_, word)| *word != 0).collect(),
        own: own.collect(),
        plain,
    }
}

/// Goes back to a state.
fn restore(segment: Segment<'_>, all: &mut [Participant<'_>], state: &State) {
    // Relaxed, both: one thread.
    segment
        .words()
        .iter()
        .for_each(|word| word.store(0, Ordering::Relaxed));
    for (at, word) in &state.words {
        segment.words()[*at].store(*word, Ordering::Relaxed); // as above
    }
    for (rank, own) in all.iter_mut().zip(&state.own) {
        (rank.generation, rank.passed, rank.pending) = *own;
    }
}

/// A rank arrives, in one of the two ways.
fn come(rank: &mut Participant<'_>, at: &mut Rank, exec: u64) {
    (at.exec, at.waits) = (exec, true);
    let wake = if at.ready {
        rank.arrive_ready(exec)
    } else {
        rank.arrive(exec)
    };
    assert_eq!(wake, Wake::Nobody);
}

/// What a leader that looks has found, or how it met.
fn gathered(rank: &mut Participant<'_>, exec: u64) -> Result<Verdict, Gather> {
    match rank.meet(exec).unwrap() {
        Meeting::Over(verdict) => Ok(verdict),
        Meeting::Missing(other) => Err(Gather::Pending(other)),
        Meeting::None => Err(rank.gather(exec)),
    }
}

/// What a rank that waits is told.
fn told(rank: &mut Participant<'_>, exec: u64) -> Option<Verdict> {
    match rank.meet(exec).unwrap() {
        Meeting::Over(verdict) => Some(verdict),
        Meeting::Missing(_) => None,
        Meeting::None => rank.verdict().unwrap(),
    }
}

/// Takes a step on both sides and compares; returns the edge as it is numbered in the drawing.
fn step(rank: &mut Participant<'_>, plain: &mut Plain, step: Step) -> u32 {
    let me = usize::from(rank.me);
    let decided = plain.ends.len();
    let at = &mut plain.ranks[me];
    if let Step::Arrive(_) | Step::Ready(_) | Step::Forgo = step {
        at.generation += 1;
        at.ready = matches!(step, Step::Ready(_));
    }
    let generation = at.generation;
    // How a decision that may be late comes out.
    let decide = |plain: &mut Plain, found: Verdict, opinion: Verdict, edge: u32| {
        assert_eq!(found, plain.decide(generation, opinion));
        plain.ranks[me].waits = false;
        if decided < generation { edge } else { 10 }
    };
    match step {
        Step::Arrive(exec) | Step::Ready(exec) => {
            come(rank, at, exec);
            plain.meet(generation);
            1
        }
        Step::Forgo => {
            at.exec = 1;
            let found = rank.forgo(1).0.unwrap().0;
            decide(plain, found, Verdict::Cancelled(rank.me), 2)
        }
        Step::Look => {
            let found = match gathered(rank, at.exec) {
                Ok(verdict) => return decide(plain, verdict, verdict, 7),
                Err(found) => found,
            };
            // Once it is decided, others may have gone on, and what is found decides nothing.
            if decided < generation {
                assert_eq!(found, plain.gather());
            }
            let (opinion, edge) = match found {
                Gather::Pending(_) => return 6,
                Gather::Complete => (Verdict::Passed, 7),
                Gather::OtherExecution(other) => (Verdict::OtherExecution(other), 8),
            };
            decide(plain, rank.decide(opinion).unwrap().0, opinion, edge)
        }
        Step::TimeOut => {
            let opinion = Verdict::TimedOut(rank.me);
            decide(plain, rank.decide(opinion).unwrap().0, opinion, 9)
        }
        Step::Read => {
            let found = told(rank, at.exec);
            assert_eq!(found, plain.standing(generation));
            plain.ranks[me].waits = found.is_none();
            match found {
                None => 3,
                Some(Verdict::Passed) if decided > generation => 5,
                Some(_) => 4,
            }
        }
    }
}

/// Every state of a barrier of so many ranks up to its `last` generation; returns how many there are, and the edges that led there.
fn explore(world: u16, last: usize) -> (usize, BTreeSet<u32>) {
    let (mut known, mut taken) = (HashSet::new(), BTreeSet::new());
    on_barrier(world, |segment, mut all| {
        let plain = Plain {
            ranks: std::vec![Rank::default(); all.len()],
            ends: Vec::new(),
        };
        let mut open = std::vec![saved(segment, &all, plain)];
        while let Some(state) = open.pop() {
            for me in 0..all.len() {
                let may = |step: &&Step| state.plain.may(me, **step, last);
                for next in STEPS.iter().filter(may) {
                    restore(segment, &mut all, &state);
                    let mut plain = state.plain.clone();
                    taken.insert(step(&mut all[me], &mut plain, *next));
                    let after = saved(segment, &all, plain);
                    if known.insert(after.clone()) {
                        open.push(after);
                    }
                }
            }
        }
    });
    (known.len(), taken)
}

#[test]
fn h21_every_state_of_small_barriers_is_as_the_plain_one_and_every_drawn_edge_is_taken() {
    // Ranks, generations, and how many states these reach. An interpreter is thousands of times slower, and does not come to all edges.
    let worlds: &[(u16, usize, usize)] = if cfg!(miri) {
        &[(2, 1, 111)]
    } else {
        &[(2, 3, 66653), (3, 2, 5505)]
    };
    let mut all = BTreeSet::new();
    for (world, last, reached) in worlds {
        let (states, mut taken) = explore(*world, *last);
        assert_eq!(states, *reached, "{world} ranks, {last} generations");
        all.append(&mut taken);
    }
    assert!(cfg!(miri) || all.iter().copied().eq(1..=10), "{all:?}");
}
