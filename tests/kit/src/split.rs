//! Uneven splits: how a buffer is cut into parts of ranks, streams, blocks and chunks.
//!
//! Every rank computes the cuts of every other rank, so they are pure functions of the lengths alone.

use std::ops::Range;

/// Part `index` of `range` cut into `parts` contiguous parts, the longer ones first; lengths differ by at most one.
///
/// `parts` is at least 1 and `index` below it.
pub fn part(range: &Range<usize>, parts: usize, index: usize) -> Range<usize> {
    let (each, longer) = (range.len() / parts, range.len() % parts);
    let start = range.start + each * index + index.min(longer);
    start..start + each + usize::from(index < longer)
}

/// Cuts `range` into pieces of at most `limit` elements (at least 1); an empty range is one empty piece.
pub fn chunks(range: Range<usize>, limit: usize) -> impl Iterator<Item = Range<usize>> {
    let count = range.len().div_ceil(limit).max(1);
    (0..count).map(move |index| {
        let start = range.start + index * limit;
        start..range.end.min(start + limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_the_range() {
        for len in 0..20 {
            for parts in 1..8 {
                let range = 5..5 + len;
                let mut next = 5;
                for index in 0..parts {
                    let piece = part(&range, parts, index);
                    assert_eq!(piece.start, next);
                    assert!(piece.len().abs_diff(len / parts) <= 1);
                    next = piece.end;
                }
                assert_eq!(next, range.end);
            }
        }
    }

    #[test]
    fn chunks_tile_the_range() {
        assert_eq!(chunks(3..10, 3).collect::<Vec<_>>(), [3..6, 6..9, 9..10]);
        assert_eq!(chunks(3..9, 3).collect::<Vec<_>>(), [3..6, 6..9]);
        assert_eq!(
            chunks(4..4, 3).collect::<Vec<_>>(),
            [Range { start: 4, end: 4 }]
        );
    }
}
