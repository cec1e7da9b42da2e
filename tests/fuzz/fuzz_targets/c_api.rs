//! The C interface, called in any order with any arguments; see the body. `PROXY_SCRIPTED_LIB` names the scripted library.
#![no_main]

#[path = "../bodies/c_api.rs"]
mod c_api;
#[path = "../bodies/input.rs"]
mod input;

use std::ffi::CString;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let library = std::env::var("PROXY_SCRIPTED_LIB").expect("PROXY_SCRIPTED_LIB");
    let library = CString::new(library).expect("no zero byte");
    let _ = c_api::run(data, &library);
});
