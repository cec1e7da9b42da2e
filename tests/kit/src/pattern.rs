//! Contents of the input buffers: reproducible from a seed, at any offset, on any rank.
//!
//! Nobody exchanges inputs to check a result: each rank makes all of them anew (see [`golden`](crate::golden)). Random
//! floats are small whole numbers (`fp32`: sixteenths), chosen so that a sum over up to [`EXACT_RANKS`] ranks is exact
//! in any order of addition; an error in the data path therefore cannot hide behind rounding.

use half::{bf16, f16};

use crate::dtype::Dtype;

/// Sums over up to this many ranks of [`Pattern::Random`] are exact in every float type.
pub const EXACT_RANKS: u32 = 64;

/// What the input buffers hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Every element is one.
    AllOnes,
    /// Elements drawn from `seed`, the rank and `salt`. Integers use their full range.
    Random {
        /// The run's seed, equal on all ranks.
        seed: u64,
        /// Tells apart the ops (or sizes) of one run.
        salt: u64,
    },
}

impl Pattern {
    /// Fills `out` with elements `first..` of the input of `rank`. A rest shorter than an element is left as it is.
    pub fn fill(self, dtype: Dtype, rank: u32, first: usize, out: &mut [u8]) {
        match self {
            Self::AllOnes => out
                .chunks_exact_mut(dtype.size())
                .for_each(|element| one(dtype, element)),
            Self::Random { seed, salt } => {
                random(dtype, mix(seed ^ mix(salt ^ mix(rank.into()))), first, out)
            }
        }
    }

    /// The whole input of `rank`: `count` elements.
    pub fn input(self, dtype: Dtype, rank: u32, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * dtype.size()];
        self.fill(dtype, rank, 0, &mut bytes);
        bytes
    }
}

fn one(dtype: Dtype, out: &mut [u8]) {
    match dtype {
        Dtype::Fp16 => out.copy_from_slice(&f16::ONE.to_le_bytes()),
        Dtype::Bf16 => out.copy_from_slice(&bf16::ONE.to_le_bytes()),
        Dtype::Fp32 => out.copy_from_slice(&1_f32.to_le_bytes()),
        Dtype::Uint8
        | Dtype::Int8
        | Dtype::Uint16
        | Dtype::Int16
        | Dtype::Uint32
        | Dtype::Int32 => {
            out.fill(0);
            out[0] = 1;
        }
    }
}

/// Fills with elements made from raw bits: integers keep them, floats get a value whose sums are exact.
fn random(dtype: Dtype, key: u64, first: usize, out: &mut [u8]) {
    match dtype {
        Dtype::Uint8 | Dtype::Int8 => draw_all::<1>(key, first, out, |raw| raw),
        Dtype::Uint16 | Dtype::Int16 => draw_all::<2>(key, first, out, |raw| raw),
        Dtype::Uint32 | Dtype::Int32 => draw_all::<4>(key, first, out, |raw| raw),
        // 11 bits of significand: whole numbers up to 2048 = 64 * 32 are exact.
        Dtype::Fp16 => draw_all(key, first, out, |[raw, _]| {
            f16::from_f32(f32::from(raw % 65) - 32.0).to_le_bytes()
        }),
        // 8 bits of significand: whole numbers up to 256 = 64 * 4 are exact.
        Dtype::Bf16 => draw_all(key, first, out, |[raw, _]| {
            bf16::from_f32(f32::from(raw % 9) - 4.0).to_le_bytes()
        }),
        // 24 bits of significand: sixteenths up to 2^20 = 64 * 2^14 are exact.
        Dtype::Fp32 => draw_all(key, first, out, |[low, high, _, _]| {
            (f32::from(i16::from_le_bytes([low, high]) / 2) / 16.0).to_le_bytes()
        }),
    }
}

/// One 64-bit draw serves 8, 4 or 2 neighbouring elements; element `k` always takes the same lane of the same draw.
fn draw_all<const N: usize>(
    key: u64,
    first: usize,
    out: &mut [u8],
    shape: impl Fn([u8; N]) -> [u8; N],
) {
    let lanes = 8 / N;
    let draw = |index: usize| mix(key.wrapping_add((index / lanes) as u64)).to_le_bytes();
    let mut bits = draw(first);
    for (element, index) in out.as_chunks_mut::<N>().0.iter_mut().zip(first..) {
        if index % lanes == 0 {
            bits = draw(index);
        }
        *element = shape(bits.as_chunks().0[index % lanes]);
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014), advanced by one step: a bijection that spreads every bit.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::reduce;

    const RANDOM: Pattern = Pattern::Random { seed: 7, salt: 3 };

    #[test]
    fn any_part_equals_the_whole() {
        for dtype in Dtype::ALL {
            let whole = RANDOM.input(dtype, 2, 41);
            for first in 0..41 {
                let mut part = vec![0; (41 - first) * dtype.size()];
                RANDOM.fill(dtype, 2, first, &mut part);
                assert_eq!(part, whole[first * dtype.size()..], "{dtype} from {first}");
            }
        }
    }

    #[test]
    fn seed_salt_and_rank_all_matter() {
        let base = RANDOM.input(Dtype::Uint32, 0, 16);
        assert_ne!(base, RANDOM.input(Dtype::Uint32, 1, 16));
        assert_ne!(
            base,
            Pattern::Random { seed: 8, salt: 3 }.input(Dtype::Uint32, 0, 16)
        );
        assert_ne!(
            base,
            Pattern::Random { seed: 7, salt: 4 }.input(Dtype::Uint32, 0, 16)
        );
    }

    #[test]
    fn ones_are_one() {
        assert_eq!(Pattern::AllOnes.input(Dtype::Int16, 0, 2), [1, 0, 1, 0]);
        assert_eq!(
            Pattern::AllOnes.input(Dtype::Fp32, 5, 1),
            1_f32.to_le_bytes()
        );
        assert_eq!(Pattern::AllOnes.input(Dtype::Bf16, 5, 1), [0x80, 0x3F]);
    }

    #[test]
    fn float_sums_are_exact_in_either_order() {
        for dtype in [Dtype::Fp16, Dtype::Bf16, Dtype::Fp32] {
            let sum = |ranks: &mut dyn Iterator<Item = u32>| {
                let mut acc = vec![0; 4096 * dtype.size()];
                ranks.for_each(|rank| reduce(dtype, &mut acc, &RANDOM.input(dtype, rank, 4096)));
                acc
            };
            let up = sum(&mut (0..EXACT_RANKS));
            assert_eq!(up, sum(&mut (0..EXACT_RANKS).rev()), "{dtype}");
        }
    }
}
