//! `cargo xtask verify`: every way in which this project is checked beyond its tests, one row each, with a table at the end.
//!
//! A row runs whatever became of the rows before it. It passes only if it shows that something ran: a count that it read
//! from the check's own output. What a machine lacks makes a row skipped, which is shown and is no failure. README says
//! what each row proves and what it does not.

mod api;
mod coverage;
mod deny;
mod fuzz;
mod llvm;
mod miri;
mod programs;
mod transitions;

use std::env;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::child;
use crate::table;
use crate::workspace::Workspace;

/// What a row found.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// The check passed; this is what ran, with its count.
    Ran(String),
    /// Something that the check needs is not there.
    Skipped(String),
}

/// How a row is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// What belongs to every change: seconds instead of minutes.
    pub(crate) short: bool,
    /// Snapshots are written instead of compared.
    pub(crate) bless: bool,
}

/// One check.
struct Row {
    /// Its name on the command line.
    name: &'static str,
    /// Whether the short form has it. What every change runs anyway (the loom models in short, the fuzz targets' bodies over
    /// their corpora as plain tests) is not in it again.
    short: bool,
    run: fn(&Workspace, Options) -> Result<Found, String>,
}

/// Every check, in the order in which they run: the ones that fail soonest first.
const ROWS: &[Row] = &[
    row("deny", true, deny::run),
    row("transitions", true, transitions::run),
    row("api", true, api::run),
    row("abi", false, programs::abi),
    row("bare-x86", true, |_, _| own_verb(&["bare", "x86"])),
    row("bare-v7m", true, |_, _| own_verb(&["bare", "v7m"])),
    row("bare-v6m", true, |_, _| own_verb(&["bare", "v6m"])),
    row("valgrind", false, programs::valgrind),
    row("explore", false, programs::explore),
    row("fuzz", false, fuzz::run),
    row("world", false, |_, _| own_verb(&["sim"])),
    row("mutants", false, |_, _| own_verb(&["mutants"])),
    row("coverage", false, coverage::run),
    row("loom", false, |_, _| own_verb(&["loom", "--full"])),
    row("tsan", false, |_, _| own_verb(&["tsan"])),
    row("asan", false, |_, _| own_verb(&["asan"])),
    row("miri", false, miri::run),
];

const fn row(
    name: &'static str,
    short: bool,
    run: fn(&Workspace, Options) -> Result<Found, String>,
) -> Row {
    Row { name, short, run }
}

/// What a check may be called.
pub(crate) fn names() -> Vec<&'static str> {
    ROWS.iter().map(|row| row.name).collect()
}

/// A row that is a verb of its own may not run for longer.
const LIMIT: Duration = Duration::from_secs(2400);

/// The verb. `which` names rows; none means all, or those of the short form.
pub(crate) fn verb(
    workspace: &Workspace,
    which: &[String],
    options: Options,
) -> Result<ExitCode, String> {
    let rows = chosen(which, options)?;
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    for row in &rows {
        println!("\n== verify {}", row.name);
        let start = Instant::now();
        let (ran, result) = match (row.run)(workspace, options) {
            Ok(Found::Ran(what)) => (what, "passed".to_owned()),
            Ok(Found::Skipped(what)) => (String::new(), format!("SKIPPED: {what}")),
            Err(what) => {
                println!("{what}");
                failures.push(format!("{}: {what}", row.name));
                (String::new(), "FAILED".to_owned())
            }
        };
        let time = format!("{:.1} s", start.elapsed().as_secs_f64());
        println!("== verify {}: {result} in {time}", row.name);
        lines.push(vec![row.name.to_owned(), ran, time, result]);
    }
    println!(
        "\n{}",
        table::draw(&["check", "what ran", "time", "result"], &lines)
    );
    for failure in &failures {
        println!("FAILED: {failure}");
    }
    println!("{}", closing_line(&lines, failures.len(), begin.elapsed()));
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

fn closing_line(lines: &[Vec<String>], failed: usize, time: Duration) -> String {
    let skipped = lines
        .iter()
        .filter(|line| line[3].starts_with("SKIPPED"))
        .count();
    let passed = lines.len() - skipped - failed;
    let minutes = time.as_secs_f64() / 60.0;
    format!("verify: {passed} passed, {failed} failed, {skipped} skipped in {minutes:.1} min")
}

fn chosen(which: &[String], options: Options) -> Result<Vec<&'static Row>, String> {
    if which.is_empty() {
        return Ok(ROWS
            .iter()
            .filter(|row| row.short || !options.short)
            .collect());
    }
    let named = |name: &String| {
        let all: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        let row = ROWS.iter().find(|row| row.name == *name);
        row.ok_or_else(|| format!("no check is called {name}, accepted: {}", all.join(", ")))
    };
    which.iter().map(named).collect()
}

