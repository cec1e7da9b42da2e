//! What a group is doing, as text for people and as JSON for programs. Works while the worker is stuck.
#![allow(unsafe_code, reason = "an exported C function that takes addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::c_char;
use std::fmt::Write;

use proxy_core::TaskView;
use proxy_core::recorder::Record;
use proxy_os::ProxyQueue;
use serde_json::{Value, json};

use crate::arg::OutText;
use crate::call::{self, Failure};
use crate::group::{GROUPS, enc_proxy_group};
use crate::status::NRT_STATUS;

/// The form of a dump.
pub type enc_proxy_dump_t = u32;
/// Lines for people.
pub const ENC_PROXY_DUMP_TEXT: enc_proxy_dump_t = 0;
/// One JSON object; `version` grows when a member goes away or changes its meaning.
pub const ENC_PROXY_DUMP_JSON: enc_proxy_dump_t = 1;

/// State changes that a dump shows: the last ones.
const CHANGES: usize = 64;

/// Tasks, start words that have not fired, counters and the last 64 state changes of a group.
///
/// - `form`: `ENC_PROXY_DUMP_TEXT` or `ENC_PROXY_DUMP_JSON`.
/// - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`. 65536 bytes are enough but for hundreds of unfinished tasks.
///
/// Errors: `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also while the worker is stuck inside the collective
/// library; calls nothing in it.
///
/// # Safety
/// `buffer` is writable for `bytes`, `length` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_dump(
    group: *mut enc_proxy_group,
    form: enc_proxy_dump_t,
    buffer: *mut c_char,
    bytes: usize,
    length: *mut usize,
) -> NRT_STATUS {
    call::with("enc_proxy_dump", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let out = unsafe { OutText::new(buffer, bytes, length) }?;
        let text = match form {
            ENC_PROXY_DUMP_TEXT => text(&group.queue),
            ENC_PROXY_DUMP_JSON => json(&group.queue).to_string(),
            _ => {
                return Err(Failure::invalid(format_args!(
                    "form is {form}, accepted: 0 or 1"
                )));
            }
        };
        out.set(&text)
    })
}

/// The last state changes, oldest first.
fn changes(queue: &ProxyQueue) -> Vec<Record> {
    let mut changes = queue.history();
    changes.drain(..changes.len().saturating_sub(CHANGES));
    changes
}

fn text(queue: &ProxyQueue) -> String {
    let (tasks, now) = (queue.unfinished(), queue.counters());
    let mut text = format!(
        "{}: worker proxy-{}, {} unfinished tasks\n",
        queue.gid(),
        queue.tid(),
        tasks.len()
    );
    // Writing to a String does not fail.
    for TaskView {
        kind,
        context,
        exec,
        sequence,
        state,
        ..
    } in &tasks
    {
        let _ = writeln!(
            text,
            "  {kind} task of {context}, {exec}, append {sequence}: {state}"
        );
    }
    for unfired in queue.unfired() {
        let _ = writeln!(text, "  {unfired}");
    }
    let _ = writeln!(
        text,
        "  ticks {}, pauses {}, yields {}, sleeps {}, rings {}, failures {}",
        now.ticks, now.pauses, now.yields, now.sleeps, now.rings, now.failures
    );
    for Record { time, change, .. } in changes(queue) {
        let (rank, kind, exec) = (change.rank, change.kind, change.exec);
        let _ = writeln!(
            text,
            "  {time} ns: {rank}, {kind} task {exec}: {} -> {} {}",
            change.from, change.to, change.status
        );
    }
    text
}

fn json(queue: &ProxyQueue) -> Value {
    let task = |task: &TaskView| {
        json!({
            "kind": task.kind.to_string(), "context": task.context.index(), "exec_id": task.exec.0,
            "sequence": task.sequence, "state": task.state.to_string(),
        })
    };
    let unfired = queue.unfired();
    let unfired = unfired.iter().map(|word| {
        json!({
            "rank": word.rank.0, "kind": word.task.kind.to_string(), "exec_id": word.task.exec.0, "stream": word.stream.0,
            "address": word.address, "word": word.word,
            "waited_us": word.waited.map(|waited| u64::try_from(waited.as_micros()).unwrap_or(u64::MAX)),
        })
    });
    let changes = changes(queue);
    let changes = changes.iter().map(|Record { time, change, .. }| {
        json!({
            "time_ns": time, "rank": change.rank.0, "kind": change.kind.to_string(), "exec_id": change.exec.0,
            "from": change.from.to_string(), "to": change.to.to_string(), "status": change.status.0,
        })
    });
    let now = queue.counters();
    json!({
        "version": 1, "gid": queue.gid().0, "tid": queue.tid(),
        "unfinished": queue.unfinished().iter().map(task).collect::<Vec<_>>(),
        "unfired": unfired.collect::<Vec<_>>(),
        "counters": {
            "ticks": now.ticks, "pauses": now.pauses, "yields": now.yields, "sleeps": now.sleeps, "rings": now.rings,
            "failures": now.failures,
        },
        "changes": changes.collect::<Vec<_>>(),
    })
}
