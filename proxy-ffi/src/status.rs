//! Status codes: `NRT_STATUS` with its 28 values, and this project's own, which are negative.
//!
//! | range | what |
//! |---|---|
//! | 0 .. | `NRT_STATUS`, and whatever the collective library returns: unknown codes pass through unchanged |
//! | -1 .. -99 | how a task ended, when neither library nor runtime has a code for it |
//! | -100 .. | why a call of this interface was refused |
//!
//! A number is never given another meaning, nor used again when its code has gone.
#![allow(
    non_camel_case_types,
    reason = "the type has the name that the field's headers give it"
)]

use std::ffi::{CStr, c_char};

use proxy_core::Status;

/// A status code: one of the constants, or a code of the collective library, which passes through unchanged. Zero is success.
pub type NRT_STATUS = i32;

/// Success.
pub const NRT_SUCCESS: NRT_STATUS = 0;
/// Non-specific failure.
pub const NRT_FAILURE: NRT_STATUS = 1;
/// An argument is not accepted.
pub const NRT_INVALID: NRT_STATUS = 2;
/// A handle is null, destroyed, of another type, or was never given out.
pub const NRT_INVALID_HANDLE: NRT_STATUS = 3;
/// A resource could not be had.
pub const NRT_RESOURCE: NRT_STATUS = 4;
/// The deadline passed.
pub const NRT_TIMEOUT: NRT_STATUS = 5;
/// Hardware error.
pub const NRT_HW_ERROR: NRT_STATUS = 6;
/// The rank's tasks fill its places; nothing was appended.
pub const NRT_QUEUE_FULL: NRT_STATUS = 7;
/// Not enough neuron cores to load.
pub const NRT_LOAD_NOT_ENOUGH_NC: NRT_STATUS = 9;
/// Unsupported program version.
pub const NRT_UNSUPPORTED_NEFF_VERSION: NRT_STATUS = 10;
/// Host memory could not be allocated.
pub const NRT_FAIL_HOST_MEM_ALLOC: NRT_STATUS = 11;
/// The runtime is not initialised.
pub const NRT_UNINITIALIZED: NRT_STATUS = 13;
/// What was asked is being released.
pub const NRT_CLOSED: NRT_STATUS = 14;
/// Queue empty.
pub const NRT_QUEUE_EMPTY: NRT_STATUS = 15;
/// The execution unit cannot recover.
pub const NRT_EXEC_UNIT_UNRECOVERABLE: NRT_STATUS = 101;
/// Bad input of an execution.
pub const NRT_EXEC_BAD_INPUT: NRT_STATUS = 1002;
/// Execution completed with numerical errors.
pub const NRT_EXEC_COMPLETED_WITH_NUM_ERR: NRT_STATUS = 1003;
/// Execution completed with errors.
pub const NRT_EXEC_COMPLETED_WITH_ERR: NRT_STATUS = 1004;
/// The neuron core is busy.
pub const NRT_EXEC_NC_BUSY: NRT_STATUS = 1005;
/// Out-of-bounds access in an execution.
pub const NRT_EXEC_OOB: NRT_STATUS = 1006;
/// A collective is pending.
pub const NRT_COLL_PENDING: NRT_STATUS = 1100;
/// Hardware error in collectives.
pub const NRT_EXEC_HW_ERR_COLLECTIVES: NRT_STATUS = 1200;
/// Uncorrectable device memory error.
pub const NRT_EXEC_HW_ERR_HBM_UE: NRT_STATUS = 1201;
/// Uncorrectable neuron core error.
pub const NRT_EXEC_HW_ERR_NC_UE: NRT_STATUS = 1202;
/// DMA abort.
pub const NRT_EXEC_HW_ERR_DMA_ABORT: NRT_STATUS = 1203;
/// Notification queue overflow.
pub const NRT_EXEC_SW_NQ_OVERFLOW: NRT_STATUS = 1204;
/// Repairable device memory error.
pub const NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE: NRT_STATUS = 1205;
/// Network proxy failure.
pub const NRT_NETWORK_PROXY_FAILURE: NRT_STATUS = 1206;
/// Of a task: aborted by its owner.
pub const ENC_PROXY_ABORTED: NRT_STATUS = -1;
/// The worker died; every task of its queue ended with this.
pub const ENC_PROXY_WORKER_DIED: NRT_STATUS = -2;
/// Of a task: its context was destroyed before it ran.
pub const ENC_PROXY_STALE_CONTEXT: NRT_STATUS = -3;
/// Of a barrier task: the context has no host barrier, or is at it already.
pub const ENC_PROXY_BARRIER_MISUSE: NRT_STATUS = -4;
/// A rank that is needed is dead or has left.
pub const ENC_PROXY_PEER_DEAD: NRT_STATUS = -5;
/// A rank waited at the barrier longer than its deadline.
pub const ENC_PROXY_BARRIER_TIMEOUT: NRT_STATUS = -6;
/// Ranks arrived at the barrier for different executions.
pub const ENC_PROXY_MPMD: NRT_STATUS = -7;
/// A rank gave up at the barrier.
pub const ENC_PROXY_PEER_CANCELLED: NRT_STATUS = -8;
/// The shared memory of the host bus holds something that cannot be.
pub const ENC_PROXY_BUS_CORRUPT: NRT_STATUS = -9;
/// The call ran into a fault of this library. The handle can only be destroyed.
pub const ENC_PROXY_PANIC: NRT_STATUS = -100;
/// An earlier call on the handle has panicked. It can only be destroyed.
pub const ENC_PROXY_POISONED: NRT_STATUS = -101;
/// The process was forked from the one that used the library first.
pub const ENC_PROXY_FORKED: NRT_STATUS = -102;
/// The call would wait for the worker whose thread it is on (a callback of the collective library, say).
pub const ENC_PROXY_WRONG_THREAD: NRT_STATUS = -103;
/// A struct of a newer release uses a field that this one does not have.
pub const ENC_PROXY_UNSUPPORTED_FIELD: NRT_STATUS = -104;
/// The buffer is too small; the length that is needed has been written.
pub const ENC_PROXY_TOO_SMALL: NRT_STATUS = -105;
/// The object is used by another thread, or by what must be destroyed before it.
pub const ENC_PROXY_BUSY: NRT_STATUS = -106;
/// The task's end has been reported already.
pub const ENC_PROXY_ALREADY_CONSUMED: NRT_STATUS = -107;
/// No such task was appended.
pub const ENC_PROXY_UNKNOWN_TASK: NRT_STATUS = -108;
/// The device had written a start word before the execution was armed. Nothing was appended.
pub const ENC_PROXY_FIRED_BEFORE_ARM: NRT_STATUS = -109;
/// The deadline passed while the worker was inside one call of the collective library.
pub const ENC_PROXY_STUCK: NRT_STATUS = -110;
/// The collective library cannot be used; the text says every name tried and every symbol missing.
pub const ENC_PROXY_LOAD: NRT_STATUS = -111;
/// A FIFO array is malformed; the text names array, index and field.
pub const ENC_PROXY_FIFO: NRT_STATUS = -112;
/// A setting is not accepted; the text names variable, value and what is.
pub const ENC_PROXY_SETTING: NRT_STATUS = -113;
/// More than 1024 messages of the rank with other tags, or 64 MiB of them, wait to be received.
pub const ENC_PROXY_CROWDED: NRT_STATUS = -114;
/// The rank could not join the host bus.
pub const ENC_PROXY_JOIN: NRT_STATUS = -115;
/// The task has its final code already, which waits to be consumed.
pub const ENC_PROXY_TASK_DONE: NRT_STATUS = -116;

