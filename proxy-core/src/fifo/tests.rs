//! Every way to be refused, by array, index and field; and that no field but the listed ones can change unseen.

use std::vec::Vec;

use super::{
    Array, EXEC_COMPLETE, FifoError, NET_OP_COMPLETE, NET_TRANSFER, NetDestAddr, NetOpsInfo,
    NetSrcAddr, validate,
};

const BLOCK: u32 = 6;
const RANKS: u32 = 4;
/// An address that is not null.
const SOME: u64 = 0x1000;

/// Two ops: the first sends two entries and receives one, the second the other way round. The last terminator of the
/// destinations is the end mark itself; both forms are legal.
#[derive(Debug, Clone)]
struct Triple {
    ops: Vec<NetOpsInfo>,
    src: Vec<NetSrcAddr>,
    dest: Vec<NetDestAddr>,
}

fn op(tx: u32, rx: u32) -> NetOpsInfo {
    NetOpsInfo {
        inc_send_handshake: SOME,
        inc_send_complete: SOME,
        inc_recv_handshake: SOME,
        inc_recv_complete: SOME,
        tx_entry_cnt: tx,
        rx_entry_cnt: rx,
        net_idx_loop_size: 512,
        initial_send_credits: 1,
        ending_recv_credits: 0x1FF,
        data_type_sz: 4,
        basic_block_id: BLOCK,
        enc_channel: SOME,
        ..NetOpsInfo::default()
    }
}

fn src(op: u32, mark: u32) -> NetSrcAddr {
    let data = mark == NET_TRANSFER;
    NetSrcAddr {
        net_op_idx: op,
        mark,
        size: if data { 64 } else { 0 },
        host_addr: if data { SOME } else { 0 },
        dst_rank: -1,
        ..NetSrcAddr::default()
    }
}

fn dest(op: u32, mark: u32) -> NetDestAddr {
    let data = mark == NET_TRANSFER;
    NetDestAddr {
        net_op_idx: op,
        mark,
        size: if data { 64 } else { 0 },
        host_addr: if data { SOME } else { 0 },
        src_rank: -1,
        ..NetDestAddr::default()
    }
}

fn triple() -> Triple {
    Triple {
        ops: [op(2, 1), op(1, 2)].into(),
        src: [
            src(0, NET_TRANSFER),
            src(0, NET_TRANSFER),
            src(0, NET_OP_COMPLETE),
            src(1, NET_TRANSFER),
            src(1, NET_OP_COMPLETE),
            src(1, EXEC_COMPLETE),
        ]
        .into(),
        dest: [
            dest(0, NET_TRANSFER),
            dest(0, NET_OP_COMPLETE),
            dest(1, NET_TRANSFER),
            dest(1, NET_TRANSFER),
            dest(1, EXEC_COMPLETE),
        ]
        .into(),
    }
}

impl Triple {
    fn validate(&self) -> Result<(), FifoError> {
        validate(BLOCK, RANKS, &self.ops, &self.src, &self.dest)
    }
}

/// What the change of a valid triple is refused as: array, index, field, value.
fn refusal(change: impl FnOnce(&mut Triple)) -> (Array, usize, &'static str, i64) {
    let mut changed = triple();
    change(&mut changed);
    let error = changed.validate().unwrap_err();
    assert!(!error.accepted.is_empty());
    (error.array, error.index, error.field, error.found)
}

#[test]
fn a_block_without_entries_needs_its_terminators_only() {
    assert_eq!(triple().validate(), Ok(()));
    let alone = Triple {
        ops: [op(0, 0)].into(),
        src: [src(0, EXEC_COMPLETE)].into(),
        dest: [dest(0, EXEC_COMPLETE)].into(),
    };
    assert_eq!(alone.validate(), Ok(()));
}

#[test]
fn empty_arrays_are_refused() {
    use Array::{Dest, Ops, Src};
    assert_eq!(refusal(|t| t.ops.clear()), (Ops, 0, "len", 0));
    assert_eq!(refusal(|t| t.src.clear()), (Src, 0, "len", 0));
    assert_eq!(refusal(|t| t.dest.clear()), (Dest, 0, "len", 0));
}

