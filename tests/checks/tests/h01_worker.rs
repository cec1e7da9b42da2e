//! What a worker costs and how it waits: full ranks, idle workers, yields, appends beside a slow library, real-time workers.
//!
//! Requirements: H01, H02, H03, H06, H08, H19, H79.
#![allow(
    unsafe_code,
    reason = "thread CPU clocks and scheduling classes are C calls"
)]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libloading::os::unix::{Library as Mapped, Symbol};
use proxy_checks::messages;
use proxy_checks::pace::{at_most, until};
use proxy_checks::pin::Pinned;
use proxy_checks::script::{Script, keep, library, sets};
use proxy_core::port::BarrierPoll;
use proxy_core::{EnqueueError, ExecId, Gid, Rank, Status};
use proxy_os::affinity::{CpuSet, Placement};
use proxy_os::context::HostBarrier;
use proxy_os::nccom::{Comm, ProxyComm};
use proxy_os::queue::TASKS;
use proxy_os::{Context, ContextBuilder, Patience, ProxyQueue, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

fn settings() -> proxy_os::config::Builder {
    Settings::builder()
}

fn start(settings: proxy_os::config::Builder) -> Arc<ProxyQueue> {
    let settings = settings.from_lookup(|_| None).expect("settings");
    ProxyQueue::start(Gid(1), &settings).expect("a worker")
}

fn context(queue: &Arc<ProxyQueue>, script: &Script) -> Context {
    queue
        .context(script.context(0).block(1, sets(1, 1)))
        .expect("a context")
}

/// CPU time of a thread of this process.
fn cpu(tid: u32) -> Duration {
    let stat =
        std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).expect("schedstat");
    let ns = stat
        .split_whitespace()
        .next()
        .expect("three numbers")
        .parse()
        .expect("a number");
    Duration::from_nanos(ns)
}

#[test]
fn a_worker_has_its_name_and_the_cpus_of_its_placement() {
    let allowed = proxy_os::sys::affinity::allowed().unwrap();
    // One of them, so that it differs from what a thread inherits wherever there are two.
    let list: CpuSet = allowed.iter().take(1).collect();
    let placement = Placement::Mask {
        list: list.clone(),
        strict: true,
    };
    let queue = start(settings().low_latency_cpus(placement));
    let tid = queue.tid();
    assert_eq!(proxy_os::sys::affinity::of(tid).unwrap(), list);
    let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).unwrap();
    assert_eq!(name.trim_end(), format!("proxy-{tid}"));
}

#[test]
fn h01_a_full_rank_answers_at_once_and_the_worker_is_awake_while_anything_is_unfinished() {
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let queue = start(settings());
    let context = context(&queue, &script);
    let tickets: Vec<_> = (0..TASKS as u64)
        .map(|exec| context.enqueue(ExecId(exec)).unwrap().network)
        .collect();
    let sleeps = queue.counters().sleeps;
    let since = Instant::now();
    let full = EnqueueError::Full {
        rank: Rank(0),
        capacity: TASKS as u32,
    };
    assert_eq!(context.enqueue(ExecId(999)), Err(full));
    assert!(since.elapsed() < at_most(Duration::from_millis(5)));
    let ticks = queue.counters().ticks;
    until("a thousand ticks", || queue.counters().ticks > ticks + 1000);
    assert_eq!(
        queue.counters().sleeps,
        sleeps,
        "the worker slept with unfinished tasks"
    );
    script.rule("progress * -> done=1");
    assert_eq!(
        queue.consume(tickets[0], Patience::until(PATIENCE)),
        Ok(Status::SUCCESS)
    );
    assert!(
        context.enqueue(ExecId(999)).is_ok(),
        "one consumed status makes room for one append"
    );
}

#[test]
fn h02_the_worker_yields_only_while_nothing_moves() {
    let idle = Script::with(&["progress * -> idle=1 done=0"]);
    let moving = Script::with(&["progress * -> idle=0 done=0"]);
    let queue = start(settings());
    let (first, second) = (context(&queue, &idle), context(&queue, &moving));
    let busy = second.enqueue(ExecId(2)).unwrap();
    until("the moving task runs", || moving.count(1) > 0);
    let yields = queue.counters().yields;
    let _ = first.enqueue(ExecId(1)).unwrap();
    let ticks = queue.counters().ticks;
    until("a thousand ticks", || queue.counters().ticks > ticks + 1000);
    assert_eq!(queue.counters().yields, yields);
    moving.rule("progress * -> done=1");
    assert_eq!(
        queue.consume(busy.network, Patience::until(PATIENCE)),
        Ok(Status::SUCCESS)
    );
    until("yields grow", || queue.counters().yields > yields + 100);
}

