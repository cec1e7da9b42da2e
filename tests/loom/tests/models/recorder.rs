//! Black box: the worker writes, a reader takes whole records only.

use proxy_core::port::Change;
use proxy_core::recorder::{Record, Recorder};
use proxy_core::{ContextId, ExecId, Rank, RunState, Status, TaskKind};
use proxy_loom::rt::{self, Arc};

/// Record `number`, every part of which says so.
fn change(number: u32) -> Change {
    Change {
        rank: Rank(number),
        context: ContextId::from_parts(number, number),
        kind: TaskKind::Network,
        exec: ExecId(number.into()),
        slot: number,
        from: RunState::Init,
        to: RunState::Done,
        status: Status(i32::try_from(number).unwrap()),
    }
}

/// Two records go to one place; the reader asks for the first of them.
fn body() {
    let recorder = Arc::new(Recorder::<1>::new());
    let reader = {
        let recorder = Arc::clone(&recorder);
        rt::spawn(move || {
            if let Some(record) = recorder.read(0) {
                let Record {
                    number, time, tick, ..
                } = record;
                assert_eq!((number, time, tick), (0, 10, 20), "a torn record");
                assert_eq!(record.change, change(0), "a torn record");
            }
        })
    };
    let writer = rt::spawn(move || {
        for number in 0..2 {
            recorder.record(
                u64::from(number) + 10,
                u64::from(number) + 20,
                &change(number),
            );
        }
    });
    rt::join(writer);
    rt::join(reader);
}

#[test]
fn a_reader_takes_whole_records_only() {
    rt::model("recorder", 1000, body);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::Record, "recorder", body);
    rt::must_fail_without(Edge::RecordRead, "recorder", body);
}
