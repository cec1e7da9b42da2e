//! Ring algorithms: reduce-scatter, all-gather, and all-reduce as one after the other.
//!
//! A block's share is cut into one segment per rank. In step k of the reduce-scatter, rank i sends segment i - k - 1 and
//! receives i - k - 2 (modulo the ranks), adds its own input, and sends that on in the next step; after r - 1 steps it
//! has the whole sum of segment i. In step k of the all-gather it sends segment i - k and receives i - k - 1.

use std::ops::Range;

use super::{After, Cut, Region, Step, Transfer, Work};
use crate::op::Op;
use crate::split::{chunks, part};

/// The work of one rank in one stream's block.
pub(super) fn build(cut: &Cut<'_>) -> Work {
    let mut ring = Ring {
        segments: segments(cut),
        input_origin: if cut.spec.op == Op::AllGather {
            cut.owned(cut.rank()).start
        } else {
            0
        },
        output_origin: if cut.spec.op == Op::ReduceScatter {
            cut.owned(cut.rank()).start
        } else {
            0
        },
        cut,
        ready: Vec::new(),
        work: Work::default(),
    };
    let alone = cut.ranks() == 1;
    if cut.spec.op == Op::AllGather || alone {
        ring.keep_own();
    }
    if cut.spec.op != Op::AllGather && !alone {
        ring.reduce_scatter();
    }
    if cut.spec.op != Op::ReduceScatter && !alone {
        ring.all_gather();
    }
    ring.work.ops = ring.work.ops.max(1);
    ring.work
}

/// The block's elements of each rank's segment, as indices of the total buffer.
fn segments(cut: &Cut<'_>) -> Vec<Range<usize>> {
    let all = 0..cut.spec.count;
    (0..cut.ranks())
        .map(|rank| match cut.spec.op {
            Op::AllReduce => part(&cut.share(&all), cut.ranks(), rank),
            _ => cut.share(&cut.owned(rank)),
        })
        .collect()
}

struct Ring<'a> {
    cut: &'a Cut<'a>,
    segments: Vec<Range<usize>>,
    input_origin: usize,
    output_origin: usize,
    /// Per chunk of the segment that is sent next: what makes it ready.
    ready: Vec<After>,
    work: Work,
}

impl Ring<'_> {
    /// The chunks of the segment `back` ranks before this one.
    fn chunks(&self, back: usize) -> Vec<Range<usize>> {
        let ranks = self.cut.ranks();
        let segment = self.segments[(self.cut.rank() + 2 * ranks - back) % ranks].clone();
        chunks(segment, self.cut.chunk()).collect()
    }

    /// Copies this rank's own input to its place in the output.
    fn keep_own(&mut self) {
        let own = self.chunks(0);
        self.ready = vec![After::Local; own.len()];
        self.work.local.extend(own.iter().map(|chunk| Step::Copy {
            src: self.cut.span(Region::Input, self.input_origin, chunk),
            dst: self.cut.span(Region::Output, self.output_origin, chunk),
        }));
    }

    fn reduce_scatter(&mut self) {
        let steps = self.cut.ranks() - 1;
        self.ready = vec![After::Start; self.chunks(1).len()];
        for step in 0..steps {
            let from = if step == 0 {
                Region::Input
            } else {
                Region::Stage
            };
            self.send(&self.chunks(step + 1), from, 0);
            let last = step + 1 == steps;
            for chunk in self.chunks(step + 2) {
                let input = self.cut.span(Region::Input, 0, &chunk);
                let stage = self.cut.span(Region::Stage, 0, &chunk);
                let mut then = vec![Step::Reduce {
                    src: input,
                    dst: stage,
                }];
                if last {
                    let output = self.cut.span(Region::Output, self.output_origin, &chunk);
                    then.push(Step::Copy {
                        src: stage,
                        dst: output,
                    });
                }
                self.receive(&chunk, Region::Stage, 0, then);
            }
        }
        self.work.ops += 1;
    }

    fn all_gather(&mut self) {
        for step in 0..self.cut.ranks() - 1 {
            self.send(&self.chunks(step), Region::Output, self.output_origin);
            for chunk in self.chunks(step + 1) {
                self.receive(&chunk, Region::Output, self.output_origin, Vec::new());
            }
        }
        self.work.ops += 1;
    }

    fn send(&mut self, chunks: &[Range<usize>], region: Region, origin: usize) {
        for (chunk, after) in chunks.iter().zip(self.ready.drain(..)) {
            let span = self.cut.span(region, origin, chunk);
            let transfer = Transfer {
                op: self.work.ops,
                span,
                peer: None,
            };
            self.work.sends.push((transfer, after));
        }
    }

    fn receive(&mut self, chunk: &Range<usize>, region: Region, origin: usize, then: Vec<Step>) {
        self.ready.push(After::Receive(self.work.receives.len()));
        let span = self.cut.span(region, origin, chunk);
        let transfer = Transfer {
            op: self.work.ops,
            span,
            peer: None,
        };
        self.work.receives.push((transfer, then));
    }
}