#[test]
fn h03_workers_without_tasks_use_no_cpu() {
    let queues: Vec<_> = (0..3).map(|_| start(settings())).collect();
    until("all sleep", || {
        queues.iter().all(|queue| queue.counters().sleeps > 0)
    });
    let before: Vec<_> = queues.iter().map(|queue| cpu(queue.tid())).collect();
    let sleeps: Vec<_> = queues.iter().map(|queue| queue.counters().sleeps).collect();
    // The second that the requirement measures over.
    std::thread::sleep(Duration::from_secs(1));
    for ((queue, before), sleeps) in queues.iter().zip(before).zip(sleeps) {
        assert!(cpu(queue.tid()) - before < Duration::from_millis(10));
        assert_eq!(
            queue.counters().sleeps,
            sleeps,
            "a worker without tasks woke up"
        );
    }
}

#[test]
fn h03_a_neighbour_on_the_same_cpu_gets_its_share_beside_an_idle_task() {
    let script = Script::with(&["progress * -> idle=1 done=0"]);
    let cpu_set: CpuSet = [proxy_os::sys::affinity::allowed()
        .unwrap()
        .iter()
        .last()
        .unwrap()]
    .into_iter()
    .collect();
    let list = Placement::Mask {
        list: cpu_set.clone(),
        strict: true,
    };
    let queue = start(settings().low_latency_cpus(list));
    let context = context(&queue, &script);
    let _ = context.enqueue(ExecId(1)).unwrap();
    let _pinned = Pinned::to(&cpu_set);
    let own = proxy_os::sys::thread::gettid();
    let (before, theirs, since) = (cpu(own), cpu(queue.tid()), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        std::hint::spin_loop();
    }
    let (mine, workers) = (cpu(own) - before, cpu(queue.tid()) - theirs);
    // Of what the two got together: the machine may be shared with others.
    let share = mine.as_secs_f64() / (mine + workers).as_secs_f64();
    assert!(
        share >= 0.45,
        "the compute loop got {share:.2}: {mine:?} beside {workers:?}"
    );
}

#[test]
fn h06_an_append_does_not_wait_for_a_call_into_the_library() {
    let script = Script::with(&["progress 1 -> block"]);
    let queue = start(settings());
    let context = context(&queue, &script);
    let first = context.enqueue(ExecId(1)).unwrap();
    until("the worker is inside progress", || script.count(1) > 0);
    let mut shortest = Duration::MAX;
    let mut tickets = vec![first.network];
    for exec in 2..50 {
        let since = Instant::now();
        tickets.push(context.enqueue(ExecId(exec)).unwrap().network);
        shortest = shortest.min(since.elapsed());
    }
    // The library has not returned, so every append above went beside it; the shortest shows the cost without preemption.
    assert!(shortest < Duration::from_millis(5), "{shortest:?}");
    script.release();
    for ticket in tickets {
        assert_eq!(
            queue.consume(ticket, Patience::until(PATIENCE)),
            Ok(Status::SUCCESS)
        );
    }
}

/// A barrier of several ranks over two counters, as many generations as there are executions.
#[derive(Debug)]
struct Rendezvous {
    ranks: u32,
    arrived: Arc<AtomicU32>,
    announced: AtomicBool,
}

impl HostBarrier for Rendezvous {
    fn arrive(&self, _: ExecId) -> BarrierPoll {
        if !self.announced.swap(true, Ordering::Relaxed) {
            self.arrived.fetch_add(1, Ordering::AcqRel);
        }
        BarrierPoll::Ready
    }

    fn signal(&self, _: ExecId) -> Status {
        Status::SUCCESS
    }

    fn release(&self, exec: ExecId) -> BarrierPoll {
        if u64::from(self.arrived.load(Ordering::Acquire)) < (exec.0 + 1) * u64::from(self.ranks) {
            return BarrierPoll::Pending;
        }
        self.announced.store(false, Ordering::Relaxed);
        BarrierPoll::Ready
    }

    fn cancel(&self, _: ExecId) {}
}

fn rendezvous(
    builder: ContextBuilder,
    queue: &Arc<ProxyQueue>,
    ranks: u32,
    arrived: &Arc<AtomicU32>,
) -> Context {
    let barrier = Rendezvous {
        ranks,
        arrived: Arc::clone(arrived),
        announced: AtomicBool::new(false),
    };
    let builder = builder
        .block(1, sets(1, 1))
        .barrier(Box::new(barrier), Vec::new());
    queue.context(builder).expect("a context")
}

