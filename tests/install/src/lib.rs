//! What the tests of an installation share: where it is, commands, and the all-reduce that every consumer has to get right.
//!
//! The consumers see the installation alone: their sources are copied into a folder of their own, and no flag names a folder of the
//! project. `cargo xtask test` makes the installation, in a folder with a blank in its name.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proxy_kit::dtype::Dtype;
use proxy_kit::golden::golden;
use proxy_kit::op::Op;
use proxy_kit::pattern::Pattern;

/// Far longer than anything here takes on a busy machine.
const AMPLE: Duration = Duration::from_secs(100);

/// The world of the all-reduce.
const RANKS: u32 = 4;
const ELEMENTS: usize = 1 << 14;
const INPUTS: Pattern = Pattern::Random { seed: 73, salt: 1 };

/// The file that a variable of `cargo xtask test` names, or a line that says what is missing.
pub fn given(variable: &str) -> Option<PathBuf> {
    let path = env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        println!("SKIPPED: what {variable} names not available: cargo xtask test makes it");
    }
    path
}

/// Whether a program can be started; prints the line that says it is missing.
pub fn has(program: &str) -> bool {
    let answer = Command::new(program).arg("--version").output();
    let there = answer.is_ok_and(|output| output.status.success());
    if !there {
        println!("SKIPPED: {program} not available");
    }
    there
}

/// A folder with the consumers' sources, removed on drop.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("proxy-install-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a fresh folder");
        for name in ["all_reduce.c", "dynamic.c", "CMakeLists.txt"] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name);
            fs::copy(source, path.join(name)).expect("a source");
        }
        Self(path)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A shell command in it, which finds the installation in `$PREFIX` and by pkg-config and CMake.
    pub fn shell(&self, prefix: &Path, script: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-e", "-c", script])
            .current_dir(&self.0)
            .env("PREFIX", prefix)
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
            .env("CMAKE_PREFIX_PATH", prefix)
            // Cargo's own has the folders of the build in it.
            .env_remove("LD_LIBRARY_PATH");
        command
    }

    /// Runs an all-reduce over `library` and compares what every rank got with the main job's own expectation, byte by byte.
    pub fn reduces(&self, program: &mut Command, library: &Path) {
        let inputs: Vec<u8> = (0..RANKS)
            .flat_map(|rank| INPUTS.input(Dtype::Fp32, rank, ELEMENTS))
            .collect();
        let outputs = self.path("outputs");
        fs::write(self.path("inputs"), inputs).expect("a file");
        let _ = fs::remove_file(&outputs);
        program
            .current_dir(&self.0)
            .arg(library)
            .args([RANKS.to_string(), ELEMENTS.to_string()])
            .args(["inputs", "outputs"]);
        succeed(program);
        let outputs = fs::read(outputs).expect("what the ranks wrote");
        let wanted = |rank| golden(Op::AllReduce, Dtype::Fp32, INPUTS, RANKS, rank, ELEMENTS);
        let wanted: Vec<u8> = (0..RANKS).flat_map(wanted).collect();
        assert!(outputs == wanted, "not the bytes of the main job");
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is no reason to fail a test that has passed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that looks for libraries in `folder` besides those of the system.
pub fn program(path: &Path, folder: Option<&Path>) -> Command {
    let mut command = Command::new(path);
    match folder {
        Some(folder) => command.env("LD_LIBRARY_PATH", folder),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
    command
}

/// Runs a command and returns what it wrote, which is shown if it fails.
pub fn succeed(command: &mut Command) -> String {
    let output = finish(command);
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

/// Runs a command that writes less than a pipe holds; kills it when it takes too long.
pub fn finish(command: &mut Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let since = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if since.elapsed() > AMPLE {
            let _ = child.kill();
            break;
        }
        // Between two looks; nothing waits for it.
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("it is ours")
}
