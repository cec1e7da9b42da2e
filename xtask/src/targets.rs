//! Compilation targets without an operating system: whether the toolchain has them, and getting them where it can.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child;
use crate::workspace::Workspace;

/// How long rustup may take to add targets; where it has no network it would try for long.
const RUSTUP_PATIENCE: Duration = Duration::from_secs(60);

/// Asks rustup for those that are missing. It may not be there, or have no network: then they stay missing.
pub(crate) fn add(workspace: &Workspace, targets: &[&str]) {
    let missing = targets
        .iter()
        .filter(|target| !is_installed(workspace, target));
    let mut command = Command::new("rustup");
    command.args(["target", "add"]).args(missing.clone());
    command
        .current_dir(&workspace.root)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if missing.count() > 0 {
        let _ = child::run_within(&mut command, RUSTUP_PATIENCE);
    }
}

/// Whether rustc has the core library of a target.
pub(crate) fn is_installed(workspace: &Workspace, target: &str) -> bool {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", target]);
    command.current_dir(&workspace.root);
    child::stdout_of(&mut command).is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}
