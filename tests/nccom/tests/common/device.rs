//! A basic block with its arrays, and the minimal simulated device that drives it.
//!
//! The device keeps to `tests/PROTOCOL.md`: it stores READY, waits for the handshake, posts entries at most 128 ahead
//! of the completions it has seen. It runs on the rank's own thread, between two Progress calls.

use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nccom::exports::proxy;
use proxy_core::fifo::{
    EXEC_COMPLETE, NET_OP_COMPLETE, NET_TRANSFER, NetDestAddr, NetOpsInfo, NetSrcAddr,
};

use super::Handle;

/// Longest that any loop of a test runs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const READY: u32 = 0xFFFF_FFFF;
const WINDOW: u32 = 128;

/// One transfer as a test describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Peer rank, -1 for the ring neighbour.
    pub(crate) peer: i32,
    pub(crate) buffer: *mut u8,
    pub(crate) size: usize,
}

/// One op as a test describes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Op {
    pub(crate) sends: Vec<Entry>,
    pub(crate) receives: Vec<Entry>,
    pub(crate) variable_peer: bool,
}

/// The host memory of one connector: the fold words, 128 bytes apart.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct HostIndex([AtomicU32; 512 / 16]);

impl HostIndex {
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.0[0]
    }
}

/// The semaphores of one direction.
#[derive(Debug, Default)]
pub(crate) struct Semaphores {
    pub(crate) handshake: AtomicU32,
    pub(crate) complete: AtomicU32,
}

#[repr(C)]
struct Connector([u64; 12]);
#[repr(C)]
struct Channel([u64; 11]);

/// One stream's channel with its two connectors and their host memory. Boxed: the library keeps addresses into it.
pub(crate) struct StreamMemory {
    channel: Channel,
    connectors: [Connector; 2],
    pub(crate) send: HostIndex,
    pub(crate) receive: HostIndex,
}

impl StreamMemory {
    pub(crate) fn new(comm: Handle, stream: i32, pattern: i32) -> Box<Self> {
        let mut memory = Box::new(Self {
            channel: Channel([0; 11]),
            connectors: [Connector([0; 12]), Connector([0; 12])],
            send: HostIndex::default(),
            receive: HostIndex::default(),
        });
        for (index, is_send) in [(0, false), (1, true)] {
            let mut handle = null_mut();
            // SAFETY: a valid out pointer.
            let status = unsafe {
                proxy::neuronGetNetConnector(comm.0, pattern, stream, is_send, &raw mut handle)
            };
            assert_eq!(status, 0);
            let word = if is_send {
                &memory.send
            } else {
                &memory.receive
            };
            let va = address(word);
            memory.connectors[index].0[0] = 1; // fold_n
            memory.connectors[index].0[2] = va;
            memory.connectors[index].0[11] = handle.addr() as u64;
            memory.channel.0[1 + index] = address(&memory.connectors[index]);
        }
        memory.channel.0[0] = u64::from(stream as u32) | u64::from(pattern as u32) << 32;
        memory
    }

    pub(crate) fn channel(&self) -> u64 {
        address(&self.channel)
    }
}

/// The address of something that outlives its use by the library.
pub(crate) fn address<T>(value: &T) -> u64 {
    from_ref(value).expose_provenance() as u64
}

/// The three arrays of one block, and the semaphores that they name.
pub(crate) struct Block {
    pub(crate) block: u32,
    pub(crate) ops: Vec<NetOpsInfo>,
    pub(crate) sources: Vec<NetSrcAddr>,
    pub(crate) destinations: Vec<NetDestAddr>,
    pub(crate) send: Box<Semaphores>,
    pub(crate) receive: Box<Semaphores>,
}

impl Block {
    pub(crate) fn new(block: u32, memory: &StreamMemory, ops: &[Op]) -> Self {
        let mut made = Self {
            block,
            ops: Vec::new(),
            sources: Vec::new(),
            destinations: Vec::new(),
            send: Box::default(),
            receive: Box::default(),
        };
        for (op, index) in ops.iter().zip(0..) {
            made.push_op(index, memory, op);
        }
        let mark = EXEC_COMPLETE;
        made.sources.push(NetSrcAddr {
            mark,
            dst_rank: -1,
            ..Default::default()
        });
        made.destinations.push(NetDestAddr {
            mark,
            src_rank: -1,
            ..Default::default()
        });
        made
    }

