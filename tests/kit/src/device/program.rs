//! A plan bound to memory: the buffers and the FIFO arrays of one context.

#![allow(unsafe_code, reason = "input and output lie in lent memory")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proxy_core::fifo::{
    EXEC_COMPLETE, NET_OP_COMPLETE, NET_TRANSFER, NetDestAddr, NetOpsInfo, NetSrcAddr,
};
use proxy_core::limits;

use super::error::DeviceError;
use super::memory::Buffer;
use super::words::Words;
use crate::abi::Topology;
use crate::plan::{BlockPlan, Direction, Plan, Region, Semaphore, Span, Transfer, WINDOW};

/// The three arrays of one stream's block, in memory that stays where it is.
#[derive(Debug)]
struct FifoSet {
    ops: Box<[NetOpsInfo]>,
    src: Box<[NetSrcAddr]>,
    dest: Box<[NetDestAddr]>,
}

/// A loaded plan. Share it in an [`Arc`]; the library may hold addresses of its arrays and buffers until it was told
/// to stop, so it must be kept until then.
#[derive(Debug)]
pub struct Program {
    plan: Plan,
    words: Arc<Words>,
    buffers: [Buffer; 3],
    fifos: Vec<Vec<FifoSet>>,
    /// Executions launched and not ended well. While it is above 0 the buffers belong to device and library; an
    /// execution that fails never gives them back.
    lent: Mutex<usize>,
}

impl Program {
    pub(super) fn new(plan: Plan, words: Arc<Words>) -> Result<Self, DeviceError> {
        let buffer = |region| {
            let bytes = plan.region_len(region);
            Buffer::new(bytes).ok_or(DeviceError::Memory { bytes })
        };
        let buffers = [
            buffer(Region::Input)?,
            buffer(Region::Output)?,
            buffer(Region::Stage)?,
        ];
        let bind = |stream: usize| {
            let binder = Binder {
                plan: &plan,
                words: &words,
                buffers: &buffers,
                stream,
            };
            let blocks = plan.blocks(stream).iter().zip(0..);
            blocks.map(|(block, id)| binder.bind(block, id)).collect()
        };
        let fifos = (0..plan.spec().streams).map(bind).collect();
        Ok(Self {
            plan,
            words,
            buffers,
            fifos,
            lent: Mutex::new(0),
        })
    }

    /// The plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The arrays of a stream's block, for the network task; `None` if the plan has no such stream or block. Addresses
    /// are stable while the program lives.
    pub fn fifo(
        &self,
        stream: usize,
        block: usize,
    ) -> Option<(&[NetOpsInfo], &[NetSrcAddr], &[NetDestAddr])> {
        let set = self.fifos.get(stream)?.get(block)?;
        Some((&set.ops, &set.src, &set.dest))
    }

    /// Fills the input. `bytes` has the length of the input, and no execution of this program is in flight.
    pub fn write_input(&self, bytes: &[u8]) -> Result<(), DeviceError> {
        let _owned = self.own()?;
        let input = self.buffer(Region::Input);
        if bytes.len() != input.len() {
            return Err(DeviceError::InputLength {
                found: bytes.len(),
                accepted: input.len(),
            });
        }
        // SAFETY: nothing is in flight and the guard keeps launches out, so only this thread touches the buffer.
        unsafe { input.bytes_mut(0, bytes.len()) }.copy_from_slice(bytes);
        Ok(())
    }

    /// Fills the output with `byte`, so that a result of an earlier execution cannot be taken for the next one's. No
    /// execution of this program is in flight.
    pub fn fill_output(&self, byte: u8) -> Result<(), DeviceError> {
        let _owned = self.own()?;
        let output = self.buffer(Region::Output);
        // SAFETY: as in `write_input`.
        unsafe { output.bytes_mut(0, output.len()) }.fill(byte);
        Ok(())
    }

    /// A copy of the output. No execution of this program is in flight.
    pub fn read_output(&self) -> Result<Vec<u8>, DeviceError> {
        let _owned = self.own()?;
        let output = self.buffer(Region::Output);
        // SAFETY: as in `write_input`.
        Ok(unsafe { output.bytes(0, output.len()) }.to_vec())
    }

    /// Keeps launches out while the guard lives, if nothing is in flight.
    fn own(&self) -> Result<MutexGuard<'_, usize>, DeviceError> {
        let lent = self.lent();
        if *lent == 0 {
            Ok(lent)
        } else {
            Err(DeviceError::InFlight { executions: *lent })
        }
    }

    /// The count is changed in one step, so a panic elsewhere cannot leave it half changed.
    fn lent(&self) -> MutexGuard<'_, usize> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the buffers to device and library.
    pub(super) fn lend(&self) {
        *self.lent() += 1;
    }

    /// Takes them back after an execution that ended well.
    pub(super) fn give_back(&self) {
        *self.lent() -= 1;
    }

    pub(super) const fn buffer(&self, region: Region) -> &Buffer {
        &self.buffers[region as usize]
    }

    pub(super) const fn words(&self) -> &Arc<Words> {
        &self.words
    }
}

