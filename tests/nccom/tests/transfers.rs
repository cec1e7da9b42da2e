//! Data between ranks: ring and mesh, sizes, more entries than requests, blocks, executions.
#![allow(
    unsafe_code,
    reason = "links the host's semaphore increment of the common module"
)]

mod common;

use common::device::{
    Block, Device, Op, StreamMemory, entries_of, execute, pattern, run, stop, tick,
};
use common::{Rank, barrier, world};

const RING: i32 = 0;
const MESH: i32 = 1;

/// A ring block that sends `sizes` to the next rank and receives the same sizes from the previous one.
struct Ring {
    memory: Box<StreamMemory>,
    block: Block,
    sent: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
}

impl Ring {
    fn new(rank: &Rank, stream: u32, block: u32, sizes: &[usize]) -> Self {
        let memory = StreamMemory::new(rank.comm, stream as i32, RING);
        let (next, _) = neighbours(rank);
        let numbered = || sizes.iter().copied().enumerate();
        let mut sent: Vec<_> = numbered()
            .map(|(n, size)| pattern(rank.rank, next, n, size))
            .collect();
        let mut received: Vec<_> = sizes.iter().map(|&size| vec![0xEE; size]).collect();
        let op = Op {
            sends: entries_of(-1, &mut sent),
            receives: entries_of(-1, &mut received),
            variable_peer: false,
        };
        let block = Block::new(block, &memory, &[op]);
        Self {
            memory,
            block,
            sent,
            received,
        }
    }

    fn check(&mut self, rank: &Rank) {
        let (_, previous) = neighbours(rank);
        for (n, buffer) in self.received.iter_mut().enumerate() {
            assert!(
                *buffer == pattern(previous, rank.rank, n, buffer.len()),
                "rank {} entry {n}",
                rank.rank
            );
            buffer.fill(0xEE);
        }
        assert!(
            self.sent
                .iter()
                .zip(&self.received)
                .all(|(a, b)| a.len() == b.len())
        );
    }
}

fn neighbours(rank: &Rank) -> (i32, i32) {
    (
        (rank.rank + 1) % rank.world,
        (rank.rank + rank.world - 1) % rank.world,
    )
}

#[test]
fn a_ring_moves_300_entries_of_mixed_sizes_in_worlds_of_1_to_4() {
    for n in 1..=4 {
        world(n, |rank| {
            let size = |i: usize| {
                if i % 20 == 3 {
                    1 << 20
                } else {
                    [0, 1, 4096, 17][i % 4]
                }
            };
            let sizes: Vec<_> = (0..300).map(size).collect();
            let mut ring = Ring::new(&rank, 0, 7, &sizes);
            assert_eq!(ring.block.start(rank.comm, 0), 0);
            execute(rank.comm, 0, &ring.block, &ring.memory);
            ring.check(&rank);
            stop(rank.comm, 0);
        });
    }
}

#[test]
fn a_ring_moves_large_messages() {
    world(3, |rank| {
        let mut ring = Ring::new(&rank, 3, 0, &[1 << 20; 20]);
        assert_eq!(ring.block.start(rank.comm, 3), 0);
        execute(rank.comm, 3, &ring.block, &ring.memory);
        ring.check(&rank);
        stop(rank.comm, 3);
    });
}

#[test]
fn more_than_512_entries_wrap_the_host_index() {
    world(2, |rank| {
        let mut ring = Ring::new(&rank, 0, 0, &[8; 1500]);
        assert_eq!(ring.block.start(rank.comm, 0), 0);
        execute(rank.comm, 0, &ring.block, &ring.memory);
        ring.check(&rank);
        stop(rank.comm, 0);
    });
}

#[test]
fn a_mesh_reaches_every_rank_itself_included() {
    for n in 2..=4 {
        world(n, |rank| {
            let sizes = [4096, 0, 1, 100];
            let memory = StreamMemory::new(rank.comm, 1, MESH);
            let mut op = Op {
                variable_peer: true,
                ..Op::default()
            };
            let mut sent = Vec::new();
            let mut received = Vec::new();
            for peer in 0..n {
                let numbered = || sizes.iter().copied().enumerate();
                sent.push(
                    numbered()
                        .map(|(i, size)| pattern(rank.rank, peer, i, size))
                        .collect::<Vec<_>>(),
                );
                received.push(sizes.map(|size| vec![0xEE; size]).to_vec());
            }
            for peer in 0..n {
                op.sends.extend(entries_of(peer, &mut sent[peer as usize]));
                op.receives.extend(entries_of(
                    n - 1 - peer,
                    &mut received[(n - 1 - peer) as usize],
                ));
            }
            let mut block = Block::new(2, &memory, &[op]);
            assert_eq!(block.start(rank.comm, 1), 0);
            for _ in 0..2 {
                execute(rank.comm, 1, &block, &memory);
                for (peer, buffers) in (0..).zip(&mut received) {
                    for (i, buffer) in buffers.iter_mut().enumerate() {
                        assert!(
                            *buffer == pattern(peer, rank.rank, i, buffer.len()),
                            "from {peer} entry {i}"
                        );
                        buffer.fill(0xEE);
                    }
                }
            }
            stop(rank.comm, 1);
        });
    }
}

