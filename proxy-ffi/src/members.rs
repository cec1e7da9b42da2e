//! Who is on a host bus, and what it has counted.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use proxy_core::phone::member::State;
use proxy_os::bananaphone::Fallback;

use crate::arg::Out;
use crate::bus::{BUSES, bananaphone};
use crate::call::{self, Failure};
use crate::record::{OutRecord, record};
use crate::status::{self, NRT_STATUS};

/// Where a rank of a bus is.
pub type bp_member_state_t = u32;
/// It has not come yet.
pub const BP_MEMBER_FREE: bp_member_state_t = 0;
/// It is joining.
pub const BP_MEMBER_JOINING: bp_member_state_t = 1;
/// It is there.
pub const BP_MEMBER_JOINED: bp_member_state_t = 2;
/// It has hung up.
pub const BP_MEMBER_LEFT: bp_member_state_t = 3;
/// Its process died without hanging up.
pub const BP_MEMBER_DEAD: bp_member_state_t = 4;

const _: () = assert!(
    BP_MEMBER_FREE == State::Free as u32
        && BP_MEMBER_JOINING == State::Joining as u32
        && BP_MEMBER_JOINED == State::Joined as u32
        && BP_MEMBER_LEFT == State::Left as u32
        && BP_MEMBER_DEAD == State::Dead as u32
);

/// One rank of a bus. Never grows.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct bp_member {
    /// Where it is.
    pub state: bp_member_state_t,
    /// Its process id as the rank that opened the bus sees it; 0 = it has none there.
    pub process: u32,
}

/// What a bus has counted on this rank; strangers are counted on the rank that opened it. The others count how often the bus has had to do
/// without something that the system refuses; each is announced by a warning, too.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct bp_counters {
    /// `sizeof(bp_counters)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Connections that were closed because they were none of the bus's, or said nothing.
    pub strangers: u64,
    /// The shared memory is an unnamed file.
    pub unnamed_file: u64,
    /// The size of the shared memory is not sealed: a faulty peer can cut it.
    pub unsealed: u64,
    /// The shared memory is not reserved: its first touch can fail.
    pub unreserved: u64,
    /// The death of a peer is noticed by the hang-up of its socket.
    pub hang_up: u64,
    /// The death of some peers is noticed by other processes only.
    pub unwatched: u64,
    /// Waits poll every millisecond.
    pub polling: u64,
}
record!(bp_counters {
    struct_size: usize,
    flags: u64,
    strangers: u64,
    unnamed_file: u64,
    unsealed: u64,
    unreserved: u64,
    hang_up: u64,
    unwatched: u64,
    polling: u64,
});

/// Who is on the bus, in order of rank.
///
/// - `members`, `room`: where they go, and for how many there is room; not null.
/// - `world`: receives the number of ranks; may be NULL. It is written when there is too little room, too.
///
/// Errors: `ENC_PROXY_TOO_SMALL`, `ENC_PROXY_BUS_CORRUPT`, `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
///
/// # Safety
/// `members` is writable for `room` members, `world` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_get_members(
    bus: *mut bananaphone,
    members: *mut bp_member,
    room: u32,
    world: *mut u32,
) -> NRT_STATUS {
    call::with("bp_get_members", &BUSES, bus, |bus| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(members, "members") }?;
        // SAFETY: the caller's promise.
        let count = unsafe { Out::optional(world, "world") }?;
        let bus = bus.alone()?;
        let (found, ranks) = (bus.members()?, u32::from(bus.world()));
        count.into_iter().for_each(|count| count.set(ranks));
        if ranks > room {
            let text = format!("room for {room} members, the bus has {ranks}");
            return Err(Failure::new(status::ENC_PROXY_TOO_SMALL, text));
        }
        for (rank, (state, process)) in found.into_iter().enumerate() {
            let state = state as u32;
            // SAFETY: there is room for as many as the bus has ranks.
            unsafe { out.set_at(rank, bp_member { state, process }) };
        }
        Ok(())
    })
}

/// What the bus has counted on this rank. Errors: `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
///
/// # Safety
/// `counters`, if not null, is readable and writable for the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_get_counters(
    bus: *mut bananaphone,
    counters: *mut bp_counters,
) -> NRT_STATUS {
    call::with("bp_get_counters", &BUSES, bus, |bus| {
        // SAFETY: the caller's promise.
        let out = unsafe { OutRecord::new(counters) }?;
        let now = bus.alone()?.counters();
        out.fill(bp_counters {
            struct_size: 0,
            flags: 0,
            strangers: now.strangers,
            unnamed_file: now.of(Fallback::UnnamedFile),
            unsealed: now.of(Fallback::Unsealed),
            unreserved: now.of(Fallback::Unreserved),
            hang_up: now.of(Fallback::HangUp),
            unwatched: now.of(Fallback::Unwatched),
            polling: now.of(Fallback::Polling),
        });
        Ok(())
    })
}
