//! Errors of tasks as they come up, in any group: handed to a function of the embedder, without a poll.
//!
//! ```text
//!   a worker notes, the watchdog finds ──> proxy_os::watchdog ──> forward ──> the embedder's function, with the group's id
//!   enc_proxy_set_error_handler ──> HANDLER: replaces it, then waits for the calls that run
//! ```
//!
//! Who would rather ask has `enc_proxy_group_get_health` and the counter `failures` of each group.
#![allow(unsafe_code, reason = "a function of the embedder is called")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::{CString, c_char, c_void};

use proxy_os::queue::{RANKS, TASKS};
use proxy_os::report::{Cause, Record};
use proxy_os::watchdog;

use crate::arg;
use crate::call;
use crate::callback::Callback;
use crate::record::record;
use crate::status::{self, NRT_STATUS};
use crate::task::{proxy_task_run_state_t, proxy_task_state_type};

/// Why an error handler is called.
pub type enc_proxy_cause_t = u32;
/// The task ended with an error.
pub const ENC_PROXY_CAUSE_FAILED: enc_proxy_cause_t = 0;
/// The task's deadline has passed (`NEURON_RT_PROXY_TASK_DEADLINE_MS`): it ends with `NRT_TIMEOUT`.
pub const ENC_PROXY_CAUSE_TIMEOUT: enc_proxy_cause_t = 1;
/// A rank that the task's barrier needs is dead or has left.
pub const ENC_PROXY_CAUSE_PEER_DEAD: enc_proxy_cause_t = 2;
/// The group's worker died, and its tasks with it: one call for each.
pub const ENC_PROXY_CAUSE_WORKER_DIED: enc_proxy_cause_t = 3;
/// The task has not moved for longer than `NEURON_RT_PROXY_STALL_MS`; it goes on.
pub const ENC_PROXY_CAUSE_STALLED: enc_proxy_cause_t = 4;
/// A part of the task's deadline has passed; it goes on.
pub const ENC_PROXY_CAUSE_EARLY: enc_proxy_cause_t = 5;

/// One error, for an `enc_proxy_error_handler`. Good during the call, its text, too. A newer release adds fields at the end, and makes
/// `struct_size` larger.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_error {
    /// `sizeof(enc_proxy_error)` of the release that calls.
    pub struct_size: usize,
    /// 0.
    pub flags: u64,
    /// The task's execution.
    pub exec: u64,
    /// For how long the task has been in its state, in microseconds; 0 if that is not known any more.
    pub in_state_us: u64,
    /// All of this in one line, terminated, without a line end.
    pub text: *const c_char,
    /// The group of the task.
    pub gid: u32,
    /// Its rank.
    pub rank: u32,
    /// `PROXY_TASK_NETWORK` or `PROXY_TASK_BARRIER`.
    pub kind: proxy_task_state_type,
    /// Its state; before the end if it has ended.
    pub state: proxy_task_run_state_t,
    /// One of `ENC_PROXY_CAUSE_FAILED` to `ENC_PROXY_CAUSE_EARLY`.
    pub cause: enc_proxy_cause_t,
    /// What the task ends with, as its consumer gets it; `NRT_SUCCESS` if it goes on.
    pub status: NRT_STATUS,
}
record!(enc_proxy_error {
    struct_size: usize,
    flags: u64,
    exec: u64,
    in_state_us: u64,
    text: *const c_char,
    gid: u32,
    rank: u32,
    kind: proxy_task_state_type,
    state: proxy_task_run_state_t,
    cause: enc_proxy_cause_t,
    status: NRT_STATUS,
});

/// Receives one error of any group. Runs on the watchdog's thread (`proxy-watchdog`), or on the one that is inside `enc_proxy_group_release` or
/// `enc_free_global_comm`, on both at once if need be. Other deadlines wait for its return. May call functions of this
/// header that do not wait, `enc_proxy_set_error_handler` among them: reports, health, counters and polls, or aborts with a timeout of 0. Must
/// return: neither throw nor `longjmp` out of it. `user` is what `enc_proxy_set_error_handler` was given.
pub type enc_proxy_error_handler =
    Option<unsafe extern "C-unwind" fn(user: *mut c_void, error: *const enc_proxy_error)>;

