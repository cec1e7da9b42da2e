//! Rules about who may use whom: proxy-core <- proxy-os <- proxy-ffi, tests use all, nothing uses tests, xtask uses none;
//! and the core uses neither std nor alloc.

use super::source::{Source, words};
use super::{Report, Tree};
use crate::workspace::Package;

/// The three parts that ship, the innermost first: each may use those before it.
const LAYERS: [&str; 3] = ["proxy-core", "proxy-os", "proxy-ffi"];

/// The folder of the packages that test.
const TESTS: &str = "tests/";

/// The package of this program.
const XTASK: &str = "xtask";

/// Whether a package in the folder of `user` may use the package `used`, which lies in `folder`.
fn may_use(user: &str, used: &str, folder: &str) -> bool {
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    if used == XTASK || user == XTASK {
        return false;
    }
    if user.starts_with(TESTS) {
        return true;
    }
    match (layer(user), layer(used)) {
        (Some(user), Some(used)) => used < user,
        _ => !folder.starts_with(TESTS),
    }
}

/// The folder of a package, relative to the workspace.
fn folder(package: &Package) -> &str {
    package
        .manifest
        .trim_end_matches("Cargo.toml")
        .trim_end_matches('/')
}

/// `imports`: the dependency tables, whatever their kind.
pub(super) fn dependencies(tree: &Tree, report: &mut Report<'_>) {
    for user in &tree.packages {
        for used in &tree.packages {
            let depends = user.dependencies.contains(&used.name);
            if depends && !may_use(folder(user), &used.name, folder(used)) {
                let line = manifest_line(tree, &user.manifest, &used.name);
                let what = format!("`{}` must not depend on `{}`", user.name, used.name);
                report.add(&user.manifest, line, what);
            }
        }
    }
}

/// The line, counted from 1, of a dependency in a manifest.
fn manifest_line(tree: &Tree, manifest: &str, dependency: &str) -> usize {
    let file = tree.files.iter().find(|file| file.path == manifest);
    let line = file.and_then(|file| {
        let mut lines = file.lines.iter();
        lines.position(|line| line.raw.trim_start().starts_with(dependency))
    });
    line.map_or(1, |line| line + 1)
}

/// `imports-use`: the names of crates in the code. It finds what a dependency table under a new name would hide.
pub(super) fn names(tree: &Tree, report: &mut Report<'_>) {
    for user in tree.packages.iter().map(folder) {
        let forbidden: Vec<String> = tree
            .packages
            .iter()
            // A name that belongs to the project alone; `nccom`, say, is a module in other places.
            .filter(|used| used.name.starts_with("proxy-") && folder(used) != user)
            .filter(|used| !may_use(user, &used.name, folder(used)))
            .map(|used| used.crate_name.clone())
            .collect();
        for file in tree.rust(&[&format!("{user}/")]) {
            report_names(file, user, &forbidden, report);
        }
    }
}

fn report_names(file: &Source, user: &str, forbidden: &[String], report: &mut Report<'_>) {
    for (number, line) in file.lines.iter().enumerate() {
        for (_, word) in words(&line.code) {
            if forbidden.iter().any(|name| name == word) {
                report.at(file, number, format!("`{user}` must not use `{word}`"));
            }
        }
    }
}

/// `core-no-std`: proxy-core is `no_std` and names neither std nor alloc, under any feature. Items that exist only under
/// loom, which itself needs std, are free to.
pub(super) fn core_without_std(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&["proxy-core/src/"]) {
        let says_no_std = file.lines.iter().any(|line| line.code.contains("no_std"));
        if file.path == "proxy-core/src/lib.rs" && !says_no_std {
            report.add(&file.path, 1, "the crate is not `no_std`");
        }
        for (number, line) in file.shipped().filter(|(_, line)| !line.loom) {
            for (at, word) in words(&line.code) {
                if ["std", "alloc"].contains(&word) && is_crate_name(&line.code, at, word) {
                    report.at(file, number, format!("proxy-core must not use `{word}`"));
                }
            }
        }
    }
}

