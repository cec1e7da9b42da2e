//! Gives the linker the memory of the emulated board that each target is run on.

use std::path::PathBuf;
use std::{env, fs};

/// Flash and RAM by target: lm3s6965evb for ARMv7-M, microbit for ARMv6-M.
const BOARDS: [(&str, &str, &str); 2] = [
    ("thumbv7m-none-eabi", "256K", "64K"),
    ("thumbv6m-none-eabi", "256K", "16K"),
];

fn main() {
    let target = env::var("TARGET").expect("cargo names the target");
    let board = BOARDS.iter().find(|(name, ..)| *name == target);
    let (_, flash, ram) = board.expect("the target is one of those with a board");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo names a folder"));
    let memory = format!(
        "MEMORY {{\n    FLASH : ORIGIN = 0x00000000, LENGTH = {flash}\n    RAM : ORIGIN = 0x20000000, LENGTH = {ram}\n}}\n"
    );
    fs::write(out.join("memory.x"), memory).expect("the folder takes a file");
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rerun-if-changed=build.rs");
    for argument in ["--nmagic", "-Tlink.x", "-Tdefmt.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
