//! `cargo xtask soak`: builds the soak and the stand-in library in release and runs them; the arguments are the program's own.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::child;
use crate::workspace::Workspace;

/// The program, and the package that it is in.
const PROGRAM: &str = "proxy-soak";

/// The verb.
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
    command.args(args);
    command
        .arg("--library")
        .arg(library.ok_or("the build made no library `libnccom.so`")?);
    child::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
