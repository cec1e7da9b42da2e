//! `bp_barrier`: one rank's side of a barrier of the host bus.
//!
//! ```text
//!              bp_barrier_wait              bp_barrier_release
//!   leader     until all have arrived   ->  lets everybody pass
//!   others     until they may pass
//! ```
//!
//! Between the two the leader tells the device, as the original does; who has nothing to do there calls `bp_barrier_sync`.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::sync::Mutex;
use std::time::Duration;

use proxy_core::phone::barrier::Verdict;
use proxy_os::bananaphone::{Barrier, Progress, Within};

use crate::arg::Out;
use crate::bus::{self, BUSES, alone, bananaphone};
use crate::call::{self, Done, Failure};
use crate::handle::Kind;
use crate::status::NRT_STATUS;
use crate::table::Table;

/// One rank's side of a barrier. Any thread may use it, one at a time: a second call meanwhile is `ENC_PROXY_BUSY`.
#[derive(Debug)]
pub struct bp_barrier {
    _opaque: [u8; 0],
}

/// Barriers of one process; a bus has up to 64.
const LIMIT: usize = 1024;
static BARRIERS: Table<Object, LIMIT> = Table::new(Kind::Barrier);

/// How far a barrier is.
pub type bp_barrier_progress_t = u32;
/// Not all have arrived.
pub const BP_BARRIER_PENDING: bp_barrier_progress_t = 0;
/// All have arrived, and this rank, the leader, is to call `bp_barrier_release`.
pub const BP_BARRIER_COMPLETE: bp_barrier_progress_t = 1;
/// This rank has passed.
pub const BP_BARRIER_PASSED: bp_barrier_progress_t = 2;

/// Where this rank is between two executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Resting,
    Arrived,
    /// On the leader: all have arrived, and nobody has passed.
    Complete,
}

#[derive(Debug)]
struct Object(Mutex<Side>);

#[derive(Debug)]
struct Side {
    barrier: Barrier,
    stage: Stage,
}

impl Side {
    fn expect(&self, stage: Stage, accepted: &str) -> Done {
        if self.stage == stage {
            return Ok(());
        }
        let state = match self.stage {
            Stage::Resting => "this rank is not at the barrier",
            Stage::Arrived => "this rank has arrived and not passed",
            Stage::Complete => "all have arrived and are to be released",
        };
        Err(Failure::invalid(format_args!(
            "{state}, accepted: {accepted}"
        )))
    }

    fn arrive(&mut self, exec_id: u64, within: Within) -> Done {
        self.expect(Stage::Resting, "a rank that is not at the barrier")?;
        self.barrier.arrive(exec_id, within);
        self.stage = Stage::Arrived;
        Ok(())
    }

    fn progress(&mut self, progress: Progress) -> Result<bp_barrier_progress_t, Failure> {
        match progress {
            Progress::Pending => Ok(BP_BARRIER_PENDING),
            Progress::Complete => {
                self.stage = Stage::Complete;
                Ok(BP_BARRIER_COMPLETE)
            }
            Progress::Over(verdict) => self.over(verdict),
        }
    }

    fn over(&mut self, verdict: Verdict) -> Result<bp_barrier_progress_t, Failure> {
        self.stage = Stage::Resting;
        match verdict {
            Verdict::Passed => Ok(BP_BARRIER_PASSED),
            verdict => {
                let error = proxy_os::bananaphone::BusError::Wait(self.barrier.failure(verdict));
                Err(error.into())
            }
        }
    }

    fn wait(&mut self, exec_id: u64, within: Within) -> Result<bp_barrier_progress_t, Failure> {
        self.arrive(exec_id, within)?;
        let progress = self.barrier.gather()?;
        self.progress(progress)
    }

    /// Nothing has to be done in between, so two ranks pass by seeing each other.
    fn sync(&mut self, exec_id: u64, within: Within) -> Done {
        self.expect(Stage::Resting, "a rank that is not at the barrier")?;
        Ok(self.barrier.wait(exec_id, within)?)
    }

    fn release(&mut self) -> Done {
        self.expect(Stage::Complete, "a leader whose ranks have all arrived")?;
        let verdict = self.barrier.pass()?;
        self.over(verdict).map(drop)
    }

    fn cancel(&mut self) -> Done {
        if std::mem::replace(&mut self.stage, Stage::Resting) != Stage::Resting {
            self.barrier.cancel()?;
        }
        Ok(())
    }
}

/// How long an execution may be at the host barrier of a context; 0 = 120 seconds, as the reference runtime's.
pub(crate) fn within(timeout_us: u64) -> Within {
    let knob = "encd_context_config.barrier_timeout_us";
    match timeout_us {
        0 => Within::new(Duration::from_secs(120), knob),
        micros => bus::within(micros, knob),
    }
}

