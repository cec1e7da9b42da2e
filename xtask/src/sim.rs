//! `cargo xtask sim`: builds the simulated worlds in release, then becomes their program, so that signals and the exit code are its own.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::child;
use crate::workspace::{Artifact, Workspace};

/// The program, and the package that it is in.
pub(crate) const PROGRAM: &str = "proxy-sim";

/// The verb. Returns only when the program cannot be started.
pub(crate) fn verb(workspace: &Workspace, args: &[OsString]) -> Result<ExitCode, String> {
    let what = "proxy-sim (release)";
    let built = workspace.build_quietly(&["build", "--release", "-p", PROGRAM], what)?;
    Err(child::exec(Command::new(program(&built)?).args(args)))
}

/// The program among what a build made.
pub(crate) fn program(built: &[Artifact]) -> Result<&std::path::PathBuf, String> {
    let named = built.iter().filter(|artifact| artifact.target == PROGRAM);
    named
        .filter_map(|artifact| artifact.executable.as_ref())
        .next()
        .ok_or_else(|| format!("the build made no program `{PROGRAM}`"))
}
