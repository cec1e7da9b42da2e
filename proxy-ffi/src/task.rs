//! Tasks: enqueue, check and consume under the specification's names, and by ticket.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use proxy_core::{ExecId, Poll, PollError, RunState, TaskKind, Ticket};
use proxy_os::{Context, Patience};

use crate::arg::{self, Out};
use crate::call::{self, Done, Failure};
use crate::context::{CONTEXTS, encd_context};
use crate::group::{GROUPS, enc_proxy_group};
use crate::record::{OutRecord, record};
use crate::status::NRT_STATUS;

/// The kind of a task.
pub type proxy_task_state_type = u32;
/// No kind.
pub const PROXY_TASK_UNKNOWN: proxy_task_state_type = 0;
/// Crosses the seam into the collective library.
pub const PROXY_TASK_NETWORK: proxy_task_state_type = 1;
/// The host's execution barrier.
pub const PROXY_TASK_BARRIER: proxy_task_state_type = 2;

/// The state of a task.
pub type proxy_task_run_state_t = u32;
/// Appended, not stepped yet.
pub const PROXY_TASK_STATE_INIT: proxy_task_run_state_t = 0;
/// In flight, and moved in its last step.
pub const PROXY_TASK_STATE_PROGRESSING: proxy_task_run_state_t = 1;
/// Its streams' start words have not all been written by the device.
pub const PROXY_TASK_STATE_WAITING_DEVICE_TRIGGER: proxy_task_run_state_t = 2;
/// In flight, but nothing moved in its last step. Not terminal.
pub const PROXY_TASK_STATE_IDLE: proxy_task_run_state_t = 3;
/// Terminal, with a status code.
pub const PROXY_TASK_STATE_DONE: proxy_task_run_state_t = 4;

const _: () = assert!(
    PROXY_TASK_NETWORK == TaskKind::Network as u32
        && PROXY_TASK_BARRIER == TaskKind::Barrier as u32
        && PROXY_TASK_STATE_INIT == RunState::Init as u32
        && PROXY_TASK_STATE_PROGRESSING == RunState::Progressing as u32
        && PROXY_TASK_STATE_WAITING_DEVICE_TRIGGER == RunState::WaitingDeviceTrigger as u32
        && PROXY_TASK_STATE_IDLE == RunState::Idle as u32
        && PROXY_TASK_STATE_DONE == RunState::Done as u32
);

/// The claim on one task's status. Copy it freely; made-up ones are refused. All zero = no task. Never grows.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_ticket {
    /// Place of the task.
    pub slot: u64,
    /// How often the place has been used.
    pub generation: u64,
}

impl From<Ticket> for enc_proxy_ticket {
    fn from(ticket: Ticket) -> Self {
        Self {
            slot: ticket.slot().into(),
            generation: ticket.generation() as u64,
        }
    }
}

impl enc_proxy_ticket {
    const NONE: Self = Self {
        slot: 0,
        generation: 0,
    };

    fn ticket(self) -> Result<Ticket, Failure> {
        // A slot beyond 32 bits was never given out.
        let slot = u32::try_from(self.slot).map_err(|_| PollError::Unknown)?;
        Ok(Ticket::from_parts(slot, self.generation as usize))
    }
}

/// The tasks of one execution, from `enc_proxy_enqueue`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_execution {
    /// `sizeof(enc_proxy_execution)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// The network task.
    pub network: enc_proxy_ticket,
    /// The barrier task; all zero if the context has no barrier.
    pub barrier: enc_proxy_ticket,
    /// Position of the network task among the appends of the context; strictly growing.
    pub sequence: u64,
}
record!(enc_proxy_execution {
    struct_size: usize,
    flags: u64,
    network: enc_proxy_ticket,
    barrier: enc_proxy_ticket,
    sequence: u64,
});

/// The kind with this number.
pub(crate) fn kind(number: proxy_task_state_type) -> Result<TaskKind, Failure> {
    TaskKind::from_number(number).ok_or_else(|| {
        Failure::invalid(format_args!(
            "the kind of task is {number}, accepted: PROXY_TASK_NETWORK (1) or PROXY_TASK_BARRIER (2)"
        ))
    })
}

