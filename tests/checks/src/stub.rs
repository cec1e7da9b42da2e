//! Libraries made for one test: `c/stub.c`, compiled with switches into a directory of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is removed on drop.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty directory.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("proxy-checks-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a fresh directory");
        // Resolved, so that paths compare equal with what the dynamic loader's are resolved to.
        Self(path.canonicalize().expect("the directory was just made"))
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Compiles the stub to `name` with switches such as `COMPAT=99`; see `c/stub.c`.
    pub fn stub(&self, name: &str, defines: &[&str]) -> Stub {
        let path = self.path(name);
        let log = self.path(&format!("{name}.log"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/stub.c");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args([
            "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-o",
        ]);
        command.arg(&path).arg(source);
        command.arg(format!("-DLOG_PATH=\"{}\"", log.display()));
        command.args(defines.iter().map(|define| format!("-D{define}")));
        let output = command.output().expect("a C compiler");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        Stub { path, log }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed is no reason to fail a test that has passed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A compiled stub.
#[derive(Debug)]
pub struct Stub {
    /// The library.
    pub path: PathBuf,
    log: PathBuf,
}

impl Stub {
    /// What has happened in the library so far, in order.
    pub fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often an event has happened.
    pub fn count(&self, event: &str) -> usize {
        self.log().iter().filter(|line| *line == event).count()
    }

    /// Lines of this process's memory map that belong to the library.
    pub fn mappings(&self) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
        let path = self.path.to_str().expect("a path of our own making");
        maps.lines().filter(|line| line.ends_with(path)).count()
    }
}
