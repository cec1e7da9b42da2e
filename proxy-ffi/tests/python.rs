//! Python with ctypes alone: it drives a collective, other threads go on while it waits, and Ctrl-C ends a wait.
//!
//! Requirements: H77.
#![allow(
    clippy::disallowed_methods,
    reason = "the interpreter is started as a process"
)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{command, finish, has, library_folder, package, stand_in, start, succeed};

/// The example with its two libraries; `None` = something is missing, which has been said.
fn python(arguments: &[&str]) -> Option<Command> {
    let library = stand_in("PROXY_SCRIPTED_LIB")?;
    if !has("python3") {
        return None;
    }
    // Interrupts end it, also where what has started the tests ignores them.
    let mut python = command(Path::new("env"));
    python.args(["--default-signal=INT", "python3"]);
    python.arg(package("examples/c/6_dump.py"));
    python
        .arg(library_folder().join("libenc_proxy.so"))
        .arg(library)
        .args(arguments);
    Some(python)
}

#[test]
fn h77_python_drives_a_collective_and_prints_the_dump() {
    let Some(mut python) = python(&[]) else {
        return;
    };
    let text = succeed(&mut python);
    assert!(
        text.starts_with("status 0\n{\"schema\": \"proxy-report/1.1\""),
        "{text}"
    );
    assert!(text.contains("\"to\": \"DONE\""), "{text}");
}

/// A line for the user, and no traceback.
#[test]
fn h77_python_without_its_libraries_is_told_how_it_is_used() {
    if !has("python3") {
        return;
    }
    let ours = library_folder().join("libenc_proxy.so");
    let ours = ours.to_str().expect("a path of our own making");
    for (arguments, code, said) in [
        (
            &[][..],
            2,
            "usage: 6_dump.py <libenc_proxy.so> <libnccom.so>",
        ),
        (
            &["/dev/null"],
            2,
            "usage: 6_dump.py <libenc_proxy.so> <libnccom.so>",
        ),
        (
            &["/nonexistent/libenc_proxy.so", "x"],
            1,
            "6_dump.py: /nonexistent/libenc_proxy.so: ",
        ),
        (&[ours, "/dev/null"], 1, "\"/dev/null\": it is a device"),
    ] {
        let mut python = command(Path::new("python3"));
        python.arg(package("examples/c/6_dump.py")).args(arguments);
        let output = finish(start(&mut python));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(said) && !text.contains("Traceback"), "{text}");
    }
}

#[test]
fn h77_a_second_thread_counts_while_one_waits() {
    let Some(mut python) = python(&["stuck", "briefly"]) else {
        return;
    };
    let text = succeed(&mut python);
    assert!(
        text.starts_with("waiting\ntimeout\ncounted True\n"),
        "{text}"
    );
    assert!(text.contains("\"unfired\": [{"), "{text}");
    assert!(text.contains("\"exec\": 812"), "{text}");
}

#[test]
fn h77_an_interrupt_ends_a_wait_promptly() {
    let Some(mut python) = python(&["stuck"]) else {
        return;
    };
    let mut child = start(&mut python);
    let mut out = BufReader::new(child.stdout.take().expect("taken"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "waiting\n");
    let since = Instant::now();
    succeed(Command::new("kill").arg("-INT").arg(child.id().to_string()));
    let mut text = String::new();
    while out.read_line(&mut text).expect("lines") > 0 {}
    let took = since.elapsed();
    assert!(finish(child).status.success(), "{text}");
    assert!(text.starts_with("interrupted\ncounted True\n"), "{text}");
    // The wait itself is given up within a slice of 50 ms; the rest is the end of the interpreter, and of a machine that is busy.
    println!("ended {took:?} after the interrupt");
    assert!(took < Duration::from_secs(20), "{took:?}");
}
