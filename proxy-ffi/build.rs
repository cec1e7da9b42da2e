//! Lets the library that the example opens find the one symbol that it takes from its host.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-examples=-Wl,--export-dynamic-symbol=nec_inc_semaphore");
}
