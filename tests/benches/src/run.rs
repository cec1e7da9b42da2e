//! Runs groups in rounds, A B A B: in each round the floor, ours and every counterpart, one after the other, each in processes of
//! its own. A round that was disturbed is thrown away, and said to be.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::peers;
use crate::plan::Side;
use proxy_benches::clock::Figure;
use proxy_benches::machine::Load;
use proxy_benches::tools;

/// Foreign load that makes a round worthless, in CPUs.
const NOISE: f64 = 0.1;
/// Between the round's begin and its end the cache-line round trip changed by more: the CPUs were taken away, or moved apart. From
/// round to round it may change, as a figure is compared with those of its own round alone.
const DRIFT: f64 = 1.6;

/// What one side said in one round.
pub(crate) type Figures = BTreeMap<String, Figure>;

/// One round of one group.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) sides: BTreeMap<Side, Figures>,
    /// Our own program said that the machine lacks what it needs.
    pub(crate) skipped: bool,
    /// CPUs that others used meanwhile.
    foreign: f64,
    /// The cache-line round trip at its end.
    trip_after: f64,
}

impl Round {
    /// A figure of a side.
    pub(crate) fn get(&self, side: Side, key: &str) -> Option<Figure> {
        self.sides.get(&side)?.get(key).copied()
    }

    /// The cache-line round trip at its begin and at its end, in nanoseconds.
    fn round_trips(&self) -> [f64; 2] {
        let before = self.sides.get(&Side::Ours).map_or(0.0, round_trip);
        [before, self.trip_after]
    }

    fn is_calm(&self) -> bool {
        let [before, after] = self.round_trips();
        let is_steady = before > 0.0 && before.max(after) <= before.min(after) * DRIFT;
        self.foreign <= NOISE && is_steady
    }
}

/// The programs beside ours.
#[derive(Debug)]
pub(crate) struct Programs {
    original: Option<PathBuf>,
    pub(crate) mpi: Option<PathBuf>,
    pub(crate) iceoryx2: Option<PathBuf>,
}

impl Programs {
    /// Builds what can be built, and says what cannot.
    pub(crate) fn build() -> Self {
        let programs = Self {
            original: tools::original(),
            mpi: tools::mpi().filter(|_| Command::new("mpirun").arg("--version").output().is_ok()),
            iceoryx2: tools::iceoryx2(),
        };
        for (program, what) in [
            (&programs.original, "C++ compiler"),
            (&programs.mpi, "Open MPI"),
            (&programs.iceoryx2, "iceoryx2"),
        ] {
            if program.is_none() {
                println!("SKIPPED: {what} not available");
            }
        }
        programs
    }
}

/// The rounds of a group.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Those that count: the calm ones, or all if none was.
    pub(crate) counted: Vec<Round>,
    /// Too few were calm: their figures are no measurement.
    pub(crate) disturbed: bool,
    /// What was said of each.
    pub(crate) told: Vec<String>,
}

/// Rounds of a group, until so many were calm; they are a measurement if most of these were.
pub(crate) fn rounds(group: &str, wanted: usize, programs: &Programs) -> Rounds {
    until_calm(group, wanted, || one(group, programs))
}

/// Gives up after three times the rounds that are wanted.
fn until_calm(group: &str, wanted: usize, mut run: impl FnMut() -> Round) -> Rounds {
    let (mut calm, mut bad, mut told) = (Vec::new(), Vec::new(), Vec::new());
    while calm.len() < wanted && told.len() < 3 * wanted {
        let round = run();
        let (is_calm, [before, after]) = (round.is_calm(), round.round_trips());
        let line = format!(
            "{group}: round {}, foreign load {:.2} CPUs, cache-line round trip {before:.0} ns, at its end {after:.0}{}",
            told.len() + 1,
            round.foreign,
            if is_calm {
                ""
            } else {
                ": DISTURBED, thrown away"
            }
        );
        println!("{line}");
        told.push(line);
        if is_calm {
            calm.push(round);
        } else {
            bad.push(round);
        }
    }
    let least = wanted / 2 + 1;
    let disturbed = calm.len() < least;
    if disturbed {
        let line = format!(
            "{group}: DISTURBED, {} of {} rounds were calm, {least} have to be",
            calm.len(),
            told.len()
        );
        println!("{line}");
        told.push(line);
    }
    Rounds {
        counted: if calm.is_empty() { bad } else { calm },
        disturbed,
        told,
    }
}

