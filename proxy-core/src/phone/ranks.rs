//! A set of ranks of a bus, or of machines: 128 bits.

use core::{fmt, iter};

/// A set of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RankSet([u32; 4]);

impl RankSet {
    /// Adds a rank below 128; others are left out.
    #[must_use]
    pub fn with(mut self, rank: u16) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(rank >> 5)) {
            *word |= 1 << (rank & 31);
        }
        self
    }

    /// All ranks below `world`.
    #[must_use]
    pub fn below(world: u16) -> Self {
        (0..world).collect()
    }

    /// Whether a rank is in it.
    #[must_use]
    pub fn has(&self, rank: u16) -> bool {
        self.0
            .get(usize::from(rank >> 5))
            .is_some_and(|word| word >> (rank & 31) & 1 == 1)
    }

    /// Its ranks in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + use<> {
        let mut rest = *self;
        iter::from_fn(move || {
            let first = rest.first()?;
            rest = rest.without(first);
            Some(first)
        })
    }

    /// Number of ranks.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0
            .iter()
            .map(|word| word.count_ones())
            .fold(0, u32::wrapping_add)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The lowest rank.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<u16> {
        let (number, word) = (0_u16..).zip(self.0).find(|(_, word)| *word != 0)?;
        let bit = u16::try_from(word.trailing_zeros()).ok()?;
        Some(number.wrapping_mul(32).wrapping_add(bit))
    }
}

impl RankSet {
    /// Its 128 bits: rank r is bit r % 32 of word r / 32.
    #[must_use]
    pub const fn words(self) -> [u32; 4] {
        self.0
    }

    /// The set with these bits.
    #[must_use]
    pub const fn from_words(words: [u32; 4]) -> Self {
        Self(words)
    }

    /// Without a rank.
    #[inline]
    #[must_use]
    pub fn without(mut self, rank: u16) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(rank >> 5)) {
            *word &= !(1 << (rank & 31));
        }
        self
    }
}

impl FromIterator<u16> for RankSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ranks: I) -> Self {
        ranks.into_iter().fold(Self::default(), Self::with)
    }
}

impl fmt::Display for RankSet {
    /// Ranges, not lists: `{0-3,7}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        let mut ranks = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = ranks.next() {
            let mut last = first;
            while let Some(next) = ranks.next_if(|next| *next == last.wrapping_add(1)) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_goes_in_and_out_and_one_beyond_the_bus_changes_nothing() {
        let both = RankSet::default().with(3).with(40);
        assert!(both.has(3) && both.has(40));
        assert_eq!(both.without(40), RankSet::default().with(3));
        assert_eq!(both.without(u16::MAX), both);
    }
}
