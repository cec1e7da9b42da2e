//! Groups, shares and workers coming and going.
//!
//! Requirements: H38, H43, H45.

use std::time::{Duration, Instant};

use proxy_checks::script::{Script, sets};
use proxy_core::{ExecId, Gid, Poll, Status};
use proxy_os::{Group, Patience, ProxyQueue, Release, ReleaseError, Released, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

fn acquire(gid: u32) -> Group {
    Group::acquire(Gid(gid), &Settings::default(), PATIENCE).expect("a group")
}

/// Rounds of each of two threads, a hundred thousand together.
const ROUNDS: u64 = 50_000;
/// What the requirement calls promptly.
const PROMPT: Duration = Duration::from_millis(200);
/// Rounds of each thread, one in a thousand, that may take longer because the machine does something else. That cannot hide a
/// lost wake-up: it does not end by itself, so a single one runs into [`HANG`].
const HICCUPS: usize = 50;
/// No round may take this long.
const HANG: Duration = Duration::from_secs(2);

#[test]
fn h38_a_hundred_thousand_workers_come_and_go_promptly() {
    let lives = || {
        let script = Script::open();
        let settings = Settings::default();
        let mut slowest = Duration::ZERO;
        let mut late = 0;
        for round in 0..ROUNDS {
            let queue = ProxyQueue::start(Gid(1), &settings).unwrap();
            let context = queue
                .context(script.context(0).block(1, sets(1, 1)))
                .unwrap();
            // Each round meets the worker at another point of its way to sleep.
            for _ in 0..round % 64 * 64 {
                std::hint::spin_loop();
            }
            let appended =
                (round % 2 == 0).then(|| context.enqueue(ExecId(round)).unwrap().network);
            let since = Instant::now();
            assert_eq!(
                queue.release(Release::Drain, PATIENCE),
                Ok(()),
                "round {round}"
            );
            let took = since.elapsed();
            slowest = slowest.max(took);
            late += usize::from(took > PROMPT);
            if let Some(ticket) = appended {
                assert_eq!(
                    queue.poll(ticket),
                    Ok(Poll::Done(Status::SUCCESS)),
                    "round {round}"
                );
            }
        }
        (slowest, late)
    };
    let ended = std::thread::scope(|scope| {
        let threads = [scope.spawn(lives), scope.spawn(lives)];
        threads.map(|thread| thread.join().unwrap())
    });
    println!("slowest round and rounds above {PROMPT:?}, by thread: {ended:?}");
    for (slowest, late) in ended {
        assert!(slowest < HANG, "{slowest:?}");
        assert!(late <= HICCUPS, "{late} rounds took longer than {PROMPT:?}");
    }
}

#[test]
fn h38_no_wake_up_is_lost_between_append_and_sleep() {
    let script = Script::open();
    let queue = ProxyQueue::start(Gid(1), &Settings::default()).unwrap();
    let context = queue
        .context(script.context(0).block(1, sets(1, 1)))
        .unwrap();
    for round in 0..20_000 {
        for _ in 0..round % 128 * 64 {
            std::hint::spin_loop();
        }
        let execution = context.enqueue(ExecId(round)).unwrap();
        assert_eq!(
            queue.consume(execution.network, Patience::until(PATIENCE)),
            Ok(Status::SUCCESS)
        );
    }
    assert!(
        queue.counters().sleeps > 100,
        "the rounds must meet a sleeping worker, too: {:?}",
        queue.counters()
    );
}

#[test]
fn h45_a_share_is_given_up_once() {
    let (mut first, mut second, mut third) = (acquire(45), acquire(45), acquire(45));
    assert_eq!(
        first.release(Release::Drain, PATIENCE),
        Ok(Released::Kept(2))
    );
    assert_eq!(
        first.release(Release::Drain, PATIENCE),
        Err(ReleaseError::Invalid)
    );
    assert_eq!(
        first.release(Release::Abort, PATIENCE),
        Err(ReleaseError::Invalid)
    );
    assert_eq!(Group::sharers(Gid(45)), 2);
    assert_eq!(
        second.release(Release::Drain, PATIENCE),
        Ok(Released::Kept(1))
    );
    let script = Script::open();
    let context = third
        .queue()
        .context(script.context(0).block(1, sets(1, 1)))
        .unwrap();
    let execution = context.enqueue(ExecId(1)).unwrap();
    assert_eq!(
        third
            .queue()
            .consume(execution.network, Patience::until(PATIENCE)),
        Ok(Status::SUCCESS)
    );
    assert_eq!(third.release(Release::Drain, PATIENCE), Ok(Released::Ended));
    assert_eq!(
        third.release(Release::Drain, PATIENCE),
        Err(ReleaseError::Invalid)
    );
    assert_eq!(Group::sharers(Gid(45)), 0);
}

#[test]
fn a_device_belongs_to_the_group_of_its_quotient() {
    let settings = Settings::builder()
        .ranks_per_network_proxy(32)
        .from_lookup(|_| None)
        .unwrap();
    for (device, gid) in [(0, 0), (31, 0), (32, 1), (640, 20)] {
        let group = Group::for_device(1_000_000 * 32 + device, &settings, PATIENCE).unwrap();
        assert_eq!(group.gid(), Gid(1_000_000 + gid));
    }
}

#[test]
fn h43_an_unrelated_group_comes_up_while_another_one_is_slow_to_end() {
    let script = Script::with(&["stop 1 -> block"]);
    let mut slow = acquire(430);
    let context = slow
        .queue()
        .context(script.context(0).block(1, sets(1, 1)))
        .unwrap();
    let execution = context.enqueue(ExecId(1)).unwrap();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| slow.release(Release::Drain, PATIENCE));
        let mut other = acquire(431);
        assert_eq!(other.release(Release::Drain, PATIENCE), Ok(Released::Ended));
        assert!(
            !ending.is_finished(),
            "the slow group's library call has not returned"
        );
        script.release();
        assert_eq!(ending.join().unwrap(), Ok(Released::Ended));
    });
    assert_eq!(
        context.queue().poll(execution.network),
        Ok(Poll::Done(Status::SUCCESS))
    );
}
