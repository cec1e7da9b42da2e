//! Reading what `cargo test` prints: which test program runs, what its tests say they left out, and its `test result:` line.
//!
//! A test that needs what the machine lacks prints `SKIPPED: <what> not available` and returns, which libtest counts as
//! passed. With `--show-output` libtest shows what passed tests printed; from there such a test is counted as skipped.

use std::mem;
use std::ops::AddAssign;

/// How a line begins by which a test says what it left out.
const SKIPPED: &str = "SKIPPED: ";

/// Tells test programs to show what passed tests printed.
pub(crate) const SHOW: &str = "--show-output";

/// What the tests of one program, or of several, came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed; a program that ended without a result counts as one.
    pub(crate) failed: u64,
    /// Tests marked `#[ignore]`, and tests that said they left something out.
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
    /// A test that passed says that it left something out.
    Skipped {
        /// The name of the test.
        test: String,
        /// What it says.
        what: &'a str,
        /// Whether it is this test's first such line.
        first: bool,
    },
    /// The program that runs is through.
    Result(Counts),
}

/// Reads the output line by line. What tests printed is told apart from what libtest and cargo print, whatever it looks like.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Inside what tests printed; `None` outside.
    captured: Option<Captured>,
}

/// The output that tests printed: it stands between two equal headings.
#[derive(Debug)]
struct Captured {
    /// `successes:` or `failures:`.
    heading: String,
    /// The test that printed what follows.
    test: String,
    /// Whether that test has said already that it left something out.
    said: bool,
}

impl Reader {
    /// Reads one line; `None` for all that is of no interest here.
    pub(crate) fn event<'a>(&mut self, line: &'a str) -> Option<Event<'a>> {
        // Cargo's line about a program that failed: it may have died in the middle of its output.
        if line.starts_with("error: test failed, to rerun pass") {
            self.captured = None;
            return None;
        }
        if let Some(captured) = &mut self.captured {
            let skip = captured.skip(line);
            if line == captured.heading {
                self.captured = None;
            }
            return skip;
        }
        if matches!(line, "successes:" | "failures:") {
            self.captured = Some(Captured {
                heading: line.to_owned(),
                test: String::new(),
                said: false,
            });
            return None;
        }
        outside(line)
    }

    /// Whether the last line was printed by a test that passed; shown only where someone asks for it.
    pub(crate) fn in_successes(&self) -> bool {
        let captured = self.captured.as_ref();
        captured.is_some_and(|captured| captured.heading == "successes:")
    }
}

impl Captured {
    /// Reads one line of captured output. A test that failed has not left anything out.
    fn skip<'a>(&mut self, line: &'a str) -> Option<Event<'a>> {
        let name = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            name.clone_into(&mut self.test);
            self.said = false;
            return None;
        }
        let what = line.strip_prefix(SKIPPED)?;
        if self.heading != "successes:" || self.test.is_empty() {
            return None;
        }
        Some(Event::Skipped {
            test: self.test.clone(),
            what,
            first: !mem::replace(&mut self.said, true),
        })
    }
}

/// Reads a line that no test printed.
fn outside(line: &str) -> Option<Event<'_>> {
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
    /// Tests of that program that passed and left something out, before its result is there.
    unfinished: u64,
    /// What was left out, a line for each.
    skips: Vec<String>,
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
        self.unfinished = 0;
    }

    /// Takes what a line of output told; `part` names the part of a program, and without one that of doc tests.
    pub(crate) fn take<'a>(&mut self, event: Event<'a>, part: impl Fn(Option<&'a str>) -> &'a str) {
        match event {
            Event::Program(program) => self.start(part(Some(program))),
            Event::Docs(_) => self.start(part(None)),
            Event::Skipped { test, what, first } => self.skip(&test, what, first),
            Event::Result(counts) => self.result(counts),
        }
    }

    /// A test of the program that runs left something out.
    fn skip(&mut self, test: &str, what: &str, first: bool) {
        self.skips.push(format!("{SKIPPED}{what} ({test})"));
        self.unfinished += u64::from(first);
    }

    /// What tests left out, one line each.
    pub(crate) fn skips(&self) -> &[String] {
        &self.skips
    }

    /// The program that runs gives its result.
    pub(crate) fn result(&mut self, mut counts: Counts) {
        // libtest counts them as passed.
        let skipped = mem::take(&mut self.unfinished).min(counts.passed);
        counts.passed -= skipped;
        counts.skipped += skipped;
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
        let mut reader = Reader::default();
        let mut event = |line| reader.event(line);
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
            assert_eq!(Reader::default().event(line), None, "{line}");
        }
    }

    /// Reads a program's output as the verbs do.
    fn read(text: &str) -> Tally {
        let mut reader = Reader::default();
        let mut tally = Tally::default();
        for line in text.lines() {
            if let Some(event) = reader.event(line) {
                tally.take(event, |_| "part");
            }
        }
        tally.finish();
        tally
    }

    const SHOWN: &str = "     Running tests/a.rs (target/debug/deps/a-01ab)
test skips ... ok
test works ... ok

successes:

---- skips stdout ----
p99 12 us
SKIPPED: SCHED_FIFO not available
SKIPPED: a fourth CPU not available

---- works stdout ----
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
it was not SKIPPED: today


successes:
    skips
    works
";

    #[test]
    fn a_test_that_leaves_something_out_is_skipped_and_every_line_is_kept() {
        let tally = read(&format!("{SHOWN}\n{OK}\n"));
        assert_eq!(tally.total(), counts(2, 0, 2, 0.25));
        assert_eq!(
            tally.skips(),
            [
                "SKIPPED: SCHED_FIFO not available (skips)",
                "SKIPPED: a fourth CPU not available (skips)"
            ]
        );
    }

    #[test]
    fn a_test_that_fails_has_not_left_anything_out() {
        let tally = read(
            "     Running tests/a.rs (target/debug/deps/a-01ab)

failures:

---- breaks stdout ----
SKIPPED: the half of it not available
test result: ok. 9 passed; 0 failed; 0 ignored

failures:
    breaks

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s",
        );
        assert_eq!(tally.total(), counts(1, 1, 0, 0.5));
        assert_eq!(tally.skips(), [""; 0]);
    }

    #[test]
    fn what_was_left_out_counts_for_its_own_program() {
        let died = SHOWN.split("---- works").next().expect("its head");
        let next = "     Running tests/b.rs (target/debug/deps/b-01ab)";
        let text = format!("{died}\nerror: test failed, to rerun pass `--test a`\n{next}\n{OK}\n");
        let tally = read(&text);
        assert_eq!(tally.total(), counts(3, 1, 1, 0.25));
        assert_eq!(tally.skips().len(), 2);
    }

    #[test]
    fn what_passed_tests_printed_is_known_as_theirs() {
        let mut reader = Reader::default();
        let mut inside = Vec::new();
        for line in SHOWN.lines() {
            reader.event(line);
            if reader.in_successes() {
                inside.push(line);
            }
        }
        assert_eq!(inside.first(), Some(&"successes:"));
        assert_eq!(inside.last(), Some(&""));
        assert!(inside.contains(&"p99 12 us"), "{inside:?}");
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
