//! A bus whose every word may be anything at any time; see the body.
#![no_main]

#[path = "../bodies/hostile_segment.rs"]
mod hostile_segment;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hostile_segment::run(data);
});
