//! One text file as the rules see it: for Rust, each line is split into code and comment, and test code is marked.
//!
//! The split is lexical: comments, strings, raw strings and character literals are told apart, which is all that the
//! rules need. The contents of strings belong to neither half.

use std::iter::Peekable;
use std::ops::RangeInclusive;
use std::str::Chars;

/// One file.
#[derive(Debug)]
pub(super) struct Source {
    /// Relative to the workspace, with `/`.
    pub(super) path: String,
    /// Its lines, without line breaks.
    pub(super) lines: Vec<Line>,
}

/// One line.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// As it stands in the file.
    pub(super) raw: String,
    /// Without comments and without the contents of strings and characters. Empty in files that are not Rust.
    pub(super) code: String,
    /// The comments' text, their marks included.
    pub(super) comment: String,
    /// Whether the line is in test code: a `#[cfg(test)]` item, or a file of tests.
    pub(super) test: bool,
    /// Whether the line is in an item that exists only under loom.
    pub(super) loom: bool,
    /// The line, counted from 0, where the call began whose arguments this line continues; else the line itself.
    pub(super) statement: usize,
}

impl Source {
    /// Splits a file's text.
    pub(super) fn read(path: &str, text: &str) -> Self {
        let mut lines: Vec<Line> = text
            .lines()
            .map(|raw| Line {
                raw: raw.to_owned(),
                ..Line::default()
            })
            .collect();
        if path.ends_with(".rs") {
            Splitter::split(text, &mut lines);
            mark_gated(path, &mut lines);
            mark_statements(&mut lines);
        }
        Self {
            path: path.to_owned(),
            lines,
        }
    }

    /// Whether the file is Rust source.
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the path begins with one of these prefixes.
    pub(super) fn is_under(&self, prefixes: &[&str]) -> bool {
        prefixes.iter().any(|prefix| self.path.starts_with(prefix))
    }

    /// The lines that are not test code, with their numbers from 0.
    pub(super) fn shipped(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines.iter().enumerate().filter(|(_, line)| !line.test)
    }

    /// Whether a comment on this line or the `above` lines before it satisfies `wanted`.
    pub(super) fn comment_near(
        &self,
        line: usize,
        above: usize,
        wanted: impl Fn(&str) -> bool,
    ) -> bool {
        let first = line.saturating_sub(above);
        self.lines[first..=line]
            .iter()
            .any(|line| wanted(&line.comment))
    }

    /// The code from this line on, as (line, character) pairs; every line ends with a line break.
    pub(super) fn code_from(&self, line: usize) -> impl Iterator<Item = (usize, char)> {
        code_from(&self.lines, line)
    }
}

fn code_from(lines: &[Line], first: usize) -> impl Iterator<Item = (usize, char)> {
    let numbered = lines.iter().enumerate().skip(first);
    numbered.flat_map(|(number, line)| line.code.chars().chain(['\n']).map(move |c| (number, c)))
}

/// The identifiers and keywords of a piece of code, each with its place.
pub(super) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + code[rest..].find(in_word)?;
        let end = code[start..]
            .find(|c| !in_word(c))
            .map_or(code.len(), |length| start + length);
        rest = end;
        Some((start, &code[start..end]))
    })
}

/// Whether a piece of code holds this identifier or keyword.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    words(code).any(|(_, found)| found == word)
}

/// Puts every character of a file where it belongs.
struct Splitter<'a> {
    rest: Peekable<Chars<'a>>,
    lines: std::slice::IterMut<'a, Line>,
    line: Option<&'a mut Line>,
}

impl<'a> Splitter<'a> {
    fn split(text: &'a str, lines: &'a mut [Line]) {
        let mut lines = lines.iter_mut();
        let line = lines.next();
        let mut splitter = Self {
            rest: text.chars().peekable(),
            lines,
            line,
        };
        while let Some(c) = splitter.next() {
            splitter.place(c);
        }
    }

    /// Takes a character; a line break moves on to the next line.
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line = self.lines.next();
        }
        Some(c)
    }

    fn place(&mut self, c: char) {
        match (c, self.rest.peek().copied()) {
            ('\n', _) => {}
            ('/', Some('/')) => self.line_comment(c),
            ('/', Some('*')) => self.block_comment(c),
            ('"', _) => self.string(0, true),
            ('r', Some('"' | '#')) if !self.ends_in_word() || self.is_string_prefix() => {
                self.raw_string();
            }
            ('\'', _) => self.quote(),
            _ => self.code(c),
        }
    }

    fn code(&mut self, c: char) {
        if let Some(line) = &mut self.line {
            line.code.push(c);
        }
    }

    fn comment(&mut self, c: char) {
        if let Some(line) = &mut self.line {
            line.comment.push(c);
        }
    }

    fn ends_in_word(&self) -> bool {
        let code = self.line.as_ref().map_or("", |line| &line.code);
        code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    /// Whether the code so far ends in the `b` or `c` of `br"` or `cr"`.
    fn is_string_prefix(&self) -> bool {
        let code = self.line.as_ref().map_or("", |line| &line.code);
        matches!(words(code).last(), Some((at, "b" | "c")) if at + 1 == code.len())
    }

    fn line_comment(&mut self, first: char) {
        self.comment(first);
        while let Some(c) = self.rest.next_if(|&c| c != '\n') {
            self.comment(c);
        }
    }

    fn block_comment(&mut self, first: char) {
        self.comment(first);
        let mut depth = 0;
        let mut before = first;
        while let Some(c) = self.next() {
            if c != '\n' {
                self.comment(c);
            }
            match (before, c) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    before = c;
                    continue;
                }
            }
            if depth == 0 {
                return;
            }
            before = ' ';
        }
    }

    /// `r` was taken: a raw string, or a raw identifier.
    fn raw_string(&mut self) {
        self.code('r');
        let mut hashes = 0;
        while self.rest.next_if_eq(&'#').is_some() {
            hashes += 1;
        }
        if self.rest.next_if_eq(&'"').is_some() {
            self.string(hashes, false);
        } else {
            self.code('#');
        }
    }

    /// The opening quote was taken: skips the contents up to the closing one.
    fn string(&mut self, hashes: usize, escapes: bool) {
        self.code('"');
        while let Some(c) = self.next() {
            if escapes && c == '\\' {
                self.next();
            } else if c == '"' {
                let mut closing = 0;
                while closing < hashes && self.rest.next_if_eq(&'#').is_some() {
                    closing += 1;
                }
                if closing == hashes {
                    self.code('"');
                    return;
                }
            }
        }
    }

    /// `'` was taken: a character literal, or a lifetime.
    fn quote(&mut self) {
        self.code('\'');
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('\\'), _) => {
                self.next();
                self.next();
                while self.next().is_some_and(|c| c != '\'') {}
                self.code('\'');
            }
            (Some(_), Some('\'')) => {
                self.next();
                self.next();
                self.code('\'');
            }
            _ => {}
        }
    }
}

