//! A short soak: every fault at least once, and some rounds more.

use std::process::Command;

mod common;

use common::library;

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
