//! The compiler for a sanitizer: the toolchain's own, or one that comes with the source of its standard library.
//!
//! A toolchain seldom has that source, so a pair of packages of Debian is unpacked beside the build (137 MB to fetch; nothing is
//! installed).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Sanitizer, TARGET};
use crate::child;
use crate::workspace::Workspace;

/// The pinned toolchain's compiler, if it has the sanitizer's runtime; an error says why there is none.
pub(super) fn own(workspace: &Workspace, sanitizer: &Sanitizer) -> Result<PathBuf, String> {
    let (sysroot, _) = toolchain(workspace, sanitizer)?;
    Ok(sysroot.join("bin/rustc"))
}

/// Finds or fetches a compiler that comes with the source of its standard library and with the sanitizer's runtime; an error
/// says why there is none.
pub(crate) fn with_source(workspace: &Workspace, sanitizer: &Sanitizer) -> Result<PathBuf, String> {
    let (sysroot, runtime) = toolchain(workspace, sanitizer)?;
    if has_own_source(&sysroot) {
        return Ok(sysroot.join("bin/rustc"));
    }
    let place = super::folder(workspace, sanitizer).join("compiler");
    let wrapper = place.join("bin/rustc");
    // The wrapper is written last: where it is, all is there.
    if !wrapper.is_file() {
        fetch(&place, sanitizer.name)?;
        let name = libraries(&place.join("usr")).join(runtime.file_name().unwrap_or_default());
        link(&runtime, &name)?;
        write_wrapper(&place, &wrapper)?;
    }
    let version = child::stdout_of(Command::new(&wrapper).arg("-V"))?;
    println!("{}: {}", sanitizer.name, version.trim());
    Ok(wrapper)
}

/// The pinned toolchain, and in it the sanitizer's own code as a stable toolchain ships it and as a compiler looks for it.
fn toolchain(workspace: &Workspace, sanitizer: &Sanitizer) -> Result<(PathBuf, PathBuf), String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(format!("only on {TARGET}"));
    }
    let mut command = Command::new("rustc");
    command
        .args(["--print", "sysroot"])
        .current_dir(&workspace.root);
    let sysroot = PathBuf::from(child::stdout_of(&mut command)?.trim());
    let name = format!("librustc-stable_rt.{}.a", sanitizer.name);
    let runtime = libraries(&sysroot).join(&name);
    if !runtime.is_file() {
        return Err(format!("the toolchain has no {name}"));
    }
    Ok((sysroot, runtime))
}

/// Whether a toolchain has the source of its standard library, with the lock file that a build of it needs.
fn has_own_source(sysroot: &Path) -> bool {
    sysroot
        .join("lib/rustlib/src/rust/library/Cargo.lock")
        .is_file()
}

fn libraries(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(TARGET).join("lib")
}

/// Fetches the packages with apt and unpacks them into `place`.
fn fetch(place: &Path, verb: &str) -> Result<(), String> {
    let policy = child::stdout_of(Command::new("apt-cache").args(["policy", "rustc-web"]))?;
    let version = candidate(&policy).ok_or(
        "apt knows no package rustc-web; `apt-get update` may help where its lists are empty",
    )?;
    let base = libstd(version).ok_or_else(|| {
        format!("rustc-web has the version {version}, which does not begin with MAJOR.MINOR")
    })?;
    let mut wanted: Vec<String> = [
        "rustc-web",
        "libstd-rust-web-dev",
        base.as_str(),
        "rust-web-src",
    ]
    .iter()
    .map(|name| format!("{name}={version}"))
    .collect();
    let about = child::stdout_of(Command::new("apt-cache").args(["show", &wanted[2]]))?;
    wanted.push(llvm(&about).ok_or_else(|| format!("{base} depends on no libllvm"))?);
    // What an interrupted run left is of no use.
    let packages = place.join("packages");
    if place.exists() {
        fs::remove_dir_all(place).map_err(|error| cannot("remove", place, &error))?;
    }
    fs::create_dir_all(&packages).map_err(|error| cannot("make", &packages, &error))?;
    println!("{verb}: fetching {}", wanted.join(" "));
    let mut download = Command::new("apt-get");
    // The user of apt's sandbox may not write into our folder; that option matters to root alone.
    download.args(["-o", "APT::Sandbox::User=root", "-q=2", "download"]);
    child::stdout_of(download.args(&wanted).current_dir(&packages))?;
    unpack(&packages, place)
}

