//! Rules about the bare text: no marks of unfinished work, no paths of one machine, no space at the end of a line.

use super::source::{has_word, words};
use super::{Report, Tree};

/// Marks of unfinished work, as they stand in comments.
const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Calls that stand for unwritten code.
const STUBS: [&str; 2] = ["todo", "unimplemented"];

/// Folders at the root of a machine that a path in the repository never means. Put together here, so that this file
/// does not hold them.
const ROOTS: [&str; 3] = [
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "home/"),
];

/// `unfinished`: in the comments and code of Rust files, and anywhere in settings and scripts.
pub(super) fn unfinished(tree: &Tree, report: &mut Report<'_>) {
    for file in &tree.files {
        let is_settings = file.path.ends_with(".toml") || file.is_under(&[".ci/"]);
        for (number, line) in file.lines.iter().enumerate() {
            let commented = if is_settings {
                &line.raw
            } else {
                &line.comment
            };
            let is_stub = |(at, word): (usize, &str)| {
                STUBS.contains(&word) && line.code[at + word.len()..].starts_with('!')
            };
            let mark = MARKS.into_iter().find(|mark| has_word(commented, mark));
            let stub = STUBS.into_iter().find(|_| words(&line.code).any(is_stub));
            if let Some(found) = mark.or(stub) {
                report.at(
                    file,
                    number,
                    format!("`{found}`: finish it or open an issue"),
                );
            }
        }
    }
}

/// `trailing-space`.
pub(super) fn trailing_space(tree: &Tree, report: &mut Report<'_>) {
    for file in &tree.files {
        for (number, line) in file.lines.iter().enumerate() {
            if line.raw.ends_with([' ', '\t']) {
                report.at(file, number, "space at the end of the line");
            }
        }
    }
}

/// `machine-path`: an absolute path below a folder that other machines do not have.
pub(super) fn machine_paths(tree: &Tree, report: &mut Report<'_>) {
    for file in &tree.files {
        for (number, line) in file.lines.iter().enumerate() {
            if let Some(root) = ROOTS
                .into_iter()
                .find(|root| begins_a_path(&line.raw, root))
            {
                report.at(file, number, format!("a path of one machine: `{root}...`"));
            }
        }
    }
}

/// Whether `root` stands in the text as the beginning of a path, and not inside a longer one.
fn begins_a_path(text: &str, root: &str) -> bool {
    text.match_indices(root).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    #[test]
    fn marks_of_unfinished_work_are_found() {
        let mark = MARKS[0];
        let tree = tree(&[
            (
                "a.rs",
                &format!(
                    "// {mark}: later\nlet s = \"{mark}\";\nlet a = todo!();\nlet todo = 1;\n"
                ),
            ),
            ("b.toml", &format!("# {mark}\n")),
            (
                "c.md",
                &format!("The words {mark} and others are not allowed.\n"),
            ),
        ]);
        assert_eq!(found(unfinished, &tree), ["a.rs:1", "a.rs:3", "b.toml:1"]);
    }

    #[test]
    fn space_at_the_end_of_a_line_is_found() {
        let tree = tree(&[("a.md", concat!("a\n", "b ", "\nc\t", "\n"))]);
        assert_eq!(found(trailing_space, &tree), ["a.md:2", "a.md:3"]);
    }

    #[test]
    fn paths_of_one_machine_are_found_and_others_are_not() {
        let root = ROOTS[0];
        let tree = tree(&[(
            "a.md",
            &format!("see {root}a\nsee src{root}a\n`{root}`\n../shared{root}b\n"),
        )]);
        assert_eq!(found(machine_paths, &tree), ["a.md:1", "a.md:3"]);
    }
}
