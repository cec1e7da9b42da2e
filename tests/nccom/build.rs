//! Lets the test binaries export the one symbol that the library takes from the process that opens it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-tests=-Wl,--export-dynamic-symbol=nec_inc_semaphore");
}
