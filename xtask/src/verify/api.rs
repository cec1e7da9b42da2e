//! Row `api`: what the core and the shell offer to others, compared with the committed lists of `tests/api`. A change of them is
//! then a line in the change that makes it, not a surprise to who embeds them. The lists come from the compiler's own
//! documentation data, by way of cargo-public-api.

use std::fs;
use std::process::{Command, Stdio};

use super::{Found, Options};
use crate::child;
use crate::workspace::Workspace;

const FOLDER: &str = "tests/api";

/// The packages with a list.
const PACKAGES: [&str; 2] = ["proxy-core", "proxy-os"];

/// Lines of a difference that are shown.
const SHOWN: usize = 20;

pub(super) fn run(workspace: &Workspace, options: Options) -> Result<Found, String> {
    let mut version = Command::new("cargo");
    version
        .args(["public-api", "--version"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .stderr(Stdio::null());
    if child::run(version.stdout(Stdio::null())).is_err() {
        return Ok(Found::Skipped("cargo-public-api not available".to_owned()));
    }
    let (mut items, mut differences) = (0, Vec::new());
    for package in PACKAGES {
        let Some(found) = list(workspace, package) else {
            return Ok(Found::Skipped(
                "a nightly that cargo-public-api reads not available".to_owned(),
            ));
        };
        items += found.lines().count();
        let file = workspace.root.join(FOLDER).join(format!("{package}.txt"));
        let failed = |error| format!("{}: {error}", file.display());
        if options.bless {
            fs::write(&file, &found).map_err(failed)?;
        }
        let known = fs::read_to_string(&file).map_err(failed)?;
        differences.extend(compared(&known, &found).map(|line| format!("{package}: {line}")));
    }
    if differences.is_empty() {
        return Ok(Found::Ran(format!("{items} public items")));
    }
    let count = differences.len();
    differences.truncate(SHOWN);
    Err(format!(
        "{}\n{count} lines differ from {FOLDER}; `cargo xtask verify api --bless` writes new ones",
        differences.join("\n")
    ))
}

/// The public items of a package, one a line, without what the compiler derives.
fn list(workspace: &Workspace, package: &str) -> Option<String> {
    let mut command = Command::new("cargo");
    command
        .args([
            "+nightly",
            "public-api",
            "-sss",
            "--color=never",
            "-p",
            package,
        ])
        .env("CARGO_TARGET_DIR", workspace.target.join("api"))
        .current_dir(&workspace.root)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    child::stdout_of(&mut command).ok()
}

/// What is in one list only: `-` for the known one, `+` for the found one.
fn compared<'a>(known: &'a str, found: &'a str) -> impl Iterator<Item = String> + 'a {
    let only = |sign, these: &'a str, those: &'a str| {
        let absent = move |line: &&str| !those.lines().any(|other| other == *line);
        these
            .lines()
            .filter(absent)
            .map(move |line| format!("{sign}{line}"))
    };
    only('-', known, found).chain(only('+', found, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_from_both_sides() {
        let lines: Vec<_> = compared("a\nb\n", "b\nc\n").collect();
        assert_eq!(lines, ["-a", "+c"]);
        assert_eq!(compared("a\n", "a\n").count(), 0);
    }
}
