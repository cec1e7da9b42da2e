//! Row `miri`: the unit tests of the core, the pure half of the host bus among them, and the conformance suite under the
//! interpreter that finds undefined behaviour. The core forbids unsafe code, so what it looks for there is in dependencies;
//! besides, it runs threads under weak memory, one schedule of many.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Found, Options, listen};
use crate::child;
use crate::workspace::Workspace;

/// How long rustup may take to fetch the interpreter.
const RUSTUP_PATIENCE: Duration = Duration::from_secs(120);

/// Several times what the tests take.
const LIMIT: Duration = Duration::from_secs(900);

/// The rings' own tests send thousands of messages, which takes many minutes here; the suite's cases send some over the same rings.
/// Three random tests of both tasks and of the bus's barrier are marked in the source for the same reason.
const LEFT_OUT: &str = "phone::ring::";

pub(super) fn run(workspace: &Workspace, _: Options) -> Result<Found, String> {
    if !is_there() {
        fetch();
    }
    if !is_there() {
        return Ok(Found::Skipped("miri not available".to_owned()));
    }
    // rustup's own `cargo` chooses the toolchain; the one that started this program cannot.
    let mut command = Command::new("cargo");
    command.args([
        "+nightly",
        "miri",
        "test",
        "-p",
        "proxy-core",
        "-p",
        "proxy-conformance",
    ]);
    command.arg("--tests").arg("--target-dir");
    command.arg(workspace.target.join("miri"));
    command.args(["--", "--skip", LEFT_OUT]);
    command
        .current_dir(&workspace.root)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    listen(command, LIMIT)
}

fn is_there() -> bool {
    let mut command = Command::new("cargo");
    command
        .args(["+nightly", "miri", "--version"])
        .env_remove("RUSTUP_TOOLCHAIN");
    command.stderr(Stdio::null());
    child::run(command.stdout(Stdio::null())).is_ok()
}

/// Asks rustup for it. There may be no nightly, or no network: then it stays missing.
fn fetch() {
    let mut command = Command::new("rustup");
    command
        .args([
            "component",
            "add",
            "--toolchain",
            "nightly",
            "miri",
            "rust-src",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _ = child::run_within(&mut command, RUSTUP_PATIENCE);
}
