//! The conformance suite on Cortex-M without an operating system: every case on the main program, then traffic between the
//! main program, which produces, and the system timer's interrupt, which is the worker and comes in between any two
//! instructions. Built for ARMv7-M and for ARMv6-M, whose lack of compare-and-swap the core's polyfill makes up for.
//!
//! Lines go out as `defmt` frames, decoded by the host; the exit code goes out by semihosting.
#![no_std]
#![no_main]

use core::cell::RefCell;

use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::peripheral::{SCB, SYST};
use cortex_m_semihosting::debug::{EXIT_FAILURE, EXIT_SUCCESS, exit};
use critical_section::Mutex;
use defmt_semihosting as _;
use proxy_conformance::traffic::{Traffic, Worked, Worker, expected};
use proxy_conformance::{Tally, run_all};

/// Executions that cross between main program and interrupt.
const EXECUTIONS: u32 = 400;

/// Clock cycles from the end of an interrupt to the next one: few, and no divisor of anything, so that they come at ever other
/// places. Not from one beginning to the next: turns that take longer than that would leave the main program no time at all.
const PERIOD: u32 = 4_999;

/// Turns of the worker in one interrupt.
const TURNS: usize = 3;

static TRAFFIC: Traffic = Traffic::new();

/// The worker is the interrupt's alone; the lock is there for the compiler, and the main program takes it only for the result.
static WORKER: Mutex<RefCell<Worker>> = Mutex::new(RefCell::new(Worker::new()));

/// The timer: the main program starts and stops it, the interrupt winds it up again.
static TIMER: Mutex<RefCell<Option<SYST>>> = Mutex::new(RefCell::new(None));

#[cortex_m_rt::entry]
fn main() -> ! {
    defmt::println!("bare-cortex-m: no operating system");
    let tally = run_all(|case, outcome| match outcome {
        Ok(()) => defmt::println!("ok {=str}", case.name),
        Err(failure) => defmt::println!(
            "FAILED {=str}: {=str} ({=str}:{=u32})",
            case.name,
            failure.what,
            failure.file,
            failure.line
        ),
    });
    let crossed = traffic();
    let Tally { passed, failed } = tally;
    let (passed, failed) = (passed + u32::from(crossed), failed + u32::from(!crossed));
    defmt::println!("conformance: {=u32} passed, {=u32} failed", passed, failed);
    leave(failed == 0)
}

/// Sends the interrupt its traffic and compares what both saw.
fn traffic() -> bool {
    let Some(peripherals) = cortex_m::Peripherals::take() else {
        return false;
    };
    let mut timer = peripherals.SYST;
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(PERIOD);
    timer.clear_current();
    timer.enable_interrupt();
    timer.enable_counter();
    critical_section::with(|token| TIMER.replace(token, Some(timer)));
    let Some(produced) = TRAFFIC.produce(EXECUTIONS, || cortex_m::asm::delay(PERIOD / 2)) else {
        defmt::println!("FAILED traffic: the core refused what it must not refuse");
        return false;
    };
    let worked = loop {
        if let Some(worked) = with_worker(|worker| worker.finished(&TRAFFIC)) {
            break worked;
        }
    };
    with_timer(SYST::disable_counter);
    let Worked { ended, gates, .. } = worked;
    defmt::println!(
        "traffic: {=u32} executions, consumed sum {=u64}, worker's sum {=u64}, {=u64} gates, {=u64} wake-ups",
        EXECUTIONS,
        produced.sum,
        ended,
        gates,
        produced.rings
    );
    let right = expected(EXECUTIONS);
    let woken = produced.rings > 0;
    woken && produced.sum == right && ended == right && gates == u64::from(EXECUTIONS)
}

fn with_worker<R>(work: impl FnOnce(&mut Worker) -> R) -> R {
    critical_section::with(|token| work(&mut WORKER.borrow_ref_mut(token)))
}

fn with_timer(act: impl FnOnce(&mut SYST)) {
    critical_section::with(|token| TIMER.borrow_ref_mut(token).as_mut().map(act));
}

#[cortex_m_rt::exception]
fn SysTick() {
    with_worker(|worker| {
        for _ in 0..TURNS {
            worker.turn(&TRAFFIC);
        }
    });
    with_timer(SYST::clear_current);
    // It may have run out meanwhile.
    SCB::clear_pendst();
}

/// Ends the emulator with a code.
fn leave(passed: bool) -> ! {
    exit(if passed { EXIT_SUCCESS } else { EXIT_FAILURE });
    // Where nobody listens: stop here.
    loop {
        cortex_m::asm::wfi();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let place = info.location();
    defmt::println!(
        "FAILED panic at {=str}:{=u32}",
        place.map_or("?", |place| place.file()),
        place.map_or(0, |place| place.line())
    );
    leave(false)
}
