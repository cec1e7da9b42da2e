//! The expected output of a rank, computed from the inputs of all ranks.
//!
//! It knows nothing of plans and devices: inputs are made anew from the pattern, sums are taken in rank order in 64-bit
//! floats (rounded to the type once, at the end) or in wrapping integers.

use std::num::Wrapping;
use std::ops::{AddAssign, Range};

use half::{bf16, f16};

use crate::dtype::Dtype;
use crate::op::{Op, owned, partner};
use crate::pattern::Pattern;

/// Elements that are summed at a time, to bound the memory.
const BATCH: usize = 1 << 14;

/// The output of `rank` in a world of `ranks` (at least 1, above `rank`) when every rank's input is made by `pattern`.
/// `count` is as in [`PlanSpec`](crate::plan::PlanSpec).
pub fn golden(
    op: Op,
    dtype: Dtype,
    pattern: Pattern,
    ranks: u32,
    rank: u32,
    count: usize,
) -> Vec<u8> {
    let world = World {
        dtype,
        pattern,
        ranks,
    };
    let (r, me) = (ranks as usize, rank as usize);
    match op {
        Op::AllReduce => world.sum(0..count),
        Op::ReduceScatter => world.sum(owned(r, me, count)),
        Op::AllGather => {
            let parts =
                (0..ranks).map(|from| world.input(from, 0..owned(r, from as usize, count).len()));
            parts.collect::<Vec<_>>().concat()
        }
        Op::AllToAll => {
            let parts = (0..ranks).map(|from| world.input(from, owned(r, me, count)));
            parts.collect::<Vec<_>>().concat()
        }
        Op::SendRecv => world.input(partner(r, me) as u32, 0..count),
        Op::Permute => world.input((rank + ranks - 1) % ranks, 0..count),
    }
}

struct World {
    dtype: Dtype,
    pattern: Pattern,
    ranks: u32,
}

impl World {
    /// Elements `range` of the input of `rank`.
    fn input(&self, rank: u32, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len() * self.dtype.size()];
        self.pattern.fill(self.dtype, rank, range.start, &mut bytes);
        bytes
    }

    /// Elements `range` of the sum of all inputs.
    fn sum(&self, range: Range<usize>) -> Vec<u8> {
        let mut out = Vec::with_capacity(range.len() * self.dtype.size());
        for start in range.clone().step_by(BATCH) {
            let batch = start..range.end.min(start + BATCH);
            if self.dtype.is_float() {
                self.sum_floats(batch, &mut out);
            } else {
                self.sum_integers(batch, &mut out);
            }
        }
        out
    }

    fn sum_floats(&self, batch: Range<usize>, out: &mut Vec<u8>) {
        let mut sums = vec![0_f64; batch.len()];
        for rank in 0..self.ranks {
            let input = self.input(rank, batch.clone());
            match self.dtype {
                Dtype::Fp16 => add(&mut sums, &input, |b| f16::from_le_bytes(b).to_f64()),
                Dtype::Bf16 => add(&mut sums, &input, |b| bf16::from_le_bytes(b).to_f64()),
                _ => add(&mut sums, &input, |b| f32::from_le_bytes(b).into()),
            }
        }
        for sum in sums {
            match self.dtype {
                Dtype::Fp16 => out.extend(f16::from_f64(sum).to_le_bytes()),
                Dtype::Bf16 => out.extend(bf16::from_f64(sum).to_le_bytes()),
                _ => out.extend((sum as f32).to_le_bytes()),
            }
        }
    }

    /// Sums in wrapping 32-bit words, cut to the element: the same as wrapping sums in the type, signed or not.
    fn sum_integers(&self, batch: Range<usize>, out: &mut Vec<u8>) {
        let mut sums = vec![Wrapping(0_u32); batch.len()];
        for rank in 0..self.ranks {
            let input = self.input(rank, batch.clone());
            match self.dtype.size() {
                1 => add(&mut sums, &input, |[b]| Wrapping(b.into())),
                2 => add(&mut sums, &input, |b| {
                    Wrapping(u16::from_le_bytes(b).into())
                }),
                _ => add(&mut sums, &input, |b| Wrapping(u32::from_le_bytes(b))),
            }
        }
        let size = self.dtype.size();
        sums.iter()
            .for_each(|sum| out.extend_from_slice(&sum.0.to_le_bytes()[..size]));
    }
}

/// Adds the number that each element stands for to its sum.
fn add<const N: usize, T: AddAssign>(sums: &mut [T], input: &[u8], number: impl Fn([u8; N]) -> T) {
    sums.iter_mut()
        .zip(input.as_chunks().0)
        .for_each(|(sum, element)| *sum += number(*element));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn singles(bytes: &[u8]) -> Vec<f32> {
        bytes
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect()
    }

    #[test]
    fn ones_sum_to_the_ranks() {
        let all = golden(Op::AllReduce, Dtype::Fp32, Pattern::AllOnes, 5, 3, 3);
        assert_eq!(singles(&all), [5.0; 3]);
        let part = golden(Op::ReduceScatter, Dtype::Uint8, Pattern::AllOnes, 3, 2, 7);
        assert_eq!(part, [3, 3]);
    }

    #[test]
    fn integers_wrap_as_their_type_does() {
        let pattern = Pattern::Random { seed: 1, salt: 1 };
        let sums = golden(Op::AllReduce, Dtype::Int8, pattern, 3, 0, 9);
        let inputs: Vec<_> = (0..3)
            .map(|rank| pattern.input(Dtype::Int8, rank, 9))
            .collect();
        for (index, sum) in sums.iter().enumerate() {
            let [a, b, c] = [0, 1, 2].map(|rank: usize| inputs[rank][index].cast_signed());
            assert_eq!(sum.cast_signed(), a.wrapping_add(b).wrapping_add(c));
        }
    }

    #[test]
    fn moved_data_is_the_senders() {
        let pattern = Pattern::Random { seed: 1, salt: 1 };
        let input = |rank, count| pattern.input(Dtype::Uint16, rank, count);
        let get = |op, rank| golden(op, Dtype::Uint16, pattern, 3, rank, 7);
        assert_eq!(get(Op::Permute, 0), input(2, 7));
        assert_eq!(get(Op::SendRecv, 0), input(1, 7));
        assert_eq!(get(Op::SendRecv, 2), input(2, 7));
        assert_eq!(
            get(Op::AllGather, 1),
            [input(0, 3), input(1, 2), input(2, 2)].concat()
        );
        // Rank 1 owns elements 3 and 4 of 7.
        let parts = [0, 1, 2].map(|rank| input(rank, 7)[6..10].to_vec());
        assert_eq!(get(Op::AllToAll, 1), parts.concat());
    }
}
