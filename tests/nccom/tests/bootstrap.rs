//! The bootstrap through the C exports: joining, messages, all-gather, strangers, deaths.

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{
    Handle, all_gather, barrier, free, free_root, join_comm, join_global, receive, send, unique_id,
    world,
};

const NRT_FAILURE: i32 = 1;
const NRT_INVALID: i32 = 2;
const NRT_RESOURCE: i32 = 4;

/// Far below the bootstrap's deadline: what takes longer has waited for a deadline.
const PROMPT: Duration = Duration::from_secs(20);

#[test]
fn messages_between_all_pairs_and_an_all_gather() {
    for n in 1..=4 {
        world(n, |rank| {
            for peer in 0..n {
                assert_eq!(
                    send(rank.global, peer, &mut [rank.rank as u8, peer as u8]),
                    0
                );
            }
            for peer in (0..n).rev() {
                let mut got = [0; 2];
                assert_eq!(receive(rank.global, peer, &mut got), 0);
                assert_eq!(got, [peer as u8, rank.rank as u8]);
            }
            let mut all = vec![0xEE; 3 * n as usize];
            all[3 * rank.rank as usize..][..3].fill(rank.rank as u8);
            assert_eq!(all_gather(rank.global, &mut all, 3), 0);
            let expected: Vec<u8> = (0..n as u8).flat_map(|peer| [peer; 3]).collect();
            assert_eq!(all, expected);
        });
    }
}

#[test]
fn ranks_may_free_in_any_order() {
    for first in 0..3 {
        world(3, |rank| {
            // The ranks leave one after the other; dropping `rank` frees both communicators.
            let order = (rank.rank - first).rem_euclid(3);
            let before = (rank.rank - 1).rem_euclid(3);
            if order > 0 {
                assert_eq!(receive(rank.global, before, &mut [0]), 0);
            }
            if order < 2 {
                assert_eq!(send(rank.global, (rank.rank + 1) % 3, &mut [1]), 0);
            }
        });
    }
}

#[test]
fn strangers_at_the_root_do_not_hold_up_the_ranks() {
    let root = free_root();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let host = scope.spawn(|| join_global(&root, 0, 2));
        let visit = |bytes: &[u8]| loop {
            // Until rank 0 listens.
            if let Ok(mut stream) = TcpStream::connect(&root) {
                stream
                    .write_all(bytes)
                    .expect("a fresh connection takes a few bytes");
                return stream;
            }
            std::thread::yield_now();
        };
        drop(visit(b""));
        drop(visit(b"abc"));
        let _wrong = visit(b"8 wrong!");
        let _silent = visit(b"");
        let member = join_global(&root, 1, 2).expect("joins among strangers");
        let host = host.join().expect("rank 0").expect("hosts among strangers");
        assert_eq!((free(host), free(member)), (0, 0));
    });
    assert!(start.elapsed() < PROMPT, "took {:?}", start.elapsed());
}

#[test]
fn a_root_address_in_use_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let root = taken.local_addr().expect("its address").to_string();
    assert_eq!(join_global(&root, 0, 2).expect_err("in use"), NRT_RESOURCE);
}

#[test]
fn a_world_of_another_size_is_refused() {
    let root = free_root();
    std::thread::scope(|scope| {
        let host = scope.spawn(|| join_global(&root, 0, 2));
        assert_eq!(
            join_global(&root, 1, 3).expect_err("another world"),
            NRT_INVALID
        );
        let member = join_global(&root, 1, 2).expect("joins");
        let host = host.join().expect("rank 0").expect("hosts");
        assert_eq!((free(host), free(member)), (0, 0));
    });
}

#[test]
fn a_dead_peer_ends_every_call_that_needs_it_promptly() {
    let start = Instant::now();
    world(3, |rank| {
        barrier(&rank);
        if rank.rank == 1 {
            return;
        }
        assert_eq!(receive(rank.global, 1, &mut [0]), NRT_FAILURE);
        assert_eq!(all_gather(rank.global, &mut [0; 3], 1), NRT_FAILURE);
    });
    assert!(start.elapsed() < PROMPT, "took {:?}", start.elapsed());
}

#[test]
fn bad_arguments_are_refused() {
    let null = Handle(std::ptr::null_mut());
    assert_eq!(
        join_global("nowhere", 0, 1).expect_err("no port"),
        NRT_INVALID
    );
    assert_eq!(
        join_global("127.0.0.1:1", 2, 2).expect_err("rank out of the world"),
        NRT_INVALID
    );
    assert_eq!(
        join_global("127.0.0.1:1", 0, 0).expect_err("no world"),
        NRT_INVALID
    );
    assert_eq!(join_comm([0; 128], 0, 1).expect_err("no id"), NRT_INVALID);
    assert_eq!(unique_id(&mut [0; 128], 0), NRT_INVALID);
    assert_eq!(send(null, 0, &mut []), NRT_INVALID);
    assert_eq!(free(null), NRT_INVALID);
    world(1, |rank| {
        assert_eq!(send(rank.global, 1, &mut []), NRT_INVALID);
        assert_eq!(send(rank.global, -1, &mut []), NRT_INVALID);
        assert_eq!(
            send(rank.comm, 0, &mut []),
            NRT_INVALID,
            "not a global communicator"
        );
        let mut id = [0; 128];
        assert_eq!(unique_id(&mut id, 3), 0);
        assert_eq!(join_comm(id, 0, 2).expect_err("another size"), NRT_INVALID);
    });
}

#[test]
fn a_freed_handle_is_refused() {
    let global = join_global(&free_root(), 0, 1).expect("a world of one");
    assert_eq!(free(global), 0);
    assert_eq!(free(global), NRT_INVALID);
    assert_eq!(all_gather(global, &mut [0], 1), NRT_INVALID);
}

#[test]
fn a_root_with_an_ipv6_address_is_reached() {
    let root = free_root().replace("127.0.0.1", "[::1]");
    if std::net::TcpListener::bind(&root).is_err() {
        println!("SKIPPED: an IPv6 loopback not available");
        return;
    }
    std::thread::scope(|scope| {
        let host = scope.spawn(|| join_global(&root, 0, 2));
        let member = join_global(&root, 1, 2).expect("joins");
        let host = host.join().expect("rank 0").expect("hosts");
        let mut got = [0; 4];
        assert_eq!(send(member, 0, &mut [1, 2, 3, 4]), 0);
        assert_eq!((receive(host, 1, &mut got), got), (0, [1, 2, 3, 4]));
        assert_eq!((free(host), free(member)), (0, 0));
    });
}
