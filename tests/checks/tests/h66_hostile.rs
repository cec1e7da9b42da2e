//! H66: nothing that a peer writes into the bus makes another rank panic, run for ever or leave its buffers.
//!
//! The body is the fuzz target's; here it runs over seeded random inputs and the committed seeds, without a fuzzer.

#[path = "../../fuzz/bodies/hostile_segment.rs"]
mod hostile_segment;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use hostile_segment::Tally;
use proxy_core::phone::Word;
use proxy_core::phone::layout::{Geometry, Segment};

/// Inputs of the plain run.
const INPUTS: u64 = 200_000;

/// A seeded generator (splitmix).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(length).collect()
    }
}

#[test]
fn h66_random_segments_and_steps_do_no_harm() {
    let mut all = Tally::default();
    for seed in 0..INPUTS {
        let mut random = Random(seed);
        let length = usize::try_from(random.next() % 400).unwrap();
        let input = random.bytes(length);
        let outcome = std::panic::catch_unwind(|| hostile_segment::run(&input));
        let Ok(tally) = outcome else {
            panic!("seed {seed}");
        };
        all.sent += tally.sent;
        all.received += tally.received;
        all.verdicts += tally.verdicts;
        all.met += tally.met;
        all.corrupt += tally.corrupt;
    }
    println!("{all:?}");
    let least = all.sent.min(all.received).min(all.verdicts);
    assert!(least.min(all.corrupt) > INPUTS / 100, "{all:?}");
    // Of two ranks only, and if both are ready for the same execution.
    assert!(all.met > INPUTS / 2000, "{all:?}");
}

#[test]
fn h66_the_seeds_of_the_fuzz_target_do_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/hostile_segment");
    let mut seeds = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let _ = hostile_segment::run(&fs::read(entry.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0);
}

/// A fuzzer finds its way past the header sooner if it is shown one, and a seed of an old layout would show it nothing.
#[test]
fn h66_the_seed_with_a_header_has_that_of_this_layout() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/hostile_segment");
    let seed = fs::read(corpus.join("seed-header")).unwrap();
    // The input's bytes for a word that may have any value.
    let header = Geometry::new(2, 0, 2).unwrap().header();
    let words = header.iter().map(|word| word.to_le_bytes());
    let wanted: Vec<u8> = words.flat_map(|[a, b, c, d]| [3, a, b, c, d]).collect();
    assert_eq!(seed[5..][..wanted.len()], wanted);
    assert!(hostile_segment::run(&seed).sent > 0);
}

#[test]
fn h66_the_seed_with_a_meeting_has_one() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/hostile_segment");
    let seed = fs::read(corpus.join("seed-meeting")).unwrap();
    assert_eq!(hostile_segment::run(&seed).met, 2, "both ranks");
}

/// A peer scribbles all the time, also in the middle of a step.
#[test]
fn h66_a_peer_that_scribbles_meanwhile_does_no_harm() {
    scribbled(3);
}

/// The other one of two that meet at the barrier.
#[test]
fn h66_a_partner_that_scribbles_meanwhile_does_no_harm() {
    scribbled(2);
}

fn scribbled(world: u16) {
    let geometry = Geometry::new(world, 2, 4).unwrap();
    let words: Vec<Word> = (0..geometry.words()).map(|_| Word::new(0)).collect();
    let segment = Segment::create(&words, geometry).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let scribbler = scope.spawn(|| {
            let mut random = Random(1);
            let mut written = 0_u64;
            // Relaxed: only says when to stop.
            while !over.load(Ordering::Relaxed) {
                let place = random.next();
                let at = usize::try_from(place >> 8).unwrap() % words.len();
                let value = u32::try_from(random.next() & 0xFFFF_FFFF).unwrap();
                // Small values are valid more often.
                words[at].store(value >> (place & 31), Ordering::Relaxed);
                written += 1;
            }
            written
        });
        let steps = scope.spawn(|| {
            for seed in 0..5000 {
                let _ = hostile_segment::steps(&Random(seed).bytes(400), segment);
            }
        });
        let outcome = steps.join();
        over.store(true, Ordering::Relaxed);
        assert!(scribbler.join().unwrap() > 0);
        assert!(outcome.is_ok());
    });
}
