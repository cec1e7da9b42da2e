//! The nine element types of the collectives, with their names, sizes and sum reduction.
//!
//! Names and set are those of the public `nccom-test` tool. Elements are little-endian bytes in memory, so that a buffer
//! needs no alignment and no cast to be reduced.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};

/// Element type of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 8-bit unsigned integer.
    Uint8,
    /// 8-bit signed integer.
    Int8,
    /// 16-bit unsigned integer.
    Uint16,
    /// 16-bit signed integer.
    Int16,
    /// IEEE half precision.
    Fp16,
    /// Upper half of an IEEE single.
    Bf16,
    /// 32-bit unsigned integer.
    Uint32,
    /// 32-bit signed integer.
    Int32,
    /// IEEE single precision.
    Fp32,
}

impl Dtype {
    /// All types, in the order in which help texts list them.
    pub const ALL: [Self; 9] = [
        Self::Uint8,
        Self::Int8,
        Self::Uint16,
        Self::Int16,
        Self::Fp16,
        Self::Bf16,
        Self::Uint32,
        Self::Int32,
        Self::Fp32,
    ];

    /// The name on the command line and in the result table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uint8 => "uint8",
            Self::Int8 => "int8",
            Self::Uint16 => "uint16",
            Self::Int16 => "int16",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Uint32 => "uint32",
            Self::Int32 => "int32",
            Self::Fp32 => "fp32",
        }
    }

    /// Bytes of one element: 1, 2 or 4.
    pub const fn size(self) -> usize {
        match self {
            Self::Uint8 | Self::Int8 => 1,
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => 2,
            Self::Uint32 | Self::Int32 | Self::Fp32 => 4,
        }
    }

    /// Whether sums of this type may round.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Fp16 | Self::Bf16 | Self::Fp32)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no element type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownDtype(String);

impl fmt::Display for UnknownDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data type is {:?}, accepted:", self.0)?;
        Dtype::ALL
            .iter()
            .try_for_each(|dtype| write!(f, " {dtype}"))
    }
}

impl std::error::Error for UnknownDtype {}

impl FromStr for Dtype {
    type Err = UnknownDtype;

    fn from_str(name: &str) -> Result<Self, UnknownDtype> {
        let known = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        known.ok_or_else(|| UnknownDtype(name.to_owned()))
    }
}

/// Adds `add` to `acc`, element by element: `acc[i] = acc[i] + add[i]`.
///
/// Integers wrap. `fp16` and `bf16` are widened to `f32`, added there, and rounded to nearest even after every single
/// addition; `fp32` adds in `f32`. Only whole elements that both slices hold are touched, so a caller that passes
/// slices of one length gets all of them.
pub fn reduce(dtype: Dtype, acc: &mut [u8], add: &[u8]) {
    match dtype {
        Dtype::Uint8 | Dtype::Int8 => zip(acc, add, |a, b| [u8::wrapping_add(a[0], b[0])]),
        // Two's complement: signed and unsigned sums are the same bits.
        Dtype::Uint16 | Dtype::Int16 => zip(acc, add, |a, b| {
            u16::from_le_bytes(a)
                .wrapping_add(u16::from_le_bytes(b))
                .to_le_bytes()
        }),
        Dtype::Uint32 | Dtype::Int32 => zip(acc, add, |a, b| {
            u32::from_le_bytes(a)
                .wrapping_add(u32::from_le_bytes(b))
                .to_le_bytes()
        }),
        Dtype::Fp16 => zip(acc, add, |a, b| {
            f16::from_f32(f16::from_le_bytes(a).to_f32() + f16::from_le_bytes(b).to_f32())
                .to_le_bytes()
        }),
        Dtype::Bf16 => zip(acc, add, |a, b| {
            bf16::from_f32(bf16::from_le_bytes(a).to_f32() + bf16::from_le_bytes(b).to_f32())
                .to_le_bytes()
        }),
        Dtype::Fp32 => zip(acc, add, |a, b| {
            (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes()
        }),
    }
}

fn zip<const N: usize>(acc: &mut [u8], add: &[u8], sum: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (a, b) in acc
        .as_chunks_mut::<N>()
        .0
        .iter_mut()
        .zip(add.as_chunks::<N>().0)
    {
        *a = sum(*a, *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        let error = "fp64".parse::<Dtype>().unwrap_err().to_string();
        assert_eq!(
            error,
            "data type is \"fp64\", accepted: uint8 int8 uint16 int16 fp16 bf16 uint32 int32 fp32"
        );
    }

    #[test]
    fn display_pads() {
        assert_eq!(format!("{:>8}|", Dtype::Fp32), "    fp32|");
    }

    #[test]
    fn integers_wrap() {
        let mut acc = [250, 1];
        reduce(Dtype::Uint8, &mut acc, &[10, 2]);
        assert_eq!(acc, [4, 3]);
        let mut acc = i16::MAX.to_le_bytes();
        reduce(Dtype::Int16, &mut acc, &1_i16.to_le_bytes());
        assert_eq!(i16::from_le_bytes(acc), i16::MIN);
        let mut acc = u32::MAX.to_le_bytes();
        reduce(Dtype::Uint32, &mut acc, &2_u32.to_le_bytes());
        assert_eq!(u32::from_le_bytes(acc), 1);
    }

    #[test]
    fn halves_round_to_nearest_even_after_each_addition() {
        // 2048 + 1 is a tie between 2048 and 2050 in fp16; even wins, twice.
        let mut acc = f16::from_f32(2048.0).to_le_bytes();
        for _ in 0..2 {
            reduce(Dtype::Fp16, &mut acc, &f16::ONE.to_le_bytes());
        }
        assert_eq!(f16::from_le_bytes(acc).to_f32(), 2048.0);
        let mut acc = bf16::from_f32(256.0).to_le_bytes();
        reduce(Dtype::Bf16, &mut acc, &bf16::from_f32(3.0).to_le_bytes());
        assert_eq!(bf16::from_le_bytes(acc).to_f32(), 260.0);
    }

    #[test]
    fn singles_add() {
        let mut acc = 1.5_f32.to_le_bytes();
        reduce(Dtype::Fp32, &mut acc, &(-0.25_f32).to_le_bytes());
        assert_eq!(f32::from_le_bytes(acc), 1.25);
    }
}
