//! Compiling and running programs of C against the shared library, as an embedder does.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Far longer than any program here takes on a busy machine, checkers included.
pub(crate) const AMPLE: Duration = Duration::from_secs(120);

/// Warnings are errors.
pub(crate) const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// The package's folder.
pub(crate) fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder of `libenc_proxy.so`: cargo builds it beside the tests.
pub(crate) fn library_folder() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    let folder = program.parent().expect("a folder").to_owned();
    assert!(
        folder.join("libenc_proxy.so").exists(),
        "no library in {}",
        folder.display()
    );
    folder
}

/// A stand-in library, or a line that says what is missing.
pub(crate) fn stand_in(variable: &str) -> Option<String> {
    let path = std::env::var(variable).ok();
    if path.is_none() {
        println!("SKIPPED: the library of {variable} not available: cargo xtask test builds it");
    }
    path
}

/// Whether a program can be started; prints the line that says it is missing.
pub(crate) fn has(program: &str) -> bool {
    let answer = Command::new(program).arg("--version").output();
    let there = answer.is_ok_and(|output| output.status.success());
    if !there {
        println!("SKIPPED: {program} not available");
    }
    there
}

/// A folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("proxy-ffi-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a fresh folder");
        Self(path)
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles a source of this package to a program that is linked with the shared library.
    pub(crate) fn program(&self, compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
        let name = Path::new(source)
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let program = self.path(&name);
        let mut command = Command::new(compiler);
        command.args(STRICT).args(flags).arg("-g").arg("-pthread");
        command
            .arg("-I")
            .arg(package("include"))
            .arg(package(source));
        command
            .arg("-L")
            .arg(library_folder())
            .args(["-lenc_proxy", "-ldl", "-o"])
            .arg(&program);
        succeed(&mut command);
        program
    }

    /// Compiles a source of this package to a shared library.
    pub(crate) fn library(&self, source: &str) -> PathBuf {
        let library = self.path("library.so");
        let mut command = Command::new("cc");
        command
            .args(STRICT)
            .args(["-std=c11", "-shared", "-fPIC", "-fexceptions"])
            .arg(package(source));
        succeed(command.arg("-o").arg(&library));
        library
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is no reason to fail a test that has passed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A command with the shared library in its library path.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library_folder());
    command
}

/// Runs a command within [`AMPLE`] and returns what it wrote, which is shown if it fails.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = finish(start(command));
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
    out.into_owned()
}

/// Starts a command with both streams taken.
pub(crate) fn start(command: &mut Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Waits for the end of a child, which writes less than a pipe holds; kills it when it takes too long.
pub(crate) fn finish(mut child: Child) -> Output {
    let since = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if since.elapsed() > AMPLE {
            let _ = child.kill();
            break;
        }
        // Between two looks; nothing waits for it.
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("it is ours")
}
