//! H19 with everything real: one worker, 32 ranks, each with a barrier task per execution over the bus.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE};
use proxy_checks::script::{Script, sets};
use proxy_core::phone::barrier::RankSet;
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Gid, Status};
use proxy_os::bananaphone::Bus;
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::{Context, Execution, HostBarrier, Patience, ProxyQueue, Release, Settings};

/// Ranks of the worker.
const RANKS: u16 = 32;
/// Executions of every rank.
const EXECUTIONS: u64 = 60;

/// Time of every call of the worker into its barriers, in nanoseconds.
static TIMES: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Calls that were not yet ready.
static PENDING: AtomicU64 = AtomicU64::new(0);

/// A barrier task's side that times every call.
#[derive(Debug)]
struct Timed(TaskBarrier);

impl Timed {
    fn timed(&self, call: impl FnOnce(&TaskBarrier) -> BarrierPoll) -> BarrierPoll {
        let start = Instant::now();
        let answer = call(&self.0);
        let time = start.elapsed().as_nanos() as u64;
        if answer == BarrierPoll::Pending {
            // Relaxed: read after the worker has ended.
            PENDING.fetch_add(1, Ordering::Relaxed);
            TIMES.lock().unwrap().push(time);
        }
        answer
    }
}

impl HostBarrier for Timed {
    fn arrive(&self, exec: ExecId) -> BarrierPoll {
        self.timed(|task| task.arrive(exec))
    }

    fn signal(&self, exec: ExecId) -> Status {
        self.0.signal(exec)
    }

    fn release(&self, exec: ExecId) -> BarrierPoll {
        self.timed(|task| task.release(exec))
    }

    fn cancel(&self, exec: ExecId) {
        self.0.cancel(exec);
    }
}

/// An order of append that differs with the execution: up, down, odd before even, mixed.
fn order(exec: u64) -> Vec<usize> {
    let mut ranks: Vec<usize> = (0..RANKS.into()).collect();
    match exec % 4 {
        0 => {}
        1 => ranks.reverse(),
        2 => ranks.sort_by_key(|rank| rank % 2 == 0),
        _ => ranks.sort_by_key(|rank| rank * 11 % 32),
    }
    ranks
}

#[test]
fn h19_one_worker_takes_32_ranks_through_their_barriers_in_any_order_of_append() {
    let script = Script::open();
    let queue = ProxyQueue::start(Gid(1900), &Settings::default()).unwrap();
    let buses = bus::everybody(RANKS);
    let context = |bus: &Bus| -> Context {
        let barrier = bus.barrier(0, RankSet::below(RANKS)).unwrap();
        let task = TaskBarrier::new(barrier, vec![], AMPLE).unwrap();
        let builder = script.context_among(bus.rank().into(), RANKS.into());
        let builder = builder
            .block(1, sets(1, 1))
            .barrier(Box::new(Timed(task)), vec![]);
        queue.context(builder).unwrap()
    };
    let contexts: Vec<Context> = buses.iter().map(context).collect();
    for exec in 1..=EXECUTIONS {
        let appended: Vec<Execution> = order(exec)
            .into_iter()
            .map(|rank| {
                // Now and then the worker runs out of other work before the last rank comes.
                if exec % 8 == 0 && rank % 16 == 0 {
                    std::thread::yield_now();
                }
                contexts[rank].enqueue(ExecId(exec)).unwrap()
            })
            .collect();
        for execution in appended {
            let barrier = execution.barrier.unwrap();
            for ticket in [execution.network, barrier] {
                let status = queue.consume(ticket, Patience::until(AMPLE));
                assert_eq!(status, Ok(Status::SUCCESS), "execution {exec}");
            }
        }
    }
    drop(contexts);
    queue.release(Release::Drain, AMPLE).unwrap();
    let mut times = TIMES.lock().unwrap();
    times.sort_unstable();
    let pending = PENDING.load(Ordering::Relaxed);
    assert!(
        pending > EXECUTIONS,
        "{pending} steps had to be asked again"
    );
    let at = |share: usize| Duration::from_nanos(times[(times.len() - 1) * share / 1000]);
    println!(
        "{pending} steps that were not yet ready: p50 {:?}, p99 {:?}, p99.9 {:?}, longest {:?}",
        at(500),
        at(990),
        at(999),
        at(1000)
    );
    assert!(at(990) < Duration::from_millis(1), "p99 {:?}", at(990));
}
