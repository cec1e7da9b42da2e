//! Where functions begin and end.

use super::source::{Source, words};

/// One function with a body.
#[derive(Debug, PartialEq)]
pub(super) struct Function {
    /// Its name; `$name` inside a macro.
    pub(super) name: String,
    /// The line of `fn`, counted from 0.
    pub(super) first: usize,
    /// The line of the closing brace.
    pub(super) last: usize,
}

impl Function {
    /// Lines from `fn` to the closing brace, both included.
    pub(super) fn length(&self) -> usize {
        self.last - self.first + 1
    }
}

/// The functions of a file, nested ones too, in the order in which they begin.
pub(super) fn functions(file: &Source) -> Vec<Function> {
    let mut found = Vec::new();
    for (first, line) in file.lines.iter().enumerate() {
        for (at, word) in words(&line.code) {
            if word != "fn" {
                continue;
            }
            // `fn(` is the type of a function pointer and has no name.
            let after = line.code[at + word.len()..].trim_start();
            let length = after.find(['(', '<', ' ']).unwrap_or(after.len());
            if length == 0 {
                continue;
            }
            let before = line.code[..at].chars().count();
            if let Some(last) = end_of_body(file, first, before) {
                let name = after[..length].to_owned();
                found.push(Function { name, first, last });
            }
        }
    }
    found
}

/// The line of the closing brace of the function whose `fn` stands behind `before` characters; `None` without a body.
fn end_of_body(file: &Source, first: usize, before: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (line, c) in file.code_from(first).skip(before) {
        match c {
            '(' | '[' if braces == 0 => brackets += 1,
            ')' | ']' if braces == 0 => brackets = brackets.saturating_sub(1),
            '{' if brackets == 0 => braces += 1,
            '}' if brackets == 0 => match braces {
                0 => return None,
                1 => return Some(line),
                _ => braces -= 1,
            },
            ';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_found_and_declarations_and_pointers_are_not() {
        let text = concat!(
            "trait T { fn none(&self, a: [u8; 4]) -> u8; }\n",
            "fn outer<const N: usize>(f: fn(u8) -> u8)\n",
            "-> [u8; { N }] {\n",
            "    fn inner() { g(|| { 1 }) }\n",
            "}\n",
        );
        let found = functions(&Source::read("a.rs", text));
        let shown: Vec<_> = found
            .iter()
            .map(|f| (f.name.as_str(), f.first, f.length()))
            .collect();
        assert_eq!(shown, [("outer", 1, 4), ("inner", 3, 1)]);
    }
}
