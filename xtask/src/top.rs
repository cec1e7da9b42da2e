//! `cargo xtask top`: builds `proxytop` in release and becomes it, so that Ctrl-C and the exit code are its own.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::child;
use crate::workspace::Workspace;

/// The program, and the feature that builds it.
const PROGRAM: &str = "proxytop";

/// The verb. Returns only when the program cannot be started.
pub(crate) fn verb(workspace: &Workspace, args: &[OsString]) -> Result<ExitCode, String> {
    let build = [
        "build",
        "--release",
        "-p",
        "proxy-os",
        "--features",
        PROGRAM,
        "--bin",
        PROGRAM,
    ];
    let built = workspace.build_quietly(&build, "proxytop (release)")?;
    let program = built
        .iter()
        .filter(|artifact| artifact.target == PROGRAM)
        .find_map(|artifact| artifact.executable.as_ref())
        .ok_or_else(|| format!("the build made no program `{PROGRAM}`"))?;
    Err(child::exec(Command::new(program).args(args)))
}
