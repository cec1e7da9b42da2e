//! Buffer sizes: how they are written on the command line, and the series that a run goes through.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes, written as digits with an optional binary suffix of any case: `4`, `1kb`, `4M`, `1GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Bytes(pub(crate) u64);

/// The suffixes and their powers of two.
const UNITS: [(&str, u32); 8] = [
    ("", 0),
    ("b", 0),
    ("k", 10),
    ("kb", 10),
    ("m", 20),
    ("mb", 20),
    ("g", 30),
    ("gb", 30),
];

/// Sizes end here: larger buffers do not fit in the memory of a machine, and sums of sizes must not overflow.
const MOST: u64 = 1 << 40;

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, suffix) = text.split_at(digits);
        let suffix = suffix.to_ascii_lowercase();
        let unit = UNITS.iter().find(|(name, _)| *name == suffix);
        let bytes = unit.and_then(|(_, power)| number.parse::<u64>().ok()?.checked_mul(1 << power));
        match bytes {
            Some(bytes) if bytes <= MOST => Ok(Self(bytes)),
            _ => Err(
                "accepted: bytes with an optional suffix b, k, kb, m, mb, g or gb, up to 1024gb"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for Bytes {
    /// The shortest exact form that [`FromStr`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (suffix, power) in [("GB", 30), ("MB", 20), ("KB", 10)] {
            if self.0 != 0 && self.0.trailing_zeros() >= power {
                return write!(f, "{}{suffix}", self.0 >> power);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// How one size leads to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// That many bytes more.
    Add(u64),
    /// That many times as many.
    Multiply(u64),
}

/// The sizes of a run, all multiples of the element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sizes {
    min: u64,
    max: u64,
    step: Step,
    element: u64,
}

/// What the command line says about sizes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeOptions {
    /// `-b`
    pub(crate) min: Bytes,
    /// `-e`
    pub(crate) max: Bytes,
    /// `-i`
    pub(crate) add: Option<Bytes>,
    /// `-f`
    pub(crate) factor: Option<u64>,
}

impl Sizes {
    /// Checks the options against an element of `element` bytes, named `dtype`.
    ///
    /// Without step and factor the step is a tenth of the range, in whole elements, as in `nccom-test`.
    pub(crate) fn new(options: &SizeOptions, element: u64, dtype: &str) -> Result<Self, String> {
        let SizeOptions {
            min,
            max,
            add,
            factor,
        } = *options;
        if min > max {
            return Err(format!(
                "-b/--minbytes is {min}, which is above -e/--maxbytes {max}; accepted: -b up to -e (default of both: 32MB)"
            ));
        }
        whole("-b/--minbytes", min, element, dtype, 0)?;
        whole("-e/--maxbytes", max, element, dtype, 0)?;
        let step = match (factor, add) {
            (Some(factor), _) => Step::Multiply(factor),
            (None, Some(add)) => {
                whole("-i/--stepbytes", add, element, dtype, element)?;
                if add.0 == 0 && min < max {
                    return Err(format!(
                        "-i/--stepbytes is 0, accepted: {element} or a multiple of it"
                    ));
                }
                Step::Add(add.0)
            }
            (None, None) => {
                let tenth = (max.0 - min.0) / 10;
                Step::Add((tenth - tenth % element).max(element))
            }
        };
        Ok(Self {
            min: min.0,
            max: max.0,
            step,
            element,
        })
    }

    /// The sizes in bytes, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = u64> {
        let next = move |size: &u64| {
            let next = match self.step {
                Step::Add(bytes) => size + bytes,
                // No factor leads away from 0.
                Step::Multiply(_) if *size == 0 => self.element,
                Step::Multiply(factor) => size.saturating_mul(factor),
            };
            (next > *size && next <= self.max).then_some(next)
        };
        std::iter::successors(Some(self.min), next)
    }

    /// The largest size that can come, for the widths of the table.
    pub(crate) const fn max(self) -> u64 {
        self.max
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, step) = match self.step {
            Step::Add(bytes) => ('+', bytes),
            Step::Multiply(factor) => ('*', factor),
        };
        write!(f, "sizes {} to {} {sign} {step}", self.min, self.max)
    }
}

