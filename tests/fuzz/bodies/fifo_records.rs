//! Records of one basic block that may say anything: what is accepted must be safe to lend to the library, and what is refused
//! must be named by a place that exists.
//!
//! Accepted arrays are looked at again by rules that are written down apart from those of the core: they end, every
//! entry belongs to an op, counts are right, peers are in the world, buffers have addresses.

use proxy_core::fifo::{
    Array, EXEC_COMPLETE, NET_OP_COMPLETE, NET_TRANSFER, NetDestAddr, NetOpsInfo, NetSrcAddr,
    validate,
};

use crate::input::Input;

/// Runs one input; `true` if its arrays were accepted.
pub(crate) fn run(data: &[u8]) -> bool {
    let mut input = Input(data);
    let (block, ranks) = (u32::from(input.byte() % 4), u32::from(input.byte() % 5));
    let ops: Vec<_> = (0..input.byte() % 4)
        .map(|_| op(&mut input, block))
        .collect();
    let src: Vec<_> = (0..input.byte() % 8).map(|_| src(&mut input)).collect();
    let dest: Vec<_> = (0..input.byte() % 8).map(|_| dest(&mut input)).collect();
    match validate(block, ranks, &ops, &src, &dest) {
        Ok(()) => {
            assert!(!ops.is_empty(), "no op");
            let of = src.iter().map(|entry| {
                (
                    entry.mark,
                    entry.net_op_idx,
                    entry.dst_rank,
                    entry.size,
                    entry.host_addr,
                )
            });
            check(ranks, &ops, of.collect(), |op| op.tx_entry_cnt);
            let of = dest.iter().map(|entry| {
                (
                    entry.mark,
                    entry.net_op_idx,
                    entry.src_rank,
                    entry.size,
                    entry.host_addr,
                )
            });
            check(ranks, &ops, of.collect(), |op| op.rx_entry_cnt);
            true
        }
        Err(error) => {
            let length = match error.array {
                Array::Ops => ops.len(),
                Array::Src => src.len(),
                Array::Dest => dest.len(),
            };
            assert!(error.index < length.max(1), "{error}: no such record");
            assert!(!error.accepted.is_empty() && !error.field.is_empty());
            false
        }
    }
}

/// Mark, op, peer, size, address.
type Entry = (u32, u32, i32, u32, u64);

fn check(ranks: u32, ops: &[NetOpsInfo], entries: Vec<Entry>, count: fn(&NetOpsInfo) -> u32) {
    let (last, body) = entries.split_last().expect("an empty array was accepted");
    assert_eq!(last.0, EXEC_COMPLETE, "it does not end");
    let mut transfers = vec![0; ops.len()];
    for (mark, op, peer, size, address) in body {
        let op = usize::try_from(*op).expect("an index");
        assert!(op < ops.len(), "an entry of no op");
        if *mark == NET_OP_COMPLETE {
            continue;
        }
        assert_eq!(*mark, NET_TRANSFER, "an end before the last entry");
        transfers[op] += 1;
        let fixed = ops[op].variable_peer == 0 && *peer == -1;
        let in_world = u32::try_from(*peer).is_ok_and(|peer| peer < ranks);
        assert!(fixed || in_world, "peer {peer} of {ranks}");
        assert!(*size == 0 || *address != 0, "bytes at address 0");
    }
    for (op, transfers) in ops.iter().zip(transfers) {
        assert_eq!(count(op), transfers, "the count of an op");
    }
}

/// Mostly what is in order, so that the rules behind the first ones are reached.
fn op(input: &mut Input<'_>, block: u32) -> NetOpsInfo {
    let mut op = NetOpsInfo {
        inc_send_complete: 0x1000,
        inc_recv_complete: 0x2000,
        tx_entry_cnt: u32::from(input.byte() % 4),
        rx_entry_cnt: u32::from(input.byte() % 4),
        net_idx_loop_size: 512,
        initial_send_credits: 1,
        ending_recv_credits: 1,
        data_type_sz: 4,
        basic_block_id: block,
        enc_channel: 8,
        variable_peer: input.byte() & 1,
        ..NetOpsInfo::default()
    };
    match input.byte() {
        0 => op.basic_block_id = input.word(),
        1 => op.net_idx_loop_size = input.word(),
        2 => op.initial_send_credits = input.word(),
        3 => op.ending_recv_credits = input.word(),
        4 => op.data_type_sz = input.long(),
        5 => op.variable_peer = input.byte(),
        6 => op.early_send_completion = input.byte(),
        7 => op.enc_channel = input.long(),
        8 => op.inc_send_complete = input.long(),
        9 => op.inc_recv_complete = input.long(),
        10 => op.add_to_histogram = input.byte(),
        11 => op.is_dynamic_send_recv_sz = input.byte(),
        12 => op.early_recv_posting = input.byte(),
        _ => {}
    }
    op
}

/// Op, mark, complete, size, address, peer.
fn fields(input: &mut Input<'_>) -> (u32, u32, i32, u32, u64, i32) {
    let (op, mark) = (input.byte(), input.byte());
    match input.byte() {
        0 => (
            input.word(),
            input.word(),
            signed(input.word()),
            input.word(),
            input.long(),
            signed(input.word()),
        ),
        byte => {
            let peer = i32::from(byte % 6) - 1;
            let address = u64::from(byte / 6 % 4);
            (
                u32::from(op % 4),
                u32::from(mark % 3),
                0,
                u32::from(byte % 2),
                address,
                peer,
            )
        }
    }
}

fn signed(word: u32) -> i32 {
    i32::from_ne_bytes(word.to_ne_bytes())
}

fn src(input: &mut Input<'_>) -> NetSrcAddr {
    let (net_op_idx, mark, complete, size, host_addr, dst_rank) = fields(input);
    NetSrcAddr {
        net_op_idx,
        mark,
        complete,
        size,
        host_addr,
        dst_rank,
        ..NetSrcAddr::default()
    }
}

fn dest(input: &mut Input<'_>) -> NetDestAddr {
    let (net_op_idx, mark, complete, size, host_addr, src_rank) = fields(input);
    NetDestAddr {
        net_op_idx,
        mark,
        complete,
        size,
        host_addr,
        src_rank,
        ..NetDestAddr::default()
    }
}
