//! The table, and the same as JSON.

use serde_json::{Value, json};

use crate::judge::Judged;
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
        "best peer",
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
    let draw = |line: &[String; 9]| {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 | 7 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(draw).collect()
}

fn line(judged: &Judged) -> [String; 9] {
    let unit = judged.row.unit;
    let pair = |figure: Option<Figure>| match figure {
        Some(figure) => [show(figure.p50, unit), show(figure.p99, unit)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let [ours, ours_tail] = pair(judged.ours);
    let [original, original_tail] = pair(judged.original);
    let targets = judged.targets.iter().map(|(asked, found)| match found {
        Some((found, met)) => {
            let missed = if *met { "" } else { " NOT" };
            format!("{}{missed}: {asked}", ratio(*found))
        }
        None => format!("?: {asked}"),
    });
    let peer = judged
        .peer
        .map(|(name, figure)| format!("{} {name}", show(figure.p50, unit)));
    [
        judged.row.name.to_owned(),
        ours,
        ours_tail,
        original,
        original_tail,
        peer.unwrap_or_else(|| "-".to_owned()),
        judged
            .floor
            .map_or_else(|| "-".to_owned(), |floor| show(floor, unit)),
        targets.collect::<Vec<_>>().join("; "),
        match judged.met() {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "-",
        }
        .to_owned(),
    ]
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
pub(crate) fn json(rows: &[Judged], conditions: &[String]) -> Value {
    let figure =
        |figure: Option<Figure>| figure.map(|figure| json!({"p50": figure.p50, "p99": figure.p99}));
    let rows: Vec<Value> = rows
        .iter()
        .map(|judged| {
            let targets = judged.targets.iter().map(|(asked, found)| {
                json!({"target": asked, "found": found.map(|found| found.0), "met": found.map(|found| found.1)})
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
                "met": judged.met(),
            })
        })
        .collect();
    json!({"conditions": conditions, "rows": rows})
}
