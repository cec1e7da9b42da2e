//! H19-H22: the bus's barrier, and the driver's barrier task over it.
//!
//! Requirements: H19, H20, H21, H22.
#![allow(
    unsafe_code,
    reason = "start words are named by their address; functions of C"
)]

use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use enc_proxy::barrier::{bp_barrier_create, bp_barrier_hangup, bp_barrier_sync};
use enc_proxy::bus::{bp_cleanup, bp_config, bp_connect, bp_create};
use enc_proxy::status::NRT_SUCCESS;
use proxy_checks::bus::{self, AMPLE, PROMPT, Role};
use proxy_checks::pace::at_most;
use proxy_core::phone::barrier::{RankSet, Verdict};
use proxy_core::port::BarrierPoll;
use proxy_core::{ExecId, Status};
use proxy_os::bananaphone::kill::{self, Point};
use proxy_os::bananaphone::task::{TaskBarrier, TooManySemaphores};
use proxy_os::bananaphone::{BusError, JoinError, Phase, Progress, WaitError, Why};
use proxy_os::{DeviceWord, HostBarrier};

/// As long as [`AMPLE`].
const AMPLE_US: u64 = 30_000_000;

fn wait_error(result: Result<(), BusError>) -> WaitError {
    match result {
        Err(BusError::Wait(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn h19_one_thread_drives_the_barriers_of_all_its_ranks() {
    let world = 32;
    let buses = bus::everybody(world);
    let mut words = [0_u32; 4];
    let semaphores: Vec<_> = (0..4)
        .map(|index| {
            let address = (&raw mut words).cast::<u32>().wrapping_add(index);
            // SAFETY: the words outlive the barriers, and are read through the words only.
            unsafe { DeviceWord::new(address) }.unwrap()
        })
        .collect();
    let tasks: Vec<_> = buses
        .iter()
        .map(|bus| {
            let barrier = bus.barrier(0, RankSet::below(world)).unwrap();
            TaskBarrier::new(barrier, semaphores.clone(), AMPLE).unwrap()
        })
        .collect();
    // Both orders of arrival; no step may wait, and the first thread is the only one.
    for exec in (1..=20).map(ExecId) {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        if exec.0 % 2 == 0 {
            order.reverse();
        }
        let mut longest = Duration::ZERO;
        let mut arrived = vec![false; tasks.len()];
        let mut released = vec![false; tasks.len()];
        while released.contains(&false) {
            for &rank in &order {
                let start = Instant::now();
                step(&tasks[rank], exec, &mut arrived[rank], &mut released[rank]);
                longest = longest.max(start.elapsed());
            }
        }
        assert!(longest < Duration::from_millis(100), "{longest:?}");
        // The leader alone raises, once, and before it lets anybody pass.
        assert!(semaphores.iter().all(|word| word.load() == exec.0 as u32));
    }
    let barrier = buses[0].barrier(1, RankSet::below(world)).unwrap();
    let five = vec![semaphores[0]; 5];
    let refused = TaskBarrier::new(barrier, five, AMPLE).unwrap_err();
    assert_eq!(refused, TooManySemaphores { found: 5 });
}

/// What the driver does with one barrier task in one tick.
fn step(task: &TaskBarrier, exec: ExecId, arrived: &mut bool, released: &mut bool) {
    if *released {
        return;
    }
    if !*arrived {
        match task.arrive(exec) {
            BarrierPoll::Pending => return,
            BarrierPoll::Ready => *arrived = true,
            BarrierPoll::Failed(status) => panic!("{status}"),
        }
        assert_eq!(task.signal(exec), Status::SUCCESS);
    }
    match task.release(exec) {
        BarrierPoll::Pending => {}
        BarrierPoll::Ready => *released = true,
        BarrierPoll::Failed(status) => panic!("{status}"),
    }
}

#[test]
fn h19_every_way_to_fail_has_its_status() {
    let statuses = |second: fn(TaskBarrier)| {
        let answers = bus::threads(2, |bus| {
            let barrier = bus.barrier(0, RankSet::below(2)).unwrap();
            let within = Duration::from_millis(300);
            let task = TaskBarrier::new(barrier, vec![], within).unwrap();
            if bus.rank() == 1 {
                second(task);
                // Stays on the bus until the other has its verdict.
                let mut bus = bus;
                bus.recv(0, None, AMPLE).unwrap();
                return Status::SUCCESS;
            }
            let (mut arrived, exec) = (false, ExecId(1));
            let status = loop {
                let answer = if arrived {
                    task.release(exec)
                } else {
                    task.arrive(exec)
                };
                match answer {
                    BarrierPoll::Failed(status) => break status,
                    BarrierPoll::Ready if arrived => break Status::SUCCESS,
                    BarrierPoll::Ready => arrived = true,
                    BarrierPoll::Pending => std::thread::yield_now(),
                }
            };
            let mut bus = bus;
            bus.send(1, 0, b"", AMPLE).unwrap();
            status
        });
        answers[0]
    };
    assert_eq!(statuses(|_| ()), Status::BARRIER_TIMEOUT);
    let at_another = |task: TaskBarrier| {
        assert_eq!(task.arrive(ExecId(2)), BarrierPoll::Ready);
        let failed = loop {
            match task.release(ExecId(2)) {
                BarrierPoll::Pending => std::thread::yield_now(),
                other => break other,
            }
        };
        assert_eq!(failed, BarrierPoll::Failed(Status::MPMD));
    };
    assert_eq!(statuses(at_another), Status::MPMD);
    assert_eq!(Status::MPMD.text(), Some("MPMD execution is not supported"));
    let gives_up = |task: TaskBarrier| {
        assert_eq!(task.arrive(ExecId(1)), BarrierPoll::Ready);
        task.cancel(ExecId(1));
    };
    // Whoever decides first: given up, or passed because both had arrived.
    let status = statuses(gives_up);
    assert!(
        [Status::PEER_CANCELLED, Status::SUCCESS].contains(&status),
        "{status}"
    );
}

#[test]
fn h20_every_waiter_names_all_who_are_missing_and_nobody_else() {
    let errors = bus::threads(4, |mut bus| {
        let mut barrier = bus.barrier(3, RankSet::below(4)).unwrap();
        barrier.wait(1, AMPLE).unwrap();
        let error = (bus.rank() % 2 == 0).then(|| {
            let start = Instant::now();
            let error = wait_error(barrier.wait(2, Duration::from_millis(100)));
            (error, start.elapsed())
        });
        // Nobody leaves before all have their error: leaving would be another reason.
        bus.all_gather(&[], AMPLE).unwrap();
        error
    });
    let waits = errors.iter().flatten().map(|(_, elapsed)| *elapsed);
    // Whose deadline passes first decides for all, who may have come later.
    let longest = waits.max().unwrap();
    assert!(longest >= Duration::from_millis(95), "{longest:?}");
    assert!(longest < Duration::from_millis(100) + PROMPT, "{longest:?}");
    for rank in [0, 2] {
        let (error, _) = errors[rank].as_ref().unwrap();
        let missing: RankSet = [1, 3].into_iter().collect();
        assert_eq!((error.missing, error.rank), (missing, rank as u16));
        assert_eq!(
            (error.dead, error.left),
            (RankSet::default(), RankSet::default())
        );
        let label = Phase::Barrier {
            slot: 3,
            generation: 2,
        };
        assert_eq!(error.phase, label);
        assert!(matches!(error.why, Why::Verdict(Verdict::TimedOut(0 | 2))));
        let text = error.to_string();
        assert!(
            text.contains("barrier 3 #2") && text.contains("missing {1,3}"),
            "{text}"
        );
        assert!(text.contains(&format!("rank {rank} of 4")), "{text}");
    }
    assert!(errors[1].is_none() && errors[3].is_none());
}

#[test]
fn h20_ranks_that_were_told_different_participants_are_told_both_sets() {
    let texts = bus::threads(4, |mut bus| {
        let me = bus.rank();
        if me == 1 {
            bus.barrier(5, RankSet::below(3)).unwrap();
        }
        bus.all_gather(&[], AMPLE).unwrap();
        // Rank 3 has no rank in common with the others but through the slot.
        let set = if me == 3 {
            RankSet::default().with(3)
        } else {
            RankSet::below(2 + u16::from(me == 2))
        };
        let text = bus.barrier(5, set).map_err(|error| error.to_string());
        bus.all_gather(&[], AMPLE).unwrap();
        text.map(drop)
    });
    for (rank, ours) in [(0, "{0-1}"), (1, "{0-1}"), (3, "{3}")] {
        let text = texts[rank].clone().unwrap_err();
        let both = format!("barrier 5 is for ranks {ours} here and for {{0-2}} on rank 1");
        assert!(text.contains(&both), "{text}");
    }
    assert_eq!(texts[2], Ok(()));
}

/// A small generator of its own: the runs must differ, not be unpredictable.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn h21_a_generation_ends_alike_for_all_who_are_in_it() {
    ends_alike(3);
}

/// Two pass without a verdict, by seeing each other.
#[test]
fn h21_a_generation_ends_alike_for_two_who_meet() {
    ends_alike(2);
}

fn ends_alike(world: u16) {
    let buses = bus::everybody(world);
    let (mut passed, mut failed, mut around) = (0, 0, 2000);
    let mut barriers: Vec<_> = (buses.iter())
        .map(|bus| bus.barrier(0, RankSet::below(world)).unwrap())
        .collect();
    let mut state = 0x9E37_79B9_7F4A_7C15;
    for run in 0..1000_u64 {
        // One is late by about the deadline of the others, so that timeout and last arrival meet.
        let late = (random(&mut state) % u64::from(world)) as usize;
        let delay = Duration::from_micros(around + random(&mut state) % 500);
        let verdicts: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = barriers
                .iter_mut()
                .enumerate()
                .map(|(rank, barrier)| {
                    scope.spawn(move || {
                        if rank == late {
                            spin(delay);
                        }
                        barrier.wait(run, Duration::from_millis(3)).is_ok()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(
            verdicts.iter().all(|verdict| *verdict == verdicts[0]),
            "{run} {verdicts:?}"
        );
        // Follows the edge between too late and in time, wherever the machine's load has it.
        if verdicts[0] {
            passed += 1;
            around += 100;
        } else {
            failed += 1;
            around = around.saturating_sub(100);
        }
    }
    assert!(passed > 0 && failed > 0, "{passed} passed, {failed} failed");
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn h21_a_rank_that_dies_at_the_barrier_fails_it_for_both_others() {
    for round in 1..=40 {
        dies_at_the_barrier(3, 2, Point::Arriving, round);
    }
}

/// Before it has arrived, and when the other can see that it has.
#[test]
fn h21_one_of_two_who_dies_at_the_barrier_fails_it_for_the_other() {
    for round in 1..=10 {
        for victim in [0, 1] {
            for point in [Point::Arriving, Point::Arrived] {
                dies_at_the_barrier(2, victim, point, round);
            }
        }
    }
}

/// The victim passes `rounds` generations, at least one, by which the others have connected, and dies at this point of the next.
fn dies_at_the_barrier(world: u16, victim: u16, point: Point, rounds: u64) {
    let job = bus::job();
    let what = format!("{rounds} {}", u8::from(point == Point::Arrived));
    let dying = Role::new(&job, victim, world, &what).start("child_dies_at_the_barrier");
    let body = |rank| {
        let bus = bus::connected(&job, rank, world);
        let mut barrier = bus.barrier(0, RankSet::below(world)).unwrap();
        let mut passed = 0;
        loop {
            let start = Instant::now();
            match barrier.wait(passed, AMPLE) {
                Ok(()) => passed += 1,
                Err(error) => return (passed, error, start.elapsed(), bus),
            }
        }
    };
    let body = &body;
    let ends: Vec<_> = std::thread::scope(|scope| {
        let others = (0..world).filter(|rank| *rank != victim);
        let threads: Vec<_> = others.map(|rank| scope.spawn(move || body(rank))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for (passed, error, elapsed, _bus) in ends {
        // Who has arrived is needed no more.
        assert_eq!(passed, rounds + u64::from(point == Point::Arrived));
        let error = wait_error(Err(error));
        assert_eq!(error.why, Why::Verdict(Verdict::Gone(victim)));
        assert!(elapsed < at_most(Duration::from_secs(1)), "{elapsed:?}");
    }
    drop(dying);
}

#[test]
fn child_dies_at_the_barrier() {
    let Some(role) = Role::of("child_dies_at_the_barrier") else {
        return;
    };
    let (rounds, has_arrived) = role.what.split_once(' ').unwrap();
    let rounds: u64 = rounds.parse().unwrap();
    let bus = role.connected();
    let mut barrier = bus.barrier(0, RankSet::below(role.world)).unwrap();
    for round in 0..rounds {
        barrier.wait(round, AMPLE).unwrap();
    }
    // No destructor, no good-bye.
    kill::arm(match has_arrived {
        "0" => Point::Arriving,
        _ => Point::Arrived,
    });
    barrier.wait(rounds, AMPLE).unwrap();
}

/// Who has nothing to do between arriving and passing meets the other by the C interface, too: a process that decides a verdict is killed here.
#[test]
fn h21_two_ranks_that_sync_in_c_need_no_verdict() {
    Role::new(&bus::job(), 0, 2, "").run("child_syncs");
}

#[test]
fn child_syncs() {
    let Some(role) = Role::of("child_syncs") else {
        return;
    };
    let job = CString::new(role.job).unwrap();
    let created = std::sync::Barrier::new(2);
    let good = |status| assert_eq!(status, NRT_SUCCESS);
    let rank = |rank| {
        let config = bp_config {
            struct_size: size_of::<bp_config>(),
            flags: 0,
            job: job.as_ptr(),
            timeout_us: 0,
            rank,
            world: 2,
            barriers: 0,
            cells: 0,
            any_user: 0,
            first_rank: 0,
            machine: 0,
            machine_n: 0,
            spins: 0,
            yields: 0,
        };
        let (mut bus, mut barrier) = (null_mut(), null_mut());
        // SAFETY: both are live values, and so is what the first points to.
        good(unsafe { bp_create(&raw const config, &raw mut bus) });
        good(bp_connect(bus, AMPLE_US));
        // SAFETY: no ranks are given, and `barrier` is a live value.
        good(unsafe { bp_barrier_create(bus, 0, null(), 0, &raw mut barrier) });
        created.wait();
        kill::arm(Point::Decided);
        for exec in 0..100 {
            good(bp_barrier_sync(barrier, exec, AMPLE_US));
        }
        good(bp_barrier_hangup(barrier));
        good(bp_cleanup(bus));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| rank(1));
        rank(0);
    });
}

#[test]
fn h22_nothing_waits_for_a_peer_before_it_is_asked_to() {
    let start = Instant::now();
    let mut bus = proxy_os::bananaphone::Bus::create(&bus::options(&bus::job(), 0, 2)).unwrap();
    let mut barrier = bus.barrier(0, RankSet::below(2)).unwrap();
    barrier.arrive(1, AMPLE);
    assert_eq!(barrier.poll(), Ok(Progress::Pending));
    assert_eq!(barrier.missing(), RankSet::default().with(1));
    bus.send(1, 0, b"kept for later", AMPLE).unwrap();
    assert!(start.elapsed() < PROMPT);
    let error = bus.connect(Duration::from_millis(50)).unwrap_err();
    let JoinError::Wait(error) = error else {
        panic!("{error}")
    };
    assert_eq!(
        (error.phase, error.missing),
        (Phase::Connect, RankSet::default().with(1))
    );
}

#[test]
fn h19_a_barrier_of_the_driver_is_send_and_sync() {
    fn is_barrier<T: HostBarrier>() {}
    is_barrier::<TaskBarrier>();
    let _: fn(TaskBarrier) -> Arc<dyn HostBarrier> = |task| Arc::new(task);
}
