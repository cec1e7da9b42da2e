//! Row `deny`: licences, sources and duplicates of everything that ships or checks, from `cargo metadata` alone, so without a
//! network or a database; and that the version of Rust that the project promises is the one that it is built with.
//!
//! Not looked at: advisories, which need a database that is fetched.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::{Found, Options};
use crate::child;
use crate::workspace::Workspace;

/// Licences that code of this project may depend on: permissive ones that ask for a notice at most.
const LICENCES: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "NCSA",
    "Unicode-3.0",
    "Zlib",
];

/// Crates with another licence, and why that is no harm.
const EXCEPTED: [(&str, &str); 3] = [
    // Writes the C header when a developer asks for it; nothing of it is linked into what ships.
    ("cbindgen", "MPL-2.0"),
    // Of the host's tool that decodes frames of the images; nothing of it is linked into what ships.
    ("alterable_logger", "MPL-2.0"),
    ("colored", "MPL-2.0"),
];

/// The one place that dependencies may come from.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The system that the project is for.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Crates that may be there in several versions.
const TWICE: [&str; 2] = [
    // Derive macros of different age are built from it; neither version is in a program.
    "syn",
    // The parser behind cbindgen's settings file, which this project does not use.
    "winnow",
];

/// What ships, and most of what checks it.
const MAIN: &str = "Cargo.toml";

/// Every workspace of the repository that a check is built from.
const MANIFESTS: [&str; 3] = [MAIN, "tests/bare/Cargo.toml", "tests/fuzz/Cargo.toml"];

pub(super) fn run(workspace: &Workspace, _: Options) -> Result<Found, String> {
    let mut findings = Vec::new();
    let mut count = 0;
    for manifest in MANIFESTS {
        let packages = match packages(workspace, manifest) {
            Ok(packages) => packages,
            Err(what) if manifest == MAIN => return Err(what),
            // Its crates were never fetched, so nothing here is built from them.
            Err(_) => {
                println!("SKIPPED: crates of {manifest} not available");
                continue;
            }
        };
        count += packages.len();
        let all = packages.iter().filter_map(finding);
        let doubles = match manifest {
            MAIN => duplicates(&packages),
            // What only checks is not shipped, and its tree is not the project's to choose.
            _ => Vec::new(),
        };
        findings.extend(all.chain(doubles).map(|what| format!("{manifest}: {what}")));
    }
    findings.extend(promised(workspace)?);
    match findings.is_empty() {
        true => Ok(Found::Ran(format!("{count} packages, pinned Rust"))),
        false => Err(findings.join("\n")),
    }
}

fn packages(workspace: &Workspace, manifest: &str) -> Result<Vec<Value>, String> {
    let mut command = workspace.cargo(&["metadata", "--format-version", "1", "--locked"]);
    command.args(["--manifest-path", manifest]);
    // What other systems would need besides was never fetched on this one.
    command.args(["--filter-platform", PLATFORM]);
    let mut metadata: Value = serde_json::from_str(&child::stdout_of(&mut command)?)
        .map_err(|error| format!("cannot read the output of cargo metadata: {error}"))?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => Err("cargo metadata has no `packages`".to_owned()),
    }
}

/// What is wrong with one package.
fn finding(package: &Value) -> Option<String> {
    let name = package["name"].as_str().unwrap_or("?");
    let licence = package["license"].as_str().unwrap_or("");
    if !is_accepted(licence) && !EXCEPTED.contains(&(name, licence)) {
        let all = LICENCES.join(", ");
        return Some(format!("{name}: licence \"{licence}\", accepted: {all}"));
    }
    match package["source"].as_str() {
        None | Some(SOURCE) => None,
        Some(source) => Some(format!("{name}: source {source}, accepted: {SOURCE}")),
    }
}

/// Whether a licence expression can be met with the accepted ones: every part of an AND, one part of an OR.
fn is_accepted(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let plain = |part: &str| LICENCES.contains(&part.trim_matches(['(', ')', ' ']));
    // An OR inside brackets binds less than an AND beside them: "(A OR B) AND C".
    split_outside(&expression, " AND ").iter().all(|part| {
        let part = part.trim();
        let inner = part
            .strip_prefix('(')
            .and_then(|part| part.strip_suffix(')'));
        let part = inner.unwrap_or(part);
        part.split(" OR ").any(|one| one.split(" AND ").all(plain))
    })
}

/// The parts of a text between the separators that stand outside brackets.
fn split_outside<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    if !text.contains('(') {
        return vec![text];
    }
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && text[at..].starts_with(separator) => {
                parts.push(&text[start..at]);
                start = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Crates that are there in several versions and may not be.
fn duplicates(packages: &[Value]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or("?");
        versions
            .entry(text("name"))
            .or_default()
            .push(text("version"));
    }
    versions
        .into_iter()
        .filter(|(name, versions)| versions.len() > 1 && !TWICE.contains(name))
        .map(|(name, versions)| format!("{name} is there as {}", versions.join(" and ")))
        .collect()
}

/// The promised version of Rust is that of the pinned toolchain, so every build checks it.
fn promised(workspace: &Workspace) -> Result<Option<String>, String> {
    let read = |file: &str| {
        fs::read_to_string(workspace.root.join(file)).map_err(|error| format!("{file}: {error}"))
    };
    let (manifest, pin) = (read("Cargo.toml")?, read("rust-toolchain.toml")?);
    let promised = value(&manifest, "rust-version").ok_or("Cargo.toml has no rust-version")?;
    let pinned = value(&pin, "channel").ok_or("rust-toolchain.toml has no channel")?;
    let same = pinned == promised || pinned.starts_with(&format!("{promised}."));
    Ok((!same).then(|| format!("Cargo.toml promises Rust {promised}, the pin is {pinned}")))
}

/// The text that a line `key = "text"` gives.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| {
        let rest = line.strip_prefix(key);
        rest.is_some_and(|rest| rest.trim_start().starts_with('='))
    })?;
    line.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_accepted_if_it_can_be_met() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "MIT AND BSD-3-Clause",
        ] {
            assert!(is_accepted(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND GPL-3.0",
        ] {
            assert!(!is_accepted(bad), "{bad}");
        }
    }

    #[test]
    fn a_second_version_and_a_foreign_source_are_found() {
        let package = |version: &str, source: &str| serde_json::json!({"name": "x", "version": version, "license": "MIT", "source": source});
        let two = [package("1.0.0", SOURCE), package("2.0.0", SOURCE)];
        assert_eq!(duplicates(&two), ["x is there as 1.0.0 and 2.0.0"]);
        assert_eq!(duplicates(&two[..1]), Vec::<String>::new());
        assert_eq!(finding(&two[0]), None);
        assert!(finding(&package("1.0.0", "git+https://x.invalid")).is_some());
    }
}
