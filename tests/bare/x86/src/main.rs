//! The conformance suite on x86-64 without an operating system: the first core runs every case, then starts the second one
//! and sends it traffic. What happened goes to the serial line, whether it was right into the exit code.
//!
//! Neither core takes an interrupt or sleeps, so the only thing between them is what the core's atomics order.
#![no_std]
#![no_main]

mod machine;

use core::fmt::Write;
use core::hint::spin_loop;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU64, Ordering};

use machine::Serial;
use proxy_conformance::traffic::{Traffic, Worker, expected};
use proxy_conformance::{Tally, run_all};

/// Executions that cross from core to core; few enough for an emulator that gives both cores one thread.
const EXECUTIONS: u32 = 20_000;

static TRAFFIC: Traffic = Traffic::new();

/// What the second core saw: [`SUM`] and [`GATES`], once [`SUM`] is not 0.
static SUM: AtomicU64 = AtomicU64::new(0);
static GATES: AtomicU64 = AtomicU64::new(0);

/// Writes a line. The serial line cannot fail.
macro_rules! say {
    ($($text:tt)*) => { let _ = writeln!(Serial, $($text)*); };
}

fn first_core() -> ! {
    say!("bare-x86: two cores, no operating system");
    let tally = run_all(|case, outcome| match outcome {
        Ok(()) => {
            say!("ok {}", case.name);
        }
        Err(failure) => {
            say!("FAILED {}: {failure:?}", case.name);
        }
    });
    let crossed = traffic();
    let Tally { passed, failed } = tally;
    let (passed, failed) = (passed + u32::from(crossed), failed + u32::from(!crossed));
    say!("conformance: {passed} passed, {failed} failed");
    machine::exit(failed == 0);
}

/// Sends the second core its traffic and compares what both saw.
fn traffic() -> bool {
    machine::start_second_core();
    let Some(produced) = TRAFFIC.produce(EXECUTIONS, spin_loop) else {
        say!("FAILED traffic: the core refused what it must not refuse");
        return false;
    };
    let sum = loop {
        // Acquire pairs with the second core's release: its gates are there, too.
        match SUM.load(Ordering::Acquire) {
            0 => spin_loop(),
            sum => break sum,
        }
    };
    // Relaxed: written before the sum that was acquired.
    let gates = GATES.load(Ordering::Relaxed);
    say!(
        "traffic: {EXECUTIONS} executions, consumed sum {}, worker's sum {sum}, {gates} gates, {} wake-ups",
        produced.sum,
        produced.rings,
    );
    let right = expected(EXECUTIONS);
    let woken = produced.rings > 0;
    woken && produced.sum == right && sum == right && gates == u64::from(EXECUTIONS)
}

fn second_core() -> ! {
    let mut worker = Worker::new();
    let worked = loop {
        if !worker.turn(&TRAFFIC) {
            spin_loop();
        }
        if let Some(worked) = worker.finished(&TRAFFIC) {
            break worked;
        }
    };
    // Relaxed: published by the sum.
    GATES.store(worked.gates, Ordering::Relaxed);
    // Release pairs with the first core's acquire.
    SUM.store(worked.ended, Ordering::Release);
    loop {
        spin_loop();
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    say!("FAILED panic: {info}");
    machine::exit(false)
}
