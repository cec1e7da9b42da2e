//! `cargo xtask run`: builds the main job and the stand-in library in release, then becomes the main job.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child;
use crate::workspace::Workspace;

/// Builds, then replaces this process, so that Ctrl-C and the exit code are the main job's own. Returns only an error.
pub(crate) fn exec(workspace: &Workspace, args: &[OsString]) -> String {
    match command(workspace, args) {
        Ok(mut command) => child::exec(&mut command),
        Err(message) => message,
    }
}

/// Builds the main job; returns the command that runs it with these arguments.
///
/// The stand-in library is named by `--library`, unless the arguments name one themselves.
pub(crate) fn command(workspace: &Workspace, args: &[OsString]) -> Result<Command, String> {
    let job = build(
        workspace,
        &["build", "--release", "-p", "proxy-run", "-p", "nccom"],
    )?;
    let mut command = Command::new(&job.program);
    // In front, where a `--` among the arguments does not make it an operand.
    if !args.iter().any(|arg| names_library(arg)) {
        command.arg("--library").arg(&job.library);
    }
    command.args(args);
    restore_library_path(&mut command, &workspace.target);
    Ok(command)
}

/// What the main job consists of.
struct Job {
    program: PathBuf,
    library: PathBuf,
}

fn build(workspace: &Workspace, args: &[&str]) -> Result<Job, String> {
    let artifacts = workspace.build_quietly(args, "proxy-run and libnccom.so (release)")?;
    let program = artifacts
        .iter()
        .filter(|artifact| artifact.target == "proxy-run")
        .find_map(|artifact| artifact.executable.clone());
    let library = artifacts
        .iter()
        .filter(|artifact| artifact.target == "nccom")
        .find_map(|artifact| artifact.file("so").cloned());
    Ok(Job {
        program: program.ok_or("the build made no program `proxy-run`")?,
        library: library.ok_or("the build made no library `libnccom.so`")?,
    })
}

/// Whether an argument names the collective library, instead of the one that is built here.
pub(crate) fn names_library(arg: &OsStr) -> bool {
    arg == "--library" || arg.to_string_lossy().starts_with("--library=")
}

/// Takes out of `LD_LIBRARY_PATH` what `cargo run` put in front for this program. The target folder in it would let a
/// bare `--library libnccom.so` find a stand-in of another profile instead of the library of the system.
fn restore_library_path(command: &mut Command, target: &Path) {
    let Some(found) = env::var_os("LD_LIBRARY_PATH") else {
        return;
    };
    let toolchain = env::var_os("CARGO").map(PathBuf::from);
    let toolchain = toolchain
        .as_deref()
        .and_then(|cargo| cargo.parent()?.parent());
    let kept = without(&found, &[Some(target), toolchain]);
    if kept.is_empty() {
        command.env_remove("LD_LIBRARY_PATH");
    } else {
        command.env("LD_LIBRARY_PATH", kept);
    }
}

/// The search path without the folders that lie in one of `trees`.
fn without(search: &OsStr, trees: &[Option<&Path>]) -> OsString {
    let outside = |folder: &PathBuf| !trees.iter().flatten().any(|tree| folder.starts_with(tree));
    let kept: Vec<PathBuf> = env::split_paths(search).filter(outside).collect();
    // Folders that came out of a search path hold no separator, so joining cannot fail.
    env::join_paths(kept).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_named_by_either_spelling() {
        assert!(names_library(OsStr::new("--library")));
        assert!(names_library(OsStr::new("--library=x.so")));
        assert!(!names_library(OsStr::new("--library-path")));
        assert!(!names_library(OsStr::new("allr")));
    }

    #[test]
    fn folders_of_cargo_leave_the_search_path_and_others_stay() {
        let trees = [Some(Path::new("/w/target")), None];
        let search = OsStr::new("/w/target/debug/deps:/opt/neuron:/w/target/debug");
        assert_eq!(without(search, &trees), "/opt/neuron");
        assert_eq!(without(OsStr::new("/w/target/debug"), &trees), "");
    }
}
