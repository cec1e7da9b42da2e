//! The latency tables of a queue for a report: quantiles for people, cumulative counts at fixed bounds for metrics.

use super::record::Latency;
use crate::latency;

/// Upper bounds in seconds, the same for every table, so that the counts of many ranks can be added up: 1, 2.5 and 5 of each power of
/// ten from a microsecond to ten seconds.
const BOUNDS: [f64; 22] = [
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
    5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

const NANOS: f64 = 1e9;

/// Every table with a value in it.
pub(super) fn latencies(tables: &[latency::Latency]) -> Vec<Latency> {
    let counted = tables.iter().filter(|table| !table.values.is_empty());
    counted.map(latency).collect()
}

fn latency(table: &latency::Latency) -> Latency {
    let values = &table.values;
    let seconds = |nanos: u64| nanos as f64 / NANOS;
    let at = |quantile| seconds(values.value_at_quantile(quantile));
    let below = |bound: &f64| {
        // Bounds are whole nanoseconds.
        let count = values.count_between(0, (bound * NANOS).round() as u64);
        (*bound, count)
    };
    let sum: f64 = (values.iter_recorded())
        .map(|value| seconds(value.value_iterated_to()) * value.count_since_last_iteration() as f64)
        .sum();
    Latency {
        kind: table.kind.to_string(),
        span: table.span.name().to_owned(),
        count: values.len(),
        sum,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: seconds(values.max()),
        below: BOUNDS.iter().map(below).collect(),
    }
}