/// Makes this rank's side of a barrier. All participants must use the same slot, and no other set of ranks the slot.
///
/// - `slot`: below the bus's barrier slots.
/// - `ranks`, `rank_n`: the participants, this rank among them; NULL, 0 = all ranks of the bus.
/// - `barrier`: receives the handle; give it back by `bp_barrier_hangup`.
///
/// Errors: `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`, `NRT_RESOURCE`. Threads: any.
///
/// # Safety
/// `ranks` is readable for `rank_n` ranks, `barrier` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_barrier_create(
    bus: *mut bananaphone,
    slot: u32,
    ranks: *const u16,
    rank_n: u32,
    barrier: *mut *mut bp_barrier,
) -> NRT_STATUS {
    call::with("bp_barrier_create", &BUSES, bus, |bus| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(barrier, "barrier") }?;
        // SAFETY: the caller's promise.
        let barrier = unsafe { bus.barrier(slot, ranks, rank_n) }?;
        let stage = Stage::Resting;
        out.set(call::handle(
            &BARRIERS,
            Object(Mutex::new(Side { barrier, stage })),
        )?);
        Ok(())
    })
}

/// Arrives, and waits: the leader (the lowest participant) until all have arrived, and then it is to call `bp_barrier_release`; the
/// others until the leader has released them.
///
/// - `exec_id`: the execution; all must arrive for the same.
/// - `timeout_us`: microseconds to wait at most.
///
/// Errors: `ENC_PROXY_BARRIER_TIMEOUT` (the text lists the missing ranks), `ENC_PROXY_PEER_DEAD`, `ENC_PROXY_MPMD`, `ENC_PROXY_PEER_CANCELLED`, the same for all
/// participants, after which the barrier can be used again; `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any but a worker's
/// (`ENC_PROXY_WRONG_THREAD`).
#[unsafe(no_mangle)]
pub extern "C" fn bp_barrier_wait(
    barrier: *mut bp_barrier,
    exec_id: u64,
    timeout_us: u64,
) -> NRT_STATUS {
    call::with("bp_barrier_wait", &BARRIERS, barrier, |barrier| {
        let within = bus::within(timeout_us, "timeout_us of bp_barrier_wait");
        call::may_wait()?;
        alone(&barrier.0)?.wait(exec_id, within).map(drop)
    })
}

/// On the leader, after `bp_barrier_wait` or `BP_BARRIER_COMPLETE`: lets everybody pass. Waits for nothing.
///
/// Errors: a verdict of `bp_barrier_wait` if somebody gave up meanwhile; `NRT_INVALID` (not all have arrived, or not the leader),
/// `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn bp_barrier_release(barrier: *mut bp_barrier) -> NRT_STATUS {
    call::with("bp_barrier_release", &BARRIERS, barrier, |barrier| {
        alone(&barrier.0)?.release()
    })
}

/// Arrives, waits until all have, and passes: `bp_barrier_wait` and, on the leader, `bp_barrier_release`. Arguments, errors and threads: as
/// for `bp_barrier_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn bp_barrier_sync(
    barrier: *mut bp_barrier,
    exec_id: u64,
    timeout_us: u64,
) -> NRT_STATUS {
    call::with("bp_barrier_sync", &BARRIERS, barrier, |barrier| {
        let within = bus::within(timeout_us, "timeout_us of bp_barrier_sync");
        call::may_wait()?;
        alone(&barrier.0)?.sync(exec_id, within)
    })
}

/// Arrives and returns at once; `bp_barrier_poll` says how it goes on.
///
/// - `exec_id`, `timeout_us`: as for `bp_barrier_wait`.
///
/// Errors: `NRT_INVALID` (this rank is at the barrier already), `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn bp_barrier_arrive(
    barrier: *mut bp_barrier,
    exec_id: u64,
    timeout_us: u64,
) -> NRT_STATUS {
    call::with("bp_barrier_arrive", &BARRIERS, barrier, |barrier| {
        let within = bus::within(timeout_us, "timeout_us of bp_barrier_arrive");
        alone(&barrier.0)?.arrive(exec_id, within)
    })
}

/// How far a barrier is that was arrived at. Waits for nothing.
///
/// - `progress`: receives `BP_BARRIER_PENDING`, `BP_BARRIER_COMPLETE` or `BP_BARRIER_PASSED`.
///
/// Errors: as for `bp_barrier_wait`; `NRT_INVALID` also if this rank has not arrived. Threads: any.
///
/// # Safety
/// `progress` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_barrier_poll(
    barrier: *mut bp_barrier,
    progress: *mut bp_barrier_progress_t,
) -> NRT_STATUS {
    call::with("bp_barrier_poll", &BARRIERS, barrier, |barrier| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(progress, "progress") }?;
        let mut side = alone(&barrier.0)?;
        if side.stage != Stage::Complete {
            side.expect(Stage::Arrived, "a rank that has arrived")?;
        }
        let now = side.barrier.poll()?;
        out.set(side.progress(now)?);
        Ok(())
    })
}

/// Gives a barrier up and its handle back. If this rank is at the barrier, the execution fails for all participants, with
/// `ENC_PROXY_PEER_CANCELLED`.
///
/// Errors: `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn bp_barrier_hangup(barrier: *mut bp_barrier) -> NRT_STATUS {
    call::destroy("bp_barrier_hangup", &BARRIERS, barrier, |barrier| {
        alone(&barrier.0)?.cancel()
    })
}