#[test]
fn ops_are_refused_by_field() {
    let ops = |index, field, found| (Array::Ops, index, field, found);
    let at = |change: fn(&mut NetOpsInfo)| refusal(move |t| change(&mut t.ops[1]));
    assert_eq!(at(|op| op.basic_block_id = 7), ops(1, "basic_block_id", 7));
    assert_eq!(
        at(|op| op.net_idx_loop_size = 511),
        ops(1, "net_idx_loop_size", 511)
    );
    assert_eq!(
        at(|op| op.initial_send_credits = 0),
        ops(1, "initial_send_credits", 0)
    );
    assert_eq!(
        at(|op| op.initial_send_credits = 512),
        ops(1, "initial_send_credits", 512)
    );
    assert_eq!(
        at(|op| op.ending_recv_credits = 0),
        ops(1, "ending_recv_credits", 0)
    );
    assert_eq!(
        at(|op| op.ending_recv_credits = 512),
        ops(1, "ending_recv_credits", 512)
    );
    assert_eq!(at(|op| op.data_type_sz = 0), ops(1, "data_type_sz", 0));
    assert_eq!(at(|op| op.data_type_sz = 17), ops(1, "data_type_sz", 17));
    assert_eq!(
        at(|op| op.data_type_sz = u64::MAX),
        ops(1, "data_type_sz", i64::MAX)
    );
}

#[test]
fn flags_and_addresses_of_ops_are_refused_by_field() {
    let ops = |index, field, found| (Array::Ops, index, field, found);
    let at = |change: fn(&mut NetOpsInfo)| refusal(move |t| change(&mut t.ops[1]));
    assert_eq!(
        at(|op| op.early_send_completion = 2),
        ops(1, "early_send_completion", 2)
    );
    assert_eq!(
        at(|op| op.early_recv_posting = 2),
        ops(1, "early_recv_posting", 2)
    );
    assert_eq!(
        at(|op| op.is_dynamic_send_recv_sz = 9),
        ops(1, "is_dynamic_send_recv_sz", 9)
    );
    assert_eq!(
        at(|op| op.variable_peer = 255),
        ops(1, "variable_peer", 255)
    );
    assert_eq!(
        at(|op| op.add_to_histogram = 2),
        ops(1, "add_to_histogram", 2)
    );
    assert_eq!(at(|op| op.enc_channel = 0), ops(1, "enc_channel", 0));
    assert_eq!(at(|op| op.tx_entry_cnt = 2), ops(1, "tx_entry_cnt", 2));
    assert_eq!(at(|op| op.rx_entry_cnt = 1), ops(1, "rx_entry_cnt", 1));
    assert_eq!(
        at(|op| op.inc_send_complete = 0),
        ops(1, "inc_send_complete", 0)
    );
    assert_eq!(
        at(|op| op.inc_recv_complete = 0),
        ops(1, "inc_recv_complete", 0)
    );
}

#[test]
fn source_entries_are_refused_by_field() {
    let src = |index, field, found| (Array::Src, index, field, found);
    let at =
        |index: usize, change: fn(&mut NetSrcAddr)| refusal(move |t| change(&mut t.src[index]));
    assert_eq!(
        at(5, |entry| entry.mark = NET_OP_COMPLETE),
        src(5, "mark", 1)
    );
    assert_eq!(at(3, |entry| entry.mark = EXEC_COMPLETE), src(3, "mark", 2));
    assert_eq!(at(3, |entry| entry.net_op_idx = 2), src(3, "net_op_idx", 2));
    assert_eq!(at(4, |entry| entry.net_op_idx = 0), src(4, "net_op_idx", 0));
    assert_eq!(at(2, |entry| entry.net_op_idx = 1), src(3, "net_op_idx", 1));
    assert_eq!(at(0, |entry| entry.dst_rank = 4), src(0, "dst_rank", 4));
    assert_eq!(at(0, |entry| entry.dst_rank = -2), src(0, "dst_rank", -2));
    assert_eq!(at(1, |entry| entry.complete = -1), src(1, "complete", -1));
    assert_eq!(at(1, |entry| entry.host_addr = 0), src(1, "host_addr", 0));
}

