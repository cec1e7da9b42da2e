//! `cargo xtask sim`: builds the simulated worlds in release and runs them; the arguments are the program's own.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::child;
use crate::workspace::{Artifact, Workspace};

/// The program, and the package that it is in.
pub(crate) const PROGRAM: &str = "proxy-sim";

/// The verb.
pub(crate) fn verb(workspace: &Workspace, args: &[OsString]) -> Result<ExitCode, String> {
    let what = "proxy-sim (release)";
    let built = workspace.build_quietly(&["build", "--release", "-p", PROGRAM], what)?;
    let mut command = Command::new(program(&built)?);
    command.args(args);
    child::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}

/// The program among what a build made.
pub(crate) fn program(built: &[Artifact]) -> Result<&std::path::PathBuf, String> {
    let named = built.iter().filter(|artifact| artifact.target == PROGRAM);
    named
        .filter_map(|artifact| artifact.executable.as_ref())
        .next()
        .ok_or_else(|| format!("the build made no program `{PROGRAM}`"))
}
