//! What the tests of the soak have in common.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The stand-in library: the one that the caller names, else one that is built here.
pub(crate) fn library() -> PathBuf {
    std::env::var_os("PROXY_NCCOM_LIB").map_or_else(build, PathBuf::from)
}

fn build() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_proxy-soak"));
    let folder = folder.parent().expect("a folder");
    let target = folder.parent().expect("a target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--package", "nccom", "--target-dir"])
        .arg(target);
    assert!(cargo.status().expect("cargo runs").success());
    folder.join("libnccom.so")
}
