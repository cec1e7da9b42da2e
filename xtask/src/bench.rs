//! `cargo xtask bench`: refuses what the benches would refuse, builds them and what they run in release, then becomes their program.

// The very command line and rows of the benches, which need nothing that has to be built.
#[allow(dead_code, reason = "the benches use the rest")]
#[path = "../../tests/benches/src/cli.rs"]
mod cli;
#[allow(dead_code, reason = "the benches use the rest")]
#[path = "../../tests/benches/src/plan.rs"]
mod plan;
#[allow(dead_code, reason = "the benches use the rest")]
#[path = "../../tests/benches/src/rows.rs"]
mod rows;

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::child;
use crate::usage;
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

/// Builds, then replaces this process, so that Ctrl-C and the exit code are the benches' own. Returns only what was refused before, or that
/// they cannot be started.
pub(crate) fn verb(workspace: &Workspace, args: &[OsString]) -> Result<ExitCode, String> {
    if let Some(refused) = refused(args) {
        return Ok(refused);
    }
    Err(child::exec(&mut command(workspace, args)?))
}

/// The exit code of a command line that asks for no measurement: it is not accepted, or asks for help; which has been said.
fn refused(args: &[OsString]) -> Option<ExitCode> {
    let words = [OsString::from("bench")].into_iter();
    match cli::Cli::try_parse_from(words.chain(args.iter().cloned())) {
        Err(said) => Some(usage::said(&said)),
        Ok(cli) => rows::chosen(&cli.rows)
            .err()
            .map(|what| usage::refuse(&what)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_benches_do_not_know_is_refused_before_they_are_built() {
        let refused = |words: &str| {
            let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
            refused(&words)
        };
        let usage = ExitCode::from(usage::USAGE);
        assert_eq!(refused("nonsense"), Some(usage));
        assert_eq!(refused("tick --nonsense"), Some(usage));
        assert_eq!(refused("--json"), Some(usage));
        for accepted in [
            "",
            "tick chain.32",
            "--quick --json tick.json join",
            "simulate",
        ] {
            assert_eq!(refused(accepted), None, "{accepted}");
        }
    }
}
