//! What goes wrong on the data path: malformed arrays, wrong handles, mismatched ranks, Stop in the middle, death.
#![allow(
    unsafe_code,
    reason = "calls the C exports with arguments that they must refuse"
)]

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use common::device::{
    Block, Device, Op, READY, StreamMemory, entries_of, execute, run, run_to_error, stop, tick,
};
use common::{Rank, barrier, free, world};
use nccom::exports::proxy;

const NRT_INVALID: i32 = 2;
const NRT_NETWORK_PROXY_FAILURE: i32 = 1206;

/// A ring block over buffers of the given sizes; the buffers come along.
fn ring(memory: &StreamMemory, sends: &[usize], receives: &[usize]) -> (Block, Vec<Vec<u8>>) {
    let mut buffers: Vec<_> = sends
        .iter()
        .chain(receives)
        .map(|&size| vec![1; size])
        .collect();
    let (out, into) = buffers.split_at_mut(sends.len());
    let op = Op {
        sends: entries_of(-1, out),
        receives: entries_of(-1, into),
        variable_peer: false,
    };
    (Block::new(0, memory, &[op]), buffers)
}

fn memory(rank: &Rank) -> Box<StreamMemory> {
    StreamMemory::new(rank.comm, 0, 0)
}

#[test]
fn malformed_arrays_are_refused_and_leave_nothing_behind() {
    world(2, |rank| {
        let memory = memory(&rank);
        let breakers: [fn(&mut Block); 9] = [
            |block| block.block = 1,
            |block| block.ops.clear(),
            |block| block.sources.truncate(2),
            |block| block.destinations.clear(),
            |block| block.ops[0].tx_entry_cnt = 3,
            |block| block.sources[0].net_op_idx = 9,
            |block| block.destinations[0].src_rank = 2,
            |block| block.ops[0].is_dynamic_send_recv_sz = 1,
            |block| block.ops[0].initial_send_credits = 0x200,
        ];
        for (number, breaker) in breakers.iter().enumerate() {
            let (mut block, _buffers) = ring(&memory, &[4], &[4]);
            breaker(&mut block);
            assert_eq!(block.start(rank.comm, 0), NRT_INVALID, "breaker {number}");
            assert_eq!(tick(rank.comm, 0, 0), (0, true, true), "breaker {number}");
        }
    });
}

#[test]
fn null_arrays_and_negative_counts_are_refused() {
    world(1, |rank| {
        let (mut block, _buffers) = ring(&memory(&rank), &[4], &[4]);
        let (ops, src, dst) = (
            block.ops.as_mut_ptr(),
            block.sources.as_mut_ptr(),
            block.destinations.as_mut_ptr(),
        );
        let start = |ops, n_ops, src, n_src, dst, n_dst| {
            // SAFETY: arrays as long as their counts say, or what must be refused.
            unsafe {
                proxy::neuronStartNetworkProxy(
                    rank.comm.0,
                    0,
                    0,
                    ops,
                    n_ops,
                    src,
                    n_src,
                    dst,
                    n_dst,
                )
            }
        };
        let (ops, src, dst) = (ops.cast(), src.cast(), dst.cast());
        assert_eq!(start(null_mut(), 1, src, 3, dst, 3), NRT_INVALID);
        assert_eq!(start(ops, 1, null_mut(), 3, dst, 3), NRT_INVALID);
        assert_eq!(start(ops, 1, src, 3, null_mut(), 3), NRT_INVALID);
        assert_eq!(start(ops, -1, src, 3, dst, 3), NRT_INVALID);
        assert_eq!(start(ops, 1, src, 0, dst, 3), NRT_INVALID);
        assert_eq!(start(ops, 1, src, 3, dst, 3), 0);
        assert_eq!(
            start(ops, 1, src, 3, dst, 3),
            NRT_INVALID,
            "the block is started already"
        );
        stop(rank.comm, 0);
        stop(rank.comm, 0);
    });
}

