//! Fuzz target: records of one basic block; see the body.
#![no_main]

#[path = "../bodies/fifo_records.rs"]
mod fifo_records;
#[path = "../bodies/input.rs"]
mod input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = fifo_records::run(data);
});