#[test]
fn h08_five_workers_on_two_cpus_meet_a_thousand_times() {
    let arrived = Arc::new(AtomicU32::new(0));
    let since = Instant::now();
    std::thread::scope(|scope| {
        for rank in 0..5 {
            let arrived = &arrived;
            scope.spawn(move || {
                let script = Script::open();
                let queue = start(settings());
                let context = rendezvous(script.context(rank), &queue, 5, arrived);
                for exec in 0..1000 {
                    let execution = context.enqueue(ExecId(exec)).unwrap();
                    assert_eq!(
                        queue.consume(execution.network, Patience::until(PATIENCE)),
                        Ok(Status::SUCCESS)
                    );
                    let barrier = execution.barrier.unwrap();
                    assert_eq!(
                        queue.consume(barrier, Patience::until(PATIENCE)),
                        Ok(Status::SUCCESS)
                    );
                }
            });
        }
    });
    assert!(
        since.elapsed() < at_most(Duration::from_secs(5)),
        "{:?}",
        since.elapsed()
    );
}

/// A communicator of the scripted library with more ranks than those of [`Script`].
fn wide(ranks: u32) -> Arc<ProxyComm> {
    let library = library();
    // SAFETY: the file is loaded already, so no constructor runs.
    let mapped = unsafe { Mapped::new(library.path()) }.expect("the scripted library is loaded");
    // SAFETY: the signature of the control export.
    let open: Symbol<extern "C" fn() -> *mut c_void> =
        unsafe { mapped.get(b"scripted_open\0") }.expect("export");
    let comm = Comm::new(open()).expect("a handle");
    keep(comm);
    // SAFETY: the handle lives as long as the process, one queue uses it, and no address of the arrays is followed.
    unsafe { ProxyComm::new(library, comm, ranks) }
}

#[test]
fn h19_one_worker_drives_the_barriers_of_many_ranks_whatever_the_order() {
    let arrived = Arc::new(AtomicU32::new(0));
    let comm = wide(32);
    let queue = start(settings());
    let builder = |rank| ContextBuilder::new(Arc::clone(&comm), Rank(rank));
    let contexts: Vec<_> = (0..32)
        .map(|rank| rendezvous(builder(rank), &queue, 32, &arrived))
        .collect();
    for exec in 0..50 {
        let executions: Vec<_> = contexts
            .iter()
            .rev()
            .map(|context| context.enqueue(ExecId(exec)).unwrap())
            .collect();
        for execution in executions {
            let barrier = execution.barrier.unwrap();
            assert_eq!(
                queue.consume(barrier, Patience::until(PATIENCE)),
                Ok(Status::SUCCESS)
            );
            assert_eq!(
                queue.consume(execution.network, Patience::until(PATIENCE)),
                Ok(Status::SUCCESS)
            );
        }
    }
}

#[test]
fn h08_more_dedicated_workers_than_cpus_warn_once() {
    messages::collect();
    let cpus = proxy_os::sys::affinity::allowed().unwrap().len();
    let queues: Vec<_> = (0..cpus + 3)
        .map(|_| start(settings().one_thread_per_core(true)))
        .collect();
    let warnings = messages::with("NEURON_RT_ONE_THREAD_PER_CORE");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    drop(queues);
}

#[test]
fn h79_appends_finish_beside_a_real_time_worker_on_the_same_cpu() {
    let script = Script::open();
    let cpu_set: CpuSet = [proxy_os::sys::affinity::allowed()
        .unwrap()
        .iter()
        .next()
        .unwrap()]
    .into_iter()
    .collect();
    let list = Placement::Mask {
        list: cpu_set.clone(),
        strict: true,
    };
    let queue = start(settings().low_latency_cpus(list));
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is valid; the thread exists as long as its queue.
    let set = unsafe {
        libc::sched_setscheduler(
            queue.tid() as libc::pid_t,
            libc::SCHED_FIFO,
            &raw const param,
        )
    };
    if set != 0 {
        println!("SKIPPED: SCHED_FIFO not available");
        return;
    }
    let context = context(&queue, &script);
    let _pinned = Pinned::to(&cpu_set);
    let since = Instant::now();
    for exec in 0..1000 {
        let execution = context.enqueue(ExecId(exec)).unwrap();
        assert_eq!(
            queue.consume(execution.network, Patience::until(PATIENCE)),
            Ok(Status::SUCCESS)
        );
    }
    assert!(
        since.elapsed() < at_most(Duration::from_secs(1)),
        "{:?}",
        since.elapsed()
    );
}
