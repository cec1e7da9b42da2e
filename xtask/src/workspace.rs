//! The workspace as cargo sees it: where it is, what is in it, and what a build of it produced.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::child;

/// A build that is over sooner than this says nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// The workspace that holds the current folder.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The target folder, `CARGO_TARGET_DIR` and configuration honoured.
    pub(crate) target: PathBuf,
    /// The member packages.
    pub(crate) packages: Vec<Package>,
}

/// One member package.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// Its name in `Cargo.toml`.
    pub(crate) name: String,
    /// The name of its library in code, or what that would be.
    pub(crate) crate_name: String,
    /// Its `Cargo.toml`, relative to the workspace where it lies inside.
    pub(crate) manifest: String,
    /// The names of all it depends on, whatever the kind (normal, dev, build) or target.
    pub(crate) dependencies: Vec<String>,
}

/// One file set that a build produced.
#[derive(Debug)]
pub(crate) struct Artifact {
    /// The package's `Cargo.toml`.
    pub(crate) manifest: PathBuf,
    /// The target's name: the crate, binary or test file.
    pub(crate) target: String,
    /// The program, for binaries and tests.
    pub(crate) executable: Option<PathBuf>,
    /// Every file, libraries included.
    pub(crate) files: Vec<PathBuf>,
}

impl Workspace {
    /// Asks cargo for the workspace of the current folder.
    pub(crate) fn find() -> Result<Self, String> {
        let mut command = Command::new(cargo_program());
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&child::stdout_of(&mut command)?)
            .map_err(|error| format!("cannot read the output of cargo metadata: {error}"))?;
        let root = path_at(&metadata, "workspace_root")?;
        let packages = members(&metadata, &root)?;
        Ok(Self {
            target: path_at(&metadata, "target_directory")?,
            root,
            packages,
        })
    }

    /// A cargo command that runs in the workspace's root and builds into its target folder.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(cargo_program());
        command.args(args).current_dir(&self.root);
        // A relative CARGO_TARGET_DIR means another place once the working folder is the root.
        if env::var_os("CARGO_TARGET_DIR").is_some() {
            command.env("CARGO_TARGET_DIR", &self.target);
        }
        command
    }

    /// Runs a building cargo command (`build`, `test --no-run`) with its messages on the terminal; returns what it produced.
    pub(crate) fn build(&self, args: &[&str]) -> Result<Vec<Artifact>, String> {
        let mut command = self.building(args);
        command.stderr(Stdio::inherit());
        artifacts(&child::stdout_of(&mut command)?)
    }

    /// Runs a building cargo command that is more than arguments (an environment, another folder); returns what it produced.
    pub(crate) fn built_by(command: &mut Command) -> Result<Vec<Artifact>, String> {
        command
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit());
        artifacts(&child::stdout_of(command)?)
    }

    /// Like [`Self::build`], but silent: one line with `what` when it takes long, cargo's messages only when it fails.
    pub(crate) fn build_quietly(&self, args: &[&str], what: &str) -> Result<Vec<Artifact>, String> {
        let mut command = self.building(args);
        let text = with_notice(what, || child::stdout_of(&mut command))?;
        artifacts(&text)
    }

    fn building(&self, args: &[&str]) -> Command {
        let mut command = self.cargo(args);
        command.arg("--message-format=json-render-diagnostics");
        command
    }
}

impl Artifact {
    /// The first file with this ending (`so`, `rlib`).
    pub(crate) fn file(&self, extension: &str) -> Option<&PathBuf> {
        self.files
            .iter()
            .find(|file| file.extension().is_some_and(|found| found == extension))
    }
}

/// Makes a folder, and removes what is in it.
pub(crate) fn emptied(folder: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot make {} anew: {error}", folder.display());
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    fs::create_dir_all(folder).map_err(failed)
}

/// The cargo that started this program, or the one in the path.
fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs `work`; says `what` on stderr, once, if it is not over after [`PATIENCE`].
fn with_notice<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (over, wait) = mpsc::channel::<()>();
    let line = format!("xtask: building {what}; the first build takes a minute or two");
    let notice = thread::spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{line}");
        }
    });
    let result = work();
    drop(over);
    // The thread only prints; were it to panic, the build's result would still stand.
    let _ = notice.join();
    result
}

fn path_at(value: &Value, key: &str) -> Result<PathBuf, String> {
    value[key]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| format!("cargo metadata has no `{key}`"))
}

fn members(metadata: &Value, root: &Path) -> Result<Vec<Package>, String> {
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata has no `packages`")?;
    let mut found = Vec::new();
    for package in packages {
        let manifest = path_at(package, "manifest_path")?;
        let manifest = manifest.strip_prefix(root).unwrap_or(&manifest);
        found.push(Package {
            name: text(&package["name"]),
            crate_name: crate_name(package),
            manifest: manifest.display().to_string(),
            dependencies: list(&package["dependencies"])
                .map(|dependency| text(&dependency["name"]))
                .collect(),
        });
    }
    Ok(found)
}

/// The name of a package's library in code; cargo makes it of the package's name where the manifest gives none.
fn crate_name(package: &Value) -> String {
    let is_library =
        |target: &&Value| list(&target["kind"]).any(|kind| kind == "lib" || kind == "rlib");
    let library = list(&package["targets"]).find(is_library);
    text(&library.unwrap_or(package)["name"]).replace('-', "_")
}

/// Picks the artifacts out of cargo's messages, one JSON object a line.
fn artifacts(messages: &str) -> Result<Vec<Artifact>, String> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line)
            .map_err(|error| format!("cannot read a message of cargo: {error}: {line}"))?;
        if message["reason"] == "compiler-artifact" {
            found.push(Artifact {
                manifest: path_at(&message, "manifest_path")?,
                target: text(&message["target"]["name"]),
                executable: message["executable"].as_str().map(PathBuf::from),
                files: list(&message["filenames"])
                    .map(|file| PathBuf::from(text(file)))
                    .collect(),
            });
        }
    }
    Ok(found)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_read_from_messages_and_other_lines_are_passed_over() {
        let messages = concat!(
            r#"{"reason":"build-script-executed"}"#,
            "\nnot a message\n",
            r#"{"reason":"compiler-artifact","manifest_path":"a/Cargo.toml","target":{"name":"nccom"},"#,
            r#""executable":null,"filenames":["t/libnccom.so","t/libnccom.rlib"]}"#,
        );
        let found = artifacts(messages).expect("two JSON objects");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].target, "nccom");
        assert_eq!(found[0].file("so"), Some(&PathBuf::from("t/libnccom.so")));
        assert_eq!(found[0].file("a"), None);
        assert_eq!(found[0].executable, None);
    }

    #[test]
    fn members_carry_manifest_and_dependencies() {
        let metadata: Value = serde_json::from_str(
            r#"{"packages":[{"name":"proxy-os","manifest_path":"/w/proxy-os/Cargo.toml",
                "dependencies":[{"name":"proxy-core"},{"name":"libc"}]}]}"#,
        )
        .expect("the text is JSON");
        let found = members(&metadata, Path::new("/w")).expect("one package");
        assert_eq!(found[0].manifest, "proxy-os/Cargo.toml");
        assert_eq!(found[0].dependencies, ["proxy-core", "libc"]);
    }
}