fn one(group: &str, programs: &Programs) -> Round {
    let load = Load::begin();
    let mut round = Round::default();
    let mut ours = child("floor").figures;
    if group != "floor" {
        let said = child(group);
        round.skipped = said.skipped;
        ours.extend(said.figures);
    }
    round.sides.insert(Side::Ours, ours);
    if let Some(program) = &programs.original
        && ["append", "done", "tick", "look", "tasks"].contains(&group)
    {
        let mut command = Command::new(program);
        command.arg(group);
        let original = told(&mut command).unwrap_or_default().figures;
        round.sides.insert(Side::Original, original);
    }
    if group == "bus" || group == "process" {
        peers::run(group, programs, &mut round);
    }
    round.trip_after = round_trip(&child("floor").figures);
    round.foreign = load.foreign();
    round
}

fn round_trip(figures: &Figures) -> f64 {
    figures.get("floor.rtt").map_or(0.0, |figure| figure.p50)
}

/// What a program said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) figures: Figures,
    /// The machine lacks what some of its figures need.
    skipped: bool,
}

/// This program as a child that measures a group.
fn child(group: &str) -> Said {
    let program = std::env::current_exe().expect("the path of this program");
    told(Command::new(program).args(["group", group])).unwrap_or_default()
}

/// Runs a program and takes its figures; what else it says goes on. `None`: it failed, and its figures mean nothing.
pub(crate) fn told(command: &mut Command) -> Option<Said> {
    match command.output() {
        Ok(output) => heard(&format!("{command:?}"), &output),
        Err(error) => {
            println!("{:?}: {error}", command.get_program());
            None
        }
    }
}

/// What a program has said that has ended.
pub(crate) fn heard(program: &str, output: &Output) -> Option<Said> {
    if !output.status.success() {
        println!("{program}: {}", output.status);
        println!("{}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let skipped = text.lines().filter(|line| line.starts_with("SKIPPED"));
    let said = Said {
        figures: parse(&text).into_iter().collect(),
        skipped: skipped.clone().next().is_some(),
    };
    skipped.for_each(|line| println!("{line}"));
    Some(said)
}

/// Lines `figure KEY P50 P99`.
fn parse(text: &str) -> Vec<(String, Figure)> {
    let figure = |line: &str| {
        let mut words = line.strip_prefix("figure ")?.split(' ');
        let key = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        let (p50, p99) = (number()?, number()?);
        Some((key, Figure { p50, p99 }))
    };
    text.lines().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(foreign: f64) -> Round {
        let trip = Figure::single(100.0);
        let mut round = Round {
            foreign,
            trip_after: 100.0,
            ..Round::default()
        };
        let figures = [("floor.rtt".to_owned(), trip)];
        round.sides.insert(Side::Ours, figures.into());
        round
    }

    /// Rounds, calm or not, in this order; then calm no more.
    fn run(wanted: usize, calm: &[bool]) -> Rounds {
        let mut order = calm.iter();
        until_calm("group", wanted, || match order.next() {
            Some(true) => round(0.0),
            _ => round(1.0),
        })
    }

    #[test]
    fn calm_rounds_are_as_many_as_wanted_and_no_more_are_made() {
        let rounds = run(5, &[true, false, true, true, false, true, true]);
        assert_eq!((rounds.counted.len(), rounds.disturbed), (5, false));
        assert_eq!(rounds.told.len(), 7);
        assert!(rounds.counted.iter().all(Round::is_calm));
    }

    #[test]
    fn most_of_the_wanted_rounds_have_to_be_calm() {
        for (wanted, calm, disturbed) in [(5, 3, false), (5, 2, true), (2, 2, false), (2, 1, true)]
        {
            let rounds = run(wanted, &vec![true; calm]);
            assert_eq!(
                (rounds.counted.len(), rounds.disturbed),
                (calm, disturbed),
                "{calm} of {wanted}"
            );
        }
        let rounds = run(5, &[true]);
        let last = "group: DISTURBED, 1 of 15 rounds were calm, 3 have to be";
        assert_eq!(rounds.told.last().map(String::as_str), Some(last));
    }

    #[test]
    fn rounds_that_were_all_disturbed_are_shown_as_such() {
        let rounds = run(2, &[]);
        assert_eq!((rounds.counted.len(), rounds.disturbed), (6, true));
    }

    #[test]
    fn a_round_whose_cache_line_has_no_figure_is_not_calm() {
        assert!(round(0.0).is_calm());
        assert!(!Round::default().is_calm());
    }

    #[test]
    fn figures_of_a_program_that_fails_do_not_count() {
        let script = |end: &str| {
            let said = format!("echo figure a 1 2; echo SKIPPED by a test; {end}");
            told(Command::new("sh").args(["-c", &said]))
        };
        let said = script("true").expect("it ends well");
        let figure = Figure { p50: 1.0, p99: 2.0 };
        assert_eq!((said.figures.get("a"), said.skipped), (Some(&figure), true));
        assert!(script("exit 3").is_none());
        assert!(told(&mut Command::new("/nonexistent/program")).is_none());
    }
}
