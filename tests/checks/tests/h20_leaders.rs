//! The execution barrier between machines: barrier tasks of the ranks of several buses, whose leaders exchange over sockets.
//!
//! Requirements: H20, H21, H71.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE};
use proxy_core::phone::barrier::{RankSet, Verdict};
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Status};
use proxy_os::HostBarrier;
use proxy_os::bananaphone::bootstrap::Link;
use proxy_os::bananaphone::leaders::{Leaders, Stopped};
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::bananaphone::{Bus, Why, Within};

/// Machines here, and ranks of each.
const MACHINES: usize = 3;
const RANKS: u16 = 4;
/// The slot of the barrier on each bus, and its channel between them.
const SLOT: u16 = 1;

/// Sockets to the other leaders, by peer number. Receives block for ever.
#[derive(Debug)]
struct Sockets(Vec<Option<UnixStream>>);

impl Sockets {
    fn to(&mut self, peer: u32) -> io::Result<&mut UnixStream> {
        let socket = self.0.get_mut(peer as usize / usize::from(RANKS));
        socket
            .and_then(Option::as_mut)
            .ok_or(io::ErrorKind::NotFound.into())
    }
}

impl Link for Sockets {
    type Error = io::Error;

    fn send(&mut self, peer: u32, message: &[u8]) -> io::Result<()> {
        self.to(peer)?.write_all(message)
    }

    fn recv(&mut self, peer: u32, message: &mut [u8]) -> io::Result<()> {
        self.to(peer)?.read_exact(message)
    }
}

fn sockets() -> Vec<Sockets> {
    let none = || (0..MACHINES).map(|_| None).collect();
    let mut all: Vec<Sockets> = (0..MACHINES).map(|_| Sockets(none())).collect();
    for one in 0..MACHINES {
        for other in one + 1..MACHINES {
            let (here, there) = UnixStream::pair().unwrap();
            all[one].0[other] = Some(here);
            all[other].0[one] = Some(there);
        }
    }
    all
}

/// A machine: its ranks' buses and barrier tasks, all driven by one thread, and its leader's exchange.
struct Machine {
    buses: Vec<Bus>,
    tasks: Vec<TaskBarrier>,
    leaders: Leaders,
}

impl Machine {
    fn start(machine: usize, sockets: Sockets, within: Duration) -> Self {
        let mut buses = bus::everybody(RANKS);
        let peers: Vec<u32> = (0..MACHINES as u32)
            .map(|machine| machine * u32::from(RANKS))
            .collect();
        let leaders = Leaders::start(sockets, &peers, machine, SLOT + 1).unwrap();
        let task = |bus: &mut Bus| {
            let barrier = bus.barrier(SLOT, RankSet::below(RANKS)).unwrap();
            let is_leader = barrier.is_leader();
            let task = TaskBarrier::new(barrier, vec![], Within::new(within, "KNOB")).unwrap();
            if is_leader {
                task.between_machines(leaders.seat(SLOT).unwrap())
            } else {
                task
            }
        };
        let tasks = buses.iter_mut().map(task).collect();
        Self {
            buses,
            tasks,
            leaders,
        }
    }

    /// Takes all ranks but those left out through one execution, as a worker would: never waiting. Returns each rank's status.
    fn run(&self, execs: &[Option<u64>]) -> Vec<Option<Status>> {
        let mut arrived = vec![false; self.tasks.len()];
        let mut statuses: Vec<Option<Status>> = vec![None; self.tasks.len()];
        let start = Instant::now();
        while statuses
            .iter()
            .zip(execs)
            .any(|(status, exec)| exec.is_some() && status.is_none())
        {
            assert!(start.elapsed() < AMPLE, "{statuses:?}");
            for (rank, task) in self.tasks.iter().enumerate() {
                let Some(exec) = execs[rank].map(ExecId).filter(|_| statuses[rank].is_none())
                else {
                    continue;
                };
                let answer = if arrived[rank] {
                    task.release(exec)
                } else {
                    task.arrive(exec)
                };
                match answer {
                    BarrierPoll::Pending => {}
                    BarrierPoll::Failed(status) => {
                        // As the driver does with every task that it ends.
                        task.cancel(exec);
                        statuses[rank] = Some(status);
                    }
                    BarrierPoll::Ready if arrived[rank] => statuses[rank] = Some(Status::SUCCESS),
                    BarrierPoll::Ready => {
                        assert_eq!(task.signal(exec), Status::SUCCESS);
                        arrived[rank] = true;
                    }
                }
            }
            std::thread::yield_now();
        }
        statuses
    }
}

