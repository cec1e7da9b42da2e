//! The reference runtime's histogram setting: five words, checked (its parser throws on a path that is too long).

use std::fmt;
use std::path::PathBuf;

/// Bytes of the output path at most: the field in the library's record has 128 with the final zero.
const PATH_BYTES: usize = 127;
/// Buckets at most: a chart of 512 KiB.
const BUCKETS: u64 = 65_536;
/// Largest width and warm-up.
const NUMBER: u64 = 0xFFFF_FFFF;

/// What is accepted, in words.
pub(crate) const HISTOGRAM_GRAMMAR: &str = "five words with one space between them: bucket width in microseconds 1..4294967295, \
     number of buckets 1..65536, executions to leave out per context 0..4294967295, executions to leave out in all \
     0..4294967295, output path of 1..127 bytes";

/// `NEURON_RT_DBG_CC_PROXY_HISTOGRAM_CONFIG`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramConfig {
    /// Width of a bucket in microseconds.
    pub bucket_usecs: u64,
    /// Number of buckets; longer times go to one more, the overflow.
    pub num_buckets: u64,
    /// Executions of each context that are left out before any is counted (a program that was just loaded runs slower).
    pub per_neff_warmup: u64,
    /// Executions of the whole group that are left out before any is counted.
    pub warmup: u64,
    /// Where the chart is written; each group appends its own suffix.
    pub output_path: PathBuf,
}

/// A word that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadHistogramConfig {
    /// The word, or none when their number is wrong.
    pub token: Option<String>,
}

impl fmt::Display for BadHistogramConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.token {
            Some(token) => write!(f, "bad word \"{token}\"; accepted: {HISTOGRAM_GRAMMAR}"),
            None => write!(f, "not five words; accepted: {HISTOGRAM_GRAMMAR}"),
        }
    }
}

impl std::error::Error for BadHistogramConfig {}

impl std::str::FromStr for HistogramConfig {
    type Err = BadHistogramConfig;

    fn from_str(text: &str) -> Result<Self, BadHistogramConfig> {
        let words: Vec<&str> = text.split(' ').collect();
        let [width, buckets, per_neff, warmup, path] = words[..] else {
            return Err(BadHistogramConfig { token: None });
        };
        if path.is_empty() || path.len() > PATH_BYTES || path.contains('\0') {
            return Err(bad(path));
        }
        Ok(Self {
            bucket_usecs: number(width, 1, NUMBER)?,
            num_buckets: number(buckets, 1, BUCKETS)?,
            per_neff_warmup: number(per_neff, 0, NUMBER)?,
            warmup: number(warmup, 0, NUMBER)?,
            output_path: path.into(),
        })
    }
}

impl fmt::Display for HistogramConfig {
    /// As in the environment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {} {}",
            self.bucket_usecs,
            self.num_buckets,
            self.per_neff_warmup,
            self.warmup,
            self.output_path.display()
        )
    }
}

fn number(word: &str, least: u64, most: u64) -> Result<u64, BadHistogramConfig> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| word.parse().ok()).flatten();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| bad(word))
}

fn bad(word: &str) -> BadHistogramConfig {
    BadHistogramConfig {
        token: Some(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_words_are_read_and_shown_as_given() {
        let config: HistogramConfig = "10 64 3 100 /tmp/chart".parse().unwrap();
        assert_eq!(
            config,
            HistogramConfig {
                bucket_usecs: 10,
                num_buckets: 64,
                per_neff_warmup: 3,
                warmup: 100,
                output_path: "/tmp/chart".into(),
            }
        );
        assert_eq!(config.to_string(), "10 64 3 100 /tmp/chart");
    }

    #[test]
    fn every_bound_is_checked_and_the_bad_word_named() {
        let longest = format!("1 1 0 0 {}", "p".repeat(PATH_BYTES));
        assert!(longest.parse::<HistogramConfig>().is_ok());
        assert!(
            "4294967295 65536 4294967295 4294967295 p"
                .parse::<HistogramConfig>()
                .is_ok()
        );
        let too_long = "p".repeat(PATH_BYTES + 1);
        let bad = [
            ("", None),
            ("10 64 3 100", None),
            ("10 64 3 100 a b", None),
            ("10  64 3 100 a", None),
            ("0 64 3 100 a", Some("0")),
            ("4294967296 64 3 100 a", Some("4294967296")),
            ("10 0 3 100 a", Some("0")),
            ("10 65537 3 100 a", Some("65537")),
            ("10 64 -1 100 a", Some("-1")),
            ("10 64 3 1e2 a", Some("1e2")),
            (
                "10 64 3 99999999999999999999 a",
                Some("99999999999999999999"),
            ),
            ("10 64 3 100 ", Some("")),
        ];
        for (text, token) in bad {
            let token = token.map(str::to_owned);
            assert_eq!(
                text.parse::<HistogramConfig>(),
                Err(BadHistogramConfig { token }),
                "{text}"
            );
        }
        let text = format!("1 1 0 0 {too_long}");
        assert_eq!(text.parse::<HistogramConfig>(), Err(super::bad(&too_long)));
    }
}