/// Runs another verb of this program as a child, and reads what it says.
fn own_verb(words: &[&str]) -> Result<Found, String> {
    let own = env::current_exe().map_err(|error| format!("no program: {error}"))?;
    let mut command = Command::new(own);
    command.args(words);
    listen(command, LIMIT)
}

/// Runs a command that says in its output what ran, see [`counted`].
fn listen(command: Command, limit: Duration) -> Result<Found, String> {
    let shown = child::rerun(&command);
    let mut said = Said::default();
    let status = child::lines_of(command, limit, |line| {
        println!("{line}");
        said.hear(line);
    })?;
    if !status.success() {
        return Err(format!("{status}; rerun: {shown}"));
    }
    said.found()
        .ok_or_else(|| format!("it does not say what ran; rerun: {shown}"))
}

/// What a check has said so far.
#[derive(Debug, Default)]
struct Said {
    closing: Option<String>,
    skipped: Option<String>,
    /// Tests that passed, by the lines of the test programs themselves.
    tests: u64,
}

impl Said {
    fn hear(&mut self, line: &str) {
        if let Some(what) = line.strip_prefix("SKIPPED: ") {
            self.skipped = Some(what.to_owned());
        } else if counted(line).is_some_and(|count| count > 0) {
            self.closing = Some(line.to_owned());
        }
        self.tests += tests(line).unwrap_or(0);
    }

    /// A check that left out all it had is skipped; one that left out a part says so in its own table.
    fn found(self) -> Option<Found> {
        let tests = (self.tests > 0).then(|| format!("{} tests passed", self.tests));
        match (self.closing.or(tests), self.skipped) {
            (Some(line), _) => Some(Found::Ran(line)),
            (None, Some(what)) => Some(Found::Skipped(what)),
            (None, None) => None,
        }
    }
}

/// The count in the closing line of a verb: `N passed, M failed`, `sim: N worlds in ...`, `mutants: N planted, ...`, `explored: N states, ...`.
fn counted(line: &str) -> Option<u64> {
    let number = |word: &str| word.parse().ok();
    if let Some((before, after)) = line.split_once(" passed, ") {
        return after
            .contains(" failed")
            .then(|| before.rsplit(' ').next())?
            .and_then(number);
    }
    let begins = ["sim: ", "mutants: ", "explored: "];
    let rest = begins.iter().find_map(|begin| line.strip_prefix(begin))?;
    let (count, rest) = rest.split_once(' ')?;
    let counted = ["worlds in", "planted", "states"];
    let counts = counted.iter().any(|what| rest.starts_with(what));
    counts.then(|| number(count))?
}

/// The count in `test result: ok. N passed; ...`.
fn tests(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("test result: ok. ")?;
    rest.split_once(" passed;")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Options = Options {
        short: true,
        bless: false,
    };

    fn heard(lines: &[&str]) -> Option<Found> {
        let mut said = Said::default();
        lines.iter().for_each(|line| said.hear(line));
        said.found()
    }

    #[test]
    fn a_row_shows_what_ran_or_what_it_lacked() {
        let ran = heard(&["x", "594 passed, 0 failed, 1 skipped"]);
        assert_eq!(
            ran,
            Some(Found::Ran("594 passed, 0 failed, 1 skipped".to_owned()))
        );
        let nothing = heard(&[
            "SKIPPED: tsan not available (why)",
            "0 passed, 0 failed, 0 skipped",
        ]);
        assert_eq!(
            nothing,
            Some(Found::Skipped("tsan not available (why)".to_owned()))
        );
        let part = heard(&[
            "SKIPPED: sizes not available",
            "bare: 42 passed, 0 failed, 0 skipped",
        ]);
        assert!(matches!(part, Some(Found::Ran(_))));
        for line in [
            "sim: 9 worlds in 1.0 s",
            "mutants: 31 planted, all found",
            "explored: 7 states, 9 transitions",
        ] {
            assert_eq!(heard(&[line]), Some(Found::Ran(line.to_owned())));
        }
        let result = "test result: ok. 3 passed; 0 failed; 0 ignored";
        let tests = heard(&[result, result]);
        assert_eq!(tests, Some(Found::Ran("6 tests passed".to_owned())));
        assert_eq!(heard(&["0 passed, 0 failed"]), None, "nothing ran");
        assert_eq!(heard(&[]), None);
    }

    #[test]
    fn rows_are_chosen_by_name_and_by_form() {
        let all = chosen(&[], Options::default()).expect("no name is wrong");
        let short = chosen(&[], SHORT).expect("no name is wrong");
        assert_eq!(all.len(), ROWS.len());
        assert!(short.len() < all.len() && !short.is_empty());
        let one = chosen(&["miri".to_owned()], SHORT).expect("there is such a row");
        assert_eq!(one.len(), 1, "also one that is not in the short form");
        assert!(chosen(&["mir".to_owned()], SHORT).is_err());
    }
}
