//! The table of `nccom-test`: right-aligned columns whose widths are known before the first row.

use crate::job::Job;
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
