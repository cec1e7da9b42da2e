//! What the one door prints when its output cannot be written.

use std::fs::OpenOptions;
use std::process::Command;

/// Help that nobody gets is a failure, as any other output is.
#[test]
fn help_that_cannot_be_written_is_told() {
    for args in [&["--help"][..], &["loom", "--help"]] {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let command = command.args(args).stdout(full.expect("a full device"));
        let output = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        let told = "xtask: cannot write standard output: No space left on device (os error 28)\n";
        assert_eq!((output.status.code(), &*text), (Some(1), told), "{args:?}");
    }
}
