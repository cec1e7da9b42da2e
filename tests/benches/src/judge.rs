//! From rounds to a verdict: each target is judged in every round, against figures of that round alone, and the median counts.

use crate::plan::{Row, Target};
use crate::run::{Figures, Round, Side};
use proxy_benches::clock::Figure;

/// One row, judged.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) row: Row,
    pub(crate) ours: Option<Figure>,
    pub(crate) original: Option<Figure>,
    /// The best peer and its name.
    pub(crate) peer: Option<(&'static str, Figure)>,
    pub(crate) floor: Option<f64>,
    /// Per target: what it asks for, what was found, and whether that is enough. `None`: nothing to compare with.
    pub(crate) targets: Vec<(String, Option<(f64, bool)>)>,
}

impl Judged {
    /// Whether every target that could be judged is met. `None`: there is no figure, or none of the targets could be.
    pub(crate) fn met(&self) -> Option<bool> {
        let mut judged = self
            .targets
            .iter()
            .filter_map(|(_, found)| *found)
            .peekable();
        judged.peek()?;
        Some(judged.all(|(_, met)| met))
    }
}

/// Judges a row.
pub(crate) fn judge(row: Row, rounds: &[Round]) -> Judged {
    let side = |side| middle(rounds.iter().filter_map(|round| round.get(side, row.key)));
    let peers = [
        ("Open MPI", side(Side::Mpi)),
        ("iceoryx2", side(Side::Iceoryx2)),
    ];
    let peers = peers
        .into_iter()
        .filter_map(|(name, figure)| Some((name, figure?)));
    let key = row.targets.iter().find_map(|target| match target {
        Target::Original(_, key) => Some(*key),
        _ => None,
    });
    let key = key.unwrap_or(row.key);
    let original = middle(
        rounds
            .iter()
            .filter_map(|round| round.get(Side::Original, key)),
    );
    let floor = row.targets.iter().find_map(|target| match target {
        Target::Floor(_, keys) => median(rounds.iter().filter_map(|round| floor(round, keys))),
        _ => None,
    });
    Judged {
        row,
        ours: side(Side::Ours),
        original,
        peer: peers.min_by(|left, right| left.1.p50.total_cmp(&right.1.p50)),
        floor,
        targets: row
            .targets
            .iter()
            .map(|target| by_rounds(row, *target, rounds))
            .collect(),
    }
}

fn by_rounds(row: Row, target: Target, rounds: &[Round]) -> (String, Option<(f64, bool)>) {
    let (asked, least) = told(target);
    let found = median(rounds.iter().filter_map(|round| found(row, target, round)));
    let met = found.map(|found| match least {
        Some(least) => (found, found >= least),
        None => (found, found <= most(target)),
    });
    (asked, met)
}

/// A target in words, and the least ratio if it asks for one.
fn told(target: Target) -> (String, Option<f64>) {
    match target {
        Target::Original(times, _) => (format!(">= {times}x original"), Some(times)),
        Target::Peer(times) => (format!(">= {times}x best peer"), Some(times)),
        Target::Iceoryx2(times) => (format!(">= {times}x iceoryx2"), Some(times)),
        Target::Floor(times, _) => (format!("<= {times} x floor"), None),
        Target::Flat(times, key) => (format!("<= {times} x {key}"), None),
        Target::Tail(times) => (format!("p99 <= {times} x p50"), None),
        Target::Most(limit) => (format!("<= {limit}"), None),
        Target::TailMost(limit) => (format!("p99 <= {limit}"), None),
    }
}

const fn most(target: Target) -> f64 {
    match target {
        Target::Floor(most, _) | Target::Flat(most, _) => most,
        Target::Tail(most) | Target::Most(most) | Target::TailMost(most) => most,
        Target::Original(..) | Target::Peer(_) | Target::Iceoryx2(_) => 0.0,
    }
}

/// What one round says about a target: a ratio, or the figure itself.
fn found(row: Row, target: Target, round: &Round) -> Option<f64> {
    let ours = round.get(Side::Ours, row.key)?;
    let against = |figure: Figure| Some(figure.p50 / ours.p50);
    match target {
        Target::Original(_, key) => against(round.get(Side::Original, key)?),
        Target::Peer(_) => {
            let peers = [Side::Mpi, Side::Iceoryx2];
            let peers = peers
                .into_iter()
                .filter_map(|side| round.get(side, row.key));
            against(peers.min_by(|left, right| left.p50.total_cmp(&right.p50))?)
        }
        Target::Iceoryx2(_) => against(round.get(Side::Iceoryx2, row.key)?),
        Target::Floor(_, keys) => Some(ours.p50 / floor(round, keys)?),
        Target::Flat(_, key) => Some(ours.p50 / round.get(Side::Ours, key)?.p50),
        Target::Tail(_) => Some(ours.p99 / ours.p50),
        Target::Most(_) => Some(ours.p50),
        Target::TailMost(_) => Some(ours.p99),
    }
}

fn floor(round: &Round, keys: &[&str]) -> Option<f64> {
    let ours: &Figures = round.sides.get(&Side::Ours)?;
    keys.iter()
        .map(|key| ours.get(*key).map(|figure| figure.p50))
        .sum()
}

/// The median of each percentile.
fn middle(figures: impl Iterator<Item = Figure> + Clone) -> Option<Figure> {
    Some(Figure {
        p50: median(figures.clone().map(|figure| figure.p50))?,
        p99: median(figures.map(|figure| figure.p99))?,
    })
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Unit;

    const ROW: Row = Row {
        key: "append",
        group: "append",
        name: "append",
        unit: Unit::Time,
        targets: &[
            Target::Original(5.0, "append"),
            Target::Peer(2.0),
            Target::Floor(3.0, &["swap", "exchange"]),
            Target::Tail(3.0),
            Target::Most(120.0),
        ],
    };

    fn round(ours: f64, original: f64) -> Round {
        let one = |key: &str, p50, p99| (key.to_owned(), Figure { p50, p99 });
        let mut round = Round::default();
        let figures = [
            one("append", ours, 2.0 * ours),
            one("swap", 20.0, 20.0),
            one("exchange", 30.0, 30.0),
        ];
        round.sides.insert(Side::Ours, figures.into());
        let figures = [one("append", original, original)];
        round.sides.insert(Side::Original, figures.into());
        round
    }

    #[test]
    fn a_target_is_judged_by_the_median_of_its_rounds_ratios() {
        // Ratios of 6, 5 and 1: the disturbed round alone does not decide.
        let rounds = [
            round(100.0, 600.0),
            round(100.0, 500.0),
            round(400.0, 400.0),
        ];
        let judged = judge(ROW, &rounds);
        let found: Vec<_> = judged.targets.iter().map(|(_, found)| *found).collect();
        let wanted = [
            Some((5.0, true)),
            // No peer was there.
            None,
            Some((2.0, true)),
            Some((2.0, true)),
            Some((100.0, true)),
        ];
        assert_eq!(found, wanted);
        assert_eq!((judged.floor, judged.met()), (Some(50.0), Some(true)));
        assert_eq!(judged.peer, None);
    }

    #[test]
    fn one_target_that_is_missed_is_enough() {
        let judged = judge(ROW, &[round(100.0, 499.0)]);
        assert_eq!(judged.targets[0].1, Some((4.99, false)));
        assert_eq!(judged.met(), Some(false));
    }

    #[test]
    fn a_row_without_a_figure_is_neither_met_nor_missed() {
        assert_eq!(judge(ROW, &[]).met(), None);
        assert_eq!(judge(ROW, &[Round::default()]).met(), None);
    }
}
