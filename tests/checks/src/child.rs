//! Running one test of a test program in a process of its own.
//!
//! For what a process can do once only (end, be started with a library path or another working directory). The part for
//! the child is an ordinary test that does nothing unless it was started by [`run`].

use std::path::Path;
use std::process::{Command, Output};

const MARK: &str = "PROXY_CHECKS_CHILD";

/// Whether this process was started by [`run`] for the test `name`.
pub fn is(name: &str) -> bool {
    std::env::var(MARK).is_ok_and(|value| value == name)
}

/// A command that runs the test `name` of this test program as a child.
pub fn command(name: &str) -> Command {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(MARK, name);
    command
}

/// Runs the test `name` as a child in `directory`, with `library_path` for bare names of libraries, and shows what it wrote
/// if it failed.
pub fn run(name: &str, directory: &Path, library_path: &Path) -> Output {
    let mut command = command(name);
    command
        .current_dir(directory)
        .env("LD_LIBRARY_PATH", library_path);
    let output = command.output().expect("this program can be started");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    output
}
