//! Programs that a check needs and a machine may lack: found, or installed where that needs no question, as root with apt.

use std::process::Command;
use std::time::Duration;

use crate::child;

/// How long apt may take to fetch a program.
const PATIENCE: Duration = Duration::from_secs(300);

/// What apt says where its lists are empty, as in a fresh container.
const NO_LISTS: &str = "Unable to locate package";

/// Makes sure that `program` can be run, which `package` provides. An error names the program and says why it is not there.
pub(crate) fn provide(program: &str, package: &str) -> Result<(), String> {
    let is_there = || child::stdout_of(Command::new(program).arg("--version")).is_ok();
    if is_there() {
        return Ok(());
    }
    let install = ["install", "-y", "-qq", "--no-install-recommends", package];
    let mut ended = apt(&install);
    if matches!(&ended, Err(why) if why.contains(NO_LISTS)) {
        ended = apt(&["update", "-qq"]).and_then(|()| apt(&install));
    }
    match (is_there(), ended) {
        (true, _) => Ok(()),
        (false, Ok(())) => Err(format!("{program} (the package {package} has none)")),
        (false, Err(why)) => Err(format!("{program} ({why})")),
    }
}

fn apt(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    let mut said = String::new();
    let status = child::lines_of(command, PATIENCE, |line| said = reason(&said, line))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("apt-get: {said}")),
    }
}

/// The first error of apt's, or else what it said last.
fn reason(so_far: &str, line: &str) -> String {
    match so_far.starts_with("E: ") || line.trim().is_empty() {
        true => so_far.to_owned(),
        false => line.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_the_reason() {
        let said = [
            "Reading package lists...",
            "E: Could not open lock file (13: Permission denied)",
            "E: are you root?",
            "",
        ];
        let reason = said
            .iter()
            .fold(String::new(), |so_far, line| reason(&so_far, line));
        assert_eq!(reason, said[1]);
    }

    #[test]
    fn a_program_that_is_there_is_not_asked_for() {
        assert_eq!(provide("cargo", "no package"), Ok(()));
    }
}
