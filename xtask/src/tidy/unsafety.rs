//! Rules about unsafe code: none in the core, elsewhere only in the places that are there for it, each use with its proof.

use super::source::{Source, has_word, words};
use super::{Report, Tree};

/// Where unsafe code may stand.
const PLACES: [&str; 6] = [
    "proxy-os/src/sys/",
    "proxy-os/src/nccom/",
    "proxy-os/src/device.rs",
    "proxy-ffi/examples/",
    "proxy-ffi/src/",
    "tests/",
];

/// How many lines above its use a proof may begin to end: attributes and the head of a statement fit in between.
const PROOF_WITHIN: usize = 6;

/// `core-forbids-unsafe`: by lint table or by attribute.
pub(super) fn core_forbids(tree: &Tree, report: &mut Report<'_>) {
    let forbids = tree.files.iter().any(|file| {
        let wanted = match file.path.as_str() {
            "proxy-core/Cargo.toml" => "unsafe_code = \"forbid\"",
            "proxy-core/src/lib.rs" => "#![forbid(unsafe_code)]",
            _ => return false,
        };
        file.lines
            .iter()
            .any(|line| line.raw.trim_start().starts_with(wanted))
    });
    if !forbids {
        report.add(
            "proxy-core/Cargo.toml",
            1,
            "proxy-core does not forbid `unsafe_code`",
        );
    }
}

/// `unsafe-place`: the keyword outside the places that are there for it.
pub(super) fn place(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&[""]).filter(|file| !file.is_under(&PLACES)) {
        for (number, line) in file.lines.iter().enumerate() {
            if has_word(&line.code, "unsafe") {
                report.at(
                    file,
                    number,
                    format!("unsafe code is allowed only in {}", PLACES.join(", ")),
                );
            }
        }
    }
}

/// `unsafe-argued`: every unsafe block and implementation has a proof just above.
pub(super) fn argued(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&[""]) {
        for number in uses(file) {
            if !file.comment_near(number, PROOF_WITHIN, |comment| comment.contains("SAFETY")) {
                report.at(
                    file,
                    number,
                    format!("no `SAFETY` comment within {PROOF_WITHIN} lines above"),
                );
            }
        }
    }
}

/// The lines with `unsafe {` or `unsafe impl`; the brace may stand on the next line.
fn uses(file: &Source) -> impl Iterator<Item = usize> {
    let lines = file.lines.iter().enumerate();
    lines.filter_map(move |(number, line)| {
        let is_use = |(at, word): (usize, &str)| {
            let after = line.code[at + word.len()..].trim_start();
            let next = || {
                file.lines
                    .get(number + 1)
                    .map_or("", |line| line.code.trim_start())
            };
            let after = if after.is_empty() { next() } else { after };
            word == "unsafe" && (after.starts_with('{') || after.starts_with("impl"))
        };
        words(&line.code).any(is_use).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    #[test]
    fn the_core_must_forbid_by_table_or_attribute() {
        let deny = tree(&[("proxy-core/Cargo.toml", "unsafe_code = \"deny\"\n")]);
        assert_eq!(found(core_forbids, &deny), ["proxy-core/Cargo.toml:1"]);
        let table = tree(&[(
            "proxy-core/Cargo.toml",
            "[lints.rust]\nunsafe_code = \"forbid\"\n",
        )]);
        assert_eq!(found(core_forbids, &table), Vec::<String>::new());
        let attribute = tree(&[("proxy-core/src/lib.rs", "//! x\n#![forbid(unsafe_code)]\n")]);
        assert_eq!(found(core_forbids, &attribute), Vec::<String>::new());
    }

    #[test]
    fn unsafe_out_of_its_place_is_found() {
        let text = "// unsafe\n#![allow(unsafe_code)]\nunsafe fn f() {}\n";
        let tree = tree(&[
            ("proxy-core/src/a.rs", text),
            ("proxy-os/src/worker.rs", text),
            ("proxy-os/src/sys/futex.rs", text),
            ("proxy-os/src/device.rs", text),
            ("tests/nccom/src/lib.rs", text),
        ]);
        assert_eq!(
            found(place, &tree),
            ["proxy-core/src/a.rs:3", "proxy-os/src/worker.rs:3"]
        );
    }

    #[test]
    fn a_use_without_a_proof_is_found() {
        let far = format!(
            "// SAFETY: too far.\n{}unsafe {{ f() }}\n",
            "x();\n".repeat(PROOF_WITHIN)
        );
        let tree = tree(&[
            (
                "a.rs",
                "// why\nunsafe { f() }\nunsafe impl Send for A {}\nlet x =\nunsafe\n{ f() };\n",
            ),
            (
                "b.rs",
                "// SAFETY: f has no precondition.\nunsafe { f() }\nunsafe fn g() {}\n",
            ),
            ("c.rs", &far),
        ]);
        assert_eq!(
            found(argued, &tree),
            ["a.rs:2", "a.rs:3", "a.rs:5", "c.rs:8"]
        );
    }
}
