//! The map of a segment, and what is refused as one.
//!
//! Requirements: H66, H67.

use std::string::ToString;

use super::*;
use crate::phone::Wake;
use crate::phone::tests::zeroed;

#[test]
fn the_hash_of_a_build_is_that_of_its_constants() {
    // The constant is the compiler's; here the same function runs.
    assert_eq!(hash(), HASH);
}

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

/// What becomes of the header of a good bus of 4 ranks in which one word is another.
fn check_with(place: usize, value: u32) -> Result<Geometry, LayoutError> {
    let geometry = Geometry::new(4, 1, 8).unwrap();
    let mut header = geometry.header();
    header[place] = value;
    Geometry::check(&header, geometry.words())
}

#[test]
fn h67_a_header_of_another_build_is_refused_by_name() {
    let (ours, theirs) = (VERSION, 3);
    let version = LayoutError::VersionMismatch { ours, theirs };
    let (ours, theirs) = (HASH, 1);
    let hash = LayoutError::HashMismatch { ours, theirs };
    let (ours, theirs) = (STAMP, STAMP.swap_bytes());
    let stamp = LayoutError::StampMismatch { ours, theirs };
    assert_eq!(check_with(0, 7), Err(LayoutError::NotABus { found: 7 }));
    assert_eq!(check_with(1, 3), Err(version));
    assert_eq!(check_with(2, 1), Err(hash));
    assert_eq!(check_with(3, STAMP.swap_bytes()), Err(stamp));
    for (error, text) in [
        (version, "bus layout version 3, ours is 2"),
        (
            stamp,
            "bus word size and byte order stamp 0x01020304, ours is 0x04030201",
        ),
        (
            LayoutError::NotABus { found: 7 },
            "not a bus: its first word is 0x00000007, accepted: 0x42414e41",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn h66_a_header_with_impossible_sizes_is_refused_by_name() {
    let range = |field, found, accepted| {
        Err(LayoutError::OutOfRange {
            field,
            found,
            accepted,
        })
    };
    for world in [0, 129, u32::MAX] {
        let wanted = range("world", world, "1 to 128 ranks");
        assert_eq!(check_with(4, world), wanted);
    }
    for barriers in [65, 1 << 16] {
        let wanted = range("barriers", barriers, "0 to 64");
        assert_eq!(check_with(5, barriers), wanted);
    }
    for cells in [0, 1, 3, 12, 1 << 17, u32::MAX] {
        let wanted = range("cells", cells, "a power of two from 2 to 65536");
        assert_eq!(check_with(6, cells), wanted);
    }
    let geometry = Geometry::new(4, 1, 8).unwrap();
    let (words, sum) = (geometry.words(), "what its other sizes add up to");
    let total = u32::try_from(words).unwrap();
    assert_eq!(check_with(7, total), Ok(geometry));
    assert_eq!(check_with(7, total - 1), range("words", total - 1, sum));
    assert_eq!(check_with(7, total + 1), range("words", total + 1, sum));
    assert_eq!(check_with(4, 128), range("words", total, sum));
    let small = Geometry::check(&geometry.header(), words - 1);
    let (found, wanted) = (words - 1, words);
    assert_eq!(small, Err(LayoutError::TooSmall { found, wanted }));
}

#[test]
fn h67_a_bus_of_the_other_byte_order_is_refused_as_such() {
    let geometry = Geometry::new(4, 1, 8).unwrap();
    let swapped = geometry.header().map(u32::swap_bytes);
    assert_eq!(
        Geometry::check(&swapped, geometry.words()),
        Err(LayoutError::StampMismatch {
            ours: STAMP,
            theirs: STAMP.swap_bytes()
        })
    );
    let mut half = geometry.header();
    half[0] = MAGIC.swap_bytes();
    let found = MAGIC.swap_bytes();
    assert_eq!(
        Geometry::check(&half, geometry.words()),
        Err(LayoutError::NotABus { found }),
        "only the magic is backwards"
    );
}

#[test]
fn h67_only_the_header_of_a_refused_segment_is_read() {
    let words = zeroed(HEADER);
    assert_eq!(
        Segment::attach(&words).unwrap_err(),
        LayoutError::NotABus { found: 0 }
    );
    assert_eq!(
        Segment::attach(&words[1..]).unwrap_err(),
        LayoutError::TooSmall {
            found: HEADER - 1,
            wanted: HEADER
        }
    );
}

#[test]
fn sizes_out_of_range_are_refused_with_what_is_accepted() {
    for (world, barriers, cells, message) in [
        (0, 0, 2, "bus world is 0, accepted: 1 to 128 ranks"),
        (129, 0, 2, "bus world is 129, accepted: 1 to 128 ranks"),
        (1, 65, 2, "bus barriers is 65, accepted: 0 to 64"),
        (
            1,
            0,
            1,
            "bus cells is 1, accepted: a power of two from 2 to 65536",
        ),
    ] {
        let error = Geometry::new(world, barriers, cells).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let largest = Geometry::new(MAX_WORLD, MAX_BARRIERS, MAX_CELLS).unwrap();
    assert_eq!(
        largest.header()[7],
        u32::try_from(largest.words()).unwrap(),
        "the largest bus counts its words in 32 bits"
    );
}

#[test]
fn a_segment_is_what_its_creator_made_it() {
    let geometry = Geometry::new(3, 2, 4).unwrap();
    let words = zeroed(geometry.words());
    let small = Segment::create(&words[1..], geometry).unwrap_err();
    let (found, wanted) = (words.len() - 1, words.len());
    assert_eq!(small, LayoutError::TooSmall { found, wanted });
    let mine = Segment::create(&words, geometry).unwrap();
    let theirs = Segment::attach(&words).unwrap();
    assert_eq!(mine.geometry(), theirs.geometry());
    // Relaxed: one thread.
    words[4].store(2, Ordering::Relaxed);
    let again = Segment::again(&words, *theirs.geometry()).unwrap();
    assert_eq!(again.geometry().world(), 3, "the header is believed once");
    assert_eq!(theirs.words().len(), words.len());
    assert!(theirs.member_signal(2).is_some());
    assert!(theirs.member_signal(3).is_none());
}

#[test]
fn cells_of_the_ranks_lie_one_after_the_other_to_the_end() {
    let geometry = Geometry::new(3, 2, 4).unwrap();
    assert_eq!(geometry.ring(0).start, geometry.control());
    assert_eq!(geometry.ring(1).start, geometry.ring(0).end);
    assert_eq!(geometry.ring(2).end, geometry.words());
}

/// Everybody who can wait for rank 1 of 3 with 2 barriers is found: its member and tail, the producers that it keeps from
/// sending, the leaders that gather it, and whoever waits for a verdict.
#[test]
fn every_signal_that_waits_for_a_rank_is_named() {
    let geometry = Geometry::new(3, 2, 4).unwrap();
    let words = zeroed(geometry.words());
    let segment = Segment::create(&words, geometry).unwrap();
    let places = [
        geometry.member(1),
        geometry.tail(1),
        geometry.cursor(0, 1),
        geometry.cursor(1, 1),
        geometry.cursor(2, 1),
        geometry.arrival(0, 1),
        geometry.arrival(1, 1),
        geometry.verdict(0),
        geometry.verdict(1),
    ];
    let sleepers = places.map(|place| segment.signal(place).unwrap().sleep());
    let woken: std::vec::Vec<Wake> = segment.signals_of(1).map(|signal| signal.nudge()).collect();
    let wanted: std::vec::Vec<Wake> = sleepers
        .iter()
        .map(|sleeper| Wake::Word(sleeper.index()))
        .collect();
    assert_eq!(woken, wanted);
    assert_eq!(segment.signals_of(3).count(), 0);
}
