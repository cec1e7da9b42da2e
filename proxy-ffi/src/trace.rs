//! Traces: what a group's worker did and when, for Perfetto or chrome://tracing.
#![allow(unsafe_code, reason = "exported C functions")]

use std::ffi::c_int;
use std::io::{BufWriter, Write};

use proxy_os::sys::mute;

use crate::arg;
use crate::call::{self, Failure};
use crate::group::{GROUPS, enc_proxy_group};
use crate::status::{self, NRT_STATUS};

/// Events of a trace where nobody says otherwise.
const EVENTS: usize = 1 << 16;
/// Events of a trace at most.
const MOST: usize = 1 << 24;

/// Starts the trace of a group's worker, from its next event on: changes of state, calls of the collective library, semaphores, sleeps.
///
/// - `events`: room for so many, 48 bytes each, at most 16777216; 0 = 65536. What finds no room is counted.
///
/// Errors: `NRT_INVALID`, `NRT_INVALID_HANDLE`, `ENC_PROXY_BUSY` (the group is traced already: it has one trace),
/// `NRT_FAIL_HOST_MEM_ALLOC`. Threads: any. Cost: sets the memory aside; a traced worker reads the clock and writes 48 bytes per event.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_trace_start(group: *mut enc_proxy_group, events: usize) -> NRT_STATUS {
    call::with("enc_proxy_trace_start", &GROUPS, group, |group| {
        let events = match events {
            0 => EVENTS,
            1..=MOST => events,
            _ => {
                return Err(Failure::invalid(format_args!(
                    "events is {events}, accepted: 0 to {MOST}"
                )));
            }
        };
        Ok(group.queue.start_trace(events)?)
    })
}

/// Writes a group's trace as it is now to a descriptor, which stays open: one JSON object in the Trace Event Format. Raises no signal.
///
/// Errors: `NRT_INVALID` (`fd` is no open descriptor), `NRT_INVALID_HANDLE`, `NRT_UNINITIALIZED` (no trace was started), `NRT_RESOURCE` (the write
/// failed; a part may have been written). Threads: any, also while the worker runs or is stuck. Cost: microseconds per event.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_trace_write_to_fd(
    group: *mut enc_proxy_group,
    fd: c_int,
) -> NRT_STATUS {
    call::with("enc_proxy_trace_write_to_fd", &GROUPS, group, |group| {
        let file = arg::duplicate(fd)?;
        let Some(trace) = group.queue.trace() else {
            return Err(Failure::new(
                status::NRT_UNINITIALIZED,
                "the group is not traced; accepted: after enc_proxy_trace_start",
            ));
        };
        // To the end of the writer, which tries once more what it could not write.
        let written = mute::while_writing(|| {
            let mut out = BufWriter::new(file);
            trace.write_chrome(group.queue.gid(), &mut out)?;
            out.flush()
        });
        written.map_err(|error| {
            Failure::new(
                status::NRT_RESOURCE,
                format_args!("the trace could not be written to descriptor {fd}: {error}"),
            )
        })
    })
}