    fn push_op(&mut self, net_op_idx: u32, memory: &StreamMemory, op: &Op) {
        self.ops.push(NetOpsInfo {
            inc_send_handshake: address(&self.send.handshake),
            inc_send_complete: address(&self.send.complete),
            inc_recv_handshake: address(&self.receive.handshake),
            inc_recv_complete: address(&self.receive.complete),
            tx_entry_cnt: op.sends.len() as u32,
            rx_entry_cnt: op.receives.len() as u32,
            net_idx_loop_size: 512,
            initial_send_credits: 5,
            ending_recv_credits: 1,
            data_type_sz: 1,
            variable_peer: op.variable_peer.into(),
            basic_block_id: self.block,
            enc_channel: memory.channel(),
            ..Default::default()
        });
        for (entry, mark) in entries(&op.sends) {
            self.sources.push(NetSrcAddr {
                net_op_idx,
                complete: 1,
                host_addr: entry.buffer.expose_provenance() as u64,
                size: entry.size as u32,
                mark,
                dst_rank: entry.peer,
                ..Default::default()
            });
        }
        for (entry, mark) in entries(&op.receives) {
            self.destinations.push(NetDestAddr {
                net_op_idx,
                complete: 1,
                host_addr: entry.buffer.expose_provenance() as u64,
                size: entry.size as u32,
                mark,
                src_rank: entry.peer,
                ..Default::default()
            });
        }
    }

    /// Calls Start; its status.
    pub(crate) fn start(&mut self, comm: Handle, stream: u32) -> i32 {
        let length = |n: usize| n as i32;
        // SAFETY: the arrays live until the test has called Stop.
        unsafe {
            proxy::neuronStartNetworkProxy(
                comm.0,
                stream,
                self.block,
                self.ops.as_mut_ptr().cast(),
                length(self.ops.len()),
                self.sources.as_mut_ptr().cast(),
                length(self.sources.len()),
                self.destinations.as_mut_ptr().cast(),
                length(self.destinations.len()),
            )
        }
    }

    fn transfers(&self) -> (u32, u32) {
        let sends = self
            .sources
            .iter()
            .filter(|e| e.mark == NET_TRANSFER)
            .count();
        let receives = self
            .destinations
            .iter()
            .filter(|e| e.mark == NET_TRANSFER)
            .count();
        (sends as u32, receives as u32)
    }
}

/// The entries of one direction of an op, with the terminator that a direction in use gets.
fn entries(list: &[Entry]) -> impl Iterator<Item = (Entry, u32)> + '_ {
    let end = Entry {
        peer: -1,
        buffer: null_mut(),
        size: 0,
    };
    let terminator = (!list.is_empty()).then_some((end, NET_OP_COMPLETE));
    list.iter()
        .map(|entry| (*entry, NET_TRANSFER))
        .chain(terminator)
}

/// One direction of the simulated device during one run of one block.
pub(crate) struct Device<'a> {
    word: &'a AtomicU32,
    semaphores: &'a Semaphores,
    total: u32,
    handshake: u32,
    /// Values of the semaphores before the run.
    base: (u32, u32),
    ready: bool,
    posted: u32,
}

impl<'a> Device<'a> {
    fn new(word: &'a AtomicU32, semaphores: &'a Semaphores, total: u32, handshake: u32) -> Self {
        // Acquire: pairs with the release add of `nec_inc_semaphore`.
        let base = (
            semaphores.handshake.load(Ordering::Acquire),
            semaphores.complete.load(Ordering::Acquire),
        );
        Self {
            word,
            semaphores,
            total,
            handshake,
            base,
            ready: false,
            posted: 0,
        }
    }

    /// The two directions of a block's run.
    pub(crate) fn pair(block: &'a Block, memory: &'a StreamMemory) -> [Self; 2] {
        let (sends, receives) = block.transfers();
        [
            Self::new(memory.send.word(), &block.send, sends, 5),
            Self::new(memory.receive.word(), &block.receive, receives, 1),
        ]
    }

