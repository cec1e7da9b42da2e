//! H46: a busy job that is well has no stall in any report, however often it is looked at: nothing is concluded from what changes between two reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proxy_checks::script::{Script, sets};
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Gid, Status};
use proxy_os::diagnosis::Report;
use proxy_os::{HostBarrier, Patience, ProxyQueue, Release, Settings};

const AMPLE: Duration = Duration::from_secs(20);
/// No execution of this test takes as long.
const THRESHOLD: Duration = Duration::from_secs(5);
/// Four of ten had a stall when a report read the tasks last.
const REPORTS: u32 = 1000;
const RANKS: u32 = 2;

/// A barrier at which nobody waits.
#[derive(Debug)]
struct Open;

impl HostBarrier for Open {
    fn arrive(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Ready
    }

    fn signal(&self, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&self, _: ExecId) -> BarrierPoll {
        BarrierPoll::Ready
    }

    fn cancel(&self, _: ExecId) {}
}

/// Executes one collective after another, with a barrier each, until told to stop.
fn execute(queue: &Arc<ProxyQueue>, rank: u32, stop: &AtomicBool) -> u64 {
    let script = Script::open();
    let builder = script.context(rank).block(1, sets(1, 1));
    let builder = builder.barrier(Box::new(Open), Vec::new());
    let context = queue.context(builder).unwrap();
    let mut executions = 0;
    // Relaxed: nothing is read of what was done before it.
    while !stop.load(Ordering::Relaxed) {
        let execution = context.enqueue(ExecId(executions)).unwrap();
        for ticket in [execution.network, execution.barrier.unwrap()] {
            let answer = queue.consume(ticket, Patience::until(AMPLE));
            assert_eq!(answer, Ok(Status::SUCCESS));
        }
        executions += 1;
    }
    executions
}

/// Ends the others, also if this thread fails.
struct Stops<'flag>(&'flag AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        // Relaxed, as above.
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn h46_a_busy_healthy_job_is_never_said_to_be_stalled() {
    let queue = ProxyQueue::start(Gid(641), &Settings::default()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stops = Stops(&stop);
        let start = |rank| {
            let (queue, stop) = (&queue, &stop);
            scope.spawn(move || execute(queue, rank, stop))
        };
        let ranks: Vec<_> = (0..RANKS).map(start).collect();
        let mut stalled: Vec<String> = Vec::new();
        for _ in 0..REPORTS {
            let report = Report::collect_stalls("a test", THRESHOLD);
            if report.stall.is_some() || report.groups[0].health != "running" {
                stalled.push(report.verdict);
            }
        }
        let found = stalled.len();
        assert_eq!(found, 0, "of {REPORTS}, such as: {:?}", stalled.first());
        drop(stops);
        for rank in ranks {
            assert!(rank.join().unwrap() > 0, "it was busy");
        }
    });
    queue.release(Release::Drain, AMPLE).unwrap();
}
