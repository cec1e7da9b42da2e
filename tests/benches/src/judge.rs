//! From rounds to a verdict: each target is judged in every round, against figures of that round alone, and the median counts.
//! What is in doubt counts against us: of two middles the worse one, a figure that is missing, a counterpart that is not there.

use crate::plan::{Row, Side, Target};
use crate::run::{Round, Rounds};
use proxy_benches::clock::Figure;

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every target is.
    Met,
    /// What could be judged is; the rest had nothing, or not all, to compare with.
    Partly,
    /// A target is missed.
    Missed,
    /// A figure is not there that this project's own programs should have measured.
    Failed,
    /// Too few rounds were calm.
    Disturbed,
    /// The machine lacks what it needs, or all that it is to be compared with.
    Skipped,
    /// It has no target.
    Shown,
}

impl Verdict {
    /// Whether it makes the whole run a failure.
    pub(crate) const fn is_bad(self) -> bool {
        matches!(self, Self::Missed | Self::Failed | Self::Disturbed)
    }

    /// As the table says it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Partly => "partly",
            Self::Missed => "NOT MET",
            Self::Failed => "FAILED",
            Self::Disturbed => "DISTURBED",
            Self::Skipped => "skipped",
            Self::Shown => "-",
        }
    }
}

/// A target and what was found.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) asked: String,
    /// What was found and whether it is enough; `None`: nothing to compare with.
    pub(crate) found: Option<(f64, bool)>,
    /// Whether everything was there, in every round, that it is to be compared with.
    whole: bool,
    /// Whether a figure of our own programs was missing.
    failed: bool,
}

/// One row, judged.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) row: Row,
    pub(crate) ours: Option<Figure>,
    pub(crate) original: Option<Figure>,
    /// The best peer and its name.
    pub(crate) peer: Option<(&'static str, Figure)>,
    pub(crate) floor: Option<f64>,
    pub(crate) targets: Vec<Answer>,
    pub(crate) verdict: Verdict,
}

/// Judges a row.
pub(crate) fn judge(row: Row, rounds: &Rounds) -> Judged {
    let counted = &rounds.counted;
    let side = |side, key, middle| {
        let figures = counted.iter().filter_map(move |round| round.get(side, key));
        middle_of(figures, middle)
    };
    let peers = [Side::Mpi, Side::Iceoryx2]
        .into_iter()
        .filter_map(|peer| Some((peer.name(), side(peer, row.key, Middle::Lower)?)));
    let named = row.targets.iter().find_map(|target| match target {
        Target::Original(_, key) => Some(*key),
        _ => None,
    });
    let original = named.or(row.beside).unwrap_or(row.key);
    let floor = row.targets.iter().find_map(|target| match target {
        Target::Floor(_, keys) => Some(*keys),
        _ => None,
    });
    // Where no target names one: what measures the same operation bare.
    let bare = format!("floor.{}", row.key);
    let bare = [bare.as_str()];
    let keys = floor.unwrap_or(&bare);
    let floors = counted.iter().filter_map(|round| sum(round, keys));
    let targets: Vec<Answer> = (row.targets.iter())
        .map(|target| answer(row, *target, counted))
        .collect();
    Judged {
        row,
        ours: side(Side::Ours, row.key, Middle::Upper),
        original: side(Side::Original, original, Middle::Lower),
        peer: peers.min_by(|left, right| left.1.p50.total_cmp(&right.1.p50)),
        floor: median(floors, Middle::Lower),
        verdict: verdict(row, rounds, &targets),
        targets,
    }
}

fn verdict(row: Row, rounds: &Rounds, targets: &[Answer]) -> Verdict {
    let missing = |round: &Round| round.get(Side::Ours, row.key).is_none();
    let all = |is: fn(&Answer) -> bool| targets.iter().all(is);
    let any = |is: fn(&Answer) -> bool| targets.iter().any(is);
    if rounds
        .counted
        .iter()
        .any(|round| round.skipped && missing(round))
    {
        Verdict::Skipped
    } else if rounds.counted.iter().any(missing) || any(|answer| answer.failed) {
        Verdict::Failed
    } else if rounds.disturbed {
        Verdict::Disturbed
    } else if targets.is_empty() {
        Verdict::Shown
    } else if any(|answer| answer.found.is_some_and(|(_, enough)| !enough)) {
        Verdict::Missed
    } else if all(|answer| answer.found.is_some() && answer.whole) {
        Verdict::Met
    } else if any(|answer| answer.found.is_some()) {
        Verdict::Partly
    } else {
        Verdict::Skipped
    }
}

/// Judges a target by all rounds.
fn answer(row: Row, target: Target, rounds: &[Round]) -> Answer {
    let found: Vec<_> = (rounds.iter())
        .map(|round| found(row, target, round))
        .collect();
    let values = found.iter().filter_map(|found| found.ok());
    let (asked, bound) = told(target);
    let judged = match bound {
        Bound::Least(least) => median(values, Middle::Lower).map(|found| (found, found >= least)),
        Bound::Most(most) => median(values, Middle::Upper).map(|found| (found, found <= most)),
    };
    Answer {
        asked,
        found: judged,
        whole: found.iter().all(Result::is_ok)
            && rounds.iter().all(|round| is_whole(row, target, round)),
        failed: found.contains(&Err(Missing::Ours)),
    }
}

