//! What a function comes to within its file: itself, and all functions and constants of the file that are named on the way. By names
//! alone, so it may be more than what runs; what it does not come to, it does not do.

/// A function or constant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'t> {
    pub(super) name: &'t str,
    pub(super) text: String,
    /// It has the attribute of a test.
    pub(super) is_test: bool,
}

/// All functions and constants of a file as rustfmt lays it out.
pub(super) fn items(source: &str) -> Vec<Item<'_>> {
    let lines: Vec<&str> = source.lines().collect();
    let mut items = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = name(line) else { continue };
        let attributes = lines[..at].iter().rev().map(|line| line.trim_start());
        let mut attributes = attributes.take_while(|line| line.starts_with(['#', '/']));
        items.push(Item {
            name,
            text: lines[at..end(&lines, at)].join("\n"),
            is_test: attributes.any(|line| line == "#[test]"),
        });
    }
    items
}

/// The name of the item that begins in a line.
fn name(line: &str) -> Option<&str> {
    let words = line.trim_start().split(' ');
    let mut words = words.skip_while(|word| word.starts_with("pub"));
    let first = match words.next()? {
        // `const fn`
        "const" => words
            .next()
            .filter(|word| *word != "fn")
            .or_else(|| words.next()),
        "fn" | "static" => words.next(),
        _ => None,
    }?;
    let end = first.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &first[..end.unwrap_or(first.len())];
    (!name.is_empty()).then_some(name)
}

/// The line behind the item that begins at `at`: the first that closes at its depth.
fn end(lines: &[&str], at: usize) -> usize {
    let depth = |line: &str| line.len() - line.trim_start().len();
    if lines[at].ends_with([';', '}']) {
        return at + 1;
    }
    let closes = |line: &str| {
        let line = line.trim_start();
        line.starts_with('}') || ["];", ");"].contains(&line)
    };
    let rest = lines.iter().skip(at + 1);
    let inside =
        rest.take_while(|line| depth(line) > depth(lines[at]) || line.is_empty() || !closes(line));
    (at + 2 + inside.count()).min(lines.len())
}

/// An item and all that it comes to.
pub(super) fn from<'i, 't>(
    start: &'i Item<'t>,
    items: &'i [Item<'t>],
) -> impl Iterator<Item = &'i Item<'t>> {
    let mut reached: Vec<&Item<'_>> = vec![start];
    let mut at = 0;
    while let Some(item) = reached.get(at) {
        let words = item.text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words: Vec<&str> = words.collect();
        for next in items {
            if words.contains(&next.name) && !reached.contains(&next) {
                reached.push(next);
            }
        }
        at += 1;
    }
    reached.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "const A: [u8; 2] = [\n    1,\n    2,\n];\n\nconst fn b() -> u8 {\n    A[0]\n}\n\n\
                          /// Why.\n#[test]\nfn c(\n    one: u8,\n) {\n    b();\n\n    if one {\n        d()\n    }\n}\n\n\
                          impl E {\n    pub(crate) fn d() {\n        A;\n    }\n\n    fn e() {}\n}\n";

    #[test]
    fn items_have_all_of_their_lines_and_no_more() {
        let items = items(SOURCE);
        let names: Vec<_> = items.iter().map(|item| (item.name, item.is_test)).collect();
        assert_eq!(
            names,
            [
                ("A", false),
                ("b", false),
                ("c", true),
                ("d", false),
                ("e", false)
            ]
        );
        assert_eq!(items[0].text, "const A: [u8; 2] = [\n    1,\n    2,\n];");
        assert!(items[2].text.ends_with("    }\n}"), "{}", items[2].text);
        assert_eq!(items[3].text, "    pub(crate) fn d() {\n        A;\n    }");
        assert_eq!(items[4].text, "    fn e() {}");
    }

    #[test]
    fn what_is_named_on_the_way_is_reached() {
        let items = items(SOURCE);
        let reached = |at: usize| {
            from(&items[at], &items)
                .map(|item| item.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(reached(1), ["b", "A"]);
        assert_eq!(reached(2), ["c", "b", "d", "A"]);
        assert_eq!(reached(4), ["e"]);
    }
}