    /// Completions seen in this run.
    pub(crate) fn seen(&self) -> u32 {
        // Acquire: pairs with the release add of `nec_inc_semaphore`.
        self.semaphores
            .complete
            .load(Ordering::Acquire)
            .wrapping_sub(self.base.1)
    }

    /// Does what the device can do now.
    pub(crate) fn step(&mut self) {
        if self.total == 0 {
            return;
        }
        if !self.ready {
            assert_eq!(
                self.word.load(Ordering::Relaxed),
                0,
                "the word is idle before a run"
            );
            // Release: pairs with the library's acquire when it takes READY.
            self.word.store(READY, Ordering::Release);
            self.ready = true;
            return;
        }
        let shaken = self
            .semaphores
            .handshake
            .load(Ordering::Acquire)
            .wrapping_sub(self.base.0);
        if shaken == 0 {
            assert_eq!(
                self.word.load(Ordering::Relaxed),
                READY,
                "READY stands until the handshake"
            );
            return;
        }
        assert_eq!(shaken, self.handshake, "the handshake is raised once");
        let target = self.total.min(self.seen() + WINDOW);
        if target > self.posted {
            self.posted = target;
            // Release: pairs with the library's acquire load; the buffers are filled.
            self.word.store(target % 512, Ordering::Release);
        }
    }

    /// Asserts that the run has ended as it should.
    pub(crate) fn check_end(&self) {
        assert_eq!(self.seen(), self.total, "every transfer is completed once");
        assert_eq!(
            self.word.load(Ordering::Relaxed),
            0,
            "the word is idle after a run"
        );
    }
}

/// One Progress call with both flags seeded true.
pub(crate) fn tick(comm: Handle, stream: u32, block: u32) -> (i32, bool, bool) {
    let (mut idle, mut done) = (true, true);
    // SAFETY: two booleans.
    let status = unsafe {
        proxy::neuronNetworkProxyProgress(comm.0, stream, block, &raw mut idle, &raw mut done)
    };
    (status, idle, done)
}

/// Runs one execution of a block to its end.
pub(crate) fn execute(comm: Handle, stream: u32, block: &Block, memory: &StreamMemory) {
    let mut devices = Device::pair(block, memory);
    run(comm, stream, block.block, &mut devices);
    devices.iter().for_each(Device::check_end);
}

/// Ticks until done; the number of passes.
pub(crate) fn run(comm: Handle, stream: u32, block: u32, devices: &mut [Device<'_>]) -> u32 {
    let start = Instant::now();
    let mut passes = 0;
    loop {
        devices.iter_mut().for_each(Device::step);
        let (status, idle, done) = tick(comm, stream, block);
        passes += 1;
        assert_eq!(status, 0);
        if done {
            return passes;
        }
        if idle {
            std::thread::yield_now();
        }
        assert!(start.elapsed() < LIMIT, "the block does not end");
    }
}

/// Ticks until Progress fails; the status.
pub(crate) fn run_to_error(
    comm: Handle,
    stream: u32,
    block: u32,
    devices: &mut [Device<'_>],
) -> i32 {
    let start = Instant::now();
    loop {
        devices.iter_mut().for_each(Device::step);
        let (status, _, _) = tick(comm, stream, block);
        if status != 0 {
            return status;
        }
        std::thread::yield_now();
        assert!(start.elapsed() < LIMIT, "no error comes");
    }
}

pub(crate) fn stop(comm: Handle, stream: u32) {
    assert_eq!(proxy::neuronStopNetworkProxy(comm.0, stream), 0);
}

/// Buffers of one size, filled so that sender, receiver and place can be told apart.
pub(crate) fn pattern(from: i32, to: i32, index: usize, size: usize) -> Vec<u8> {
    let seed = from as usize * 31 + to as usize * 7 + index * 3;
    (0..size).map(|at| (seed + at) as u8).collect()
}

/// Entries over buffers that the caller keeps alive.
pub(crate) fn entries_of(peer: i32, buffers: &mut [Vec<u8>]) -> Vec<Entry> {
    let entry = |buffer: &mut Vec<u8>| Entry {
        peer,
        buffer: buffer.as_mut_ptr(),
        size: buffer.len(),
    };
    buffers.iter_mut().map(entry).collect()
}