/// Runs `body` as every machine, each a thread; returns what each has said of its ranks.
fn machines<T: Send>(within: Duration, body: impl Fn(usize, Machine) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let body = &body;
        let run = |(machine, sockets)| {
            scope.spawn(move || body(machine, Machine::start(machine, sockets, within)))
        };
        let threads: Vec<_> = sockets().into_iter().enumerate().map(run).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    })
}

const ALL: usize = RANKS as usize;

#[test]
fn h21_ranks_of_all_machines_pass_or_fail_together() {
    machines(AMPLE, |machine, ranks| {
        for exec in 1..=100 {
            let passed = ranks.run(&[Some(exec); ALL]);
            assert_eq!(
                passed,
                [Some(Status::SUCCESS); ALL],
                "machine {machine}, {exec}"
            );
        }
        // One rank of machine 1 is at another execution: an error on every rank of every machine, and no harm to the next.
        let mut execs = [Some(101); ALL];
        if machine == 1 {
            execs[2] = Some(102);
        }
        assert_eq!(
            ranks.run(&execs),
            [Some(Status::MPMD); ALL],
            "machine {machine}"
        );
        // A whole machine is.
        let exec = if machine == 2 { 104 } else { 103 };
        assert_eq!(
            ranks.run(&[Some(exec); ALL]),
            [Some(Status::MPMD); ALL],
            "machine {machine}"
        );
        assert_eq!(
            ranks.run(&[Some(105); ALL]),
            [Some(Status::SUCCESS); ALL],
            "machine {machine}"
        );
        assert_eq!(ranks.leaders.stop(AMPLE), Stopped::Ended);
    });
}

#[test]
fn h21_a_rank_that_gives_up_or_never_comes_fails_every_machine() {
    let statuses = machines(Duration::from_millis(400), |machine, ranks| {
        // The second execution lacks rank 3 of machine 2.
        assert_eq!(ranks.run(&[Some(1); ALL]), [Some(Status::SUCCESS); ALL]);
        let mut execs = [Some(2); ALL];
        if machine == 2 {
            execs[3] = None;
        }
        let statuses = ranks.run(&execs);
        // Nobody stops before all have failed.
        ranks.leaders.stop(AMPLE);
        drop(ranks.tasks);
        drop(ranks.buses);
        statuses
    });
    for (machine, statuses) in statuses.iter().enumerate() {
        for (rank, status) in statuses.iter().enumerate() {
            let came = (machine, rank) != (2, 3);
            let late = Status::BARRIER_TIMEOUT;
            // Who was told by a machine that had already stopped has another reason, not another outcome.
            assert_eq!(status.is_some(), came);
            assert!(
                status.is_none_or(|status| status == late || status == Status::PEER_DEAD),
                "{status:?}"
            );
        }
    }
}

/// One rank's task is aborted at its gate, the leader's of its machine or another's: every rank of every machine is told so at once, and
/// all are in step for the next.
#[test]
fn h21_an_execution_that_ends_at_its_gate_fails_every_machine_and_leaves_all_in_step() {
    machines(AMPLE, |machine, ranks| {
        let mut exec = 0;
        for victim in [(0, 0), (0, 2), (1, 0), (2, 3)] {
            exec += 1;
            assert_eq!(ranks.run(&[Some(exec); ALL]), [Some(Status::SUCCESS); ALL]);
            exec += 1;
            let (mut execs, mut wanted) = ([Some(exec); ALL], [Some(Status::PEER_CANCELLED); ALL]);
            if machine == victim.0 {
                ranks.tasks[victim.1].cancel(ExecId(exec));
                (execs[victim.1], wanted[victim.1]) = (None, None);
            }
            assert_eq!(ranks.run(&execs), wanted, "machine {machine}, {victim:?}");
        }
        // Nobody stops before all have passed.
        assert_eq!(ranks.run(&[Some(99); ALL]), [Some(Status::SUCCESS); ALL]);
        assert_eq!(ranks.leaders.stop(AMPLE), Stopped::Ended);
    });
}

