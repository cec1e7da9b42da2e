//! Ending tasks early: one, a context's, a group's, or all of the process.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]

use proxy_os::{AbortError, Group};

use crate::arg::{self, Out};
use crate::call::{self, Failure};
use crate::context::{CONTEXTS, encd_context};
use crate::group::{GROUPS, enc_proxy_group};
use crate::status::NRT_STATUS;
use crate::task::{enc_proxy_ticket, given};

/// Ends one task with `ENC_PROXY_ABORTED`: its started streams are stopped, barrier peers are told. The status is left for its consumer.
///
/// - `ticket`: from `enc_proxy_enqueue`.
/// - `timeout_us`: how long the worker may take, in microseconds.
///
/// Errors: `ENC_PROXY_STUCK` (the worker is inside the collective library, the text names the call) and `NRT_TIMEOUT`: the ticket has its final
/// code all the same, but the library may use the task's memory until its call returns, and the context cannot be destroyed before.
/// `ENC_PROXY_TASK_DONE`, `ENC_PROXY_ALREADY_CONSUMED`, `ENC_PROXY_UNKNOWN_TASK`, `NRT_INVALID`, `NRT_INVALID_HANDLE`: nothing was to be ended.
/// Threads: any; on a worker's nothing is waited for: a task of its own group ends in its next tick, and of another group, whose worker has not
/// come to it yet, the answer is as after a timeout.
///
/// # Safety
/// `ticket` is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_abort(
    group: *mut enc_proxy_group,
    ticket: *const enc_proxy_ticket,
    timeout_us: u64,
) -> NRT_STATUS {
    call::with("enc_proxy_abort", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let ticket = unsafe { given(ticket) }?;
        let patience = call::patience(arg::long_timeout(timeout_us));
        Ok(group.queue.abort(ticket, patience)?)
    })
}

/// Ends every task of a context that is unfinished at this moment; later ones are not concerned.
///
/// - `timeout_us`: as for `enc_proxy_abort`.
/// - `tasks`: receives how many; may be NULL.
///
/// Errors and threads: as for `enc_proxy_abort`, but that there may be nothing to end.
///
/// # Safety
/// `tasks` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_abort_context(
    dctx: *mut encd_context,
    timeout_us: u64,
    tasks: *mut usize,
) -> NRT_STATUS {
    call::with("enc_proxy_abort_context", &CONTEXTS, dctx, |context| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::optional(tasks, "tasks") }?;
        let ended = context.abort(call::patience(arg::long_timeout(timeout_us)))?;
        out.into_iter().for_each(|out| out.set(ended));
        Ok(())
    })
}

/// Ends every task of a group that is unfinished at this moment, those of its other shares, too; later ones are not concerned.
///
/// - `timeout_us`, `tasks`: as for `enc_proxy_abort_context`.
///
/// Errors and threads: as there.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_abort_group(
    group: *mut enc_proxy_group,
    timeout_us: u64,
    tasks: *mut usize,
) -> NRT_STATUS {
    call::with("enc_proxy_abort_group", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::optional(tasks, "tasks") }?;
        let patience = call::patience(arg::long_timeout(timeout_us));
        let ended = group.queue.abort_tasks(patience)?;
        out.into_iter().for_each(|out| out.set(ended));
        Ok(())
    })
}

/// Ends every task of every group of this process that is unfinished at this moment. The groups stay.
///
/// - `timeout_us`: how long all workers together may take, in microseconds.
/// - `tasks`: receives how many; may be NULL.
///
/// Errors: those of the first group, in order of gid, that has one; the text names all that have. Threads: as for `enc_proxy_abort`.
///
/// # Safety
/// As for `enc_proxy_abort_context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_abort_all(timeout_us: u64, tasks: *mut usize) -> NRT_STATUS {
    call::plain("enc_proxy_abort_all", || {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::optional(tasks, "tasks") }?;
        let (mut ended, mut failed) = (0, None::<Failure>);
        let patience = call::patience(arg::long_timeout(timeout_us));
        for (gid, answer) in Group::abort_all(patience) {
            match answer {
                Ok(count) => ended += count,
                Err(error) => failed = Some(joined(failed, format!("{gid}: {error}"), error)),
            }
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        out.into_iter().for_each(|out| out.set(ended));
        Ok(())
    })
}

/// The first failure with one more text.
fn joined(first: Option<Failure>, text: String, error: AbortError) -> Failure {
    match first {
        Some(mut first) => {
            first.text = format!("{}; {text}", first.text);
            first
        }
        None => Failure {
            text,
            ..error.into()
        },
    }
}