/// An op has dynamic sizes, and `enc_proxy_set_dynamic_sizes` was not called.
pub const ENC_PROXY_NO_DYNAMIC_SIZES: NRT_STATUS = -117;
/// The ranks of a global communicator have different collectives, or one of them has failed.
pub const ENC_PROXY_MISMATCH: NRT_STATUS = -118;
/// The ranks of a global communicator have got no unique id.
pub const ENC_PROXY_NO_UNIQUE_ID: NRT_STATUS = -119;

/// Each code that the core has a text for, under the name that it has here.
const CORE: &[(NRT_STATUS, Status)] = &[
    (NRT_SUCCESS, Status::SUCCESS),
    (NRT_FAILURE, Status::FAILURE),
    (NRT_INVALID, Status::INVALID),
    (NRT_INVALID_HANDLE, Status::INVALID_HANDLE),
    (NRT_RESOURCE, Status::RESOURCE),
    (NRT_TIMEOUT, Status::TIMEOUT),
    (NRT_HW_ERROR, Status::HW_ERROR),
    (NRT_QUEUE_FULL, Status::QUEUE_FULL),
    (NRT_LOAD_NOT_ENOUGH_NC, Status::LOAD_NOT_ENOUGH_NC),
    (
        NRT_UNSUPPORTED_NEFF_VERSION,
        Status::UNSUPPORTED_NEFF_VERSION,
    ),
    (NRT_FAIL_HOST_MEM_ALLOC, Status::FAIL_HOST_MEM_ALLOC),
    (NRT_UNINITIALIZED, Status::UNINITIALIZED),
    (NRT_CLOSED, Status::CLOSED),
    (NRT_QUEUE_EMPTY, Status::QUEUE_EMPTY),
    (NRT_EXEC_UNIT_UNRECOVERABLE, Status::EXEC_UNIT_UNRECOVERABLE),
    (NRT_EXEC_BAD_INPUT, Status::EXEC_BAD_INPUT),
    (
        NRT_EXEC_COMPLETED_WITH_NUM_ERR,
        Status::EXEC_COMPLETED_WITH_NUM_ERR,
    ),
    (NRT_EXEC_COMPLETED_WITH_ERR, Status::EXEC_COMPLETED_WITH_ERR),
    (NRT_EXEC_NC_BUSY, Status::EXEC_NC_BUSY),
    (NRT_EXEC_OOB, Status::EXEC_OOB),
    (NRT_COLL_PENDING, Status::COLL_PENDING),
    (NRT_EXEC_HW_ERR_COLLECTIVES, Status::EXEC_HW_ERR_COLLECTIVES),
    (NRT_EXEC_HW_ERR_HBM_UE, Status::EXEC_HW_ERR_HBM_UE),
    (NRT_EXEC_HW_ERR_NC_UE, Status::EXEC_HW_ERR_NC_UE),
    (NRT_EXEC_HW_ERR_DMA_ABORT, Status::EXEC_HW_ERR_DMA_ABORT),
    (NRT_EXEC_SW_NQ_OVERFLOW, Status::EXEC_SW_NQ_OVERFLOW),
    (
        NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE,
        Status::EXEC_HW_ERR_REPAIRABLE_HBM_UE,
    ),
    (NRT_NETWORK_PROXY_FAILURE, Status::NETWORK_PROXY_FAILURE),
    (ENC_PROXY_ABORTED, Status::ABORTED),
    (ENC_PROXY_WORKER_DIED, Status::WORKER_DIED),
    (ENC_PROXY_STALE_CONTEXT, Status::STALE_CONTEXT),
    (ENC_PROXY_BARRIER_MISUSE, Status::BARRIER_MISUSE),
    (ENC_PROXY_PEER_DEAD, Status::PEER_DEAD),
    (ENC_PROXY_BARRIER_TIMEOUT, Status::BARRIER_TIMEOUT),
    (ENC_PROXY_MPMD, Status::MPMD),
    (ENC_PROXY_PEER_CANCELLED, Status::PEER_CANCELLED),
    (ENC_PROXY_BUS_CORRUPT, Status::BUS_CORRUPT),
];

