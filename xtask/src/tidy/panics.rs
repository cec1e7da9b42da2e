//! Rule `panic`: no call that can panic in the code that ships in the core and the shell.

use super::{Report, Tree};

/// Calls that panic.
const CALLS: [&str; 4] = [".unwrap()", ".expect(", "panic!", "unreachable!"];

/// An exception says why the call cannot fail, on its line or the one above.
const EXCEPTION: &str = "tidy: cannot fail because ";

/// `panic`.
pub(super) fn calls(tree: &Tree, report: &mut Report<'_>) {
    let excepts = |comment: &str| {
        let reason = comment.split_once(EXCEPTION);
        reason.is_some_and(|(_, reason)| !reason.trim().is_empty())
    };
    for file in tree.rust(&["proxy-core/src/", "proxy-os/src/"]) {
        for (number, line) in file.shipped() {
            let call = CALLS.iter().find(|call| line.code.contains(**call));
            if let Some(call) = call
                && !file.comment_near(number, 1, excepts)
            {
                report.at(file, number, format!("`{call}` can panic"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    #[test]
    fn calls_that_panic_are_found_outside_tests() {
        let text = concat!(
            "a.unwrap();\n",
            "b.unwrap_or(1); // .unwrap()\n",
            "c\n    .expect(\"x\");\n",
            "// tidy: cannot fail because d is never empty\n",
            "d.unwrap();\n",
            "// tidy: cannot fail because \n",
            "unreachable!();\n",
            "#[cfg(test)]\nmod t { fn f() { panic!(); } }\n",
        );
        let tree = tree(&[("proxy-os/src/a.rs", text), ("tests/kit/src/a.rs", text)]);
        assert_eq!(
            found(calls, &tree),
            [
                "proxy-os/src/a.rs:1",
                "proxy-os/src/a.rs:4",
                "proxy-os/src/a.rs:8"
            ]
        );
    }
}
