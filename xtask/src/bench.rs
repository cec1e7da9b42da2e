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

use crate::apt;
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

/// Groups of rows that have peers beside them.
const PEERS_OF: [&str; 2] = ["bus", "process"];

/// What the peer from outside needs, and the packages that have it.
const OPEN_MPI: [(&str, &str); 2] = [
    ("mpirun", "openmpi-bin"),
    ("mpicc.openmpi", "libopenmpi-dev"),
];

/// Builds, then replaces this process, so that Ctrl-C and the exit code are the benches' own. Returns only what was refused before, or that
/// they cannot be started.
pub(crate) fn verb(workspace: &Workspace, args: &[OsString]) -> Result<ExitCode, String> {
    let chosen = match chosen(args) {
        Ok(chosen) => chosen,
        Err(refused) => return Ok(refused),
    };
    if chosen.iter().any(|row| PEERS_OF.contains(&row.group)) {
        // Where one cannot be had, the benches say that it is skipped.
        for (program, package) in OPEN_MPI {
            let _ = apt::provide(program, package);
        }
    }
    Err(child::exec(&mut command(workspace, args)?))
}

/// The rows that are asked for; or the exit code of a command line that asks for no measurement: it is not accepted, or asks for help; which has
/// been said.
fn chosen(args: &[OsString]) -> Result<Vec<plan::Row>, ExitCode> {
    let words = [OsString::from("bench")].into_iter();
    let cli = cli::Cli::try_parse_from(words.chain(args.iter().cloned()));
    let cli = cli.map_err(|said| usage::said(&said))?;
    rows::chosen(&cli.rows).map_err(|what| usage::refuse(&what))
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
            chosen(&words).err()
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