/// Appends one execution: its network task and, if the context has a barrier, its barrier task; both or none. Their
/// statuses can be asked for at once. Wakes the worker if it sleeps. Further executions may be appended before this one has ended: the network tasks of a
/// communicator, of all its contexts, have the library one after the other, in the order of their appends.
///
/// - `exec_id`: the execution's id, the embedder's own; the barrier compares it between ranks.
///
/// Errors: `NRT_QUEUE_FULL`, `NRT_CLOSED`, `ENC_PROXY_WORKER_DIED`, `ENC_PROXY_FIRED_BEFORE_ARM`, `NRT_INVALID_HANDLE`; nothing has been appended then.
/// Threads: any, also the worker's. Cost: lock-free; no allocation; a system call only if the worker sleeps.
#[unsafe(no_mangle)]
pub extern "C" fn enc_enq_proxy_tasks(dctx: *mut encd_context, exec_id: u64) -> NRT_STATUS {
    call::with("enc_enq_proxy_tasks", &CONTEXTS, dctx, |context| {
        context.enqueue(ExecId(exec_id))?;
        Ok(())
    })
}

/// As `enc_enq_proxy_tasks`, and gives the tickets of the tasks.
///
/// - `execution`: receives them; untouched on error.
///
/// # Safety
/// `execution`, if not null, is readable and writable for the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_enqueue(
    dctx: *mut encd_context,
    exec_id: u64,
    execution: *mut enc_proxy_execution,
) -> NRT_STATUS {
    call::with("enc_proxy_enqueue", &CONTEXTS, dctx, |context| {
        // SAFETY: the caller's promise.
        let out = unsafe { OutRecord::new(execution) }?;
        let made = context.enqueue(ExecId(exec_id))?;
        out.fill(enc_proxy_execution {
            struct_size: 0,
            flags: 0,
            network: made.network.into(),
            barrier: made.barrier.map_or(enc_proxy_ticket::NONE, Into::into),
            sequence: made.sequence as u64,
        });
        Ok(())
    })
}

/// State of a context's oldest task of a kind whose end has not been reported; reports its end once.
///
/// - `type`: `PROXY_TASK_NETWORK` or `PROXY_TASK_BARRIER`.
/// - `done`: receives whether the task is done.
/// - `status`: receives its code when it is done, else `NRT_SUCCESS`.
///
/// Errors: `ENC_PROXY_UNKNOWN_TASK`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also the worker's. Cost: lock-free; a look at every
/// place of the rank.
///
/// # Safety
/// `done` and `status` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_check_status(
    dctx: *const encd_context,
    r#type: proxy_task_state_type,
    done: *mut bool,
    status: *mut NRT_STATUS,
) -> NRT_STATUS {
    call::with(
        "enc_proxy_check_status",
        &CONTEXTS,
        dctx.cast_mut(),
        |context| {
            // SAFETY: the caller's promise.
            unsafe { check(context, r#type, done, status) }
        },
    )
}

/// `enc_proxy_check_status` of the network task.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_check_proxy_network_task_status(
    dctx: *const encd_context,
    done: *mut bool,
    status: *mut NRT_STATUS,
) -> NRT_STATUS {
    let name = "enc_check_proxy_network_task_status";
    call::with(name, &CONTEXTS, dctx.cast_mut(), |context| {
        // SAFETY: the caller's promise.
        unsafe { check(context, PROXY_TASK_NETWORK, done, status) }
    })
}

/// `enc_proxy_check_status` of the barrier task.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_check_proxy_barrier_task_status(
    dctx: *const encd_context,
    done: *mut bool,
    status: *mut NRT_STATUS,
) -> NRT_STATUS {
    let name = "enc_check_proxy_barrier_task_status";
    call::with(name, &CONTEXTS, dctx.cast_mut(), |context| {
        // SAFETY: the caller's promise.
        unsafe { check(context, PROXY_TASK_BARRIER, done, status) }
    })
}

/// # Safety
/// As for `enc_proxy_check_status`.
unsafe fn check(
    context: &Context,
    number: proxy_task_state_type,
    done: *mut bool,
    status: *mut NRT_STATUS,
) -> Done {
    // SAFETY: the caller's promise.
    let done = unsafe { Out::new(done, "done") }?;
    // SAFETY: the caller's promise.
    let status = unsafe { Out::new(status, "status") }?;
    let (is_done, code) = match context.check(kind(number)?)? {
        Poll::Done(code) => (true, code.0),
        Poll::Pending(_) => (false, crate::status::NRT_SUCCESS),
    };
    done.set(is_done);
    status.set(code);
    Ok(())
}

