//! What stands beside the machines: black box, FIFO records, ladder, groups.

use proxy_core::driver::Next;
use proxy_core::fifo::{
    Array, EXEC_COMPLETE, NET_OP_COMPLETE, NetDestAddr, NetOpsInfo, NetSrcAddr, validate,
};
use proxy_core::group::{Acquire, GroupError, Groups, Release};
use proxy_core::ladder::{Budget, Ladder, Wait};
use proxy_core::port::Change;
use proxy_core::recorder::Recorder;
use proxy_core::{ContextId, ExecId, Gid, Rank, RunState, Status, TaskKind};

use crate::{Outcome, cases, ensure};

cases![
    the_black_box_keeps_the_newest,
    records_of_one_block_are_accepted,
    malformed_records_are_named,
    an_op_without_entries_needs_no_semaphore,
    a_worker_spins_yields_and_sleeps_in_that_order,
    a_group_is_created_shared_and_released,
    groups_are_counted_each_for_itself,
];

fn the_black_box_keeps_the_newest() -> Outcome {
    let recorder = Recorder::<4>::new();
    for exec in 0..10 {
        let change = Change {
            rank: Rank(1),
            context: ContextId::from_parts(2, 3),
            kind: TaskKind::Network,
            exec: ExecId(exec << 32 | 5),
            slot: 4,
            from: RunState::Init,
            to: RunState::Progressing,
            status: Status::SUCCESS,
        };
        recorder.record(exec << 33, exec << 34, &change);
    }
    ensure!(recorder.written() == 10, "all are counted");
    let newest = recorder.iter().map(|record| record.change.exec.0 >> 32);
    ensure!(newest.eq(6..10), "the last four, in order, 64 bits each");
    let times = recorder.iter().map(|record| record.time >> 33);
    ensure!(times.eq(6..10), "with their times");
    let ticks = recorder.iter().map(|record| record.tick >> 34);
    ensure!(ticks.eq(6..10), "and with their ticks");
    ensure!(recorder.read(0).is_none(), "the first is gone");
    Ok(())
}

const fn op() -> NetOpsInfo {
    NetOpsInfo {
        sema_shift_offset: 0,
        early_send_completion: 0,
        early_recv_posting: 0,
        inc_send_handshake: 0,
        inc_send_complete: 0x1000,
        inc_recv_handshake: 0,
        inc_recv_complete: 0x2000,
        tx_entry_cnt: 1,
        rx_entry_cnt: 1,
        net_idx_loop_size: 512,
        initial_send_credits: 1,
        ending_recv_credits: 1,
        data_type_sz: 4,
        is_dynamic_send_recv_sz: 0,
        variable_peer: 0,
        add_to_histogram: 0,
        basic_block_id: 3,
        func_rel_op_idx: 0,
        unrolled_count: 0,
        enc_channel: 8,
    }
}

/// The records of one op with one entry each way, sent to rank `dst`.
fn records(dst: i32) -> ([NetSrcAddr; 3], [NetDestAddr; 3]) {
    let src = |mark| NetSrcAddr {
        mark,
        dst_rank: dst,
        ..NetSrcAddr::default()
    };
    let dest = |mark| NetDestAddr {
        mark,
        src_rank: 0,
        ..NetDestAddr::default()
    };
    let marks = [0, NET_OP_COMPLETE, EXEC_COMPLETE];
    (marks.map(src), marks.map(dest))
}

fn records_of_one_block_are_accepted() -> Outcome {
    let (src, dest) = records(1);
    ensure!(validate(3, 2, &[op()], &src, &dest) == Ok(()), "accepted");
    Ok(())
}

fn malformed_records_are_named() -> Outcome {
    let (src, dest) = records(1);
    let error = validate(4, 2, &[op()], &src, &dest).err();
    let found = error.map(|error| (error.array, error.index, error.field));
    ensure!(found == Some((Array::Ops, 0, "basic_block_id")), "block");
    let (far, _) = records(2);
    let error = validate(3, 2, &[op()], &far, &dest).err();
    let found = error.map(|error| (error.array, error.field, error.found));
    ensure!(found == Some((Array::Src, "dst_rank", 2)), "rank");
    let error = validate(3, 2, &[op()], &src, dest.get(..2).unwrap_or(&[])).err();
    let found = error.map(|error| error.array);
    ensure!(found == Some(Array::Dest), "no terminator");
    Ok(())
}