#[test]
fn a_block_is_recycled_over_three_executions_without_another_start() {
    world(3, |rank| {
        let mut ring = Ring::new(&rank, 0, 9, &[64; 130]);
        assert_eq!(ring.block.start(rank.comm, 0), 0);
        for _ in 0..3 {
            execute(rank.comm, 0, &ring.block, &ring.memory);
            ring.check(&rank);
        }
        stop(rank.comm, 0);
    });
}

#[test]
fn connections_outlive_a_stop_between_executions() {
    world(2, |rank| {
        let mut ring = Ring::new(&rank, 0, 9, &[64; 3]);
        for _ in 0..5 {
            assert_eq!(ring.block.start(rank.comm, 0), 0);
            execute(rank.comm, 0, &ring.block, &ring.memory);
            ring.check(&rank);
            stop(rank.comm, 0);
        }
    });
}

#[test]
fn several_ops_of_one_block_complete_in_order() {
    world(2, |rank| {
        let memory = StreamMemory::new(rank.comm, 0, RING);
        let (next, previous) = neighbours(&rank);
        let mut sent: Vec<_> = (0..6).map(|i| pattern(rank.rank, next, i, 256)).collect();
        let mut received: Vec<_> = (0..6).map(|_| vec![0; 256]).collect();
        let (sends, receives) = (entries_of(-1, &mut sent), entries_of(-1, &mut received));
        // A send-only op, a receive-only op, an op with both: the directions walk past each other's ops.
        let ops = [
            Op {
                sends: sends[..2].to_vec(),
                ..Op::default()
            },
            Op {
                receives: receives[..3].to_vec(),
                ..Op::default()
            },
            Op {
                sends: sends[2..].to_vec(),
                receives: receives[3..].to_vec(),
                variable_peer: false,
            },
        ];
        let mut block = Block::new(1, &memory, &ops);
        assert_eq!(block.start(rank.comm, 0), 0);
        execute(rank.comm, 0, &block, &memory);
        assert!((0..6).all(|i| received[i] == pattern(previous, rank.rank, i, 256)));
        stop(rank.comm, 0);
    });
}

#[test]
fn two_blocks_run_in_turn_and_streams_do_not_mix() {
    world(2, |rank| {
        let mut rings = Vec::new();
        for stream in 0..4_u32 {
            for block in [10, 20] {
                let size = 1 + stream as usize * 100 + block as usize;
                let mut ring = Ring::new(&rank, stream, block, &[size; 5]);
                assert_eq!(ring.block.start(rank.comm, stream), 0);
                rings.push((stream, ring));
            }
        }
        // The streams in another order on each rank: nothing may depend on it.
        if rank.rank == 1 {
            rings.reverse();
            rings.chunks_mut(2).for_each(<[_]>::reverse);
        }
        // All streams of a block at once, as one worker does: each gets passes in turn.
        for half in 0..2 {
            let mut devices: Vec<_> = (rings.iter())
                .skip(half)
                .step_by(2)
                .map(|(stream, ring)| {
                    (
                        *stream,
                        ring.block.block,
                        Device::pair(&ring.block, &ring.memory),
                        false,
                    )
                })
                .collect();
            while devices.iter().any(|(.., done)| !done) {
                for (stream, block, pair, finished) in
                    devices.iter_mut().filter(|(.., finished)| !finished)
                {
                    pair.iter_mut().for_each(Device::step);
                    let (status, _, done) = tick(rank.comm, *stream, *block);
                    assert_eq!(status, 0);
                    *finished = done;
                }
            }
            devices
                .iter()
                .flat_map(|(_, _, pair, _)| pair)
                .for_each(Device::check_end);
        }
        for (stream, ring) in &mut rings {
            ring.check(&rank);
            if ring.block.block == 20 {
                stop(rank.comm, *stream);
            }
        }
    });
}

