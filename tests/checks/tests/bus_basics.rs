//! The bus as an embedder uses it: messages, all-gather, barriers, several buses, ranks as threads and as processes.

use std::time::{Duration, Instant};

use proxy_checks::bus::{self, AMPLE, Role};
use proxy_core::phone::barrier::{RankSet, Verdict};
use proxy_core::phone::member::State;
use proxy_os::bananaphone::{Barrier, Bus, BusError, JoinError, MAX_TAG, Progress, Why};

fn everybody(bus: &Bus) -> RankSet {
    RankSet::below(bus.world())
}

#[test]
fn messages_go_between_two_ranks_and_to_all_by_tag() {
    let answers = bus::threads(3, |mut bus| match bus.rank() {
        0 => {
            bus.send(1, 7, b"seven", AMPLE).unwrap();
            bus.broadcast(8, b"eight", AMPLE).unwrap();
            bus.send(1, 9, b"", AMPLE).unwrap();
            bus.recv(1, None, AMPLE).unwrap()
        }
        1 => {
            assert_eq!(bus.recv(0, Some(9), AMPLE).unwrap(), (9, vec![]));
            let mut small = [0; 4];
            let refused = bus.recv_into(0, Some(8), &mut small, AMPLE);
            assert_eq!(refused, Err(BusError::TooSmall { bytes: 5 }));
            assert_eq!(bus.recv(0, None, AMPLE).unwrap(), (8, b"eight".to_vec()));
            bus.send(0, 1, b"all there", AMPLE).unwrap();
            bus.recv(0, Some(7), AMPLE).unwrap()
        }
        _ => bus.recv(0, None, AMPLE).unwrap(),
    });
    let wanted = [(1, &b"all there"[..]), (7, b"seven"), (8, b"eight")];
    assert_eq!(answers, wanted.map(|(tag, bytes)| (tag, bytes.to_vec())));
}

#[test]
fn an_all_gather_of_parts_that_failed_does_not_reach_into_the_next() {
    let gone_by = std::sync::Barrier::new(2);
    let results = bus::threads(2, |mut bus| {
        // Three parts.
        let size = 3 * bus.capacity() / 2;
        let own = |round: u8| vec![round * 16 + bus.rank() as u8; size];
        let (first, second) = (own(1), own(2));
        let mut all = vec![0; 2 * size];
        if bus.rank() == 1 {
            gone_by.wait();
        }
        // One after the other: each has sent something when it gives up.
        let refused = bus.all_gather_into(&first, &mut all, Duration::from_millis(20));
        assert!(matches!(refused, Err(BusError::Wait(_))), "{refused:?}");
        if bus.rank() == 0 {
            gone_by.wait();
        }
        gone_by.wait();
        bus.all_gather_into(&second, &mut all, AMPLE).unwrap();
        let (zero, one) = all.split_at(size);
        (
            zero.iter().all(|byte| *byte == 0x20),
            one.iter().all(|byte| *byte == 0x21),
        )
    });
    assert_eq!(results, [(true, true); 2]);
}

/// One rank has given up an all-gather and has sent its part of the next one, too, before the other comes to the first.
#[test]
fn an_all_gather_takes_what_came_for_it_before_one_that_had_failed_elsewhere() {
    let buses = bus::everybody(2);
    let [mut one, mut two]: [Bus; 2] = buses.try_into().unwrap();
    for own in [[1], [2]] {
        let late = one.all_gather(&own, Duration::ZERO);
        assert!(matches!(late, Err(BusError::Wait(_))), "{late:?}");
    }
    for own in [[3], [4]] {
        let late = one.all_gather_into(&own, &mut [0; 2], Duration::ZERO);
        assert!(matches!(late, Err(BusError::Wait(_))), "{late:?}");
    }
    // Sets all of it aside.
    assert!(two.recv(0, Some(1), Duration::ZERO).is_err());
    for first in [1, 2] {
        let all = two.all_gather(&[0], Duration::ZERO).unwrap();
        assert_eq!(all, [[first], [0]]);
    }
    for first in [3, 4] {
        let mut all = [9; 2];
        two.all_gather_into(&[0], &mut all, Duration::ZERO).unwrap();
        assert_eq!(all, [first, 0]);
    }
}