#[test]
fn wrong_handles_streams_and_flags_are_refused() {
    world(1, |rank| {
        let mut flag = true;
        let mut progress = |comm, stream, idle| {
            // SAFETY: null or booleans.
            unsafe { proxy::neuronNetworkProxyProgress(comm, stream, 0, idle, &raw mut flag) }
        };
        let mut other = true;
        assert_eq!(progress(null_mut(), 0, &raw mut other), NRT_INVALID);
        assert_eq!(progress(rank.global.0, 0, &raw mut other), NRT_INVALID);
        assert_eq!(progress(0x1000 as *mut _, 0, &raw mut other), NRT_INVALID);
        assert_eq!(progress(rank.comm.0, 4, &raw mut other), NRT_INVALID);
        assert_eq!(progress(rank.comm.0, 0, null_mut()), NRT_INVALID);
        assert_eq!(proxy::neuronStopNetworkProxy(rank.comm.0, 4), NRT_INVALID);
        assert_eq!(proxy::neuronStopNetworkProxy(null_mut(), 0), NRT_INVALID);
        let (mut block, _buffers) = ring(&memory(&rank), &[4], &[4]);
        assert_eq!(block.start(rank.global, 0), NRT_INVALID);
        assert_eq!(block.start(rank.comm, 4), NRT_INVALID);
        assert_eq!(
            block.start(rank.comm, 1),
            NRT_INVALID,
            "the channel is that of stream 0"
        );
    });
}

#[test]
fn a_size_mismatch_is_an_error_until_stop() {
    world(2, |rank| {
        let memory = memory(&rank);
        // Rank 0 sends what rank 1 does not expect; the other way round nothing moves.
        let (mut block, _buffers) = match rank.rank {
            0 => ring(&memory, &[100], &[]),
            _ => ring(&memory, &[], &[99]),
        };
        assert_eq!(block.start(rank.comm, 0), 0);
        let mut devices = Device::pair(&block, &memory);
        if rank.rank == 0 {
            run(rank.comm, 0, 0, &mut devices);
        } else {
            assert_eq!(
                run_to_error(rank.comm, 0, 0, &mut devices),
                NRT_NETWORK_PROXY_FAILURE
            );
            assert_eq!(tick(rank.comm, 0, 0).0, NRT_NETWORK_PROXY_FAILURE);
            stop(rank.comm, 0);
            assert_eq!(tick(rank.comm, 0, 0), (0, true, true));
        }
        barrier(&rank);
    });
}

#[test]
fn a_device_that_breaks_the_protocol_is_an_error() {
    world(1, |rank| {
        for (before, after) in [
            (7, None),
            (READY, Some(200)),
            (READY, Some(600)),
            (READY, Some(READY)),
        ] {
            let memory = memory(&rank);
            let (mut block, _buffers) = ring(&memory, &[1; 300], &[]);
            assert_eq!(block.start(rank.comm, 0), 0);
            memory.send.word().store(before, Ordering::Release);
            let first = tick(rank.comm, 0, 0).0;
            let status = after.map_or(first, |value| {
                assert_eq!(first, 0);
                memory.send.word().store(value, Ordering::Release);
                tick(rank.comm, 0, 0).0
            });
            assert_eq!(
                status, NRT_NETWORK_PROXY_FAILURE,
                "{before:#x} then {after:?}"
            );
            stop(rank.comm, 0);
        }
    });
}

#[test]
fn a_stop_in_the_middle_can_be_followed_by_a_clean_run() {
    world(3, |rank| {
        for round in 0..3 {
            let memory = memory(&rank);
            let (mut block, _buffers) = ring(&memory, &[1 << 20; 40], &[1 << 20; 40]);
            assert_eq!(block.start(rank.comm, 0), 0);
            let mut devices = Device::pair(&block, &memory);
            // Each rank gives up at another point of the run, one before it has begun.
            for _ in 0..rank.rank * 30 + round * 7 {
                devices.iter_mut().for_each(Device::step);
                assert_eq!(tick(rank.comm, 0, 0).0, 0);
            }
            barrier(&rank);
            stop(rank.comm, 0);
            stop(rank.comm, 0);
            assert_eq!(tick(rank.comm, 0, 0), (0, true, true), "nothing is left");
            barrier(&rank);

            let memory = self::memory(&rank);
            let (mut block, buffers) = ring(&memory, &[5000; 10], &[5000; 10]);
            assert_eq!(block.start(rank.comm, 0), 0);
            execute(rank.comm, 0, &block, &memory);
            assert!(
                buffers
                    .iter()
                    .all(|buffer| buffer.iter().all(|&byte| byte == 1))
            );
            stop(rank.comm, 0);
            barrier(&rank);
        }
    });
}

