//! The test kit: what stands in for the accelerator, and what knows the right answers.
//!
//! - [`dtype`], [`pattern`], [`verify`]: element types, inputs from a seed, comparison with tolerance.
//! - [`op`], [`golden`]: the six collectives and their expected results.
//! - [`plan`]: from a collective to transfers and device steps of every stream and block.
//! - [`device`]: the simulated device: memory, semaphores, index words, FIFO arrays, a thread that runs programs.
//! - [`oracle`], [`pair`]: what queue and driver must answer, and the order of their calls; both sides beside each other.
//! - [`abi`], [`entryless`]: the two records that an op's channel address leads to; the shortest arrays.
//! - [`command`], [`processes`]: what the programs of the tests have in common; who runs with a mark in its environment.
//!
//! One rank of a collective, from the side of a launcher (which gets the connectors from the library, gives the FIFO
//! arrays to the driver, and enqueues before it rings the doorbell):
//!
//! ```
//! use std::sync::atomic::Ordering;
//! use std::time::{Duration, Instant};
//!
//! use proxy_kit::device::{Connectors, Device, Polarity, StartWords};
//! use proxy_kit::dtype::Dtype;
//! use proxy_kit::golden::golden;
//! use proxy_kit::op::Op;
//! use proxy_kit::pattern::Pattern;
//! use proxy_kit::plan::{DEFAULT_CHUNK_BYTES, Plan, PlanSpec};
//! use proxy_kit::verify::verify;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (op, dtype, ranks, rank, count) = (Op::AllReduce, Dtype::Fp32, 1, 0, 1000);
//! let pattern = Pattern::Random { seed: 1, salt: 0 };
//!
//! // One device per rank, for all sizes. One connector pair per stream.
//! let device = Device::new(rank, op.topology(), &[Connectors::default(); 2])?;
//!
//! // One program per size: its arrays make one context of the driver.
//! let plan = Plan::new(&PlanSpec {
//!     op, dtype, ranks, rank, count, streams: 2, blocks: 1, chunk_bytes: DEFAULT_CHUNK_BYTES,
//! })?;
//! let program = device.load(plan)?;
//! let (ops, src, dest) = program.fifo(0, 0).ok_or("stream 0 block 0")?;
//! assert_eq!((ops.len(), src.len(), dest.len()), (1, 1, 1)); // alone: only the terminators
//!
//! // One start word per stream: give `start.address(stream)` to the driver, or make it from the driver's addresses.
//! let start = StartWords::new(2, Polarity::AsSpecified);
//!
//! program.write_input(&pattern.input(dtype, rank, op.input_count(1, 0, count)))?;
//! for exec_id in 1..=3 {
//!     // Here the driver arms and enqueues, then the doorbell is rung.
//!     let execution = device.launch(exec_id, &program, &start)?;
//!     // The driver consumes what the device fires, which is all there is to do for one rank alone.
//!     let words = (0..2).filter_map(|stream| start.word(stream));
//!     words.for_each(|word| while word.swap(0, Ordering::AcqRel) != exec_id as u32 + 1 {});
//!     execution.wait(Instant::now() + Duration::from_secs(10))?;
//! }
//! let want = golden(op, dtype, pattern, ranks, rank, count);
//! verify(dtype, op.summands(ranks), &program.read_output()?, &want)?;
//! # Ok(())
//! # }
//! ```

pub mod abi;
pub mod command;
pub mod device;
pub mod dtype;
pub mod entryless;
pub mod golden;
pub mod op;
pub mod oracle;
pub mod pair;
pub mod pattern;
pub mod plan;
pub mod processes;
pub mod split;
pub mod verify;
