//! The latency table: right-aligned columns, with the units in the header.

use super::{Row, Start, Subject};

/// Between two columns.
const GAP: &str = "    ";
const HEADS: [&str; 6] = ["operation", "ranks", "size(B)", "p50(us)", "p99(us)", "n"];

/// The whole text that is shown.
pub(super) fn text(start: &Start, rows: &[Row]) -> String {
    let what = match start.subject {
        Subject::Bus => "bus",
        Subject::Barrier => "barrier",
    };
    let cells: Vec<[String; 6]> = std::iter::once(HEADS.map(str::to_owned))
        .chain(rows.iter().map(cells))
        .collect();
    let width = |column: usize| {
        cells
            .iter()
            .map(|line| line[column].len())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let line = |line: &[String; 6]| {
        let aligned = line
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:>width$}"));
        aligned.collect::<Vec<_>>().join(GAP)
    };
    let head = format!(
        "{what}: {} ranks, each a process of this machine\n\
         us = microseconds from call to return on rank 0; size = bytes that one rank sends; n = operations measured",
        start.ranks
    );
    let lines = std::iter::once(head).chain(cells.iter().map(line));
    lines.map(|line| line + "\n").collect()
}

fn cells(row: &Row) -> [String; 6] {
    [
        row.operation.clone(),
        row.ranks.to_string(),
        row.bytes.map_or("-".to_owned(), |bytes| bytes.to_string()),
        format!("{:.2}", row.p50),
        format!("{:.2}", row.p99),
        row.n.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_right_aligned_under_their_heads() {
        let start = Start {
            subject: Subject::Barrier,
            ranks: 4,
            iters: 10,
            warmup: 0,
            timeout: 1,
            launcher: 1,
        };
        let row = Row {
            operation: "barrier".to_owned(),
            ranks: 4,
            bytes: None,
            p50: 1.5,
            p99: 1234.567,
            n: 1000,
        };
        let text = text(&start, &[row]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "barrier: 4 ranks, each a process of this machine");
        assert_eq!(
            lines[2..],
            [
                "operation    ranks    size(B)    p50(us)    p99(us)       n",
                "  barrier        4          -       1.50    1234.57    1000"
            ]
        );
    }
}