#[test]
fn too_many_messages_of_other_tags_are_an_error_and_none_is_lost() {
    let long = vec![7; 100_000];
    let tags: u32 = 1030;
    let received = bus::threads(2, |mut bus| {
        if bus.rank() == 0 {
            (0..1024).for_each(|tag| bus.send(1, tag, b"", AMPLE).unwrap());
            bus.send(1, 2000, &long, AMPLE).unwrap();
            (1024..tags).for_each(|tag| bus.send(1, tag, b"", AMPLE).unwrap());
            return Vec::new();
        }
        for _ in 0..3 {
            let refused = bus.recv(0, Some(3000), AMPLE);
            assert!(
                matches!(refused, Err(BusError::Crowded { rank: 0, .. })),
                "{refused:?}"
            );
        }
        assert_eq!(
            bus.recv(0, Some(2000), AMPLE).unwrap(),
            (2000, long.clone())
        );
        (0..tags)
            .map(|_| bus.recv(0, None, AMPLE).unwrap().0)
            .collect()
    });
    assert_eq!(received[1], (0..tags).collect::<Vec<_>>());
}

/// By their bytes, long before there are too many: also while the receiver itself waits for room to send.
#[test]
fn too_many_bytes_of_other_tags_are_an_error_and_none_is_lost() {
    const LIMIT: usize = 64 << 20;
    let job = bus::job();
    let mut options = [0, 1].map(|rank| bus::options(&job, rank, 2));
    options.iter_mut().for_each(|options| options.cells = 65536);
    let [mut one, mut two] = options.map(|options| Bus::create(&options).unwrap());
    let long = vec![7; one.capacity()];
    let fit = u32::try_from(LIMIT.div_ceil(long.len())).unwrap();
    for tag in 0..fit {
        one.send(1, tag, &long, Duration::ZERO).unwrap();
        let late = two.recv(0, Some(MAX_TAG), Duration::ZERO);
        assert!(matches!(late, Err(BusError::Wait(_))), "{tag}: {late:?}");
    }
    one.send(1, fit, &long, Duration::ZERO).unwrap();
    for _ in 0..2 {
        let refused = two.recv(0, Some(MAX_TAG), AMPLE).unwrap_err();
        let (rank, limit) = (0, 1024);
        assert_eq!(refused, BusError::Crowded { rank, limit });
        assert!(refused.to_string().contains("64 MiB"), "{refused}");
    }
    let tags: Vec<u32> = (0..=fit)
        .map(|_| two.recv(0, None, AMPLE).unwrap())
        .map(|(tag, bytes)| {
            assert!(bytes == long, "{tag}");
            tag
        })
        .collect();
    assert_eq!(tags, (0..=fit).collect::<Vec<_>>());
    // The other's ring is full, and what comes meanwhile is taken, up to the limit, and one that stays in the ring.
    two.send(0, 0, &long, Duration::ZERO).unwrap();
    let mut sent = 0;
    while one.send(1, sent, &long, Duration::ZERO).is_ok() {
        let full = two.send(0, 0, &long, Duration::ZERO);
        assert!(matches!(full, Err(BusError::Wait(_))), "{full:?}");
        sent += 1;
    }
    assert_eq!(sent, fit + 1);
}

#[test]
fn a_buffer_that_is_too_small_is_said_when_a_long_message_begins() {
    let [mut one, mut two]: [Bus; 2] = bus::everybody(2).try_into().unwrap();
    let long = vec![7; 10 * one.capacity()];
    let (bytes, mut small) = (long.len(), vec![0; long.len() - 1]);
    // Its first parts only.
    let full = one.send(1, 5, &long, Duration::ZERO);
    assert!(matches!(full, Err(BusError::Wait(_))), "{full:?}");
    let refused = two.recv_into(0, Some(5), &mut small, Duration::ZERO);
    assert_eq!(refused, Err(BusError::TooSmall { bytes }));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| one.send(1, 6, &long, AMPLE));
        let refused = two.recv_into(0, Some(6), &mut small, AMPLE);
        assert_eq!(refused, Err(BusError::TooSmall { bytes }));
        assert!(two.recv(0, Some(6), AMPLE).unwrap() == (6, long.clone()));
        sender.join().unwrap().unwrap();
    });
}

