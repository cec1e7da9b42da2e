//! Direct exchanges, one op with a peer per entry: all-to-all, pairs, permutation.
//!
//! All-to-all goes by distance: to the next rank and from the previous one first, then two ranks away, and so on. Both
//! ends of a link thereby order their transfers alike, so the oldest open one always has both sides posted.

use std::ops::Range;

use super::{After, Cut, Region, Span, Step, Transfer, Work};
use crate::op::{Op, partner};
use crate::split::chunks;

/// The work of one rank in one stream's block.
pub(super) fn build(cut: &Cut<'_>) -> Work {
    let (ranks, rank) = (cut.ranks(), cut.rank());
    let mut work = Work {
        ops: 1,
        ..Work::default()
    };
    match cut.spec.op {
        Op::AllToAll => {
            for distance in 0..ranks {
                let (to, from) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
                let (input, output) = (outgoing(cut, to), incoming(cut, from));
                exchange(cut, &mut work, (to, input), (from, output));
            }
        }
        op => {
            let (to, from) = match op {
                Op::SendRecv => (partner(ranks, rank), partner(ranks, rank)),
                _ => ((rank + 1) % ranks, (rank + ranks - 1) % ranks),
            };
            let share = cut.share(&(0..cut.spec.count));
            exchange(cut, &mut work, (to, share.clone()), (from, share));
        }
    }
    work
}

/// The block's elements of the part for `to`, as indices of the input.
fn outgoing(cut: &Cut<'_>, to: usize) -> Range<usize> {
    cut.share(&cut.owned(to))
}

/// The block's elements of the piece from `from`, as indices of the output.
fn incoming(cut: &Cut<'_>, from: usize) -> Range<usize> {
    let part = cut.owned(cut.rank());
    let share = cut.share(&part);
    let shift = |index| from * part.len() + index - part.start;
    shift(share.start)..shift(share.end)
}

/// Sends elements of the input to one rank and receives elements of the output from another; a rank that is its own
/// peer copies.
fn exchange(
    cut: &Cut<'_>,
    work: &mut Work,
    to: (usize, Range<usize>),
    from: (usize, Range<usize>),
) {
    let spans =
        |region, elements| chunks(elements, cut.chunk()).map(move |c| cut.span(region, 0, &c));
    let input = spans(Region::Input, to.1);
    let output = spans(Region::Output, from.1);
    if to.0 == cut.rank() {
        work.local
            .extend(input.zip(output).map(|(src, dst)| Step::Copy { src, dst }));
        return;
    }
    let entry = |peer: usize| {
        move |span: Span| Transfer {
            op: 0,
            span,
            peer: u32::try_from(peer).ok(),
        }
    };
    work.sends
        .extend(input.map(entry(to.0)).map(|t| (t, After::Start)));
    work.receives
        .extend(output.map(entry(from.0)).map(|t| (t, Vec::new())));
}
