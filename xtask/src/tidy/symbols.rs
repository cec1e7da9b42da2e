//! Rule `core-symbols`: the built proxy-core refers to no allocator and to no std.
//!
//! The sources cannot show this alone: a generic function of a dependency is compiled into the core. So the library is
//! built and `nm` lists what it, and the libraries under it, leave to others to define.

use std::env;
use std::path::Path;
use std::process::Command;

use super::Finding;
use crate::child;
use crate::workspace::Workspace;

/// The rule's name.
pub(super) const RULE: &str = "core-symbols";

/// The hooks of the allocator, whatever the mangling around them.
const ALLOCATOR: [&str; 5] = [
    "__rust_alloc",
    "__rust_dealloc",
    "__rust_realloc",
    "__rust_no_alloc_shim",
    "handle_alloc_error",
];

/// Builds the core and looks at its symbols; `None` when this machine has no `nm`.
pub(super) fn of_core(workspace: &Workspace) -> Result<Option<Vec<Finding>>, String> {
    if !is_in_path("nm") {
        return Ok(None);
    }
    let args = [
        "build",
        "--quiet",
        "--release",
        "-p",
        "proxy-core",
        "--no-default-features",
    ];
    let artifacts = workspace.build(&args)?;
    let libraries = artifacts
        .iter()
        .filter_map(|artifact| artifact.file("rlib"));
    let mut command = Command::new("nm");
    // `-A` names the library on every line. The library's metadata is no object file: nm says so on stderr and goes on.
    command.args(["-A", "--undefined-only"]).args(libraries);
    let listing = child::stdout_of(&mut command)?;
    Ok(Some(findings(&listing)))
}

/// Reads lines like `libproxy_core.rlib:part.o:                 U symbol`.
fn findings(listing: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for line in listing.lines() {
        let Some((place, symbol)) = line.rsplit_once(" U ") else {
            continue;
        };
        if let Some(what) = trouble(symbol.trim()) {
            let library = place.split(':').next().unwrap_or(place);
            let library = Path::new(library).file_name().unwrap_or_default();
            found.push(Finding {
                path: library.to_string_lossy().into_owned(),
                line: 0,
                rule: RULE,
                what: format!("refers to {what}: {symbol}"),
            });
        }
    }
    found
}

/// What is wrong with a symbol that a library of the core refers to.
fn trouble(symbol: &str) -> Option<&'static str> {
    let of_crate = |name: &str| {
        // Crate `std` is `3std` in both manglings: after `_ZN`, or after the crate's hash, which ends in `_`.
        let length = name.len();
        symbol.starts_with(&format!("_ZN{length}{name}"))
            || (symbol.starts_with("_R") && symbol.contains(&format!("_{length}{name}")))
    };
    if ALLOCATOR.iter().any(|hook| symbol.contains(hook)) {
        Some("the allocator")
    } else if of_crate("std") {
        Some("std")
    } else if of_crate("alloc") {
        Some("alloc")
    } else {
        None
    }
}

fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocator_std_and_alloc_are_found_in_both_manglings() {
        for (symbol, what) in [
            ("__rust_alloc", "the allocator"),
            ("_RNvCshash_7___rustc12___rust_dealloc", "the allocator"),
            ("_ZN3std2io5stdio6_print17h0123456789abcdefE", "std"),
            ("_RNvNtNtCs9ltgdHTiPiY_3std2io5stdio6__print", "std"),
            (
                "_ZN5alloc7raw_vec12handle_error17h0123456789abcdefE",
                "alloc",
            ),
            ("_RNvNtCs1a2b3c_5alloc7raw_vec12handle_error", "alloc"),
        ] {
            assert_eq!(trouble(symbol), Some(what), "{symbol}");
        }
    }

    #[test]
    fn core_and_plain_c_are_not() {
        for symbol in [
            "_ZN4core9panicking5panic17h0123456789abcdefE",
            "_RNvNtCs1a2b3c_4core5alloc6layout",
            "memcpy",
        ] {
            assert_eq!(trouble(symbol), None, "{symbol}");
        }
    }

    #[test]
    fn a_finding_names_library_and_symbol() {
        let listing = "/t/libproxy_core.rlib:a.o:                 U memcpy\n\
                       /t/libproxy_core.rlib:a.o:                 U __rust_alloc\n\n";
        let found = findings(listing);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "libproxy_core.rlib:0: core-symbols: refers to the allocator: __rust_alloc"
        );
    }
}