#[test]
fn long_messages_are_streamed_both_ways_at_once() {
    let long: Vec<u8> = (0..1_000_003_u32).map(|i| (i * 7 % 251) as u8).collect();
    let long = &long;
    let received = bus::threads(2, |mut bus| {
        let peer = 1 - bus.rank();
        assert!(long.len() > 20 * bus.capacity());
        bus.send(peer, 1, b"before", AMPLE).unwrap();
        // Neither receives before it has sent; the parts that come meanwhile are set aside.
        bus.send(peer, 2, long, AMPLE).unwrap();
        bus.send(peer, 3, b"after", AMPLE).unwrap();
        let order: Vec<_> = (0..3)
            .map(|_| bus.recv(peer, None, AMPLE).unwrap())
            .collect();
        order
    });
    for order in received {
        assert!(order[1].1 == *long);
        let tags: Vec<_> = order
            .iter()
            .map(|(tag, bytes)| (*tag, bytes.len()))
            .collect();
        assert_eq!(tags, [(1, 6), (2, long.len()), (3, 5)]);
    }
}

#[test]
fn all_gather_takes_any_sizes_and_keeps_rounds_apart() {
    for world in [1, 2, 5] {
        bus::threads(world, |mut bus| {
            for round in 0..4_u16 {
                let size = |rank: u16| match (rank + round) % 4 {
                    0 => 0,
                    1 => 8,
                    2 => 9_000,
                    _ => 100_000,
                };
                let own = vec![bus.rank() as u8 + 1; size(bus.rank())];
                let all = bus.all_gather(&own, AMPLE).unwrap();
                for (rank, bytes) in (0..world).zip(all) {
                    assert!(
                        bytes == vec![rank as u8 + 1; size(rank)],
                        "{rank} {}",
                        bytes.len()
                    );
                }
            }
        });
    }
}

#[test]
fn barriers_pass_only_when_all_have_arrived() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let arrived = AtomicU32::new(0);
    bus::threads(4, |bus| {
        let mut all = bus.barrier(0, everybody(&bus)).unwrap();
        let pair: RankSet = [bus.rank() / 2 * 2, bus.rank() / 2 * 2 + 1]
            .into_iter()
            .collect();
        let mut half = bus.barrier(1 + bus.rank() / 2, pair).unwrap();
        for round in 1..=500_u32 {
            // Relaxed: the barrier orders.
            arrived.fetch_add(1, Ordering::Relaxed);
            all.wait(round.into(), AMPLE).unwrap();
            // Relaxed: as above.
            assert!(arrived.load(Ordering::Relaxed) >= 4 * round);
            half.wait(0, AMPLE).unwrap();
        }
    });
}

#[test]
fn misuse_is_told_by_name() {
    bus::threads(2, |mut bus| {
        let (me, far) = (bus.rank(), Duration::ZERO);
        for rank in [me, 2] {
            let refused = Err(BusError::NoSuchRank { rank, world: 2 });
            assert_eq!(bus.send(rank, 0, b"", far), refused);
            assert!(matches!(
                bus.recv(rank, None, far),
                Err(BusError::NoSuchRank { .. })
            ));
        }
        let tag = MAX_TAG + 1;
        assert_eq!(
            bus.send(1 - me, tag, b"", far),
            Err(BusError::BadTag { tag })
        );
        assert!(bus.barrier(8, RankSet::below(2)).is_err());
        assert!(bus.barrier(0, RankSet::default().with(1 - me)).is_err());
        bus.hangup();
        assert_eq!(bus.send(1 - me, 0, b"", far), Err(BusError::HungUp));
    });
    let mut options = bus::options(&bus::job(), 4, 4);
    let none = JoinError::NoSuchRank { rank: 4, world: 4 };
    assert_eq!(Bus::create(&options).unwrap_err(), none);
    (options.rank, options.cells) = (0, 3);
    assert!(matches!(Bus::create(&options), Err(JoinError::Layout(_))));
}

