//! Many worlds, each from a seed; and what is said about one that fails.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::choice::{Choices, shrink};
use crate::counts::Counts;
use crate::world::World;

/// Runs that shrinking a failure may take.
const SHRINKING: u32 = 4_000;

/// Lines of a trace that are shown at most; what comes before is left out.
const SHOWN: usize = 60;

/// A world that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
    /// Choices before and after shrinking.
    pub choices: (usize, usize),
    /// What was wrong with the shrunk world, which may be another symptom.
    pub shrunk: String,
    /// The events of the shrunk world.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (before, after) = self.choices;
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        writeln!(
            f,
            "shrunk from {before} to {after} choices: {}",
            self.shrunk
        )?;
        let skipped = self.trace.len().saturating_sub(SHOWN);
        if skipped > 0 {
            writeln!(f, "  ... {skipped} events before")?;
        }
        for line in &self.trace[skipped..] {
            writeln!(f, "  {line}")?;
        }
        write!(f, "rerun: cargo xtask sim --seed {}", self.seed)
    }
}

/// Keeps panics of a driver under test from being printed a thousand times while a failure is shrunk: they are caught, and told
/// once, with the failure.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(NAME) {
                usual(info);
            }
        }));
    });
}

/// Name of the threads on which worlds run.
const NAME: &str = "world";

/// One world; a failure is shrunk with at most so many tries.
fn one(seed: u64, tries: u32) -> Result<Counts, Failure> {
    let mut world = World::new(Choices::random(seed), false);
    match world.run() {
        Ok(()) => Ok(*world.counts()),
        Err(what) => Err(explain(seed, what, world.script(), tries)),
    }
}

fn explain(seed: u64, what: String, script: Vec<u32>, tries: u32) -> Failure {
    let before = script.len();
    let rerun = |script: &[u32], traced| {
        let mut world = World::new(Choices::scripted(script.to_vec()), traced);
        let outcome = world.run();
        (world, outcome)
    };
    // Shrinking may end at another symptom of the mistake, but not at a hang, which is long, if it began elsewhere.
    let hangs = |what: &str| what.starts_with("hang");
    let shrunk = shrink(script, tries, |script| {
        let outcome = rerun(script, false).1;
        outcome.is_err_and(|now| hangs(&now) == hangs(&what))
    });
    let (world, outcome) = rerun(&shrunk, true);
    Failure {
        seed,
        what,
        choices: (before, shrunk.len()),
        shrunk: outcome.err().unwrap_or_default(),
        trace: world.trace().to_vec(),
    }
}

/// What many worlds came to.
#[derive(Debug)]
pub struct Outcome {
    /// Worlds that ran.
    pub worlds: u64,
    /// What they came across.
    pub counts: Counts,
    /// The failure with the lowest seed among those found.
    pub failure: Option<Failure>,
}

/// Runs the worlds of `count` seeds from `first` on, on as many threads; stops at the first failure, and shrinks it if asked to.
#[must_use]
pub fn many(first: u64, count: u64, threads: u32, shrinks: bool) -> Outcome {
    quiet_panics();
    let tries = if shrinks { SHRINKING } else { 0 };
    let next = AtomicU64::new(first);
    let end = first.saturating_add(count);
    let body = || {
        let mut mine = Outcome {
            worlds: 0,
            counts: Counts::default(),
            failure: None,
        };
        loop {
            // Relaxed: the number is the whole message.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return mine;
            }
            mine.worlds += 1;
            match one(seed, tries) {
                Ok(counts) => mine.counts += counts,
                Err(failure) => {
                    // Relaxed: nobody begins a later one.
                    next.store(end, Ordering::Relaxed);
                    mine.failure = Some(failure);
                    return mine;
                }
            }
        }
    };
    thread::scope(|scope| {
        let start = |_| {
            let thread = thread::Builder::new().name(NAME.to_owned());
            thread.spawn_scoped(scope, body).expect("a thread")
        };
        let all: Vec<_> = (0..threads.max(1)).map(start).collect();
        let joined = all
            .into_iter()
            .map(|thread| thread.join().expect("worlds catch panics"));
        joined.reduce(add).expect("at least one thread")
    })
}

fn add(mut one: Outcome, other: Outcome) -> Outcome {
    one.worlds += other.worlds;
    one.counts += other.counts;
    one.failure = match (one.failure, other.failure) {
        (Some(a), Some(b)) => Some(if a.seed < b.seed { a } else { b }),
        (a, b) => a.or(b),
    };
    one
}