/// Marks whole files of tests, and the items behind `#[cfg(test)]` and `#[cfg(loom)]`.
fn mark_gated(path: &str, lines: &mut [Line]) {
    if path.ends_with("/tests.rs") || path.contains("/tests/") || path.starts_with("tests/") {
        lines.iter_mut().for_each(|line| line.test = true);
    }
    for number in 0..lines.len() {
        let code = &lines[number].code;
        let gates = |gate: &str| {
            code.contains(&format!("#[cfg({gate})]"))
                || code.contains(&format!("#[cfg(all({gate},"))
        };
        let (test, loom) = (gates("test"), gates("loom"));
        if test || loom {
            for line in item_at(lines, number) {
                lines[line].test |= test;
                lines[line].loom |= loom;
            }
        }
    }
}

/// The lines of the item whose first attribute is on this line.
fn item_at(lines: &[Line], first: usize) -> RangeInclusive<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (line, c) in code_from(lines, first) {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '{' => braces += 1,
            '}' if braces == 1 => return first..=line,
            '}' => braces = braces.saturating_sub(1),
            ';' if braces == 0 && brackets == 0 => return first..=line,
            _ => {}
        }
    }
    first..=lines.len() - 1
}

/// Notes for each line where the call began whose arguments it continues.
fn mark_statements(lines: &mut [Line]) {
    let mut open: Vec<(char, usize)> = Vec::new();
    for (number, line) in lines.iter_mut().enumerate() {
        let calls = open.iter().rev().take_while(|(bracket, _)| *bracket != '{');
        line.statement = calls.last().map_or(number, |&(_, first)| first);
        for c in line.code.chars() {
            match c {
                '(' | '[' | '{' => open.push((c, number)),
                ')' | ']' | '}' => {
                    open.pop();
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> (String, String) {
        let mut source = Source::read("a.rs", text);
        let line = source.lines.remove(0);
        (line.code, line.comment)
    }

    #[test]
    fn comments_leave_the_code_and_strings_are_emptied() {
        let split = |text| {
            let (code, comment) = line(text);
            format!("{code}|{comment}")
        };
        assert_eq!(split("let a = 1; // why"), "let a = 1; |// why");
        assert_eq!(split("f(\"// no \\\" end\"); x"), "f(\"\"); x|");
        assert_eq!(
            split("f(r#\"a \" b\"#, br\"\\\"); x"),
            "f(r\"\", br\"\"); x|"
        );
        assert_eq!(split("a /* b /* c */ d */ e"), "a  e|/* b /* c */ d */");
        assert_eq!(
            split("m('\"', '\\'', '/', 'a) // z"),
            "m('', '', '', 'a) |// z"
        );
        assert_eq!(split("let r#type = for\"x\""), "let r#type = for\"\"|");
    }

    #[test]
    fn strings_and_comments_go_over_lines() {
        let source = Source::read("a.rs", "f(\"one\ntwo unsafe\"); g\n/* three\nfour */ h\n");
        let code: Vec<&str> = source.lines.iter().map(|line| line.code.as_str()).collect();
        assert_eq!(code, ["f(\"", "\"); g", "", " h"]);
        assert_eq!(source.lines[3].comment, "four */");
    }

    #[test]
    fn test_items_are_marked_to_their_end() {
        let text = "a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\nmod t {\n fn f() { }\n}\nc\n";
        let source = Source::read("src/a.rs", text);
        let marks: Vec<bool> = source.lines.iter().map(|line| line.test).collect();
        assert_eq!(
            marks,
            [false, true, true, false, true, true, true, true, false]
        );
        assert!(source.lines.iter().all(|line| !line.loom));
        assert!(Source::read("src/a.rs", "#[cfg(loom)]\nuse a;\n").lines[1].loom);
        assert!(Source::read("src/a/tests.rs", "a").lines[0].test);
        assert!(Source::read("proxy-os/tests/a.rs", "a").lines[0].test);
    }

    #[test]
    fn arguments_belong_to_the_line_of_their_call_and_bodies_do_not() {
        let text = "spawn(|| {\n  word.swap(\n    1,\n    X,\n  );\n});\n";
        let source = Source::read("a.rs", text);
        let statements: Vec<usize> = source.lines.iter().map(|line| line.statement).collect();
        assert_eq!(statements, [0, 1, 1, 1, 1, 5]);
    }
}
