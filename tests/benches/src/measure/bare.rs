//! The bus's operations bare: shared words, `memcpy` and `sched_yield` between processes, and nothing else. No messages, no ranks that may
//! be late, die or lie, no sleep, no deadline: what the machine allows, which the table shows as the floor of these rows.
#![allow(unsafe_code, reason = "fork and memory that its children share")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proxy_benches::clock::{self, Figure};
use proxy_benches::machine;

/// Most ranks of an operation, and most bytes of one's contribution.
const RANKS: usize = 8;
const BYTES: usize = 65536;
/// Looks at a word before the CPU is given away between them.
const LOOKS: u32 = 4;
/// Seconds after which a measurement is over, as a rank that failed leaves the others waiting.
const LONG: u32 = 60;

/// A word on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// What all ranks of an operation share. All zeros is the beginning.
#[repr(C)]
struct Shared {
    arrived: Line,
    generation: Line,
    /// Rounds whose contribution is there, of each rank.
    posted: [Line; RANKS],
    /// Contributions of even and of odd rounds.
    slots: [[[u8; BYTES]; RANKS]; 2],
}

/// A barrier of so many ranks: who comes last opens it for all.
pub(super) fn barrier(ranks: usize) -> Figure {
    let rounds = if ranks > 2 { 4000 } else { 20_000 };
    in_processes(ranks, |shared, _| {
        // SAFETY: the word lives as long as the processes, and is atomic.
        let arrived = unsafe { &(*shared).arrived.0 };
        // SAFETY: as above.
        let generation = unsafe { &(*shared).generation.0 };
        clock::events(rounds, |_| {
            // Acquire pairs with the release of who comes last.
            let now = generation.load(Ordering::Acquire);
            // Release and acquire pair with one another: who comes last has seen all others come.
            if arrived.fetch_add(1, Ordering::AcqRel) + 1 == ranks as u64 {
                // Relaxed: published by the release below.
                arrived.store(0, Ordering::Relaxed);
                generation.store(now + 1, Ordering::Release);
            } else {
                // Acquire, as above.
                wait_until(|| generation.load(Ordering::Acquire) != now);
            }
        })
    })
}

/// An all-gather of so many ranks and bytes: each puts its own down and takes the others' as they come.
pub(super) fn gather(ranks: usize, bytes: usize) -> Figure {
    assert!(bytes <= BYTES, "a contribution has {BYTES} bytes at most");
    let rounds = if bytes > 4096 { 500 } else { 4000 };
    in_processes(ranks, |shared, me| {
        let mut own = vec![0_u8; bytes];
        let mut all = vec![0_u8; bytes * ranks];
        let posted = |rank: usize| {
            // SAFETY: as in `barrier`.
            unsafe { &(*shared).posted[rank].0 }
        };
        let slot = |round: usize, rank: usize| {
            // SAFETY: both are within the arrays, which live as long as the processes. No reference is made.
            unsafe { (&raw mut (*shared).slots[round % 2][rank]).cast::<u8>() }
        };
        clock::events(rounds, |round| {
            own.fill(round as u8);
            // SAFETY: `bytes` fit both. Nobody reads this slot: who is in this round has ended the one before, for which each rank had to have
            // ended the one before that, whose contribution was here.
            unsafe { slot(round, me).copy_from_nonoverlapping(own.as_ptr(), bytes) };
            let number = round as u64 + 1;
            // Release pairs with the acquire below.
            posted(me).store(number, Ordering::Release);
            for (rank, place) in all.chunks_exact_mut(bytes).enumerate() {
                // Acquire pairs with the release above.
                wait_until(|| posted(rank).load(Ordering::Acquire) >= number);
                // SAFETY: `bytes` fit both. Its owner does not write here again before this rank has posted its next one.
                unsafe {
                    place
                        .as_mut_ptr()
                        .copy_from_nonoverlapping(slot(round, rank), bytes)
                };
            }
            assert!(all.first() == own.last() && all.last() == own.last());
        })
    })
}

fn wait_until(mut is: impl FnMut() -> bool) {
    let mut looks = 0;
    while !is() {
        looks += 1;
        if looks < LOOKS {
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

/// Runs ranks as processes, rank r on CPU r modulo 2; what rank 0, which is the calling thread, has measured. No other thread may be at work.
fn in_processes(ranks: usize, rank: impl Fn(*mut Shared, usize) -> Figure) -> Figure {
    assert!(ranks <= RANKS, "{RANKS} ranks at most");
    let shared = map();
    let children: Vec<libc::pid_t> = (1..ranks)
        .map(|me| {
            // SAFETY: other threads of this process hold no lock, so that the child may do whatever this one could.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "{}", std::io::Error::last_os_error());
            if child == 0 {
                let body = || {
                    // SAFETY: no pointers; what it sends ends this process alone.
                    unsafe { libc::alarm(LONG) };
                    machine::pin(me % 2);
                    rank(shared.as_ptr(), me)
                };
                let failed = catch_unwind(AssertUnwindSafe(body)).is_err();
                // SAFETY: ends this process, and nothing of its parent's.
                unsafe { libc::_exit(failed.into()) };
            }
            child
        })
        .collect();
    // SAFETY: as above.
    unsafe { libc::alarm(LONG) };
    machine::pin(0);
    let figure = rank(shared.as_ptr(), 0);
    for child in children {
        let mut status = 0;
        // SAFETY: `status` is valid for the kernel to write.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0), "a bare rank failed");
    }
    // SAFETY: no pointers; takes the alarm back.
    unsafe { libc::alarm(0) };
    // SAFETY: mapped below with this length; the children are gone, and nothing points into it any more.
    unsafe { libc::munmap(shared.as_ptr().cast(), size_of::<Shared>()) };
    figure
}

/// Zeroed memory that children share.
fn map() -> NonNull<Shared> {
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<Shared>(),
            access,
            flags,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    NonNull::new(at.cast()).expect("no mapping is at 0")
}
