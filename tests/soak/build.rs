//! Lets the library that the rank processes open find the one symbol that it takes from its host.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=nec_inc_semaphore");
}
