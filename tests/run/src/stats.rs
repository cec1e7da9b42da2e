//! Statistics of iteration times, and the two bandwidths made from them.

use std::fmt;
use std::str::FromStr;

use proxy_kit::op::Op;

/// A statistic of `-t/--stats`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stat {
    /// The mean.
    Average,
    /// The smallest time that at least this percentage of the iterations did not exceed.
    Percentile(f64),
}

impl FromStr for Stat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "avg" {
            return Ok(Self::Average);
        }
        let digits = text
            .strip_prefix('p')
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let percent = digits.and_then(|digits| digits.parse::<f64>().ok());
        percent
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(Self::Percentile)
            .ok_or_else(|| "accepted: avg, or p and a percentage, such as p50 or p99.9".to_owned())
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Average => f.write_str("avg"),
            Self::Percentile(percent) => write!(f, "p{percent}"),
        }
    }
}

impl Stat {
    /// The statistic in microseconds of times in nanoseconds, which are sorted and at least one.
    pub(crate) fn of(self, sorted: &[u64]) -> f64 {
        let nanos = match self {
            Self::Average => {
                sorted.iter().map(|&time| time as f64).sum::<f64>() / sorted.len() as f64
            }
            Self::Percentile(percent) => {
                // Nearest rank: no time that was not measured is ever shown.
                let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
                let index = rank.clamp(1, sorted.len()) - 1;
                sorted.get(index).map_or(f64::NAN, |&time| time as f64)
            }
        };
        nanos / 1e3
    }
}

/// Bandwidth of the algorithm in 10^9 bytes per second: the size over the time.
pub(crate) fn algorithm_bandwidth(bytes: u64, micros: f64) -> f64 {
    if micros > 0.0 {
        bytes as f64 / (micros * 1e3)
    } else {
        0.0
    }
}

/// What the algorithm bandwidth is multiplied by to give that of the busiest link.
pub(crate) fn bus_factor(op: Op, ranks: u32) -> f64 {
    let (ranks, others) = (f64::from(ranks), f64::from(ranks.saturating_sub(1)));
    match op {
        Op::AllReduce => 2.0 * others / ranks,
        Op::AllGather | Op::ReduceScatter | Op::AllToAll => others / ranks,
        Op::SendRecv | Op::Permute => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for text in ["avg", "p0", "p50", "p99.9", "p100"] {
            assert_eq!(text.parse::<Stat>().unwrap().to_string(), text);
        }
        for text in ["", "p", "p101", "p-1", "pinf", "pNaN", "50", "max", "AVG"] {
            assert!(
                text.parse::<Stat>()
                    .unwrap_err()
                    .starts_with("accepted: avg"),
                "{text}"
            );
        }
    }

    #[test]
    fn percentiles_are_measured_times() {
        let times: Vec<u64> = (1..=10).map(|k| k * 1000).collect();
        let of = |text: &str| text.parse::<Stat>().unwrap().of(&times);
        assert_eq!(
            [
                of("avg"),
                of("p0"),
                of("p50"),
                of("p51"),
                of("p99"),
                of("p100")
            ],
            [5.5, 1.0, 5.0, 6.0, 10.0, 10.0]
        );
        assert_eq!(Stat::Percentile(99.0).of(&[2500]), 2.5);
    }

    #[test]
    fn bandwidths_are_those_of_the_reference_tool() {
        // A published sample: 33554432 bytes in 894.24 us are 37.52 GB/s.
        assert_eq!(
            format!("{:.2}", algorithm_bandwidth(33_554_432, 894.24)),
            "37.52"
        );
        assert_eq!(algorithm_bandwidth(0, 5.0), 0.0);
        assert_eq!(bus_factor(Op::AllReduce, 4), 1.5);
        assert_eq!(bus_factor(Op::AllToAll, 4), 0.75);
        assert_eq!(bus_factor(Op::Permute, 4), 1.0);
    }
}
