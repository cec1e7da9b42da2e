//! What the tests of the bus share: a segment in plain memory, and numbers that look random.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails"
)]

use std::format;
use std::vec::Vec;

use super::layout::{Geometry, Segment};
use super::{Corrupt, Word};

/// Words of a fresh segment.
pub(super) fn zeroed(words: usize) -> Vec<Word> {
    (0..words).map(|_| Word::new(0)).collect()
}

/// So many rounds, or a hundredth of them under an interpreter, which is that much slower.
pub(super) const fn rounds(many: u64) -> u64 {
    if cfg!(miri) { many / 100 } else { many }
}

/// Runs `test` on a fresh bus.
pub(super) fn on_bus<R>(
    world: u16,
    barriers: u16,
    cells: u32,
    test: impl FnOnce(Segment<'_>) -> R,
) -> R {
    let geometry = Geometry::new(world, barriers, cells).unwrap();
    let words = zeroed(geometry.words());
    test(Segment::create(&words, geometry).unwrap())
}

/// A seeded generator (xorshift).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 32).unwrap() % limit
    }
}

#[test]
fn what_cannot_be_is_told_with_its_owner_and_value() {
    let corrupt = Corrupt {
        field: "cursor",
        rank: 3,
        found: 0xABC,
    };
    assert_eq!(
        format!("{corrupt}"),
        "the bus is corrupt: cursor of rank 3 is 0xabc"
    );
}