/// Unpacks every package and removes it.
fn unpack(packages: &Path, place: &Path) -> Result<(), String> {
    let unreadable = |error| cannot("read", packages, &error);
    for entry in fs::read_dir(packages).map_err(unreadable)? {
        let package = entry.map_err(unreadable)?.path();
        child::run(Command::new("dpkg").arg("-x").arg(&package).arg(place))?;
    }
    fs::remove_dir_all(packages).map_err(|error| cannot("remove", packages, &error))
}

fn link(original: &Path, name: &Path) -> Result<(), String> {
    symlink(original, name).map_err(|error| cannot("link", name, &error))
}

/// Writes the program that starts the unpacked compiler with the unpacked libraries.
fn write_wrapper(place: &Path, wrapper: &Path) -> Result<(), String> {
    let failed = |error| cannot("write", wrapper, &error);
    fs::create_dir_all(place.join("bin")).map_err(failed)?;
    let draft = place.join("bin/rustc.new");
    fs::write(&draft, WRAPPER).map_err(failed)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    fs::rename(&draft, wrapper).map_err(failed)
}

/// It finds its libraries from its own place.
const WRAPPER: &str = r#"#!/bin/sh
here=$(dirname "$(dirname "$(readlink -f "$0")")")
LD_LIBRARY_PATH=$here/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/usr/bin/rustc" "$@"
"#;

/// The candidate version in what `apt-cache policy` prints.
fn candidate(policy: &str) -> Option<&str> {
    policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "))
        .filter(|version| *version != "(none)")
}

/// The name of the package of the compiler's own libraries: it carries MAJOR.MINOR of the version.
fn libstd(version: &str) -> Option<String> {
    let mut numbers = version.split(['.', '+', '-', '~']);
    let (major, minor) = (numbers.next()?, numbers.next()?);
    major.parse::<u32>().ok()?;
    minor.parse::<u32>().ok()?;
    Some(format!("libstd-rust-web-{major}.{minor}"))
}

/// The libllvmNN among the dependencies that `apt-cache show` prints.
fn llvm(about: &str) -> Option<String> {
    let depends = about
        .lines()
        .find_map(|line| line.strip_prefix("Depends: "))?;
    depends
        .split([',', '|', ' '])
        .find(|word| {
            word.strip_prefix("libllvm")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .map(str::to_owned)
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {verb} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_and_the_packages_follow_from_what_apt_says() {
        let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n";
        assert_eq!(candidate(policy), Some("1.96.0+dfsg1-1~deb12u2"));
        assert_eq!(candidate("rustc-web:\n  Candidate: (none)\n"), None);
        assert_eq!(candidate(""), None);
        assert_eq!(
            libstd("1.96.0+dfsg1-1~deb12u2").as_deref(),
            Some("libstd-rust-web-1.96")
        );
        assert_eq!(libstd("unknown"), None);
        let about = "Package: x\nDepends: libc6 (>= 2.36), libllvm22 (>= 1:22.1), zlib1g\n";
        assert_eq!(llvm(about).as_deref(), Some("libllvm22"));
        assert_eq!(llvm("Depends: libc6, libllvm-dev\n"), None);
    }

    #[test]
    fn a_toolchain_is_taken_only_with_its_lock_file() {
        let sysroot = std::env::temp_dir().join(format!("xtask-tsan-{}", std::process::id()));
        let library = sysroot.join("lib/rustlib/src/rust/library");
        fs::create_dir_all(&library).expect("the folder for temporary files takes one more");
        let without = has_own_source(&sysroot);
        fs::write(library.join("Cargo.lock"), "").expect("the folder is there");
        let with = has_own_source(&sysroot);
        fs::remove_dir_all(&sysroot).expect("the folder is there");
        assert_eq!((without, with), (false, true));
    }
}