/// The codes of this interface with their texts.
const OWN: &[(NRT_STATUS, &CStr)] = &[
    (ENC_PROXY_PANIC, c"a fault inside the library"),
    (ENC_PROXY_POISONED, c"the handle can only be destroyed"),
    (ENC_PROXY_FORKED, c"called in a forked child"),
    (ENC_PROXY_WRONG_THREAD, c"called on the worker's own thread"),
    (
        ENC_PROXY_UNSUPPORTED_FIELD,
        c"a struct uses a field that is not supported",
    ),
    (ENC_PROXY_TOO_SMALL, c"the buffer is too small"),
    (ENC_PROXY_BUSY, c"the object is in use"),
    (
        ENC_PROXY_ALREADY_CONSUMED,
        c"the task's end has been reported already",
    ),
    (ENC_PROXY_UNKNOWN_TASK, c"no such task was appended"),
    (
        ENC_PROXY_FIRED_BEFORE_ARM,
        c"the device was started before its execution was armed",
    ),
    (
        ENC_PROXY_STUCK,
        c"the worker is inside a call of the collective library",
    ),
    (ENC_PROXY_LOAD, c"the collective library cannot be used"),
    (ENC_PROXY_FIFO, c"a FIFO array is malformed"),
    (ENC_PROXY_SETTING, c"a setting is not accepted"),
    (ENC_PROXY_CROWDED, c"too many messages with other tags wait"),
    (ENC_PROXY_JOIN, c"the rank could not join the host bus"),
    (ENC_PROXY_TASK_DONE, c"the task is done"),
    (
        ENC_PROXY_NO_DYNAMIC_SIZES,
        c"nobody answers for dynamic sizes",
    ),
    (
        ENC_PROXY_MISMATCH,
        c"the ranks have different collectives, or one has failed",
    ),
    (ENC_PROXY_NO_UNIQUE_ID, c"the ranks have got no unique id"),
];