/// Waits until a context's oldest task of a kind is done, and consumes its status. Logs a warning from time to time.
///
/// - `type`: `PROXY_TASK_NETWORK` or `PROXY_TASK_BARRIER`.
/// - `timeout_us`: microseconds to wait at most; `ENC_PROXY_FOREVER` = no limit.
/// - `status`: receives the task's code, `NRT_SUCCESS` if it went well; untouched on error.
///
/// Errors: `NRT_TIMEOUT` (the task goes on and can be waited for again), `ENC_PROXY_UNKNOWN_TASK`, `ENC_PROXY_WRONG_THREAD`, `NRT_INVALID`, `NRT_INVALID_HANDLE`.
/// Threads: any but a worker's, of whatever group.
///
/// # Safety
/// `status` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_consume_proxy_task_status(
    dctx: *const encd_context,
    r#type: proxy_task_state_type,
    timeout_us: u64,
    status: *mut NRT_STATUS,
) -> NRT_STATUS {
    let name = "enc_consume_proxy_task_status";
    call::with(name, &CONTEXTS, dctx.cast_mut(), |context| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(status, "status") }?;
        let kind = kind(r#type)?;
        call::may_wait()?;
        let code = context.consume(kind, patience(timeout_us))?;
        out.set(code.0);
        Ok(())
    })
}

fn patience(timeout_us: u64) -> Patience {
    Patience {
        deadline: arg::timeout(timeout_us),
        ..Patience::default()
    }
}

/// State of a task; reports its end once, after which the ticket is spent.
///
/// - `ticket`: from `enc_proxy_enqueue`.
/// - `state`: receives one of the five states. With `PROXY_TASK_STATE_DONE` the status has been consumed.
/// - `status`: receives its code when it is done, else `NRT_SUCCESS`.
///
/// Errors: `ENC_PROXY_ALREADY_CONSUMED`, `ENC_PROXY_UNKNOWN_TASK`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also the worker's.
/// Cost: wait-free but for the handle; one load, and one compare-and-swap when done.
///
/// # Safety
/// `ticket` is readable, `state` and `status` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_poll(
    group: *mut enc_proxy_group,
    ticket: *const enc_proxy_ticket,
    state: *mut proxy_task_run_state_t,
    status: *mut NRT_STATUS,
) -> NRT_STATUS {
    call::with("enc_proxy_poll", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let ticket = unsafe { given(ticket) }?;
        // SAFETY: the caller's promise.
        let state = unsafe { Out::new(state, "state") }?;
        // SAFETY: the caller's promise.
        let status = unsafe { Out::new(status, "status") }?;
        let (now, code) = match group.queue.poll(ticket)? {
            Poll::Done(code) => (RunState::Done, code.0),
            Poll::Pending(state) => (state, crate::status::NRT_SUCCESS),
        };
        state.set(now as u32);
        status.set(code);
        Ok(())
    })
}

/// Waits until a task is done, and consumes its status. Logs a warning from time to time.
///
/// - `ticket`: from `enc_proxy_enqueue`.
/// - `timeout_us`, `status`: as for `enc_consume_proxy_task_status`.
///
/// Errors: those of `enc_consume_proxy_task_status` and `ENC_PROXY_ALREADY_CONSUMED`. Threads: any but a worker's.
///
/// # Safety
/// `ticket` is readable, `status` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_consume(
    group: *mut enc_proxy_group,
    ticket: *const enc_proxy_ticket,
    timeout_us: u64,
    status: *mut NRT_STATUS,
) -> NRT_STATUS {
    call::with("enc_proxy_consume", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let ticket = unsafe { given(ticket) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(status, "status") }?;
        call::may_wait()?;
        out.set(group.queue.consume(ticket, patience(timeout_us))?.0);
        Ok(())
    })
}

/// # Safety
/// `ticket`, if not null, is readable.
pub(crate) unsafe fn given(ticket: *const enc_proxy_ticket) -> Result<Ticket, Failure> {
    // SAFETY: the caller's promise; any bytes are a ticket.
    match unsafe { arg::array(ticket, 1, 1, "ticket") }? {
        [ticket] => ticket.ticket(),
        _ => Err(Failure::invalid("no ticket")),
    }
}