/// `least` = the smallest size that the option takes.
fn whole(option: &str, size: Bytes, element: u64, dtype: &str, least: u64) -> Result<(), String> {
    if size.0.is_multiple_of(element) {
        return Ok(());
    }
    let below = (size.0 - size.0 % element).max(least);
    Err(format!(
        "{option} is {} bytes, which is not a whole number of {dtype} elements; accepted: multiples of {element}, such as \
         {below} or {}",
        size.0,
        below + element
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(
        min: u64,
        max: u64,
        add: Option<u64>,
        factor: Option<u64>,
    ) -> Result<Vec<u64>, String> {
        let options = SizeOptions {
            min: Bytes(min),
            max: Bytes(max),
            add: add.map(Bytes),
            factor,
        };
        Sizes::new(&options, 4, "fp32").map(|sizes| sizes.iter().collect())
    }

    #[test]
    fn suffixes_are_binary_and_of_any_case() {
        for (text, bytes) in [
            ("0", 0),
            ("4", 4),
            ("4b", 4),
            ("1kb", 1024),
            ("1K", 1024),
            ("4Mb", 4 << 20),
            ("32M", 32 << 20),
            ("1gb", 1 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_no_size() {
        for text in [
            "",
            "kb",
            "-1",
            "+1",
            "1.5k",
            "1 kb",
            "1tb",
            "0x10",
            "99999999999999999999",
            "1025gb",
        ] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.starts_with("accepted: bytes"), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_read_back_as_shown() {
        for bytes in [0, 1, 1023, 1024, 1025, 3 << 20, 5 << 30] {
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
        assert_eq!(Bytes(32 << 20).to_string(), "32MB");
    }

    #[test]
    fn a_factor_leads_from_zero_over_one_element_to_the_end() {
        assert_eq!(sizes(0, 20, None, Some(2)), Ok(vec![0, 4, 8, 16]));
        assert_eq!(sizes(1024, 4096, None, Some(2)), Ok(vec![1024, 2048, 4096]));
    }

    #[test]
    fn a_step_is_added() {
        assert_eq!(sizes(0, 20, Some(8), None), Ok(vec![0, 8, 16]));
        assert_eq!(sizes(8, 8, Some(0), None), Ok(vec![8]));
    }

    #[test]
    fn the_default_step_is_a_tenth_in_whole_elements() {
        assert_eq!(
            sizes(0, 100, None, None).unwrap(),
            (0..=12).map(|k| k * 8).collect::<Vec<_>>()
        );
        assert_eq!(sizes(0, 8, None, None), Ok(vec![0, 4, 8]));
        assert_eq!(sizes(64, 64, None, None), Ok(vec![64]));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_works() {
        let text = sizes(3, 8, None, None).unwrap_err();
        assert_eq!(
            text,
            "-b/--minbytes is 3 bytes, which is not a whole number of fp32 elements; accepted: multiples of 4, such as 0 or 4"
        );
        assert!(
            sizes(8, 4, None, None)
                .unwrap_err()
                .contains("-b/--minbytes is 8, which is above -e/--maxbytes 4")
        );
        assert!(
            sizes(0, 10, None, Some(2))
                .unwrap_err()
                .contains("-e/--maxbytes is 10 bytes")
        );
        assert!(
            sizes(0, 8, Some(3), None)
                .unwrap_err()
                .contains("such as 4 or 8")
        );
        assert!(
            sizes(0, 8, Some(6), None)
                .unwrap_err()
                .contains("such as 4 or 8")
        );
        assert!(
            sizes(0, 8, Some(0), None)
                .unwrap_err()
                .contains("-i/--stepbytes is 0")
        );
    }
}
