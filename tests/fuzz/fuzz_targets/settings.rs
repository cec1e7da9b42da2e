//! Fuzz target: settings out of any environment; see the body.
#![no_main]

#[path = "../bodies/input.rs"]
mod input;
#[path = "../bodies/settings.rs"]
mod settings;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = settings::run(data);
});