fn a_worker_spins_yields_and_sleeps_in_that_order() -> Outcome {
    let mut ladder = Ladder::new(Budget {
        dedicated: false,
        pause_ticks: 1,
        spin: 10,
    });
    ensure!(ladder.answer(Next::Again, || 0) == Wait::Run, "run");
    ensure!(ladder.answer(Next::Relax, || 0) == Wait::Pause, "pause");
    ensure!(ladder.answer(Next::Relax, || 0) == Wait::Yield, "yield");
    ensure!(
        ladder.answer(Next::Sleep, || 5) == Wait::Pause,
        "spin first"
    );
    ensure!(
        ladder.answer(Next::Sleep, || 15) == Wait::Sleep,
        "then sleep"
    );
    ladder.woke();
    ensure!(
        ladder.answer(Next::Sleep, || 20) == Wait::Pause,
        "each quiescence spins anew"
    );
    Ok(())
}

fn a_group_is_created_shared_and_released() -> Outcome {
    let mut groups = Groups::<2>::new();
    ensure!(groups.acquire(Gid(1)) == Ok(Acquire::Create), "tried");
    ensure!(groups.created(Gid(1), false) == Ok(()), "and failed");
    ensure!(groups.acquire(Gid(1)) == Ok(Acquire::Create), "created");
    ensure!(groups.created(Gid(1), true) == Ok(()), "and there");
    ensure!(groups.acquire(Gid(1)) == Ok(Acquire::Shared(2)), "shared");
    ensure!(groups.sharers(Gid(1)) == 2, "by two");
    ensure!(groups.release(Gid(1)) == Ok(Release::Kept(1)), "one left");
    ensure!(groups.release(Gid(1)) == Ok(Release::Last), "the last");
    ensure!(groups.released(Gid(1)) == Ok(()), "and gone");
    ensure!(groups.is_empty(), "none");
    Ok(())
}

fn an_op_without_entries_needs_no_semaphore() -> Outcome {
    let quiet = NetOpsInfo {
        tx_entry_cnt: 0,
        rx_entry_cnt: 0,
        inc_send_complete: 0,
        inc_recv_complete: 0,
        initial_send_credits: 511,
        data_type_sz: 16,
        ..op()
    };
    let (src, dest) = records(1);
    let ends = (src.get(2..).unwrap_or(&[]), dest.get(2..).unwrap_or(&[]));
    ensure!(
        validate(3, 2, &[quiet], ends.0, ends.1) == Ok(()),
        "accepted"
    );
    let many = NetOpsInfo {
        initial_send_credits: 512,
        ..quiet
    };
    let error = validate(3, 2, &[many], ends.0, ends.1).err();
    let found = error.map(|error| (error.field, error.found));
    ensure!(found == Some(("initial_send_credits", 512)), "one too many");
    let silent = NetOpsInfo {
        inc_send_complete: 0,
        ..op()
    };
    let error = validate(3, 2, &[silent], &src, &dest).err();
    let found = error.map(|error| error.field);
    ensure!(found == Some("inc_send_complete"), "entries need one");
    Ok(())
}

fn groups_are_counted_each_for_itself() -> Outcome {
    let mut groups = Groups::<2>::new();
    ensure!(groups.is_empty(), "none");
    for gid in [Gid(3), Gid(4)] {
        ensure!(groups.acquire(gid) == Ok(Acquire::Create), "created");
        ensure!(groups.sharers(gid) == 0, "not there yet");
        ensure!(groups.created(gid, true) == Ok(()), "and there");
    }
    ensure!(groups.acquire(Gid(4)) == Ok(Acquire::Shared(2)), "shared");
    ensure!(
        (groups.sharers(Gid(3)), groups.sharers(Gid(4))) == (1, 2),
        "each"
    );
    ensure!(groups.sharers(Gid(5)) == 0, "nobody has this one");
    ensure!(groups.len() == 2 && !groups.is_empty(), "two");
    let more = groups.acquire(Gid(5));
    ensure!(more == Err(GroupError::TooMany { capacity: 2 }), "no third");
    Ok(())
}
