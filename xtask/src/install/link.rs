//! Building what is installed: the static library, the shared ones out of it, whose exports are checked, and the tool.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{MAJOR, SOURCES, VERSION};
use crate::child;
use crate::workspace::Workspace;

/// The linker's lists of exports: of `libenc_proxy.so`, and of `libnrt.so.1`.
pub(super) const EXPORTS: [&str; 2] = ["libenc_proxy.map", "libnrt.map"];

/// The libraries of the system that the static library takes something of.
pub(super) const SYSTEM: [&str; 7] = [
    "-lgcc_s",
    "-lutil",
    "-lrt",
    "-lpthread",
    "-lm",
    "-ldl",
    "-lc",
];

/// The files of one build.
#[derive(Debug)]
pub(super) struct Libraries {
    pub(super) archive: PathBuf,
    pub(super) shared: PathBuf,
    pub(super) reverse: PathBuf,
}

/// Builds `proxytop` by itself: its feature would otherwise be one of the libraries', too.
pub(super) fn tool(workspace: &Workspace, profile: &str) -> Result<PathBuf, String> {
    let args = ["build", "--profile", profile, "-p", "proxy-os"];
    let more = ["--features", "proxytop", "--bin", "proxytop"];
    let artifacts = workspace.build_quietly(&[&args[..], &more].concat(), "proxytop")?;
    artifacts
        .iter()
        .filter(|artifact| artifact.target == "proxytop")
        .find_map(|artifact| artifact.executable.clone())
        .ok_or_else(|| "the build made no program `proxytop`".to_owned())
}

/// The name that programs linked with the shared library ask for.
pub(super) fn soname() -> String {
    format!("libenc_proxy.so.{MAJOR}")
}

/// Builds the static library with a profile of cargo, and the shared ones from it.
pub(super) fn libraries(workspace: &Workspace, profile: &str) -> Result<Libraries, String> {
    child::stdout_of(Command::new("cc").arg("--version"))
        .map_err(|error| format!("no C compiler, install one that is called cc: {error}"))?;
    let args = ["build", "--profile", profile, "-p", "proxy-ffi"];
    let artifacts = workspace.build_quietly(&args, "the libraries for C")?;
    let archive = artifacts
        .iter()
        .filter(|artifact| artifact.target == "enc_proxy")
        .find_map(|artifact| artifact.file("a").cloned())
        .ok_or("the build made no library `libenc_proxy.a`")?;
    let folder = workspace.target.join("install").join(profile);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let shared = folder.join(format!("libenc_proxy.so.{VERSION}"));
    let reverse = folder.join("libnrt.so.1");
    link_shared(&workspace.root, &archive, &shared)?;
    link_reverse(&workspace.root, &shared, &reverse)?;
    Ok(Libraries {
        archive,
        shared,
        reverse,
    })
}

fn link_shared(root: &Path, archive: &Path, shared: &Path) -> Result<(), String> {
    let names = exports(root, EXPORTS[0])?;
    let mut command = linker(root, EXPORTS[0], &soname(), shared);
    // Nothing in the library is referred to yet: each name that is asked for brings in what it needs, and nothing else is kept.
    command.args(names.iter().map(|name| format!("-Wl,-u,{name}")));
    command
        // Not unloaded by a dlclose: the watchdog's thread notices up to a second later that there is nothing left to watch.
        .args(["-Wl,--gc-sections", "-Wl,-z,relro,-z,now,-z,nodelete"])
        .arg(archive)
        .args(SYSTEM);
    child::run(&mut command)?;
    check(shared, &names)
}

fn link_reverse(root: &Path, shared: &Path, reverse: &Path) -> Result<(), String> {
    let mut command = linker(root, EXPORTS[1], "libnrt.so.1", reverse);
    command
        .args(["-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror"])
        // The two lie in one folder.
        .arg("-Wl,-rpath,$ORIGIN,--enable-new-dtags")
        .arg(root.join(SOURCES).join("libnrt.c"))
        .arg(shared);
    child::run(&mut command)?;
    check(reverse, &exports(root, EXPORTS[1])?)
}

fn linker(root: &Path, map: &str, soname: &str, output: &Path) -> Command {
    let mut script = std::ffi::OsString::from("--version-script=");
    script.push(root.join(SOURCES).join(map));
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-Wl,-z,defs"])
        .arg(format!("-Wl,-soname,{soname}"))
        // Not after `-Wl,`, where a comma in the path would end it.
        .arg("-Xlinker")
        .arg(script)
        .arg("-o")
        .arg(output);
    command
}

/// The names in a list of exports, in its order.
pub(super) fn exports(root: &Path, map: &str) -> Result<Vec<String>, String> {
    let path = root.join(SOURCES).join(map);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(names(&text))
}

/// The global names of a linker's version script: one a line, each with a semicolon.
fn names(map: &str) -> Vec<String> {
    map.lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| *name != "*" && !name.ends_with('}'))
        .map(str::to_owned)
        .collect()
}

/// A linker passes over a name that nothing defines, so the result is looked at.
fn check(library: &Path, names: &[String]) -> Result<(), String> {
    let mut command = Command::new("nm");
    command.args(["-D", "--defined-only"]).arg(library);
    let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let listing = child::stdout_of(&mut command)?;
    let found = defined(&listing);
    if found == wanted {
        return Ok(());
    }
    let difference: Vec<_> = found.symmetric_difference(&wanted).copied().collect();
    Err(format!(
        "{} exports not what {SOURCES} says: {}",
        library.display(),
        difference.join(", ")
    ))
}

/// Reads lines like `0000000000001110 T name@@VERSION`. The versions themselves are absolute symbols.
fn defined(listing: &str) -> BTreeSet<&str> {
    listing
        .lines()
        .filter_map(
            |line| match line.split_whitespace().collect::<Vec<_>>()[..] {
                [_, kind, name] if kind != "A" => name.split('@').next(),
                _ => None,
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_exports_is_read() {
        let map = "/* Text; more. */\nV_1 {\n    global:\n        one;\n        two;\n    local:\n        *;\n};\n";
        assert_eq!(names(map), ["one", "two"]);
    }

    #[test]
    fn versions_are_not_taken_for_functions() {
        let listing =
            "0000000000000000 A V_1\n0000000000001110 T one@@V_1\n0000000000001120 T two\n";
        assert_eq!(defined(listing), BTreeSet::from(["one", "two"]));
    }
}
