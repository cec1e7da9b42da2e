//! Rule `core-tree`: what the core depends on where it is shipped, and that the unmaintained polyfill is not in it.
//!
//! `atomic-polyfill` is for targets without compare-and-swap only; everywhere else a dependency audit must not find it.

use super::Finding;
use crate::child;
use crate::workspace::Workspace;

/// The rule's name.
pub(super) const RULE: &str = "core-tree";

/// Targets with compare-and-swap that embedders ship for.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Crates that must not be in the core's tree on these targets.
const BANNED: [&str; 1] = ["atomic-polyfill"];

/// Asks cargo for the tree of the core with all features on each target.
pub(super) fn of_core(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let mut found = Vec::new();
    for target in TARGETS {
        let args = [
            "tree",
            "--quiet",
            "--locked",
            "-p",
            "proxy-core",
            "--all-features",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--target",
            target,
        ];
        let tree = child::stdout_of(&mut workspace.cargo(&args))?;
        found.extend(findings(target, &tree));
    }
    Ok(found)
}

/// Reads lines like `heapless v0.9.4`.
fn findings(target: &str, tree: &str) -> Vec<Finding> {
    tree.lines()
        .filter(|line| {
            BANNED
                .iter()
                .any(|name| line.split(' ').next() == Some(name))
        })
        .map(|line| Finding {
            path: "proxy-core/Cargo.toml".into(),
            line: 0,
            rule: RULE,
            what: format!("{line} is in the tree of {target}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h80_the_polyfill_is_found_wherever_it_stands() {
        let tree = "proxy-core v0.1.0\nheapless v0.9.4\natomic-polyfill v1.0.3\n";
        let found = findings("x", tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "atomic-polyfill v1.0.3 is in the tree of x");
        assert!(findings("x", "proxy-core v0.1.0\nheapless v0.9.4\n").is_empty());
    }
}