#[test]
fn h20_a_silent_machine_is_named_on_every_rank_within_the_deadline() {
    let within = Duration::from_millis(800);
    let hold = Arc::new(std::sync::Barrier::new(MACHINES));
    machines(within, |machine, ranks| {
        assert_eq!(ranks.run(&[Some(1); ALL]), [Some(Status::SUCCESS); ALL]);
        if machine == 2 {
            // Neither its ranks nor, from the others' view, anything of it: but it lives, so that no end of it is seen.
            hold.wait();
            return;
        }
        let start = Instant::now();
        let statuses = ranks.run(&[Some(2); ALL]);
        let elapsed = start.elapsed();
        // Before anything can fail here and leave the silent one waiting.
        hold.wait();
        assert_eq!(
            statuses,
            [Some(Status::BARRIER_TIMEOUT); ALL],
            "machine {machine}"
        );
        // The first deadline to pass ends it for all, and another machine may have begun a little sooner.
        assert!(elapsed >= within / 2, "{elapsed:?}");
        assert!(elapsed < within + Duration::from_millis(500), "{elapsed:?}");
        // What every rank, not the leader alone, would say.
        for (rank, task) in (0..).zip(&ranks.tasks) {
            let error = task.last_failure().unwrap();
            let text = error.to_string();
            assert_eq!((error.rank, error.world), (rank, RANKS), "{text}");
            let nobody = RankSet::default();
            assert_eq!((error.missing, error.dead), (nobody, nobody), "{text}");
            assert!(error.elapsed <= elapsed, "{text}");
            assert!(text.contains("nothing came from machine 2"), "{text}");
            assert!(text.contains(&format!("barrier {SLOT} #2")), "{text}");
            assert!(text.contains("set by KNOB"), "{text}");
        }
    });
}

/// The leader gives up while it waits for another machine. In the next execution it has not come so far when another rank's deadline passes.
#[test]
fn h20_a_machine_that_an_execution_before_waited_for_is_not_named() {
    let mut sockets = sockets();
    let (own, silent) = (sockets.remove(0), sockets);
    let peers: Vec<u32> = (0..3).map(|machine| machine * u32::from(RANKS)).collect();
    let leaders = Leaders::start(own, &peers, 0, 1).unwrap();
    let buses = bus::everybody(2);
    let task = |rank: usize, within| {
        let barrier = buses[rank].barrier(0, RankSet::below(2)).unwrap();
        TaskBarrier::new(barrier, vec![], Within::new(within, "KNOB")).unwrap()
    };
    let leader = task(0, AMPLE).between_machines(leaders.seat(0).unwrap());
    let hasty = task(1, Duration::ZERO);
    assert_eq!(hasty.arrive(ExecId(1)), BarrierPoll::Ready);
    let start = Instant::now();
    while leader.attendance().and_then(|seen| seen.machine).is_none() {
        assert_eq!(leader.arrive(ExecId(1)), BarrierPoll::Pending);
        assert!(start.elapsed() < AMPLE);
        std::thread::yield_now();
    }
    leader.cancel(ExecId(1));
    let cancelled = BarrierPoll::Failed(Status::PEER_CANCELLED);
    assert_eq!(hasty.release(ExecId(1)), cancelled);
    hasty.cancel(ExecId(1));
    assert_eq!(leader.arrive(ExecId(2)), BarrierPoll::Pending);
    assert_eq!(hasty.arrive(ExecId(2)), BarrierPoll::Ready);
    let late = BarrierPoll::Failed(Status::BARRIER_TIMEOUT);
    assert_eq!(hasty.release(ExecId(2)), late);
    let why = hasty.last_failure().unwrap().why;
    assert_eq!(why, Why::Verdict(Verdict::TimedOut(1)));
    // The thread's receive ends with the others' sockets.
    drop(silent);
    assert_eq!(leaders.stop(AMPLE), Stopped::Ended);
}

#[test]
fn h71_a_machine_whose_process_dies_fails_the_others_at_once() {
    machines(AMPLE, |machine, ranks| {
        assert_eq!(ranks.run(&[Some(1); ALL]), [Some(Status::SUCCESS); ALL]);
        if machine == 1 {
            // Its sockets end with it.
            drop(ranks.leaders);
            return;
        }
        let start = Instant::now();
        let statuses = ranks.run(&[Some(2); ALL]);
        assert_eq!(
            statuses,
            [Some(Status::PEER_DEAD); ALL],
            "machine {machine}"
        );
        assert!(start.elapsed() < AMPLE / 3, "{:?}", start.elapsed());
        for task in &ranks.tasks {
            let text = task.last_failure().unwrap().to_string();
            assert!(text.contains("machine 1 is gone"), "{text}");
        }
    });
}