#[test]
fn a_rank_that_leaves_is_told_apart_from_a_dead_one() {
    let job = bus::job();
    let (mut first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| bus::connected(&job, 1, 2));
        (bus::connected(&job, 0, 2), second.join().unwrap())
    });
    assert!(first.is_hub() != second.is_hub());
    let waiter = std::thread::spawn(move || {
        let error = first.recv(1, None, AMPLE).unwrap_err();
        (first, error)
    });
    std::thread::sleep(Duration::from_millis(20));
    let start = Instant::now();
    second.cleanup();
    let (first, error) = waiter.join().unwrap();
    assert!(start.elapsed() < bus::PROMPT);
    let BusError::Wait(error) = error else {
        panic!("{error}")
    };
    assert_eq!((error.why, error.dead.is_empty()), (Why::PeerLeft(1), true));
    assert_eq!(first.members().unwrap()[1].0, State::Left);
}

#[test]
fn ranks_are_threads_and_processes_on_two_buses_at_a_time() {
    let (one, two) = (bus::job(), bus::job());
    let child = Role::new(&one, 2, 3, &two).start("child_on_two_buses");
    let on_both = |rank| {
        let (mut a, mut b) = (bus::connected(&one, rank, 3), bus::connected(&two, rank, 3));
        (
            a.all_gather(&[1], AMPLE).unwrap(),
            b.all_gather(&[2], AMPLE).unwrap(),
        )
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| on_both(1));
        for gathered in [on_both(0), other.join().unwrap()] {
            assert_eq!(gathered, (vec![vec![1]; 3], vec![vec![2]; 3]));
        }
    });
    child.succeed();
}

#[test]
fn child_on_two_buses() {
    let Some(role) = Role::of("child_on_two_buses") else {
        return;
    };
    let (mut a, mut b) = (role.connected(), bus::connected(&role.what, 2, 3));
    a.all_gather(&[1], AMPLE).unwrap();
    b.all_gather(&[2], AMPLE).unwrap();
}

/// Every rank is at two barriers of two buses at a time, each for another execution, and comes to them in an order of its own.
#[test]
fn barriers_of_several_buses_at_a_time_do_not_mix() {
    let (world, jobs) = (3, [bus::job(), bus::job()]);
    std::thread::scope(|scope| {
        for rank in 0..world {
            let jobs = &jobs;
            scope.spawn(move || {
                let buses = jobs.each_ref().map(|job| bus::connected(job, rank, world));
                let places = [(0, 0), (0, 5), (1, 0), (1, 5)];
                let mut barriers = places.map(|(bus, slot): (usize, u16)| {
                    buses[bus].barrier(slot, RankSet::below(world)).unwrap()
                });
                for round in 0..300_u64 {
                    for turn in 0..4 {
                        let place = (turn + usize::from(rank) + round as usize) % 4;
                        barriers[place].arrive(round * 4 + place as u64, AMPLE);
                        if round % 7 == u64::from(rank) {
                            std::thread::yield_now();
                        }
                    }
                    let mut over = [false; 4];
                    while over.contains(&false) {
                        for (barrier, over) in barriers
                            .iter_mut()
                            .zip(&mut over)
                            .filter(|(_, over)| !**over)
                        {
                            *over = step(barrier);
                        }
                    }
                }
                // All have passed all before the first one leaves.
                barriers[3].wait(0, AMPLE).unwrap();
            });
        }
    });
}

/// One look at a barrier that must pass; whether it has.
fn step(barrier: &mut Barrier) -> bool {
    match barrier.poll().unwrap() {
        Progress::Pending => {
            std::thread::yield_now();
            false
        }
        Progress::Complete => barrier.pass().unwrap() == Verdict::Passed,
        Progress::Over(verdict) => {
            assert_eq!(verdict, Verdict::Passed);
            true
        }
    }
}
