//! Programs in other languages: compiled when they are needed, or not available.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A source beside this package.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Where programs go: beside this one.
fn output(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    program.with_file_name(name)
}

/// Runs a compiler; `None` with a line for the reader if there is none or it refuses.
fn compile(compiler: &str, args: &[&str], from: &str, to: &str) -> Option<PathBuf> {
    let to = output(to);
    let mut command = Command::new(compiler);
    command.args(args).arg("-o").arg(&to).arg(source(from));
    match command.output() {
        Ok(output) if output.status.success() => Some(to),
        Ok(output) => {
            eprintln!("{compiler}: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(_) => None,
    }
}

/// The rendering of the specification's own design.
pub fn original() -> Option<PathBuf> {
    let args = ["-O2", "-std=c++17", "-pthread"];
    compile("c++", &args, "cc/original.cc", "original")
}

/// The collective library of the benches. Compiled once by a process, as every context asks for it.
pub fn library() -> Option<PathBuf> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let args = ["-shared", "-fPIC", "-O2"];
    (LIBRARY.get_or_init(|| compile("cc", &args, "cc/library.c", "libbench_nccom.so"))).clone()
}

/// The program for Open MPI.
pub fn mpi() -> Option<PathBuf> {
    ["mpicc.openmpi", "mpicc"]
        .iter()
        .find_map(|compiler| compile(compiler, &["-O2"], "cc/mpi.c", "mpi"))
}

/// The program for iceoryx2: a package of its own, so that its dependencies are in no lock but its own.
pub fn iceoryx2() -> Option<PathBuf> {
    let target = output("iceoryx2-target");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--release", "--manifest-path"])
        .arg(source("iceoryx2/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target);
    let built = command.status().is_ok_and(|status| status.success());
    built.then(|| target.join("release/bench-iceoryx2"))
}
