//! A short soak: every fault at least once, and some rounds more.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The stand-in library: the one that the caller names, else one that is built here.
fn library() -> PathBuf {
    std::env::var_os("PROXY_NCCOM_LIB").map_or_else(build, PathBuf::from)
}

fn build() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_proxy-soak"));
    let folder = folder.parent().expect("a folder");
    let target = folder.parent().expect("a target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--package", "nccom", "--target-dir"])
        .arg(target);
    assert!(cargo.status().expect("cargo runs").success());
    folder.join("libnccom.so")
}

fn soak(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_proxy-soak"));
    command.args(args).arg("--library").arg(library());
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

#[test]
fn a_short_soak_with_every_fault_is_clean() {
    let text = soak(&["--rounds", "16", "--seed", "1"]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    for part in [
        "rounds 16",
        "x killed",
        "x exit while busy",
        "x stopped briefly",
        "x stopped past the deadline",
        "x stopped for good",
        "x abort of a task",
        "x abort of a context",
        "x abort of a group",
        "x abort of all",
        "x early release",
        "resident 1 at the end:",
        "soak: clean, seed 1",
    ] {
        assert!(words.contains(part), "{part:?} in\n{text}");
    }
}