/// On which side of a number the good values are.
enum Bound {
    Least(f64),
    Most(f64),
}

fn told(target: Target) -> (String, Bound) {
    match target {
        Target::Original(times, _) => (format!(">= {times}x original"), Bound::Least(times)),
        Target::Peer(times, [only]) => {
            let asked = format!(">= {times}x {}", only.name());
            (asked, Bound::Least(times))
        }
        Target::Peer(times, _) => (format!(">= {times}x best peer"), Bound::Least(times)),
        Target::Floor(times, _) => (format!("<= {times} x floor"), Bound::Most(times)),
        Target::Flat(times, key) => (format!("<= {times} x {key}"), Bound::Most(times)),
        Target::Tail(times) => (format!("p99 <= {times} x p50"), Bound::Most(times)),
        Target::Most(limit) => (format!("<= {limit}"), Bound::Most(limit)),
        Target::TailMost(limit) => (format!("p99 <= {limit}"), Bound::Most(limit)),
    }
}

/// Whose figure is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// One of this project's own programs, which ran.
    Ours,
    /// A program that could not be had, or a peer that has failed.
    Counterpart,
}

/// What one round says about a target: a ratio, or the figure itself.
fn found(row: Row, target: Target, round: &Round) -> Result<f64, Missing> {
    let own = |key| round.get(Side::Ours, key).ok_or(Missing::Ours);
    let ours = own(row.key)?;
    match target {
        Target::Original(_, key) => {
            let ran = round.sides.contains_key(&Side::Original);
            let missing = if ran {
                Missing::Ours
            } else {
                Missing::Counterpart
            };
            let original = round.get(Side::Original, key).ok_or(missing)?;
            Ok(original.p50 / ours.p50)
        }
        Target::Peer(_, peers) => {
            let peers = peers.iter().filter_map(|peer| round.get(*peer, row.key));
            let best = peers.map(|figure| figure.p50).min_by(f64::total_cmp);
            Ok(best.ok_or(Missing::Counterpart)? / ours.p50)
        }
        Target::Floor(_, keys) => Ok(ours.p50 / sum(round, keys).ok_or(Missing::Ours)?),
        Target::Flat(_, key) => Ok(ours.p50 / own(key)?.p50),
        Target::Tail(_) => Ok(ours.p99 / ours.p50),
        Target::Most(_) => Ok(ours.p50),
        Target::TailMost(_) => Ok(ours.p99),
    }
}

/// Whether all peers were there that a target names: else the best of them is not known.
fn is_whole(row: Row, target: Target, round: &Round) -> bool {
    match target {
        Target::Peer(_, peers) => peers.iter().all(|peer| round.get(*peer, row.key).is_some()),
        _ => true,
    }
}

/// Our figures of these keys together.
fn sum(round: &Round, keys: &[&str]) -> Option<f64> {
    let figure = |key: &&str| Some(round.get(Side::Ours, key)?.p50);
    keys.iter().map(figure).sum()
}

/// Which of two middles counts.
#[derive(Debug, Clone, Copy)]
enum Middle {
    Lower,
    Upper,
}

/// The median of each percentile.
fn middle_of(figures: impl Iterator<Item = Figure> + Clone, middle: Middle) -> Option<Figure> {
    Some(Figure {
        p50: median(figures.clone().map(|figure| figure.p50), middle)?,
        p99: median(figures.map(|figure| figure.p99), middle)?,
    })
}

