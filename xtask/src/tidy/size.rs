//! Rules about size and headers: files and functions that one can hold in the head, and a word on what a file is.

use super::functions::functions;
use super::source::Source;
use super::{Report, Tree};

/// A file has fewer lines than this.
const FILE_LINES: usize = 500;

/// A function has fewer lines than this.
const FUNCTION_LINES: usize = 60;

/// An exception says why, above the function or at the top of the file.
const EXCEPTION: &str = "tidy: long because ";

/// `file-length`.
pub(super) fn files(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&[""]) {
        let length = file.lines.len();
        let top = file.lines.iter().take_while(|line| line.code.is_empty());
        if length >= FILE_LINES && !top.into_iter().any(|line| excepts(&line.comment)) {
            report.add(
                &file.path,
                1,
                format!("{length} lines, fewer than {FILE_LINES} are allowed"),
            );
        }
    }
}

/// `function-length`.
pub(super) fn long_functions(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&[""]) {
        for function in functions(file) {
            let (name, length) = (&function.name, function.length());
            if length >= FUNCTION_LINES && !is_excepted(file, function.first) {
                let what =
                    format!("`{name}` has {length} lines, fewer than {FUNCTION_LINES} are allowed");
                report.at(file, function.first, what);
            }
        }
    }
}

/// `module-header`.
pub(super) fn headers(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&[""]) {
        let is_preamble = |code: &str| code.is_empty() || code.starts_with("#![");
        let mut top = file.lines.iter().take_while(|line| is_preamble(&line.code));
        if !top.any(|line| line.comment.starts_with("//!")) {
            report.add(
                &file.path,
                1,
                "no `//!` header that says what the file is and why",
            );
        }
    }
}

/// Whether the comments and attributes directly above a function hold an exception.
fn is_excepted(file: &Source, function: usize) -> bool {
    let above = file.lines[..function].iter().rev();
    above
        .take_while(|line| {
            line.code.is_empty() && !line.comment.is_empty()
                || line.code.trim_start().starts_with("#[")
        })
        .any(|line| excepts(&line.comment))
}

/// Whether a comment is an exception with a reason.
fn excepts(comment: &str) -> bool {
    comment
        .split_once(EXCEPTION)
        .is_some_and(|(_, reason)| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    fn long_function(above: &str) -> String {
        format!(
            "{above}fn f() {{\n{}}}\n",
            "    g();\n".repeat(FUNCTION_LINES - 2)
        )
    }

    #[test]
    fn a_long_file_is_found_unless_its_top_says_why() {
        let body = "x();\n".repeat(FILE_LINES);
        let excused = format!("//! A table.\n// tidy: long because it is one table\n{body}");
        let tree = tree(&[("a.rs", &body), ("b.rs", &excused), ("c.rs", "x();\n")]);
        assert_eq!(found(files, &tree), ["a.rs:1"]);
    }

    #[test]
    fn a_long_function_is_found_unless_the_line_above_says_why() {
        let tree = tree(&[
            ("a.rs", &long_function("\n")),
            (
                "b.rs",
                &long_function("// tidy: long because it is one table\n#[inline]\n"),
            ),
            ("c.rs", &long_function("// tidy: long because \n")),
        ]);
        assert_eq!(found(long_functions, &tree), ["a.rs:2", "c.rs:2"]);
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        let tree = tree(&[
            ("a.rs", "/// An item.\nfn f() {}\n"),
            ("b.rs", "#![no_std]\n//! What it is.\nfn f() {}\n"),
            ("c.rs", ""),
        ]);
        assert_eq!(found(headers, &tree), ["a.rs:1", "c.rs:1"]);
    }
}