/// Makes the arrays of one stream.
struct Binder<'a> {
    plan: &'a Plan,
    words: &'a Words,
    buffers: &'a [Buffer; 3],
    stream: usize,
}

impl Binder<'_> {
    fn bind(&self, block: &BlockPlan, id: u32) -> FifoSet {
        let [receives, sends] = &block.transfers;
        let last = block.ops.saturating_sub(1);
        let mut src = with_terminators(sends, |transfer| self.source(transfer), source_mark);
        src.push(source_mark(last, EXEC_COMPLETE));
        let mut dest = with_terminators(
            receives,
            |transfer| self.destination(transfer),
            destination_mark,
        );
        dest.push(destination_mark(last, EXEC_COMPLETE));
        FifoSet {
            ops: (0..block.ops).map(|op| self.op(block, id, op)).collect(),
            src: src.into(),
            dest: dest.into(),
        }
    }

    fn op(&self, block: &BlockPlan, id: u32, op: u32) -> NetOpsInfo {
        let topology = self.plan.spec().op.topology();
        let address = |semaphore| self.words.semaphore_address(self.stream, semaphore);
        let (receive, send) = (address(Semaphore::Receive), address(Semaphore::Send));
        let (receive_handshake, send_handshake) = match topology {
            Topology::Ring => (receive, send),
            Topology::Mesh => (address(Semaphore::Handshake), address(Semaphore::Handshake)),
        };
        let entries = |direction: Direction| {
            let owned = block.transfers[direction as usize]
                .iter()
                .filter(|transfer| transfer.op == op);
            u32::try_from(owned.count()).unwrap_or(u32::MAX)
        };
        let (tx, rx) = (entries(Direction::Send), entries(Direction::Receive));
        NetOpsInfo {
            inc_send_handshake: send_handshake,
            inc_send_complete: send,
            inc_recv_handshake: receive_handshake,
            inc_recv_complete: receive,
            tx_entry_cnt: tx,
            rx_entry_cnt: rx,
            net_idx_loop_size: limits::NET_INDEX_LOOP_SIZE,
            initial_send_credits: WINDOW,
            ending_recv_credits: 1,
            data_type_sz: self.plan.spec().dtype.size() as u64,
            variable_peer: u8::from(topology == Topology::Mesh),
            basic_block_id: id,
            func_rel_op_idx: op,
            unrolled_count: tx.max(rx),
            enc_channel: self.words.channel_address(self.stream),
            ..NetOpsInfo::default()
        }
    }

    fn source(&self, transfer: &Transfer) -> NetSrcAddr {
        let (address, size) = self.locate(&transfer.span);
        NetSrcAddr {
            net_op_idx: transfer.op,
            complete: 1,
            dev_addr: address,
            host_addr: address,
            size,
            mark: NET_TRANSFER,
            dst_rank: peer(transfer),
            ..NetSrcAddr::default()
        }
    }

    fn destination(&self, transfer: &Transfer) -> NetDestAddr {
        let (address, size) = self.locate(&transfer.span);
        NetDestAddr {
            net_op_idx: transfer.op,
            complete: 1,
            dev_addr: address,
            host_addr: address,
            size,
            mark: NET_TRANSFER,
            src_rank: peer(transfer),
            ..NetDestAddr::default()
        }
    }

    /// Address and length; a chunk is at most `i32::MAX` bytes by the check of the spec.
    fn locate(&self, span: &Span) -> (u64, u32) {
        let address = self.buffers[span.region as usize].address(span.offset);
        (address, u32::try_from(span.len).unwrap_or(u32::MAX))
    }
}

/// -1 stands for the ring neighbour.
fn peer(transfer: &Transfer) -> i32 {
    transfer
        .peer
        .and_then(|peer| i32::try_from(peer).ok())
        .unwrap_or(-1)
}

fn source_mark(op: u32, mark: u32) -> NetSrcAddr {
    NetSrcAddr {
        net_op_idx: op,
        mark,
        dst_rank: -1,
        ..NetSrcAddr::default()
    }
}

fn destination_mark(op: u32, mark: u32) -> NetDestAddr {
    NetDestAddr {
        net_op_idx: op,
        mark,
        src_rank: -1,
        ..NetDestAddr::default()
    }
}

/// The entries of one direction, each op's followed by its terminator.
fn with_terminators<T>(
    transfers: &[Transfer],
    entry: impl Fn(&Transfer) -> T,
    terminator: impl Fn(u32, u32) -> T,
) -> Vec<T> {
    let mut entries = Vec::with_capacity(transfers.len() + 3);
    for of_one_op in transfers.chunk_by(|a, b| a.op == b.op) {
        entries.extend(of_one_op.iter().map(&entry));
        entries.push(terminator(of_one_op[0].op, NET_OP_COMPLETE));
    }
    entries
}