/// The embedder's function and its argument.
#[derive(Debug, Clone, Copy)]
struct Handler {
    tell: unsafe extern "C-unwind" fn(*mut c_void, *const enc_proxy_error),
    user: *mut c_void,
}

// SAFETY: `enc_proxy_set_error_handler`'s caller promises that the function may be called with the argument from any thread.
unsafe impl Send for Handler {}

static HANDLER: Callback<Handler> = Callback::new();

/// What the documentation of `enc_proxy_set_error_handler` says of errors that wait.
const _: () = assert!(RANKS * TASKS == 8192);

/// Cause and final status of a record.
const fn cause(record: &Record) -> Option<(enc_proxy_cause_t, NRT_STATUS)> {
    Some(match record.cause {
        Cause::Failed(status) => (ENC_PROXY_CAUSE_FAILED, status.0),
        Cause::Timeout => (ENC_PROXY_CAUSE_TIMEOUT, status::NRT_TIMEOUT),
        Cause::PeerDied => (ENC_PROXY_CAUSE_PEER_DEAD, status::ENC_PROXY_PEER_DEAD),
        Cause::WorkerDied => (ENC_PROXY_CAUSE_WORKER_DIED, status::ENC_PROXY_WORKER_DIED),
        Cause::Stalled => (ENC_PROXY_CAUSE_STALLED, status::NRT_SUCCESS),
        Cause::Early(_) => (ENC_PROXY_CAUSE_EARLY, status::NRT_SUCCESS),
        Cause::Request => return None,
    })
}

fn forward(record: &Record) {
    let text = CString::new(record.to_string());
    let (Some((cause, status)), Ok(text)) = (cause(record), text) else {
        return;
    };
    let error = enc_proxy_error {
        struct_size: size_of::<enc_proxy_error>(),
        flags: 0,
        exec: record.exec.0,
        in_state_us: record.in_state.map_or(0, arg::micros),
        text: text.as_ptr(),
        gid: record.gid.0,
        rank: record.rank.0,
        kind: record.kind as u32,
        state: record.state as u32,
        cause,
        status,
    };
    // None: taken back since the watchdog has looked.
    if let Some((_running, handler)) = HANDLER.begin() {
        // SAFETY: `enc_proxy_set_error_handler`'s caller promises that the function may be called with its argument until it is taken back,
        // which waits for this call. A panic of this runtime in it ends in the watchdog; any other exception aborts there.
        unsafe { (handler.tell)(handler.user, &raw const error) };
    }
}

/// Says who is told of errors of tasks, in all groups of the process, present and future ones; the error has its group's id. Aborts are not
/// told: who orders one has its answer.
///
/// - `handler`: called once per error, soon after it came up; NULL = nobody, as at first. It replaces the former one. Of more than 8192 errors of a
///   group that wait to be told it gets the first ones; how many more there were is a warning in the log, and the counter `failures` has all.
/// - `user`: handed to `handler` as it is.
///
/// When it returns, no call of the former handler is running, and none will begin: its `user` may be freed. It waits for calls that run, so
/// hold no lock that the handler takes. Inside a handler or a log sink, and on a worker's thread, it waits for nothing; other threads may then
/// still be inside the former one.
///
/// Errors: none of its own. Threads: any, at any time.
///
/// # Safety
/// Until it has been replaced as above: `handler` may be called with `user` from any thread, from two at once, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_set_error_handler(
    handler: enc_proxy_error_handler,
    user: *mut c_void,
) -> NRT_STATUS {
    call::plain("enc_proxy_set_error_handler", || {
        let handler = handler.map(|tell| Handler { tell, user });
        HANDLER.replace(handler, || {
            watchdog::set_handler(handler.is_some().then_some(forward));
        });
        Ok(())
    })
}
