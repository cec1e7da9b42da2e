//! Rules about exceptions that need a reason: lints that are let off, tests that are left out.

use super::source::Source;
use super::{Report, Tree};

/// `ignore-reason`.
pub(super) fn ignored(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&[""]) {
        for (number, line) in file.lines.iter().enumerate() {
            if line.code.contains("#[ignore]") {
                report.at(
                    file,
                    number,
                    "`#[ignore]` without a reason: write `#[ignore = \"...\"]`",
                );
            }
        }
    }
}

/// `lint-reason`.
pub(super) fn lints(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&[""]) {
        for (number, line) in file.lines.iter().enumerate() {
            let code = line.code.trim_start();
            let attribute = code.starts_with("#[") || code.starts_with("#![");
            let level = ["allow(", "expect("]
                .iter()
                .find(|level| code.contains(**level));
            if let Some(level) = level
                && attribute
                && !attribute_text(file, number).contains("reason =")
            {
                report.at(file, number, format!("`{level}...)` without a reason"));
            }
        }
    }
}

/// The code of the attribute that begins on this line, up to its closing bracket.
fn attribute_text(file: &Source, first: usize) -> String {
    let mut text = String::new();
    let mut open = 0_usize;
    for (_, c) in file.code_from(first) {
        text.push(c);
        match c {
            '[' => open += 1,
            ']' if open == 1 => break,
            ']' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    #[test]
    fn an_ignored_test_without_a_reason_is_found() {
        let text = "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"needs two cores\"]\nfn b() {}\n";
        assert_eq!(found(ignored, &tree(&[("a.rs", text)])), ["a.rs:2"]);
    }

    #[test]
    fn a_lint_let_off_without_a_reason_is_found() {
        let text = concat!(
            "#![allow(unsafe_code)]\n",
            "#[expect(\n    dead_code,\n    reason = \"used under loom\"\n)]\n",
            "#[cfg_attr(loom, allow(dead_code))]\n",
            "a.expect(b);\n",
        );
        assert_eq!(found(lints, &tree(&[("a.rs", text)])), ["a.rs:1", "a.rs:6"]);
    }
}