fn median(values: impl Iterator<Item = f64>, middle: Middle) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let place = match middle {
        Middle::Lower => values.len().saturating_sub(1) / 2,
        Middle::Upper => values.len() / 2,
    };
    values.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Unit;

    const BOTH: &[Side] = &[Side::Mpi, Side::Iceoryx2];
    const ROW: Row = Row {
        key: "append",
        group: "append",
        name: "append",
        unit: Unit::Time,
        targets: &[
            Target::Original(5.0, "append"),
            Target::Floor(3.0, &["swap", "exchange"]),
            Target::Tail(3.0),
            Target::Most(120.0),
        ],
        beside: None,
    };
    const PEER: Row = Row {
        targets: &[Target::Peer(2.0, BOTH), Target::Tail(3.0)],
        ..ROW
    };

    fn put(round: &mut Round, side: Side, key: &str, p50: f64) {
        let figure = Figure {
            p50,
            p99: 2.0 * p50,
        };
        let figures = round.sides.entry(side).or_default();
        figures.insert(key.to_owned(), figure);
    }

    fn round(ours: f64, original: f64) -> Round {
        let mut round = Round::default();
        for (side, key, p50) in [
            (Side::Ours, "append", ours),
            (Side::Ours, "swap", 20.0),
            (Side::Ours, "exchange", 30.0),
            (Side::Original, "append", original),
        ] {
            put(&mut round, side, key, p50);
        }
        round
    }

    fn rounds(counted: Vec<Round>) -> Rounds {
        Rounds {
            counted,
            ..Rounds::default()
        }
    }

    #[test]
    fn a_target_is_judged_by_the_median_of_its_rounds_ratios() {
        // Ratios of 6, 5 and 1: the disturbed round alone does not decide.
        let three = [(100.0, 600.0), (100.0, 500.0), (400.0, 400.0)];
        let three = three.map(|(ours, original)| round(ours, original));
        let judged = judge(ROW, &rounds(three.into()));
        let found: Vec<_> = judged.targets.iter().map(|answer| answer.found).collect();
        let wanted = [5.0, 2.0, 2.0, 100.0].map(|value| Some((value, true)));
        assert_eq!(found, wanted);
        assert_eq!((judged.floor, judged.verdict), (Some(50.0), Verdict::Met));
        assert_eq!(judged.peer, None);
    }

    #[test]
    fn of_two_middles_the_worse_one_counts() {
        // 5 and 4.9 times the original, of which 5 are asked for; 100 and 121, of which at most 120 are.
        let judged = judge(ROW, &rounds(vec![round(100.0, 500.0), round(100.0, 490.0)]));
        assert_eq!(judged.targets[0].found, Some((4.9, false)));
        let judged = judge(ROW, &rounds(vec![round(100.0, 900.0), round(121.0, 900.0)]));
        assert_eq!(judged.targets[3].found, Some((121.0, false)));
        assert_eq!(judged.ours.map(|figure| figure.p50), Some(121.0));
        assert_eq!(judged.verdict, Verdict::Missed);
    }

    #[test]
    fn one_target_that_is_missed_is_enough() {
        let judged = judge(ROW, &rounds(vec![round(100.0, 499.0)]));
        assert_eq!(judged.targets[0].found, Some((4.99, false)));
        assert!(judged.verdict == Verdict::Missed && judged.verdict.is_bad());
    }

    #[test]
    fn a_figure_of_our_own_that_is_missing_fails_the_row() {
        let verdict = |remove: &dyn Fn(&mut Round)| {
            let mut second = round(100.0, 900.0);
            remove(&mut second);
            judge(ROW, &rounds(vec![round(100.0, 900.0), second])).verdict
        };
        let without = |side, key: &'static str| {
            verdict(&move |round| {
                round
                    .sides
                    .get_mut(&side)
                    .map(|figures| figures.remove(key));
            })
        };
        assert_eq!(verdict(&|_| ()), Verdict::Met);
        // Our own, a floor, and one of the original design's, whose program ran.
        assert_eq!(without(Side::Ours, "append"), Verdict::Failed);
        assert_eq!(without(Side::Ours, "swap"), Verdict::Failed);
        assert_eq!(without(Side::Original, "append"), Verdict::Failed);
        assert!(Verdict::Failed.is_bad());
    }

    #[test]
    fn without_a_counterpart_a_row_is_met_only_partly() {
        let mut alone = round(100.0, 0.0);
        alone.sides.remove(&Side::Original);
        let judged = judge(ROW, &rounds(vec![alone]));
        assert!(judged.targets[0].found.is_none());
        assert!(judged.verdict == Verdict::Partly && !judged.verdict.is_bad());
        // The best peer is known only if all were there.
        let mut peers = round(100.0, 900.0);
        put(&mut peers, Side::Mpi, "append", 300.0);
        assert_eq!(judge(PEER, &rounds(vec![peers])).verdict, Verdict::Partly);
        let mut peers = round(100.0, 900.0);
        put(&mut peers, Side::Mpi, "append", 300.0);
        put(&mut peers, Side::Iceoryx2, "append", 250.0);
        let judged = judge(PEER, &rounds(vec![peers]));
        assert_eq!(judged.verdict, Verdict::Met);
        assert_eq!(
            judged.peer.map(|(name, found)| (name, found.p99)),
            Some(("iceoryx2", 500.0))
        );
    }

    #[test]
    fn rows_of_a_disturbed_group_are_not_met_whatever_they_say() {
        let mut disturbed = rounds(vec![round(100.0, 900.0)]);
        disturbed.disturbed = true;
        let verdict = judge(ROW, &disturbed).verdict;
        assert!(verdict == Verdict::Disturbed && verdict.is_bad());
    }

    #[test]
    fn a_row_that_the_machine_cannot_have_is_skipped_and_one_without_a_target_shown() {
        let mut skipped = Round::default();
        skipped.skipped = true;
        assert_eq!(judge(ROW, &rounds(vec![skipped])).verdict, Verdict::Skipped);
        let shown = Row {
            targets: &[],
            ..ROW
        };
        let judged = judge(shown, &rounds(vec![round(100.0, 900.0)]));
        assert_eq!((judged.verdict, judged.floor), (Verdict::Shown, None));
        assert_eq!(
            judge(shown, &rounds(vec![Round::default()])).verdict,
            Verdict::Failed
        );
    }
}
