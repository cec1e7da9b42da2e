//! The table of `nccom-test`: right-aligned columns whose widths are known before the first row.

use crate::job::{Check, Job};
use crate::layout::plural;
use crate::report::Row;
use crate::stats::Stat;

/// Between two columns.
const GAP: &str = "    ";
/// Widths of the measured columns at least: a second in microseconds with two decimals.
const TIME_WIDTH: usize = 10;

/// The layout for one job.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<String>,
    widths: Vec<usize>,
}

impl Table {
    /// The columns for these statistics, and for a check if there is one.
    pub(crate) fn new(job: &Job, stats: &[Stat]) -> Self {
        let largest = job.sizes.max();
        let mut columns = vec![
            ("size(B)".to_owned(), largest.to_string().len()),
            (
                "count(elems)".to_owned(),
                job.count(largest).to_string().len(),
            ),
            ("type".to_owned(), "uint16".len()),
        ];
        columns.extend(
            stats
                .iter()
                .map(|stat| (format!("time:{stat}(us)"), TIME_WIDTH)),
        );
        columns.extend(["algbw(GB/s)", "busbw(GB/s)"].map(|head| (head.to_owned(), 0)));
        if job.check.is_some() {
            columns.push(("check".to_owned(), "WRONG".len()));
        }
        let widths = columns
            .iter()
            .map(|(head, least)| head.len().max(*least))
            .collect();
        Self {
            heads: columns.into_iter().map(|(head, _)| head).collect(),
            widths,
        }
    }

    /// The line of heads.
    pub(crate) fn head(&self) -> String {
        self.line(&self.heads)
    }

    /// One line of results.
    pub(crate) fn row(&self, job: &Job, row: &Row) -> String {
        let mut cells = vec![
            row.bytes.to_string(),
            job.count(row.bytes).to_string(),
            job.dtype.to_string(),
        ];
        cells.extend(row.times.iter().map(|micros| format!("{micros:.2}")));
        cells.extend([row.algbw, row.busbw].map(|rate| format!("{rate:.2}")));
        if job.check.is_some() {
            cells.push(if row.wrong.is_empty() { "ok" } else { "WRONG" }.to_owned());
        }
        self.line(&cells)
    }

    fn line(&self, cells: &[String]) -> String {
        let aligned = cells
            .iter()
            .zip(&self.widths)
            .map(|(cell, width)| format!("{cell:>width$}"));
        aligned.collect::<Vec<_>>().join(GAP)
    }
}

/// The lines above the table: what is run, and the units.
pub(crate) fn describe(job: &Job) -> String {
    let check = match job.check {
        Some(Check::Random) => format!(", checked on all ranks (random inputs, seed {})", job.seed),
        Some(Check::AllOnes) => ", checked on all ranks (inputs of ones)".to_owned(),
        None => String::new(),
    };
    let barrier = if job.barrier {
        ""
    } else {
        ", no execution barrier"
    };
    let nodes = match job.layout.nodes {
        1 => String::new(),
        nodes => format!(" on {nodes} nodes"),
    };
    format!(
        "{}: {}{nodes}, {}, {}{barrier}{check}\n\
         GB/s = 10^9 bytes per second; the time of an iteration is that of its slowest rank",
        job.op.long_name(),
        plural(job.layout.ranks, "rank"),
        plural(job.streams, "stream"),
        plural(job.blocks, "block"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn columns_are_right_aligned_under_their_heads() {
        let (job, output) =
            cli::parse_from("allr -r 2 -b 4 -e 1gb -d fp32 -c random -t avg,p99").unwrap();
        let table = Table::new(&job, &output.stats);
        let row = Row::sample(1 << 30, vec![12_345.678, 99_999.0], Vec::new());
        let small = Row::sample(4, vec![0.5, 1.0], vec![(1, "element 0".to_owned())]);
        let lines = [table.head(), table.row(&job, &row), table.row(&job, &small)];
        assert_eq!(
            lines.join("\n"),
            "   size(B)    count(elems)      type    time:avg(us)    time:p99(us)    algbw(GB/s)    busbw(GB/s)    check\n\
             1073741824       268435456      fp32        12345.68        99999.00          86.97          86.97       ok\n         \
             4               1      fp32            0.50            1.00           0.01           0.01    WRONG"
        );
    }
}