const _: () = {
    let mut index = 0;
    while index < CORE.len() {
        assert!(CORE[index].0 == CORE[index].1.0);
        index += 1;
    }
};

/// A sentence for a status code, without its number. Never null; static. `"unknown library code"` for a code that
/// only the collective library knows.
///
/// Threads: any, also in a forked child. Never fails.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported name")]
pub extern "C" fn enc_proxy_status_text(status: NRT_STATUS) -> *const c_char {
    text(status).as_ptr()
}

fn text(status: NRT_STATUS) -> &'static CStr {
    let own = OWN.iter().find(|(code, _)| *code == status);
    own.map_or_else(|| core_text(status), |(_, text)| text)
}

/// The core's texts, which have no terminator.
fn core_text(status: NRT_STATUS) -> &'static CStr {
    macro_rules! texts {
        ($($name:ident)+) => {
            match Status(status) {
                $(Status::$name => {
                    const TEXT: &str = match Status::$name.text() {
                        Some(text) => text,
                        None => "",
                    };
                    const BYTES: [u8; TEXT.len() + 1] = terminated(TEXT);
                    const RESULT: &CStr = match CStr::from_bytes_with_nul(&BYTES) {
                        Ok(text) => text,
                        Err(_) => panic!("a text without a zero byte"),
                    };
                    RESULT
                })+
                _ => c"unknown library code",
            }
        };
    }
    texts! {
        SUCCESS FAILURE INVALID INVALID_HANDLE RESOURCE TIMEOUT HW_ERROR QUEUE_FULL LOAD_NOT_ENOUGH_NC
        UNSUPPORTED_NEFF_VERSION FAIL_HOST_MEM_ALLOC UNINITIALIZED CLOSED QUEUE_EMPTY
        EXEC_UNIT_UNRECOVERABLE EXEC_BAD_INPUT EXEC_COMPLETED_WITH_NUM_ERR EXEC_COMPLETED_WITH_ERR
        EXEC_NC_BUSY EXEC_OOB COLL_PENDING EXEC_HW_ERR_COLLECTIVES EXEC_HW_ERR_HBM_UE EXEC_HW_ERR_NC_UE
        EXEC_HW_ERR_DMA_ABORT EXEC_SW_NQ_OVERFLOW EXEC_HW_ERR_REPAIRABLE_HBM_UE NETWORK_PROXY_FAILURE
        ABORTED WORKER_DIED STALE_CONTEXT BARRIER_MISUSE PEER_DEAD BARRIER_TIMEOUT MPMD PEER_CANCELLED
        BUS_CORRUPT
    }
}

const fn terminated<const N: usize>(text: &str) -> [u8; N] {
    let (bytes, mut result, mut index) = (text.as_bytes(), [0; N], 0);
    while index < bytes.len() {
        result[index] = bytes[index];
        index += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_of_the_core_is_here_and_every_text_is_its_own() {
        let here: BTreeSet<i32> = CORE.iter().map(|(code, _)| *code).collect();
        let core: BTreeSet<i32> = Status::KNOWN.iter().map(|status| status.0).collect();
        assert_eq!(here, core);
        let codes = here
            .iter()
            .copied()
            .chain(OWN.iter().map(|(code, _)| *code));
        let texts: Vec<&CStr> = codes.clone().map(text).collect();
        let different: BTreeSet<&CStr> = texts.iter().copied().collect();
        assert_eq!(different.len(), texts.len());
        assert_eq!(texts.len(), CORE.len() + OWN.len());
        assert_eq!(text(1234), c"unknown library code");
        assert_eq!(
            text(NRT_TIMEOUT).to_str(),
            Ok(Status::TIMEOUT.text().unwrap())
        );
        assert!(
            codes
                .clone()
                .filter(|code| *code <= -100)
                .eq(OWN.iter().map(|(code, _)| *code))
        );
    }
}