#[test]
fn a_pending_block_forces_both_flags_false_when_the_current_one_ends() {
    world(2, |rank| {
        let mut first = Ring::new(&rank, 0, 1, &[32; 4]);
        let mut second = Ring::new(&rank, 0, 2, &[48; 4]);
        assert_eq!(first.block.start(rank.comm, 0), 0);
        assert_eq!(second.block.start(rank.comm, 0), 0);

        // Block 1 becomes active and waits for the device; from then on block 2 is asked for.
        assert_eq!(tick(rank.comm, 0, 1), (0, true, false));
        let mut devices = Device::pair(&first.block, &first.memory);
        while devices.iter().any(|device| device.seen() < 4) {
            devices.iter_mut().for_each(Device::step);
            let (status, idle, done) = tick(rank.comm, 0, 2);
            assert_eq!((status, done), (0, false));
            // The pass that ends block 1 moved something, and says so whatever it moved.
            assert!(devices.iter().any(|device| device.seen() < 4) || !idle);
        }
        devices.iter().for_each(Device::check_end);
        first.check(&rank);

        let mut devices = Device::pair(&second.block, &second.memory);
        run(rank.comm, 0, 2, &mut devices);
        devices.iter().for_each(Device::check_end);
        second.check(&rank);
        stop(rank.comm, 0);
    });
}

#[test]
fn asking_for_the_current_block_again_takes_the_pending_one_back() {
    world(2, |rank| {
        let mut ring = Ring::new(&rank, 0, 1, &[32; 4]);
        assert_eq!(ring.block.start(rank.comm, 0), 0);
        assert_eq!(tick(rank.comm, 0, 1), (0, true, false));
        assert_eq!(tick(rank.comm, 0, 2), (0, true, false));
        execute(rank.comm, 0, &ring.block, &ring.memory);
        ring.check(&rank);
        stop(rank.comm, 0);
    });
}

#[test]
fn an_unknown_block_with_no_active_list_leaves_both_flags_true() {
    world(1, |rank| {
        assert_eq!(tick(rank.comm, 0, 5), (0, true, true));
        let mut ring = Ring::new(&rank, 0, 1, &[1]);
        assert_eq!(ring.block.start(rank.comm, 0), 0);
        assert_eq!(tick(rank.comm, 0, 5), (0, true, true));
        execute(rank.comm, 0, &ring.block, &ring.memory);
        assert_eq!(tick(rank.comm, 0, 5), (0, true, true));
        stop(rank.comm, 0);
        assert_eq!(
            tick(rank.comm, 0, 1),
            (0, true, true),
            "Stop forgets the block"
        );
    });
}

#[test]
fn flags_that_come_in_false_stay_false() {
    world(1, |rank| {
        let (mut idle, mut done) = (false, false);
        // SAFETY: two booleans.
        let status = unsafe {
            nccom::exports::proxy::neuronNetworkProxyProgress(
                rank.comm.0,
                0,
                5,
                &raw mut idle,
                &raw mut done,
            )
        };
        assert_eq!((status, idle, done), (0, false, false));
    });
}

#[test]
fn a_block_without_transfers_is_done_in_its_first_pass() {
    world(1, |rank| {
        let memory = StreamMemory::new(rank.comm, 0, RING);
        let mut block = Block::new(3, &memory, &[Op::default()]);
        assert_eq!(block.start(rank.comm, 0), 0);
        assert_eq!(tick(rank.comm, 0, 3), (0, true, true));
        assert_eq!(tick(rank.comm, 0, 3), (0, true, true));
        stop(rank.comm, 0);
    });
}

#[test]
fn a_direction_without_entries_needs_no_device() {
    world(2, |rank| {
        let memory = StreamMemory::new(rank.comm, 0, RING);
        let mut buffers = vec![vec![u8::try_from(rank.rank).unwrap(); 99]];
        let entries = entries_of(-1, &mut buffers);
        let op = match rank.rank {
            0 => Op {
                sends: entries,
                ..Op::default()
            },
            _ => Op {
                receives: entries,
                ..Op::default()
            },
        };
        let mut block = Block::new(0, &memory, &[op]);
        assert_eq!(block.start(rank.comm, 0), 0);
        execute(rank.comm, 0, &block, &memory);
        assert_eq!(buffers[0], [0; 99]);
        stop(rank.comm, 0);
        barrier(&rank);
    });
}