#[test]
fn a_peer_that_goes_away_in_the_middle_is_an_error() {
    world(2, |rank| {
        let memory = memory(&rank);
        let (mut block, _buffers) = match rank.rank {
            0 => ring(&memory, &[64; 2], &[64; 2]),
            _ => ring(&memory, &[64; 3], &[64; 3]),
        };
        assert_eq!(block.start(rank.comm, 0), 0);
        let mut devices = Device::pair(&block, &memory);
        if rank.rank == 0 {
            // Sends and receives two of three messages and leaves.
            run(rank.comm, 0, 0, &mut devices);
        } else {
            assert_eq!(
                run_to_error(rank.comm, 0, 0, &mut devices),
                NRT_NETWORK_PROXY_FAILURE
            );
        }
    });
}

#[test]
fn a_communicator_can_be_freed_in_the_middle_of_a_run() {
    world(2, |rank| {
        let memory = memory(&rank);
        // Rank 1 expects one message more than rank 0 could ever have sent.
        let count = if rank.rank == 0 { 4 } else { 5 };
        let sizes = vec![1 << 20; count];
        let (mut block, _buffers) = ring(&memory, &sizes, &sizes);
        assert_eq!(block.start(rank.comm, 0), 0);
        let mut devices = Device::pair(&block, &memory);
        if rank.rank == 1 {
            assert_eq!(
                run_to_error(rank.comm, 0, 0, &mut devices),
                NRT_NETWORK_PROXY_FAILURE
            );
            return;
        }
        while devices[1].seen() == 0 {
            devices.iter_mut().for_each(Device::step);
            assert_eq!(tick(rank.comm, 0, 0).0, 0);
        }
        assert_eq!(free(rank.comm), 0);
        assert_eq!(tick(rank.comm, 0, 0).0, NRT_INVALID);
        // The other communicator is freed here; the first one has been.
        assert_eq!(free(rank.global), 0);
        std::mem::forget(rank);
    });
}

/// Ports on which this process listens, from the kernel's table.
fn listening_ports() -> Vec<u16> {
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("the kernel's table");
    let inodes: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .expect("own descriptors")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| {
            Some(
                target
                    .to_str()?
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .to_owned(),
            )
        })
        .collect();
    let port = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let ours = fields.get(3) == Some(&"0A")
            && inodes
                .iter()
                .any(|inode| Some(&inode.as_str()) == fields.get(9));
        ours.then(|| u16::from_str_radix(fields[1].split_once(':')?.1, 16).ok())
            .flatten()
    };
    table.lines().filter_map(port).collect()
}

#[test]
fn strangers_at_the_data_listeners_do_not_disturb_a_run() {
    world(2, |rank| {
        let visit = |port: u16, bytes: &[u8]| {
            let stream = TcpStream::connect(("127.0.0.1", port));
            // A listener of another test of this process may have gone in between.
            stream
                .and_then(|mut stream| stream.write_all(bytes).map(|()| stream))
                .ok()
        };
        let texts: [&[u8]; 3] = [b"", b"abc", b"GET / HTTP/1.1\r\n\r\n"];
        let visit_all = |port| texts.map(|text| visit(port, text));
        let visitors: Vec<_> = listening_ports().into_iter().map(visit_all).collect();
        barrier(&rank);
        let memory = memory(&rank);
        let (mut block, _buffers) = ring(&memory, &[4096; 10], &[4096; 10]);
        assert_eq!(block.start(rank.comm, 0), 0);
        execute(rank.comm, 0, &block, &memory);
        stop(rank.comm, 0);
        barrier(&rank);
        drop(visitors);
    });
}
