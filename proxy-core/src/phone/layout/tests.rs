//! The map of a segment, and what is refused as one.

use super::*;

#[test]
fn areas_follow_each_other_without_a_gap_or_an_overlap() {
    let geometry = Geometry::new(3, 2, 4).unwrap();
    let mut lines = std::vec::Vec::new();
    lines.extend((0..3).map(|rank| geometry.member(rank)));
    lines.extend((0..2).map(|barrier| geometry.verdict(barrier)));
    lines
        .extend((0..2).flat_map(|barrier| (0..3).map(move |rank| geometry.arrival(barrier, rank))));
    lines.extend((0..3).map(|rank| geometry.tail(rank)));
    lines.extend(
        (0..3).flat_map(|producer| (0..3).map(move |reader| geometry.cursor(producer, reader))),
    );
    lines.extend(
        (0..3).flat_map(|producer| (0..4).map(move |position| geometry.cell(producer, position))),
    );
    let wanted: std::vec::Vec<usize> = (0..lines.len()).map(|line| HEADER + line * LINE).collect();
    assert_eq!(lines, wanted);
    assert_eq!(geometry.words(), HEADER + lines.len() * LINE);
    assert_eq!(
        geometry.cell(1, 4),
        geometry.cell(1, 0),
        "positions wrap at the ring's end"
    );
    assert_eq!(geometry.cell(1, u32::MAX), geometry.cell(1, 3));
}

#[test]
fn h67_h66_every_wrong_header_is_refused_by_name() {
    let geometry = Geometry::new(4, 1, 8).unwrap();
    let words = geometry.words();
    let with = |place: usize, value: u32| {
        let mut header = geometry.header();
        header[place] = value;
        Geometry::check(&header, words)
    };
    let range = |field, found, accepted| {
        Err(LayoutError::OutOfRange {
            field,
            found,
            accepted,
        })
    };
    assert_eq!(Geometry::check(&geometry.header(), words), Ok(geometry));
    assert_eq!(with(0, 7), Err(LayoutError::NotABus { found: 7 }));
    assert_eq!(
        with(1, 3),
        Err(LayoutError::VersionMismatch {
            ours: VERSION,
            theirs: 3
        })
    );
    assert_eq!(
        with(2, 1),
        Err(LayoutError::HashMismatch {
            ours: HASH,
            theirs: 1
        })
    );
    let swapped = STAMP.swap_bytes();
    assert_eq!(
        with(3, swapped),
        Err(LayoutError::StampMismatch {
            ours: STAMP,
            theirs: swapped
        })
    );
    assert_eq!(with(4, 0), range("world", 0, "1 to 128 ranks"));
    assert_eq!(with(4, 129), range("world", 129, "1 to 128 ranks"));
    assert_eq!(
        with(4, u32::MAX),
        range("world", u32::MAX, "1 to 128 ranks")
    );
    assert_eq!(with(5, 65), range("barriers", 65, "0 to 64"));
    for cells in [0, 1, 3, 12, 1 << 17, u32::MAX] {
        assert_eq!(
            with(6, cells),
            range("cells", cells, "a power of two from 2 to 65536")
        );
    }
    let small = LayoutError::TooSmall {
        found: words - 1,
        wanted: words,
    };
    assert_eq!(Geometry::check(&geometry.header(), words - 1), Err(small));
    let bigger = Geometry::new(128, 1, 8).unwrap().words();
    assert_eq!(
        with(4, 128),
        Err(LayoutError::TooSmall {
            found: words,
            wanted: bigger
        })
    );
}
