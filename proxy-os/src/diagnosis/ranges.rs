//! Sets of ranks in words: ranges, not lists, so that a thousand ranks still are one line.

use std::fmt::Write as _;

/// Ranks as `0-2,5`; empty for none. Given in any order.
pub(super) fn ranges(ranks: impl IntoIterator<Item = u32>) -> String {
    let mut ranks: Vec<u32> = ranks.into_iter().collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut text = String::new();
    let mut rest = ranks.as_slice();
    while let Some((&first, after)) = rest.split_first() {
        let run = after
            .iter()
            .zip(first..)
            .take_while(|(rank, before)| rank.checked_sub(1) == Some(*before))
            .count();
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match after.get(run.wrapping_sub(1)) {
            Some(last) if run > 0 => write!(text, "{comma}{first}-{last}"),
            _ => write!(text, "{comma}{first}"),
        };
        rest = after.get(run..).unwrap_or_default();
    }
    text
}

/// The ranks of `0-2,5`; what is no range is left out, as a record may come from anywhere. At most `limit` ranks.
pub(super) fn members(text: &str, limit: usize) -> Vec<u32> {
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(first.parse::<u32>().ok()?..=last.parse().ok()?),
        None => part.parse().ok().map(|rank: u32| rank..=rank),
    };
    text.split(',')
        .filter_map(range)
        .flatten()
        .take(limit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_ranges() {
        let cases: [(&[u32], &str); 6] = [
            (&[], ""),
            (&[7], "7"),
            (&[1, 0], "0-1"),
            (&[5, 0, 2, 1, 1], "0-2,5"),
            (&[1, 3, 5], "1,3,5"),
            (&[u32::MAX, u32::MAX - 1], "4294967294-4294967295"),
        ];
        for (ranks, text) in cases {
            assert_eq!(ranges(ranks.iter().copied()), text);
            assert_eq!(ranges(members(text, 100)), text);
        }
        assert_eq!(ranges(0..1000), "0-999");
    }

    #[test]
    fn texts_from_elsewhere_are_bounded() {
        assert_eq!(members("0-4294967295", 10).len(), 10);
        assert_eq!(members("x,3-,9-7,2", 10), [2]);
    }
}
