//! Comparison of a result with the expected one.

use std::fmt;

use half::{bf16, f16};

use crate::dtype::Dtype;

/// The first element that differs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mismatch {
    /// Index of the element, or the shorter of the two lengths (in elements) if the lengths differ.
    pub index: usize,
    /// The element found; 64-bit floats hold every value of the nine types exactly. NaN if it is missing.
    pub got: f64,
    /// The element expected. NaN if there should be none.
    pub want: f64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "element {} is {}, expected {}",
            self.index, self.got, self.want
        )
    }
}

impl std::error::Error for Mismatch {}

/// Compares `got` with `want`, element by element.
///
/// `summands` is how many inputs were added to make an element: the number of ranks for a reduction, 1 for an op that
/// only moves data. Integers and moved data must be equal. A float sum of n inputs rounds n - 1 times, in an order that
/// the algorithm chooses, so it may differ by (n - 1) * u * max(|want|, 1), where u is the unit round-off of the type:
/// 2^-24 for `fp32`, 2^-11 for `fp16`, 2^-8 for `bf16`.
pub fn verify(dtype: Dtype, summands: u32, got: &[u8], want: &[u8]) -> Result<(), Mismatch> {
    if got == want {
        return Ok(());
    }
    let size = dtype.size();
    let pairs = got.chunks_exact(size).zip(want.chunks_exact(size));
    for (index, (got, want)) in pairs.enumerate() {
        let (g, w) = (value(dtype, got), value(dtype, want));
        // Written so that a NaN, for which every comparison is false, is a mismatch.
        let near = (g - w).abs() <= tolerance(dtype, summands, w);
        if got != want && !near {
            return Err(Mismatch {
                index,
                got: g,
                want: w,
            });
        }
    }
    if got.len() == want.len() {
        return Ok(());
    }
    let index = got.len().min(want.len()) / size;
    let at = |bytes: &[u8]| {
        bytes
            .chunks_exact(size)
            .nth(index)
            .map_or(f64::NAN, |e| value(dtype, e))
    };
    Err(Mismatch {
        index,
        got: at(got),
        want: at(want),
    })
}

fn tolerance(dtype: Dtype, summands: u32, want: f64) -> f64 {
    let unit = match dtype {
        Dtype::Fp32 => 2_f64.powi(-24),
        Dtype::Fp16 => 2_f64.powi(-11),
        Dtype::Bf16 => 2_f64.powi(-8),
        Dtype::Uint8
        | Dtype::Int8
        | Dtype::Uint16
        | Dtype::Int16
        | Dtype::Uint32
        | Dtype::Int32 => 0.0,
    };
    f64::from(summands.saturating_sub(1)) * unit * want.abs().max(1.0)
}

/// The number that one element's bytes stand for.
pub(crate) fn value(dtype: Dtype, element: &[u8]) -> f64 {
    let mut word = [0; 4];
    word[..element.len()].copy_from_slice(element);
    let [a, b, ..] = word;
    match dtype {
        Dtype::Uint8 => a.into(),
        Dtype::Int8 => i8::from_le_bytes([a]).into(),
        Dtype::Uint16 => u16::from_le_bytes([a, b]).into(),
        Dtype::Int16 => i16::from_le_bytes([a, b]).into(),
        Dtype::Fp16 => f16::from_le_bytes([a, b]).into(),
        Dtype::Bf16 => bf16::from_le_bytes([a, b]).into(),
        Dtype::Uint32 => u32::from_le_bytes(word).into(),
        Dtype::Int32 => i32::from_le_bytes(word).into(),
        Dtype::Fp32 => f32::from_le_bytes(word).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn singles(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn integers_must_be_equal() {
        let mismatch = verify(Dtype::Int8, 64, &[1, 2, 0xFF], &[1, 2, 3]);
        assert_eq!(
            mismatch,
            Err(Mismatch {
                index: 2,
                got: -1.0,
                want: 3.0
            })
        );
        assert_eq!(verify(Dtype::Int8, 64, &[1, 2], &[1, 2]), Ok(()));
    }

    #[test]
    fn tolerance_grows_with_the_summands() {
        let want = singles(&[1.0]);
        let got = singles(&[1.0 + 3.0 * 2_f32.powi(-23)]);
        assert_eq!(verify(Dtype::Fp32, 7, &got, &want), Ok(()));
        assert!(verify(Dtype::Fp32, 6, &got, &want).is_err());
        assert!(verify(Dtype::Fp32, 1, &got, &want).is_err());
    }

    #[test]
    fn nan_is_a_mismatch() {
        let mismatch =
            verify(Dtype::Fp32, 64, &singles(&[f32::NAN]), &singles(&[0.0])).unwrap_err();
        assert_eq!(mismatch.index, 0);
        assert!(mismatch.got.is_nan());
    }

    #[test]
    fn lengths_must_be_equal() {
        let mismatch = verify(Dtype::Uint16, 1, &[1, 0], &[1, 0, 2, 0]).unwrap_err();
        assert_eq!((mismatch.index, mismatch.want), (1, 2.0));
        assert!(mismatch.got.is_nan());
    }

    #[test]
    fn message_names_all_three() {
        let text = verify(Dtype::Uint8, 1, &[4], &[5]).unwrap_err().to_string();
        assert_eq!(text, "element 0 is 4, expected 5");
    }
}
