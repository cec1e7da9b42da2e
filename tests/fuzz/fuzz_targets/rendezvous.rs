//! Fuzz target: rendezvous records of the host bus; the door is in the bus, as what it reaches is private.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = proxy_os::bananaphone::fuzzing::rendezvous(data);
});
