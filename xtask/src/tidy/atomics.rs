//! Rules about atomics: one facade in the core, a word on every ordering, a model for what is shared.

use super::source::{Source, has_word, words};
use super::{Report, Tree};

/// The orderings.
const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// How many lines above the statement the comment on an ordering may stand.
const COMMENT_WITHIN: usize = 4;

/// The one file of the core that may name atomics and loom.
const FACADE: &str = "proxy-core/src/sync.rs";

/// The models.
const MODELS: &str = "tests/loom/";

/// `atomics-facade`: the core takes atomics from its facade only, so that no access goes round the models. A gate like
/// `#[cfg(loom)]` takes nothing and may stand elsewhere.
pub(super) fn facade(tree: &Tree, report: &mut Report<'_>) {
    let direct = [
        "core::sync::atomic",
        "std::sync::atomic",
        "loom::",
        "atomic_polyfill::",
    ];
    let core = tree.rust(&["proxy-core/"]);
    for file in core.filter(|file| file.path != FACADE) {
        for (number, line) in file.lines.iter().enumerate() {
            if let Some(path) = direct.iter().find(|path| line.code.contains(**path)) {
                report.at(file, number, format!("`{path}` past the facade {FACADE}"));
            }
        }
    }
}

/// `ordering-argued`: every ordering has a comment, which names the access that it pairs with.
pub(super) fn orderings(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust(&["proxy-core/src/", "proxy-os/src/", "proxy-ffi/src/"]) {
        let imports = imports(file);
        for (number, line) in file.shipped() {
            let named = ordering(&line.code, &imports);
            // The comment may stand at the line or at the head of the call that it is an argument of.
            let commented = [number, line.statement]
                .iter()
                .any(|&at| file.comment_near(at, COMMENT_WITHIN, |comment| comment.contains("//")));
            if let Some(name) = named
                && !commented
                && !imports.lines.contains(&number)
            {
                report.at(
                    file,
                    number,
                    format!("no comment says what `{name}` pairs with"),
                );
            }
        }
    }
}

/// What the `use` items of a file say.
struct Imports {
    /// Their lines.
    lines: Vec<usize>,
    /// The orderings that can be named without `Ordering::`.
    bare: Vec<&'static str>,
}

fn imports(file: &Source) -> Imports {
    let mut lines = Vec::new();
    let mut bare = Vec::new();
    let mut item = String::new();
    for (number, line) in file.lines.iter().enumerate() {
        let code = line.code.trim_start();
        let begins =
            code.starts_with("use ") || (code.starts_with("pub") && code.contains(" use "));
        if item.is_empty() && !begins {
            continue;
        }
        lines.push(number);
        item += code;
        if code.contains(';') {
            bare.extend(brought_in(&item));
            item.clear();
        }
    }
    Imports { lines, bare }
}

/// The orderings that one `use` item brings in; a `Release` from elsewhere is none.
fn brought_in(item: &str) -> impl Iterator<Item = &'static str> {
    let all = item.contains("Ordering::*");
    let some = item.contains("Ordering::");
    let named = move |name: &&str| all || (some && has_word(item, name));
    ORDERINGS.into_iter().filter(named)
}

/// The first ordering that a line names. `Phase::Release` is none; a bare `Release` is one where it was imported.
fn ordering(code: &str, imports: &Imports) -> Option<&'static str> {
    for (at, word) in words(code) {
        let Some(name) = ORDERINGS.into_iter().find(|name| *name == word) else {
            continue;
        };
        let path = &code[..at];
        let bare = !path.ends_with("::") && imports.bare.contains(&name);
        if path.ends_with("Ordering::") || bare {
            return Some(name);
        }
    }
    None
}

/// `loom-model`: code that is built differently under loom is there for a model; without one it was never run.
pub(super) fn modelled(tree: &Tree, report: &mut Report<'_>) {
    let is_model = |file: &Source| {
        file.lines
            .iter()
            .any(|line| has_word(&line.code, "loom") && has_word(&line.code, "model"))
    };
    if tree.rust(&[MODELS]).any(is_model) {
        return;
    }
    for file in tree.rust(&[""]).filter(|file| !file.is_under(&[MODELS])) {
        let arm = file
            .lines
            .iter()
            .position(|line| line.code.contains("cfg") && has_word(&line.code, "loom"));
        if let Some(number) = arm {
            report.at(
                file,
                number,
                format!("a loom arm, and no `loom::model` in {MODELS}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted::{found, tree};
    use super::*;

    #[test]
    fn atomics_past_the_facade_are_found() {
        let text = "use core::sync::atomic::A;\n#[cfg(loom)]\nuse crate::sync::A;\nuse loom::B;\n";
        let tree = tree(&[
            ("proxy-core/src/a.rs", text),
            (FACADE, text),
            ("proxy-os/src/a.rs", text),
        ]);
        assert_eq!(
            found(facade, &tree),
            ["proxy-core/src/a.rs:1", "proxy-core/src/a.rs:4"]
        );
    }

    #[test]
    fn an_ordering_without_a_comment_is_found() {
        let text = concat!(
            "use x::Ordering::{self,\n",
            "    Acquire};\n",
            "let a = w.load(Acquire);\n",
            "// Pairs with the store in publish.\n",
            "let b = w.load(Ordering::Acquire);\n",
            "let c = w.load(Ordering::Relaxed); // own word\n",
            "\n\n\n\n\n",
            "let d = w.store(1, Ordering::Release);\n",
            "match phase { Phase::Release => Release }\n",
        );
        let tree = tree(&[("proxy-core/src/a.rs", text), ("tests/kit/src/a.rs", text)]);
        assert_eq!(
            found(orderings, &tree),
            ["proxy-core/src/a.rs:3", "proxy-core/src/a.rs:12"]
        );
    }

    #[test]
    fn a_name_from_elsewhere_is_no_ordering() {
        let text = "use a::{Acquire, Ordering};\n\n\n\n\nlet a = Acquire::Kept;\n";
        let tree = tree(&[("proxy-os/src/a.rs", text)]);
        assert_eq!(found(orderings, &tree), Vec::<String>::new());
    }

    #[test]
    fn a_comment_at_the_head_of_the_call_counts_for_its_arguments() {
        let text = concat!(
            "// Publishes: pairs with the load in poll.\n",
            "w.compare_exchange(\n    old,\n    new,\n    other,\n    last,\n    Ordering::Release,\n",
            "    Ordering::Relaxed,\n);\n",
        );
        assert_eq!(
            found(orderings, &tree(&[("proxy-os/src/a.rs", text)])),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_loom_arm_without_any_model_is_found() {
        let arm = (
            "proxy-core/src/sync.rs",
            "x();\n#[cfg(not(loom))]\nfn f() {}\n",
        );
        assert_eq!(found(modelled, &tree(&[arm])), ["proxy-core/src/sync.rs:2"]);
        let model = ("tests/loom/src/inbox.rs", "loom::model(|| {});\n");
        assert_eq!(found(modelled, &tree(&[arm, model])), Vec::<String>::new());
    }
}
