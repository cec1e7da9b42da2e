//! What builds the images: the toolchain's own core library for a target, else one built from source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child;
use crate::sanitizer;
use crate::targets;
use crate::tsan;
use crate::workspace::Workspace;

/// The folder of the images' own workspace.
pub(super) const FOLDER: &str = "tests/bare";

/// A way to build for one target.
#[derive(Debug)]
pub(super) struct Toolchain {
    target: &'static str,
    /// A compiler that comes with the source of its core library, where the toolchain's own has no build for the target.
    compiler: Option<PathBuf>,
    /// The linker that the target asks for by a name that only the toolchain knows.
    linker: PathBuf,
}

impl Toolchain {
    /// Finds or fetches what builds for a target; an error names what is missing.
    pub(super) fn find(workspace: &Workspace, target: &'static str) -> Result<Self, String> {
        targets::add(workspace, &[target]);
        let compiler = if targets::is_installed(workspace, target) {
            None
        } else {
            let found = sanitizer::compiler::with_source(workspace, &tsan::TSAN);
            Some(found.map_err(|why| format!("target {target} ({why})"))?)
        };
        Ok(Self {
            target,
            compiler,
            linker: linker(workspace)?,
        })
    }

    /// Whether the images are built by the pinned compiler, whose sizes are written down.
    pub(super) fn is_pinned(&self) -> bool {
        self.compiler.is_none()
    }

    pub(super) const fn target(&self) -> &'static str {
        self.target
    }

    /// Builds a package of `tests/bare` for the target.
    pub(super) fn build(&self, workspace: &Workspace, package: &str) -> Result<(), String> {
        let mut command = cargo(workspace);
        command.args(["build", "--quiet", "--release", "--locked"]);
        command.args(["--target", self.target, "-p", package]);
        if let Some(compiler) = &self.compiler {
            command.args([
                "-Zbuild-std=core",
                "-Zbuild-std-features=compiler-builtins-mem",
            ]);
            command.env("RUSTC", compiler).env("RUSTC_BOOTSTRAP", "1");
        }
        let target = self.target.to_uppercase().replace('-', "_");
        command.env(format!("CARGO_TARGET_{target}_LINKER"), &self.linker);
        // Fixed addresses, which the entry of the x86-64 image needs; the other targets have them anyway. Pages that are
        // made read-only after a start that nobody does would only pad what is weighed.
        command.env("RUSTFLAGS", "-Crelocation-model=static -Crelro-level=off");
        child::run(&mut command)
    }

    /// Where a program of a package that was built lies.
    pub(super) fn program(&self, workspace: &Workspace, name: &str) -> PathBuf {
        folder(workspace)
            .join(self.target)
            .join("release")
            .join(name)
    }
}

/// The folder of all that these verbs make: other flags and profiles mean other builds of everything.
pub(super) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("bare")
}

/// A cargo command in the images' workspace.
fn cargo(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(&[]);
    command
        .current_dir(workspace.root.join(FOLDER))
        .env("CARGO_TARGET_DIR", folder(workspace));
    command
}

/// Builds the host's tools for the images; returns their program.
pub(super) fn host_tool(workspace: &Workspace) -> Result<PathBuf, String> {
    let mut command = cargo(workspace);
    command.args(["build", "--quiet", "--locked", "-p", "bare-host"]);
    child::run(&mut command)?;
    Ok(folder(workspace).join("debug/bare-host"))
}

/// The linker beside the toolchain's compiler.
fn linker(workspace: &Workspace) -> Result<PathBuf, String> {
    let mut command = Command::new("rustc");
    command
        .args(["--print", "target-libdir"])
        .current_dir(&workspace.root);
    let libraries = PathBuf::from(child::stdout_of(&mut command)?.trim());
    let linker = libraries
        .parent()
        .map(|host| host.join("bin/rust-lld"))
        .filter(|linker| linker.is_file());
    linker.ok_or_else(|| "rust-lld".to_owned())
}

/// Makes the folder of a file that is about to be written.
pub(super) fn make_room(file: &Path) -> Result<(), String> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}
