//! Fuzz target: queue and driver beside the oracle; see the body.
#![no_main]

#[path = "../bodies/driver_ops.rs"]
mod driver_ops;
#[path = "../bodies/input.rs"]
mod input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = driver_ops::run(data);
});
