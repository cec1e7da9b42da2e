//! Lets the library that the example opens find the one symbol that it takes from its host, and keeps the shared library mapped after a dlclose, as
//! the one that is installed is.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-link-arg-examples=-Wl,--export-dynamic-symbol=nec_inc_semaphore");
}
