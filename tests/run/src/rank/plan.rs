//! One size on one rank: the device's program and what the driver is given of it.
#![allow(unsafe_code, reason = "start words are named by address")]

use std::sync::Arc;

use proxy_core::Rank;
use proxy_kit::device::{Device, Program, StartWords};
use proxy_kit::plan::{DEFAULT_CHUNK_BYTES, Plan, PlanSpec};
use proxy_os::nccom::ProxyComm;
use proxy_os::{ContextBuilder, DeviceWord, Fifo};

use crate::job::Job;
use crate::wire::Failure;

/// A program on the device and the words by which it tells the driver to begin. Both must outlive the context.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    /// The program.
    pub(super) program: Arc<Program>,
    /// One start word per stream.
    pub(super) start: StartWords,
}

impl Loaded {
    /// Plans this rank's share of `bytes` and loads it.
    pub(super) fn new(job: &Job, rank: u32, bytes: u64, device: &Device) -> Result<Self, Failure> {
        let plan = Plan::new(&PlanSpec {
            op: job.op,
            dtype: job.dtype,
            ranks: job.layout.ranks,
            rank,
            count: usize::try_from(job.count(bytes)).map_err(Failure::own)?,
            streams: job.streams,
            blocks: job.blocks,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
        });
        let program = device
            .load(plan.map_err(Failure::own)?)
            .map_err(Failure::own)?;
        Ok(Self {
            program,
            start: StartWords::new(job.streams, job.polarity.of_device()),
        })
    }

    /// Describes the context of this program to the driver.
    pub(super) fn context(
        &self,
        job: &Job,
        rank: u32,
        comm: Arc<ProxyComm>,
        early_completion: bool,
    ) -> ContextBuilder {
        let words = (0..job.streams).map(|stream| self.word(stream)).collect();
        let builder = ContextBuilder::new(comm, Rank(rank))
            .device_wait(words)
            .polarity(job.polarity.of_driver());
        (0..job.blocks)
            .zip(0..)
            .fold(builder, |builder, (block, id)| {
                let sets =
                    (0..job.streams).map(|stream| self.fifo(stream, block, early_completion));
                builder.block(id, sets.collect())
            })
    }

    /// The driver's name for a start word.
    fn word(&self, stream: usize) -> Option<DeviceWord> {
        let address = usize::try_from(self.start.address(stream)?).ok()?;
        // SAFETY: `self` owns the words and outlives the context (see the type); the device stores 32 bits at a time.
        unsafe { DeviceWord::new(std::ptr::with_exposed_provenance_mut(address)) }
    }

    /// The arrays of one stream's block. One that the program does not have is empty, which the context's builder refuses.
    fn fifo(&self, stream: usize, block: usize, early_completion: bool) -> Fifo {
        let Some((ops, src, dest)) = self.program.fifo(stream, block) else {
            return Fifo::default();
        };
        let mut fifo = Fifo {
            ops: ops.to_vec(),
            src: src.to_vec(),
            dest: dest.to_vec(),
        };
        for op in &mut fifo.ops {
            op.early_send_completion = u8::from(early_completion);
        }
        fifo
    }
}