/// Whether the word at this place names a crate: the head of a path, or `extern crate`.
fn is_crate_name(code: &str, at: usize, word: &str) -> bool {
    let (before, after) = (&code[..at], &code[at + word.len()..]);
    let inside_path = before.ends_with("::")
        && words(before)
            .last()
            .is_some_and(|(end, last)| end + last.len() + 2 == at);
    before.trim_end().ends_with("extern crate") || (after.starts_with("::") && !inside_path)
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            // One library has a name of its own.
            crate_name: name.replace("proxy-ffi", "enc-proxy").replace('-', "_"),
            manifest: format!("{folder}/Cargo.toml"),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn packages() -> Vec<Package> {
        vec![
            package("proxy-core", "proxy-core", &["heapless"]),
            package("proxy-os", "proxy-os", &["proxy-core"]),
            package("proxy-ffi", "proxy-ffi", &["proxy-core", "proxy-os"]),
            package("proxy-kit", "tests/kit", &["proxy-os", "proxy-ffi"]),
            package("proxy-checks", "tests/checks", &["proxy-kit"]),
            package("xtask", "xtask", &["clap"]),
        ]
    }

    #[test]
    fn the_allowed_directions_pass() {
        let mut tree = tree(&[(
            "proxy-ffi/src/lib.rs",
            "use proxy_os::A;\nuse proxy_core::B;\n",
        )]);
        tree.packages = packages();
        assert_eq!(found(dependencies, &tree), Vec::<String>::new());
        assert_eq!(found(names, &tree), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_against_the_direction_is_found_at_its_line() {
        let mut tree = tree(&[(
            "proxy-core/Cargo.toml",
            "[dependencies]\nproxy-os.workspace = true\n",
        )]);
        tree.packages = packages();
        for (user, used) in [
            (0, "proxy-os"),
            (1, "proxy-ffi"),
            (2, "proxy-kit"),
            (3, "xtask"),
            (5, "proxy-core"),
        ] {
            tree.packages[user].dependencies.push(used.to_owned());
        }
        assert_eq!(
            found(dependencies, &tree),
            [
                "proxy-core/Cargo.toml:2",
                "proxy-os/Cargo.toml:1",
                "proxy-ffi/Cargo.toml:1",
                "tests/kit/Cargo.toml:1",
                "xtask/Cargo.toml:1"
            ]
        );
    }

    #[test]
    fn a_name_against_the_direction_is_found() {
        let mut tree = tree(&[
            ("proxy-core/src/a.rs", "// proxy_os\nuse proxy_os::A;\n"),
            ("proxy-os/src/a.rs", "fn f() { proxy_kit::g() }\n"),
            ("proxy-os/src/b.rs", "use enc_proxy::A;\n"),
            ("tests/kit/src/a.rs", "use enc_proxy::A;\n"),
            ("xtask/src/a.rs", "use proxy_core::A;\n"),
        ]);
        tree.packages = packages();
        assert_eq!(
            found(names, &tree),
            [
                "proxy-core/src/a.rs:2",
                "proxy-os/src/a.rs:1",
                "proxy-os/src/b.rs:1",
                "xtask/src/a.rs:1"
            ]
        );
    }

    #[test]
    fn std_and_alloc_in_the_core_are_found_and_core_alloc_is_not() {
        let tree = tree(&[
            ("proxy-core/src/lib.rs", "extern crate alloc;\n"),
            (
                "proxy-core/src/a.rs",
                "use std::vec;\nuse core::alloc::Layout;\nlet x = ::alloc::vec![];\n",
            ),
            (
                "proxy-core/src/b.rs",
                "#[cfg(test)]\nmod t { use std::vec; }\n#[cfg(loom)]\nuse std::vec;\n",
            ),
        ]);
        assert_eq!(
            found(core_without_std, &tree),
            [
                "proxy-core/src/lib.rs:1",
                "proxy-core/src/lib.rs:1",
                "proxy-core/src/a.rs:1",
                "proxy-core/src/a.rs:3"
            ]
        );
    }
}
