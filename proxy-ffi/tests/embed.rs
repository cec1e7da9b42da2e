//! The embedding example of the README runs against both stand-ins for the library, and tells what is wrong in one message.
#![allow(
    clippy::disallowed_methods,
    reason = "the example is started as a process"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

/// Cargo builds the examples of a package beside its tests.
fn embed(library: &str) -> Output {
    let tests = std::env::current_exe().expect("the path of this program");
    let profile = tests
        .ancestors()
        .nth(2)
        .expect("target folder of the profile");
    let mut command = Command::new(profile.join("examples/embed"));
    command
        .arg(library)
        .output()
        .expect("the example is built with the tests")
}

/// Runs the example against the library that a variable names.
fn three_executions(variable: &str) {
    let Some(library) = std::env::var_os(variable).map(PathBuf::from) else {
        println!("SKIPPED: the library of {variable} not available: cargo xtask test builds it");
        return;
    };
    let output = embed(&library.to_string_lossy());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{variable}: {output:?}");
    assert_eq!(
        text,
        "execution 1: success (0)\nexecution 2: success (0)\nexecution 3: success (0)\n"
    );
}

#[test]
fn the_example_runs_three_executions_against_the_stand_in() {
    three_executions("PROXY_NCCOM_LIB");
}

#[test]
fn the_example_runs_three_executions_against_the_scripted_library() {
    three_executions("PROXY_SCRIPTED_LIB");
}

#[test]
fn a_library_that_is_not_there_is_one_clear_error() {
    let output = embed("/nowhere/libnccom.so");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.starts_with("error: cannot open the collectives library"),
        "{text}"
    );
    assert!(text.contains("/nowhere/libnccom.so"), "{text}");
}
