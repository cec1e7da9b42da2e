//! What the machine itself takes: nothing above can be faster than these.
//!
//! Bare: nothing of ours is in what is timed, and nothing that only the measurement needs. What a loop works on is hidden from the
//! compiler before the loop; inside, a value that goes through `black_box` would be stored and loaded once more in each round.
#![allow(unsafe_code, reason = "the futex call, read and write")]

use std::hint::black_box;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proxy_benches::clock::{self, Figure, stamp};
use proxy_benches::machine;

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

/// Instructions of one core, in rows. The compiler removes none: it keeps atomic accesses, used or not.
fn single() {
    let word = Line::default();
    let word: &AtomicU64 = black_box(&word.0);
    let call: fn() = black_box(nothing);
    clock::each(100_000, |_| call()).tell("floor.call");
    // Looked at, as what a poll answers is. Relaxed, all three: nothing is ordered, the instruction is timed.
    clock::each(100_000, |_| {
        assert_eq!(word.load(Ordering::Relaxed), 0, "nobody writes yet");
    })
    .tell("floor.load");
    let mut value = 0;
    clock::each(100_000, |_| {
        // Relaxed, twice: as above. It always succeeds, as nobody else writes.
        let _ = word.compare_exchange(value, value + 1, Ordering::Relaxed, Ordering::Relaxed);
        value += 1;
    })
    .tell("floor.cas");
    clock::each(100_000, |number| {
        word.swap(number as u64, Ordering::Relaxed); // as above
    })
    .tell("floor.exchange");
    clock::each(2000, |_| thread::yield_now()).tell("floor.yield");
}

#[inline(never)]
fn nothing() {
    black_box(());
}

/// There and back between two spinning threads, a line each way, each trip timed by itself with the timer in it, as every other latency here is
/// timed: the round trip that rows are compared with. One line for both ways, and many trips under one timer, take a third less.
pub(super) fn round_trip() {
    const TRIPS: u64 = 20_000;
    let (there, back) = (Line::default(), Line::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            machine::pin(1);
            for trip in 1..=TRIPS {
                await_value(&there.0, trip);
                // Release pairs with the acquire in `await_value`.
                back.0.store(trip, Ordering::Release);
            }
        });
        let trips = (1..=TRIPS).map(|trip| {
            let begin = stamp();
            // Release pairs with the acquire in `await_value`.
            there.0.store(trip, Ordering::Release);
            await_value(&back.0, trip);
            stamp() - begin
        });
        Figure::of(trips.collect()).tell("floor.rtt");
    });
}

#[inline(always)]
fn await_value(word: &AtomicU64, value: u64) {
    // Acquire pairs with the release of the other side.
    while word.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
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

/// One write that wakes one blocked read.
fn wake_eventfd() {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    assert!(fd >= 0, "no eventfd: {}", io::Error::last_os_error());
    // SAFETY: the descriptor was just created and nobody else owns it.
    let bell = unsafe { OwnedFd::from_raw_fd(fd) };
    let call = || {
        let one = 1_u64;
        // SAFETY: the buffer is valid for its 8 bytes, and the descriptor open.
        let wrote = unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) };
        assert_eq!(wrote, 8, "a ring");
    };
    let sleep = |_| {
        let mut rings = 0_u64;
        // SAFETY: as above.
        let read = unsafe { libc::read(bell.as_raw_fd(), (&raw mut rings).cast(), 8) };
        assert_eq!(read, 8, "a wake-up");
    };
    wake("floor.eventfd", call, sleep);
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