#[test]
fn destination_entries_are_refused_by_field() {
    let dest = |index, field, found| (Array::Dest, index, field, found);
    let at =
        |index: usize, change: fn(&mut NetDestAddr)| refusal(move |t| change(&mut t.dest[index]));
    assert_eq!(at(4, |entry| entry.mark = NET_TRANSFER), dest(4, "mark", 0));
    assert_eq!(at(0, |entry| entry.mark = 3), dest(0, "mark", 3));
    assert_eq!(
        at(2, |entry| entry.net_op_idx = u32::MAX),
        dest(2, "net_op_idx", u32::MAX.into())
    );
    assert_eq!(
        at(3, |entry| entry.net_op_idx = 0),
        dest(3, "net_op_idx", 0)
    );
    assert_eq!(
        at(3, |entry| entry.src_rank = i32::MAX),
        dest(3, "src_rank", i32::MAX.into())
    );
    assert_eq!(
        at(3, |entry| entry.complete = i32::MIN),
        dest(3, "complete", i32::MIN.into())
    );
    assert_eq!(at(2, |entry| entry.host_addr = 0), dest(2, "host_addr", 0));
}

#[test]
fn a_variable_peer_must_be_named_by_each_entry() {
    let mut triple = triple();
    triple.ops[1].variable_peer = 1;
    let error = triple.validate().unwrap_err();
    assert_eq!(
        (error.array, error.index, error.field),
        (Array::Src, 3, "dst_rank")
    );
    triple.src[3].dst_rank = 3;
    let error = triple.validate().unwrap_err();
    assert_eq!(
        (error.array, error.index, error.field),
        (Array::Dest, 2, "src_rank")
    );
    triple.dest[2].src_rank = 0;
    triple.dest[3].src_rank = 3;
    assert_eq!(triple.validate(), Ok(()));
}

#[test]
fn an_error_reads_as_a_sentence() {
    let mut triple = triple();
    triple.src[1].host_addr = 0;
    let error = std::format!("{}", triple.validate().unwrap_err());
    let expected = "net_src_addr[1].host_addr is 0, accepted: a non-null address, as size is not 0";
    assert_eq!(error, expected);
}

/// One field of a record: its name, how to set it to a (truncated) number, and which numbers are sound in every place where
/// they are accepted.
struct Field<R> {
    name: &'static str,
    set: fn(&mut R, u64),
    sound: fn(u64) -> bool,
}

macro_rules! field {
    ($record:ty, $name:ident, $sound:expr) => {
        Field::<$record> {
            name: stringify!($name),
            set: |record, value| {
                #[expect(clippy::as_conversions, reason = "truncation is wanted")]
                let value = value as _;
                record.$name = value;
            },
            sound: $sound,
        }
    };
}

/// For fields that cannot be judged from here, each for a reason: addresses and handles mean something to device and library
/// only; a shift, a weight, a label or an index for messages has no wrong value that the arrays could contradict.
const ANY: fn(u64) -> bool = |_| true;
const NO_CHANGE: fn(u64) -> bool = |_| false;
const FLAG: fn(u64) -> bool = |value| value & 0xFF <= 1;
const CREDITS: fn(u64) -> bool = |value| (1..=511).contains(&(value & 0xFFFF_FFFF));
const ADDRESS: fn(u64) -> bool = |value| value != 0;
const NOT_NEGATIVE: fn(u64) -> bool = |value| value & 0x8000_0000 == 0;
const PEER: fn(u64) -> bool = |value| value & 0xFFFF_FFFF < 4 || value & 0xFFFF_FFFF == 0xFFFF_FFFF;

fn op_fields() -> Vec<Field<NetOpsInfo>> {
    [
        field!(NetOpsInfo, sema_shift_offset, ANY),
        field!(NetOpsInfo, early_send_completion, FLAG),
        field!(NetOpsInfo, early_recv_posting, FLAG),
        field!(NetOpsInfo, inc_send_handshake, ANY),
        field!(NetOpsInfo, inc_send_complete, ADDRESS),
        field!(NetOpsInfo, inc_recv_handshake, ANY),
        field!(NetOpsInfo, inc_recv_complete, ADDRESS),
        field!(NetOpsInfo, tx_entry_cnt, NO_CHANGE),
        field!(NetOpsInfo, rx_entry_cnt, NO_CHANGE),
        field!(NetOpsInfo, net_idx_loop_size, NO_CHANGE),
        field!(NetOpsInfo, initial_send_credits, CREDITS),
        field!(NetOpsInfo, ending_recv_credits, CREDITS),
        field!(NetOpsInfo, data_type_sz, |value| (1..=16).contains(&value)),
        field!(NetOpsInfo, is_dynamic_send_recv_sz, FLAG),
        // Fixed peers, so a variable one contradicts the entries.
        field!(NetOpsInfo, variable_peer, NO_CHANGE),
        field!(NetOpsInfo, add_to_histogram, FLAG),
        field!(NetOpsInfo, basic_block_id, NO_CHANGE),
        field!(NetOpsInfo, func_rel_op_idx, ANY),
        field!(NetOpsInfo, unrolled_count, ANY),
        field!(NetOpsInfo, enc_channel, ADDRESS),
    ]
    .into()
}

