//! The table, and the same as JSON.

use serde_json::{Value, json};

use crate::judge::{Judged, Verdict};
use crate::plan::Unit;
use proxy_benches::clock::Figure;

/// The table as text.
pub(crate) fn table(rows: &[Judged]) -> String {
    let head = [
        "row",
        "ours p50",
        "p99",
        "original p50",
        "p99",
        "best peer p50",
        "p99",
        "floor",
        "found: target",
        "met",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(line));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let draw = |line: &[String; 10]| {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 | 8 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(draw).collect()
}

fn line(judged: &Judged) -> [String; 10] {
    let unit = judged.row.unit;
    let pair = |figure: Option<Figure>| match figure {
        Some(figure) => [show(figure.p50, unit), show(figure.p99, unit)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let [ours, ours_tail] = pair(judged.ours);
    let [original, original_tail] = pair(judged.original);
    let [peer, peer_tail] = pair(judged.peer.map(|(_, figure)| figure));
    let peer = match judged.peer {
        Some((name, _)) => format!("{peer} {name}"),
        None => peer,
    };
    let floor = judged.floor.map(|floor| show(floor, unit));
    let targets = judged.targets.iter().map(|answer| match answer.found {
        Some((found, met)) => {
            let missed = if met { "" } else { " NOT" };
            format!("{}{missed}: {}", ratio(found), answer.asked)
        }
        None => format!("?: {}", answer.asked),
    });
    [
        judged.row.name.to_owned(),
        ours,
        ours_tail,
        original,
        original_tail,
        peer,
        peer_tail,
        floor.unwrap_or_else(|| "-".to_owned()),
        targets.collect::<Vec<_>>().join("; "),
        judged.verdict.name().to_owned(),
    ]
}

/// How many rows came to which verdict.
pub(crate) fn summary(rows: &[Judged]) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let shown = count(Verdict::Shown);
    let mut text = format!("{} of {} rows met", count(Verdict::Met), rows.len() - shown);
    for (verdict, name) in [
        (
            Verdict::Partly,
            "partly, as not all was there that they are compared with",
        ),
        (Verdict::Missed, "not met"),
        (Verdict::Failed, "without a figure that should be there"),
        (
            Verdict::Disturbed,
            "disturbed: their figures are no measurement",
        ),
        (Verdict::Skipped, "skipped"),
        (Verdict::Shown, "without a target"),
    ] {
        if count(verdict) > 0 {
            text += &format!("; {} {name}", count(verdict));
        }
    }
    text
}

fn ratio(found: f64) -> String {
    match found {
        1000.0.. => format!("{found:.0}"),
        10.0.. => format!("{found:.1}"),
        _ => format!("{found:.2}"),
    }
}

/// A figure with its unit.
pub(crate) fn show(value: f64, unit: Unit) -> String {
    match (unit, value) {
        (Unit::Count, _) => format!("{value:.1}"),
        (Unit::Bytes, _) => format!("{:.0} KiB", value / 1024.0),
        (Unit::Time, 1e6..) => format!("{:.2} ms", value / 1e6),
        (Unit::Time, 1e4..) => format!("{:.1} us", value / 1e3),
        (Unit::Time, 1e3..) => format!("{:.2} us", value / 1e3),
        (Unit::Time, 10.0..) => format!("{value:.0} ns"),
        (Unit::Time, _) => format!("{value:.1} ns"),
    }
}

/// All rows, for other programs: nanoseconds, bytes or counts.
pub(crate) fn json(rows: &[Judged], conditions: &[String], pinned: &str) -> Value {
    let figure =
        |figure: Option<Figure>| figure.map(|figure| json!({"p50": figure.p50, "p99": figure.p99}));
    let rows: Vec<Value> = rows
        .iter()
        .map(|judged| {
            let targets = judged.targets.iter().map(|answer| {
                json!({"target": answer.asked, "found": answer.found.map(|found| found.0), "met": answer.found.map(|found| found.1)})
            });
            json!({
                "key": judged.row.key,
                "row": judged.row.name,
                "unit": format!("{:?}", judged.row.unit),
                "ours": figure(judged.ours),
                "original": figure(judged.original),
                "peer": judged.peer.map(|(name, found)| json!({"name": name, "p50": found.p50, "p99": found.p99})),
                "floor": judged.floor,
                "targets": targets.collect::<Vec<_>>(),
                "verdict": judged.verdict.name(),
            })
        })
        .collect();
    json!({"pinned": pinned, "conditions": conditions, "rows": rows})
}
