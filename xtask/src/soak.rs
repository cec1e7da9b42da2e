//! `cargo xtask soak`: builds the soak and the stand-in library in release, then becomes the soak, so that signals and the exit code are
//! its own.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::child;
use crate::run::names_library;
use crate::workspace::Workspace;

/// The program, and the package that it is in.
const PROGRAM: &str = "proxy-soak";

/// The verb. Returns only when the program cannot be started.
pub(crate) fn verb(workspace: &Workspace, args: &[OsString]) -> Result<ExitCode, String> {
    let built = workspace.build_quietly(
        &["build", "--release", "-p", PROGRAM, "-p", "nccom"],
        "proxy-soak and libnccom.so (release)",
    )?;
    let of = |target: &str| {
        let target = target.to_owned();
        built
            .iter()
            .filter(move |artifact| artifact.target == target)
    };
    let program = of(PROGRAM).find_map(|artifact| artifact.executable.clone());
    let library = of("nccom").find_map(|artifact| artifact.file("so").cloned());
    let mut command = Command::new(program.ok_or("the build made no program `proxy-soak`")?);
    if !args.iter().any(|arg| names_library(arg)) {
        command
            .arg("--library")
            .arg(library.ok_or("the build made no library `libnccom.so`")?);
    }
    Err(child::exec(command.args(args)))
}
