//! H73: the C interface, called in any order with any arguments, neither panics nor crashes nor hangs.
//!
//! The body is the fuzz target's; here it runs over the committed corpus and over seeded random inputs, without a fuzzer.
#![allow(unsafe_code, reason = "the body calls functions of C")]
#![allow(
    clippy::wildcard_imports,
    reason = "the body uses nearly every exported name"
)]

#[path = "../../fuzz/bodies/c_api.rs"]
mod c_api;
#[path = "../../fuzz/bodies/input.rs"]
mod input;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use c_api::Tally;
use proxy_checks::script;

/// Inputs of the plain run; a longer one is asked for by `PROXY_FUZZ_SECONDS`.
const INPUTS: u64 = 150;

/// A seeded generator (splitmix).
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    };
    let words = (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes());
    words.take(length).collect()
}

#[test]
fn h73_h74_calls_in_any_order_with_any_arguments_do_no_harm() {
    let library =
        CString::new(script::library().path().as_os_str().as_bytes()).expect("no zero byte");
    let seconds = std::env::var("PROXY_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let limit = seconds.map(Duration::from_secs);
    let since = Instant::now();
    let (mut all, mut inputs) = (Tally::default(), 0);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/c_api");
    let mut run = |input: &[u8]| {
        let tally = c_api::run(input, &library);
        all.good += tally.good;
        all.refused += tally.refused;
    };
    let mut seeds = 0;
    for seed in fs::read_dir(&corpus).expect("the corpus is committed") {
        run(&fs::read(seed.expect("an entry").path()).expect("a file"));
        seeds += 1;
    }
    assert!(seeds >= 8, "seeds went missing");
    let more = |inputs| limit.map_or(inputs < INPUTS, |limit| since.elapsed() < limit);
    while more(inputs) {
        run(&bytes(inputs, 1024));
        inputs += 1;
    }
    println!(
        "{seeds} seeds, {inputs} random inputs, {} calls succeeded, {} were refused",
        all.good, all.refused
    );
    // The inputs reach both sides of the interface.
    assert!(all.good * 20 > all.refused, "{all:?}");
    assert!(all.refused > all.good, "{all:?}");
}
