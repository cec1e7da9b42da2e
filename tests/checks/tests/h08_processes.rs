//! H08: more processes than CPUs, each with a worker of its own, meet often: who waits gives its CPU away.
#![allow(unsafe_code, reason = "a process's CPU time is a C call")]

use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, Process, Role};
use proxy_checks::pin::Pinned;
use proxy_checks::script::{Script, sets};
use proxy_core::phone::barrier::RankSet;
use proxy_core::{ExecId, Gid, Status};
use proxy_os::affinity::CpuSet;
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::{Patience, ProxyQueue, Settings};

const RANKS: u16 = 5;
const CPUS: u32 = 2;
const MEETINGS: u64 = 1000;
/// The requirement's time on a machine that does nothing else.
const ALLOWED: Duration = Duration::from_secs(5);

/// What one process needed.
#[derive(Debug)]
struct Cost {
    /// From the first meeting to the last.
    wall: Duration,
    /// CPU time of the whole process, its start included.
    cpu: Duration,
    /// How often its worker gave its CPU away.
    yields: u64,
}

impl Cost {
    /// From what the process wrote, in the middle of whose line the test's own name stands.
    fn read(text: &str) -> Self {
        let line = text
            .split_once("cost ")
            .and_then(|(_, rest)| rest.lines().next());
        let numbers: Vec<u64> = line
            .unwrap_or_else(|| panic!("no cost in {text}"))
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        Self {
            wall: Duration::from_micros(numbers[0]),
            cpu: Duration::from_micros(numbers[1]),
            yields: numbers[2],
        }
    }
}

/// CPU time of this process.
fn cpu() -> Duration {
    // SAFETY: all zeros is a valid record.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the record is valid for the write.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    assert_eq!(answer, 0);
    let micros = |time: libc::timeval| {
        let micros = time.tv_sec * 1_000_000 + time.tv_usec;
        Duration::from_micros(micros.try_into().expect("not negative"))
    };
    micros(usage.ru_utime) + micros(usage.ru_stime)
}

/// On a machine that does nothing else the two bounds are one: no worker sleeps while its task is active, so five of them keep both
/// CPUs busy from the first meeting to the last. On a busy one the CPU time is what the wall would have been without the others'.
#[test]
fn h08_five_processes_with_workers_on_two_cpus_meet_a_thousand_times() {
    let job = bus::job();
    let processes: Vec<Process> = (0..RANKS)
        .map(|rank| Role::new(&job, rank, RANKS, "").start("child_that_meets"))
        .collect();
    let costs: Vec<Cost> = processes
        .into_iter()
        .map(|process| Cost::read(&process.succeed()))
        .collect();
    println!("{costs:?}");
    let wall = costs.iter().map(|cost| cost.wall).max().expect("ranks");
    let share = costs.iter().map(|cost| cost.cpu).sum::<Duration>() / CPUS;
    assert!(wall < ALLOWED || share < ALLOWED, "{wall:?}, {share:?}");
    assert!(costs.iter().all(|cost| cost.yields > 0), "nobody gave way");
}

#[test]
fn child_that_meets() {
    let Some(role) = Role::of("child_that_meets") else {
        return;
    };
    let allowed = proxy_os::sys::affinity::allowed().expect("a mask");
    let two: CpuSet = allowed.iter().take(CPUS as usize).collect();
    // The worker inherits it.
    let _pinned = Pinned::to(&two);
    let bus = role.connected();
    let barrier = bus.barrier(0, RankSet::below(role.world)).expect("a slot");
    let barrier = TaskBarrier::new(barrier, Vec::new(), AMPLE).expect("no semaphores");
    let queue = ProxyQueue::start(Gid(role.rank.into()), &Settings::default()).expect("a worker");
    let script = Script::open();
    let builder = script.context(role.rank.into()).block(1, sets(1, 1));
    let builder = builder.barrier(Box::new(barrier), Vec::new());
    let context = queue.context(builder).expect("a context");
    let since = Instant::now();
    for exec in 1..=MEETINGS {
        let execution = context.enqueue(ExecId(exec)).expect("room");
        for ticket in [Some(execution.network), execution.barrier] {
            let ticket = ticket.expect("both tasks");
            let status = queue.consume(ticket, Patience::until(AMPLE));
            assert_eq!(status, Ok(Status::SUCCESS));
        }
    }
    let (wall, yields) = (since.elapsed(), queue.counters().yields);
    println!("cost {} {} {yields}", wall.as_micros(), cpu().as_micros());
    // Nobody leaves while another still waits for its release.
    let mut bus = bus;
    bus.all_gather(&[], AMPLE).expect("all are there");
}