fn src_fields() -> Vec<Field<NetSrcAddr>> {
    [
        field!(NetSrcAddr, net_op_idx, NO_CHANGE),
        field!(NetSrcAddr, complete, NOT_NEGATIVE),
        field!(NetSrcAddr, dev_addr, ANY),
        field!(NetSrcAddr, host_addr, ADDRESS),
        field!(NetSrcAddr, nccl_mhandle, ANY),
        field!(NetSrcAddr, size, ANY),
        field!(NetSrcAddr, mark, NO_CHANGE),
        field!(NetSrcAddr, proxy_histogram_tag, ANY),
        field!(NetSrcAddr, dst_rank, PEER),
        field!(NetSrcAddr, dst_addr, ANY),
        field!(NetSrcAddr, dst_mhandle, ANY),
    ]
    .into()
}

fn dest_fields() -> Vec<Field<NetDestAddr>> {
    [
        field!(NetDestAddr, net_op_idx, NO_CHANGE),
        field!(NetDestAddr, complete, NOT_NEGATIVE),
        field!(NetDestAddr, dev_addr, ANY),
        field!(NetDestAddr, host_addr, ADDRESS),
        field!(NetDestAddr, nccl_mhandle, ANY),
        field!(NetDestAddr, size, ANY),
        field!(NetDestAddr, mark, NO_CHANGE),
        field!(NetDestAddr, src_rank, PEER),
    ]
    .into()
}

const VALUES: [u64; 14] = [
    0,
    1,
    2,
    3,
    4,
    16,
    17,
    511,
    512,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    SOME,
    u64::MAX,
];

/// Changes one field at one place to each value. A change that is accepted is sound, or changes nothing, or is where the
/// library does not look (`ignored`); a refusal names the field or one of `witnesses`, which the field must agree with.
fn corrupt<R: Clone + PartialEq>(
    array: fn(&mut Triple) -> &mut Vec<R>,
    fields: &[Field<R>],
    ignored: fn(&R, &str) -> bool,
    witnesses: &[(&str, &[&str])],
) {
    let places = array(&mut triple()).len();
    for (place, field) in (0..places).flat_map(|place| fields.iter().map(move |f| (place, f))) {
        for value in VALUES {
            let mut changed = triple();
            let record = &mut array(&mut changed)[place];
            let before = record.clone();
            (field.set)(record, value);
            let same = *record == before;
            let what = std::format!("{}[{place}] = {value:#x}", field.name);
            match changed.validate() {
                Ok(()) => assert!(
                    same || (field.sound)(value) || ignored(&before, field.name),
                    "{what} is not noticed"
                ),
                Err(error) => {
                    let others = witnesses.iter().find(|(name, _)| *name == field.name);
                    let named = error.field == field.name
                        || others.is_some_and(|(_, names)| names.contains(&error.field));
                    assert!(named, "{what}: {error}");
                }
            }
        }
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "plain arithmetic on many arrays, which takes minutes there"
)]
fn no_single_change_passes_unless_it_is_sound() {
    corrupt(
        |t| &mut t.ops,
        &op_fields(),
        |_, _| false,
        &[("variable_peer", &["dst_rank"])],
    );
    // Of an entry that moves no data the library reads mark and op only, and of the last one the mark alone.
    let counts: &[(&str, &[&str])] = &[
        (
            "mark",
            &["tx_entry_cnt", "rx_entry_cnt", "net_op_idx", "host_addr"],
        ),
        ("net_op_idx", &["tx_entry_cnt", "rx_entry_cnt"]),
    ];
    corrupt(
        |t| &mut t.src,
        &src_fields(),
        |entry, field| match entry.mark {
            NET_TRANSFER => false,
            NET_OP_COMPLETE => !matches!(field, "mark" | "net_op_idx"),
            _ => field != "mark",
        },
        counts,
    );
    corrupt(
        |t| &mut t.dest,
        &dest_fields(),
        |entry, field| match entry.mark {
            NET_TRANSFER => false,
            NET_OP_COMPLETE => !matches!(field, "mark" | "net_op_idx"),
            _ => field != "mark",
        },
        counts,
    );
}
