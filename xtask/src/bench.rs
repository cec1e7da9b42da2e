//! `cargo xtask bench`: builds the benches and what they run in release, then becomes the benches' program.

use std::ffi::OsString;
use std::process::Command;

use crate::child;
use crate::workspace::{Artifact, Workspace};

/// What is built: the benches, the main job for the row of the whole chain, and the job's library.
const BUILD: [&str; 8] = [
    "build",
    "--release",
    "-p",
    "proxy-benches",
    "-p",
    "proxy-run",
    "-p",
    "nccom",
];

/// Builds, then replaces this process, so that Ctrl-C and the exit code are the benches' own. Returns only an error.
pub(crate) fn exec(workspace: &Workspace, args: &[OsString]) -> String {
    match command(workspace, args) {
        Ok(mut command) => child::exec(&mut command),
        Err(message) => message,
    }
}

fn command(workspace: &Workspace, args: &[OsString]) -> Result<Command, String> {
    let artifacts = workspace.build_quietly(&BUILD, "the benches (release)")?;
    let program = |name: &str| {
        let of_name = |artifact: &&Artifact| artifact.target == name;
        let mut found = artifacts.iter().filter(of_name);
        let program = found.find_map(|artifact| artifact.executable.clone());
        program.ok_or_else(|| format!("the build made no program `{name}`"))
    };
    let mut library = artifacts
        .iter()
        .filter(|artifact| artifact.target == "nccom");
    let library = library
        .find_map(|artifact| artifact.file("so"))
        .ok_or("the build made no library `libnccom.so`")?;
    let mut command = Command::new(program("bench")?);
    command
        .args(args)
        .current_dir(&workspace.root)
        .env("PROXY_BENCH_JOB", program("proxy-run")?)
        .env("PROXY_BENCH_LIBRARY", library);
    Ok(command)
}
