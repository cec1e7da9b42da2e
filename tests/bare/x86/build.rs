//! Links with this folder's script, at fixed addresses: the entry names them in 16-bit and 32-bit code.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo names the folder");
    println!("cargo:rerun-if-changed=link.ld");
    println!("cargo:rustc-link-arg-bins=-T{here}/link.ld");
    println!("cargo:rustc-link-arg-bins=--no-pie");
    println!("cargo:rustc-link-arg-bins=--build-id=none");
}
