//! The bodies of the fuzz targets over their committed corpora, and over seeded random inputs, without a fuzzer: so each runs
//! wherever the tests run. (`hostile_segment` has its own in `h66_hostile.rs`, the rendezvous records theirs beside the bus.)

#[path = "../../fuzz/bodies/driver_ops.rs"]
mod driver_ops;
#[path = "../../fuzz/bodies/fifo_records.rs"]
mod fifo_records;
#[path = "../../fuzz/bodies/group_ops.rs"]
mod group_ops;
#[path = "../../fuzz/bodies/input.rs"]
mod input;
#[path = "../../fuzz/bodies/settings.rs"]
mod settings;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use proxy_kit::oracle::XorShift;

/// Runs a body over its corpus and over `random` inputs that grow out of it; returns what it answered, summed.
fn over(target: &str, random: u64, body: impl Fn(&[u8]) -> usize) -> usize {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut seeds: Vec<Vec<u8>> = fs::read_dir(&corpus)
        .expect("the corpus is committed")
        .map(|entry| fs::read(entry.expect("an entry").path()).expect("a file"))
        .collect();
    seeds.sort();
    assert!(seeds.len() >= 5, "{target}: seeds went missing");
    let run = |what: &dyn Fn() -> String, input: &[u8]| {
        let outcome = catch_unwind(AssertUnwindSafe(|| body(input)));
        outcome.unwrap_or_else(|_| panic!("{target}: {}: {input:?}", what()))
    };
    let from_seeds: usize = seeds
        .iter()
        .map(|seed| run(&|| "a seed".to_owned(), seed))
        .sum();
    let mut source = XorShift::new(1);
    let grown = (0..random).map(|number| {
        let seed = usize::try_from(source.below(u64::try_from(seeds.len()).unwrap())).unwrap();
        let input = changed(&seeds[seed], &mut source);
        run(&|| format!("random input {number}"), &input)
    });
    let total = from_seeds + grown.sum::<usize>();
    println!(
        "{target}: {} seeds, {random} random inputs, answer {total}",
        seeds.len()
    );
    total
}

/// A seed with some bytes changed and some put behind.
fn changed(seed: &[u8], source: &mut XorShift) -> Vec<u8> {
    let byte = |source: &mut XorShift| source.next().to_le_bytes()[3];
    let mut input = seed.to_vec();
    for _ in 0..source.below(8) {
        if let Ok(length @ 1..) = u64::try_from(input.len()) {
            let at = usize::try_from(source.below(length)).unwrap();
            input[at] = byte(source);
        }
    }
    let more = source.below(40);
    input.extend((0..more).map(|_| byte(source)));
    input
}

#[test]
fn any_operations_agree_with_the_oracle() {
    let tasks = over("driver_ops", 5_000, driver_ops::run);
    assert!(tasks > 10_000, "inputs that do nothing show nothing");
}

#[test]
fn any_calls_on_groups_agree_with_the_drawing() {
    let good = over("group_ops", 50_000, group_ops::run);
    assert!(good > 100_000, "calls that are all refused show nothing");
}

#[test]
fn any_records_are_accepted_or_refused_by_name() {
    let accepted = over("fifo_records", 100_000, |input| {
        usize::from(fifo_records::run(input))
    });
    assert!(accepted > 1_000, "accepted arrays are looked at again");
}

#[test]
fn any_environment_is_read_or_refused_by_name() {
    let accepted = over("settings", 20_000, |input| {
        usize::from(settings::run(input))
    });
    assert!(accepted > 100, "both sides are reached");
}
