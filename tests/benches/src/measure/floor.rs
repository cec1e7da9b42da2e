//! What the machine itself takes: nothing above can be faster than these.
#![allow(unsafe_code, reason = "the futex call")]

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proxy_benches::clock::{self, Figure, stamp};
use proxy_benches::machine;
use proxy_os::sys::eventfd::EventFd;

/// A word on two lines of its own, as the prefetcher fetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// All floors.
pub(super) fn all() {
    machine::pin(0);
    single();
    round_trip();
    wake_eventfd();
    wake_futex();
}

fn single() {
    let word = AtomicU64::new(0);
    let call: fn() = black_box(nothing);
    clock::each(100_000, |_| black_box(call)()).tell("floor.call");
    // Relaxed, all four: nothing is ordered, the instruction is timed.
    clock::each(100_000, |_| {
        black_box(black_box(&word).load(Ordering::Relaxed));
    })
    .tell("floor.load");
    clock::each(100_000, |number| {
        let number = number as u64;
        let _ = black_box(&word).compare_exchange(
            number,
            number + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ); // as above
        word.store(number + 1, Ordering::Relaxed); // as above
    })
    .tell("floor.cas");
    clock::each(100_000, |number| {
        black_box(black_box(&word).swap(number as u64, Ordering::Relaxed)); // as above
    })
    .tell("floor.exchange");
    clock::each(2000, |_| thread::yield_now()).tell("floor.yield");
}

#[inline(never)]
fn nothing() {
    black_box(());
}

/// There and back between two spinning threads, a line for each way.
fn round_trip() {
    const ROUNDS: u64 = 100_000;
    let (there, back) = (Line::default(), Line::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            machine::pin(1);
            for round in 1..=ROUNDS {
                await_value(&there.0, round);
                // Release pairs with the acquire in `await_value`.
                back.0.store(round, Ordering::Release);
            }
        });
        let mut round = 0;
        clock::events(ROUNDS as usize, |_| {
            round += 1;
            // Release pairs with the acquire in `await_value`.
            there.0.store(round, Ordering::Release);
            await_value(&back.0, round);
        })
        .tell("floor.rtt");
    });
}

fn await_value(word: &AtomicU64, value: u64) {
    // Acquire pairs with the release of the other side.
    while word.load(Ordering::Acquire) != value {
        spin_loop();
    }
}

/// From a call to a sleeper on the other CPU to the sight of what it stores.
fn wake(key: &str, call: impl Fn(), sleep: impl Fn(u32) + Sync) {
    const ROUNDS: u32 = 1000;
    let seen = Line::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            machine::pin(1);
            for round in 1..=ROUNDS {
                sleep(round);
                // Release pairs with the acquire in `await_value`.
                seen.0.store(round.into(), Ordering::Release);
            }
        });
        let events = (1..=ROUNDS).map(|round| {
            clock::spin(Duration::from_micros(100));
            let begin = stamp();
            call();
            await_value(&seen.0, round.into());
            stamp() - begin
        });
        Figure::of(events.collect()).tell(key);
    });
}

fn wake_eventfd() {
    let bell = EventFd::new().expect("an eventfd");
    wake(
        "floor.eventfd",
        || bell.ring(),
        |_| bell.wait(None).map(drop).expect("a wake-up"),
    );
}

fn wake_futex() {
    let word = AtomicU32::new(0);
    let call = || {
        // Release pairs with the acquire of the sleeper.
        word.fetch_add(1, Ordering::Release);
        futex(&word, libc::FUTEX_WAKE, u32::MAX >> 1);
    };
    let sleep = |round: u32| {
        // Acquire pairs with the release of the caller.
        while word.load(Ordering::Acquire) < round {
            futex(&word, libc::FUTEX_WAIT, round - 1);
        }
    };
    wake("floor.futex", call, sleep);
}

/// The system call, without a timeout. What it answers does not matter: the word is looked at.
fn futex(word: &AtomicU32, operation: i32, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: the word is valid for the call, and a null timeout is none.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, none) };
}
