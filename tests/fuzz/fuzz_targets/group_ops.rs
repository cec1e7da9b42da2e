//! Fuzz target: groups beside a second implementation; see the body.
#![no_main]

#[path = "../bodies/group_ops.rs"]
mod group_ops;
#[path = "../bodies/input.rs"]
mod input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = group_ops::run(data);
});
