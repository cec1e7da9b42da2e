//! Reading what `cargo test` prints: which test program runs, and its `test result:` line.

use std::ops::AddAssign;

/// What the tests of one program, or of several, came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed; a program that ended without a result counts as one.
    pub(crate) failed: u64,
    /// Tests marked `#[ignore]`.
    pub(crate) skipped: u64,
    /// Run time in seconds, as the test programs measured it.
    pub(crate) seconds: f64,
}

impl Counts {
    /// The closing line of a test run.
    pub(crate) fn closing_line(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }

    /// Whether any test ran.
    pub(crate) fn any(&self) -> bool {
        self.passed + self.failed > 0
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.seconds += other.seconds;
    }
}

/// One line of interest in the output of `cargo test`.
#[derive(Debug, PartialEq)]
pub(crate) enum Event<'a> {
    /// A test program starts; the file name of the program.
    Program(&'a str),
    /// The doc tests of a crate start; the name of the crate.
    Docs(&'a str),
    /// The program that runs is through.
    Result(Counts),
}

/// Reads one line; `None` for all that is of no interest here.
pub(crate) fn event(line: &str) -> Option<Event<'_>> {
    if let Some(rest) = line.strip_prefix("test result: ") {
        return result(rest).map(Event::Result);
    }
    let trimmed = line.trim_start();
    if trimmed.len() == line.len() {
        return None;
    }
    if let Some(name) = trimmed.strip_prefix("Doc-tests ") {
        return Some(Event::Docs(name));
    }
    let (_, path) = trimmed.strip_prefix("Running ")?.rsplit_once('(')?;
    let path = path.strip_suffix(')')?;
    path.rsplit('/').next().map(Event::Program)
}

/// Adds up the results, each under the part that the program belongs to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    parts: Vec<(String, Counts)>,
    /// The part whose program started last.
    current: Option<usize>,
    /// Whether that program gave its result. One program may give several (merged doc tests).
    answered: bool,
}

impl Tally {
    /// Makes sure that a part is listed, even if nothing of it runs; returns its place.
    pub(crate) fn list(&mut self, part: &str) -> usize {
        let place = self.parts.iter().position(|(name, _)| name == part);
        place.unwrap_or_else(|| {
            self.parts.push((part.to_owned(), Counts::default()));
            self.parts.len() - 1
        })
    }

    /// A program of `part` starts.
    pub(crate) fn start(&mut self, part: &str) {
        self.finish();
        self.current = Some(self.list(part));
        self.answered = false;
    }

    /// The program that runs gives its result.
    pub(crate) fn result(&mut self, counts: Counts) {
        if let Some(part) = self.current {
            self.parts[part].1 += counts;
            self.answered = true;
        }
    }

    /// No further line comes from the program that runs: without a result it counts as one failed test.
    pub(crate) fn finish(&mut self) {
        if let Some(part) = self.current.take()
            && !self.answered
        {
            self.parts[part].1.failed += 1;
        }
    }

    /// The parts in order of appearance.
    pub(crate) fn parts(&self) -> &[(String, Counts)] {
        &self.parts
    }

    /// The sum over all parts.
    pub(crate) fn total(&self) -> Counts {
        let mut total = Counts::default();
        for (_, counts) in &self.parts {
            total += *counts;
        }
        total
    }
}

/// Reads `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.25s`.
fn result(text: &str) -> Option<Counts> {
    let (_, fields) = text.split_once(". ")?;
    let mut counts = Counts::default();
    for field in fields.split(';') {
        let words: Vec<&str> = field.split_whitespace().collect();
        match words[..] {
            [number, "passed"] => counts.passed = number.parse().ok()?,
            [number, "failed"] => counts.failed = number.parse().ok()?,
            [number, "ignored"] => counts.skipped = number.parse().ok()?,
            ["finished", "in", time] => counts.seconds = time.strip_suffix('s')?.parse().ok()?,
            _ => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.25s";

    fn counts(passed: u64, failed: u64, skipped: u64, seconds: f64) -> Counts {
        Counts {
            passed,
            failed,
            skipped,
            seconds,
        }
    }

    #[test]
    fn lines_of_interest_are_read() {
        assert_eq!(event(OK), Some(Event::Result(counts(3, 0, 1, 0.25))));
        assert_eq!(
            event("     Running unittests src/lib.rs (target/debug/deps/proxy_core-01ab)"),
            Some(Event::Program("proxy_core-01ab"))
        );
        assert_eq!(
            event("   Doc-tests proxy_core"),
            Some(Event::Docs("proxy_core"))
        );
    }

    #[test]
    fn other_lines_are_not() {
        for line in [
            "",
            "running 3 tests",
            "test a::b ... ok",
            "Running (by hand)",
            "   Compiling libc v0.2",
        ] {
            assert_eq!(event(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_without_a_result_is_a_failure() {
        let mut tally = Tally::default();
        tally.start("a");
        tally.start("b");
        tally.result(counts(2, 0, 0, 1.0));
        tally.start("b");
        tally.finish();
        assert_eq!(tally.parts()[0], ("a".to_owned(), counts(0, 1, 0, 0.0)));
        assert_eq!(tally.parts()[1], ("b".to_owned(), counts(2, 1, 0, 1.0)));
        assert_eq!(
            tally.total().closing_line(),
            "2 passed, 2 failed, 0 skipped"
        );
    }
}
