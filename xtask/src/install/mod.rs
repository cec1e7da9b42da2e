//! `cargo xtask install --prefix DIR`: what a program in C needs, all of it or nothing.
//!
//! | file | what |
//! |---|---|
//! | `include/enc_proxy.h` | the header |
//! | `lib/libenc_proxy.a`, `lib/libenc_proxy.so.VERSION` with its two links | the libraries |
//! | `lib/libnrt.so.1` | the reverse edge, for a collective library that was linked against that name |
//! | `bin/proxytop` | looks into processes that use the driver |
//! | `lib/pkgconfig/enc_proxy.pc`, `lib/cmake/enc_proxy/` | how to compile and link; found from where they lie, so a prefix can be moved |
//!
//! The shared libraries are linked here from the static one, because the versions of exports have to be given to the linker and
//! cargo's own list of exports stands in the way of that.

mod link;
mod place;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::child;
use crate::workspace::Workspace;
use link::{EXPORTS, Libraries};
use place::{Entry, What};

/// The release of all packages, this one included.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Programs and libraries of the older releases with this number can be used with this one.
const MAJOR: &str = env!("CARGO_PKG_VERSION_MAJOR");

/// Where the templates and lists of exports are, relative to the workspace.
const SOURCES: &str = "proxy-ffi/link";

/// The verb.
pub(crate) fn verb(workspace: &Workspace, prefix: &Path) -> Result<ExitCode, String> {
    for path in install(workspace, prefix, "release")? {
        println!("{}", path.display());
    }
    let prefix = absolute(prefix)?;
    println!("\nNext, in a shell:\n{}", next(&prefix));
    Ok(ExitCode::SUCCESS)
}

fn absolute(prefix: &Path) -> Result<PathBuf, String> {
    std::path::absolute(prefix).map_err(|error| format!("--prefix {}: {error}", prefix.display()))
}

/// What to type to build a program with what is installed. Where the prefix needs quotes the compiler's line needs `eval`, as
/// pkg-config writes names as a shell reads them.
fn next(prefix: &Path) -> String {
    let folder = |name: &str| child::quoted(prefix.join(name).as_os_str());
    let (pkgconfig, lib) = (folder("lib/pkgconfig"), folder("lib"));
    let line =
        format!("cc program.c $(pkg-config --cflags --libs enc_proxy) -Wl,-rpath,{lib} -o program");
    let line = match pkgconfig.starts_with('\'') {
        true => format!("eval \"{line}\""),
        false => line,
    };
    format!("export PKG_CONFIG_PATH={pkgconfig}\n{line}")
}

/// Builds with a profile of cargo and installs; returns the files. An error has changed nothing under the prefix.
pub(crate) fn install(
    workspace: &Workspace,
    prefix: &Path,
    profile: &str,
) -> Result<Vec<PathBuf>, String> {
    let prefix = absolute(prefix)?;
    let libraries = link::libraries(workspace, profile)?;
    let tool = link::tool(workspace, profile)?;
    let entries = entries(&workspace.root, &libraries, tool)?;
    place::place(&prefix, &entries)?;
    Ok(entries.iter().map(|entry| prefix.join(&entry.at)).collect())
}

/// What is installed. The files that make the rest visible to builds are last.
fn entries(root: &Path, libraries: &Libraries, tool: PathBuf) -> Result<Vec<Entry>, String> {
    let full = format!("lib/libenc_proxy.so.{VERSION}");
    let name = format!("libenc_proxy.so.{VERSION}");
    let soname = link::soname();
    Ok(vec![
        Entry::new(full, What::Copy(libraries.shared.clone())),
        Entry::new(format!("lib/{soname}"), What::Link(name)),
        Entry::new("lib/libenc_proxy.so", What::Link(soname)),
        Entry::new("lib/libenc_proxy.a", What::Copy(libraries.archive.clone())),
        Entry::new("lib/libnrt.so.1", What::Copy(libraries.reverse.clone())),
        Entry::new("bin/proxytop", What::Copy(tool)),
        Entry::new(
            "include/enc_proxy.h",
            What::Copy(root.join("proxy-ffi/include/enc_proxy.h")),
        ),
        filled(root, "enc_proxy.pc", "lib/pkgconfig")?,
        filled(root, "enc_proxy-config.cmake", "lib/cmake/enc_proxy")?,
        filled(
            root,
            "enc_proxy-config-version.cmake",
            "lib/cmake/enc_proxy",
        )?,
    ])
}

/// A template with its names replaced.
fn filled(root: &Path, name: &str, folder: &str) -> Result<Entry, String> {
    let path = root.join(SOURCES).join(name);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let private = private(root)?;
    let text = text
        .replace("@VERSION@", VERSION)
        .replace("@MAJOR@", MAJOR)
        .replace("@PRIVATE@", &private.join(" "))
        .replace("@PRIVATE_LIST@", &private.join(";"));
    Ok(Entry::new(format!("{folder}/{name}"), What::Text(text)))
}

/// What a program that has the static library in itself must give to the linker. A collective library that it opens later
/// looks for the reverse edge in the program, so it has to be there and be seen.
fn private(root: &Path) -> Result<Vec<String>, String> {
    let reverse = link::exports(root, EXPORTS[1])?;
    let mut flags: Vec<String> = reverse
        .iter()
        .map(|name| format!("-Wl,-u,{name},--export-dynamic-symbol={name}"))
        .collect();
    flags.extend(link::SYSTEM.map(str::to_owned));
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_next_can_be_typed() {
        assert_eq!(
            next(Path::new("/opt/proxy")),
            "export PKG_CONFIG_PATH=/opt/proxy/lib/pkgconfig\n\
             cc program.c $(pkg-config --cflags --libs enc_proxy) -Wl,-rpath,/opt/proxy/lib -o program"
        );
        let text = next(Path::new("/opt/a b"));
        assert!(
            text.starts_with("export PKG_CONFIG_PATH='/opt/a b/lib/pkgconfig'\neval \"cc "),
            "{text}"
        );
    }
}
