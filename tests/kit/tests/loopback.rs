//! Plan, device and golden against each other: whole worlds over the fake library, results checked on every rank.

mod fake;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fake::FakeLibrary;
use proxy_kit::device::{Connectors, Device, Polarity, Program, StartWords};
use proxy_kit::dtype::Dtype;
use proxy_kit::golden::golden;
use proxy_kit::op::Op;
use proxy_kit::pattern::Pattern;
use proxy_kit::plan::{Plan, PlanSpec};
use proxy_kit::verify::verify;

const LIMIT: Duration = Duration::from_secs(60);
const PATTERN: Pattern = Pattern::Random { seed: 42, salt: 1 };

/// All devices of one world, kept over several specs as a launcher keeps them over several sizes.
struct World {
    devices: Vec<Device>,
    executions: u64,
}

impl World {
    fn new(op: Op, ranks: u32) -> Self {
        let connectors = [Connectors::default(); 4];
        let device = |rank| Device::new(rank, op.topology(), &connectors).expect("a device");
        Self {
            devices: (0..ranks).map(device).collect(),
            executions: 0,
        }
    }

    /// Runs `spec` on every rank, `times` times, and checks every output each time.
    fn check(&mut self, spec: PlanSpec, times: u64, polarity: Polarity) {
        let programs: Vec<_> = (0..spec.ranks)
            .zip(&self.devices)
            .map(|(rank, d)| load(d, PlanSpec { rank, ..spec }))
            .collect();
        let starts: Vec<_> = programs
            .iter()
            .map(|_| StartWords::new(spec.streams, polarity))
            .collect();
        for _ in 0..times {
            self.executions += 1;
            self.execute(&programs, &starts);
            for (rank, program) in (0..spec.ranks).zip(&programs) {
                let want = golden(spec.op, spec.dtype, PATTERN, spec.ranks, rank, spec.count);
                let got = program.read_output().expect("an idle program");
                let result = verify(spec.dtype, 1, &got, &want);
                assert_eq!(result, Ok(()), "rank {rank} of {spec:?}");
                program.fill_output(0xA5).expect("an idle program");
            }
        }
    }

    fn execute(&self, programs: &[Arc<Program>], starts: &[StartWords]) {
        let launches = self.devices.iter().zip(programs).zip(starts);
        let running: Vec<_> = launches
            .map(|((device, program), start)| {
                arm(start);
                device
                    .launch(self.executions, program, start)
                    .expect("a launch")
            })
            .collect();
        starts
            .iter()
            .for_each(|start| consume(start, self.executions));
        let mut library = FakeLibrary::start(programs, self.executions);
        let deadline = Instant::now() + LIMIT;
        while !library.is_done() {
            if !library.pass() {
                std::thread::yield_now();
            }
            if Instant::now() > deadline {
                // The waits below say where the devices stand.
                break;
            }
        }
        for (rank, execution) in running.iter().enumerate() {
            execution
                .wait(deadline)
                .unwrap_or_else(|error| panic!("rank {rank}: {error}"));
        }
    }
}

fn load(device: &Device, spec: PlanSpec) -> Arc<Program> {
    let plan = Plan::new(&spec).expect("a plan");
    let program = device.load(plan).expect("a program");
    let count = spec
        .op
        .input_count(spec.ranks as usize, spec.rank as usize, spec.count);
    program
        .write_input(&PATTERN.input(spec.dtype, spec.rank, count))
        .expect("an input");
    program.fill_output(0xA5).expect("an idle program");
    program
}

fn arm(start: &StartWords) {
    for word in (0..start.len()).filter_map(|stream| start.word(stream)) {
        word.store(start.polarity().idle(), Ordering::Release);
    }
}

/// Waits until every word is fired, and consumes it.
fn consume(start: &StartWords, exec_id: u64) {
    let fired = start.polarity().fired(exec_id);
    for word in (0..start.len()).filter_map(|stream| start.word(stream)) {
        let deadline = Instant::now() + LIMIT;
        while word
            .compare_exchange(fired, 0, Ordering::Acquire, Ordering::Acquire)
            .is_err()
        {
            assert!(Instant::now() < deadline, "the start word was not fired");
            std::thread::yield_now();
        }
    }
}

fn spec(op: Op, ranks: u32, count: usize) -> PlanSpec {
    PlanSpec {
        op,
        dtype: Dtype::Int32,
        ranks,
        rank: 0,
        count,
        streams: 1,
        blocks: 1,
        chunk_bytes: 1 << 10,
    }
}

/// Every op, world and small size, over shapes that use each number of streams and of blocks.
fn small_sizes(op: Op) {
    for ranks in [1, 2, 3, 4, 5, 8] {
        let mut world = World::new(op, ranks);
        for count in [0, 1, 7, 1024] {
            for (streams, blocks) in [(1, 1), (2, 2), (3, 3), (4, 1), (1, 3), (4, 2)] {
                world.check(
                    PlanSpec {
                        streams,
                        blocks,
                        ..spec(op, ranks, count)
                    },
                    2,
                    Polarity::AsSpecified,
                );
            }
        }
    }
}

#[test]
fn small_allr() {
    small_sizes(Op::AllReduce);
}

#[test]
fn small_allg() {
    small_sizes(Op::AllGather);
}

#[test]
fn small_redsct() {
    small_sizes(Op::ReduceScatter);
}

#[test]
fn small_alltoall() {
    small_sizes(Op::AllToAll);
}

#[test]
fn small_sendrecv() {
    small_sizes(Op::SendRecv);
}

#[test]
fn small_permute() {
    small_sizes(Op::Permute);
}

#[test]
fn a_megabyte_and_a_bit() {
    for op in Op::ALL {
        for ranks in [2, 5, 8] {
            let large = PlanSpec {
                chunk_bytes: 64 << 10,
                streams: 3,
                blocks: 2,
                ..spec(op, ranks, (1 << 18) + 13)
            };
            World::new(op, ranks).check(large, 1, Polarity::AsSpecified);
        }
    }
}

/// More entries in a block than the window, and than the index word can count.
#[test]
fn many_entries() {
    for op in Op::ALL {
        for ranks in [2, 3] {
            let many = PlanSpec {
                chunk_bytes: 16,
                streams: 2,
                ..spec(op, ranks, 16_411)
            };
            World::new(op, ranks).check(many, 2, Polarity::AsSpecified);
        }
    }
}

/// The largest world of the launcher; with fewer elements than ranks some parts are empty.
#[test]
fn sixty_four_ranks() {
    for op in Op::ALL {
        let mut world = World::new(op, 64);
        for count in [60, 5000] {
            world.check(spec(op, 64, count), 1, Polarity::AsSpecified);
        }
    }
}

#[test]
fn every_type() {
    for op in [Op::AllReduce, Op::ReduceScatter, Op::AllToAll] {
        let mut world = World::new(op, 3);
        for dtype in Dtype::ALL {
            world.check(
                PlanSpec {
                    dtype,
                    streams: 2,
                    blocks: 2,
                    ..spec(op, 3, 1001)
                },
                1,
                Polarity::AsSpecified,
            );
        }
    }
}

#[test]
fn other_polarity() {
    let mut world = World::new(Op::AllReduce, 2);
    world.check(
        PlanSpec {
            streams: 4,
            ..spec(Op::AllReduce, 2, 100)
        },
        3,
        Polarity::Header,
    );
}
