//! H46, H51: several tasks stuck for different reasons: each has its own record, once, that says what it waits for.
#![allow(unsafe_code, reason = "words of the device are named by address")]

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets};
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Gid, Rank, Status, Stream, TaskKind};
use proxy_os::report::{Cause, WaitingOn};
use proxy_os::{DeviceWord, HostBarrier, ProxyQueue, Record, Release, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

/// A barrier to which nobody else comes.
#[derive(Debug)]
struct Alone;

impl HostBarrier for Alone {
    fn arrive(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Ready
    }

    fn signal(&self, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Pending
    }

    fn cancel(&self, _: ExecId) {}
}

/// The record of the timeout of a rank's task; what was told before must be early records, each once.
fn timeout_of(records: &[Record], rank: u32) -> &Record {
    let of_rank = records.iter().filter(|record| record.rank == Rank(rank));
    let of_rank: Vec<&Record> = of_rank.collect();
    let (last, early) = of_rank.split_last().expect("a record");
    assert_eq!(last.cause, Cause::Timeout, "{last}");
    let causes: Vec<Cause> = early.iter().map(|record| record.cause).collect();
    let parts = [Cause::Early(25), Cause::Early(75)];
    // A watchdog that comes late on a busy machine leaves out what is overtaken, and tells nothing twice.
    assert!(
        causes.is_empty() || causes == parts || causes == parts[..1] || causes == parts[1..],
        "{causes:?}"
    );
    last
}

#[test]
fn h46_h51_each_stuck_task_has_one_record_that_says_what_it_waits_for() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    // SAFETY: the word is static.
    let word = unsafe { DeviceWord::new(WORD.as_ptr()) };
    let settings = Settings::builder()
        .task_deadline(Duration::from_millis(600))
        .from_lookup(|_| None)
        .unwrap();
    let queue = ProxyQueue::start(Gid(463), &settings).unwrap();
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let block = |rank| script.context(rank).block(1, sets(1, 1));
    let idle = queue.context(block(3)).unwrap();
    let unfired = queue.context(block(4).device_wait(vec![word])).unwrap();
    let alone = block(5).barrier(Box::new(Alone), Vec::new());
    let alone = queue.context(alone).unwrap();
    let kinds = [TaskKind::Network, TaskKind::Network, TaskKind::Barrier];
    for (context, kind) in [&idle, &unfired, &alone].into_iter().zip(kinds) {
        context.append(kind, ExecId(7)).unwrap();
    }
    let since = Instant::now();
    let timeouts = |records: &[Record]| {
        let late = records
            .iter()
            .filter(|record| record.cause == Cause::Timeout);
        late.count()
    };
    while timeouts(&queue.reports()) < 3 {
        assert!(since.elapsed() < PATIENCE, "{:?}", queue.reports());
        std::thread::yield_now();
    }
    assert_eq!(queue.release(Release::Drain, PATIENCE), Ok(()));
    let records = queue.reports();
    let waits: Vec<&WaitingOn> = (3..6)
        .map(|rank| &timeout_of(&records, rank).waiting_on)
        .collect();
    let [
        WaitingOn::Library,
        WaitingOn::Device(words),
        WaitingOn::Peers,
    ] = waits[..]
    else {
        panic!("{waits:?}");
    };
    let streams: Vec<Stream> = words.iter().map(|word| word.stream).collect();
    assert_eq!(streams, [Stream(0)]);
    for (record, kind) in (3..6).map(|rank| timeout_of(&records, rank)).zip(kinds) {
        assert_eq!((record.kind, record.exec), (kind, ExecId(7)));
        assert_eq!((record.gid, record.sequence), (Gid(463), 0));
        assert!(record.in_state.is_some(), "{record}");
    }
}
