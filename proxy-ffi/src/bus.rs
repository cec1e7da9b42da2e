//! `bananaphone`: one rank's place on the host bus of a job.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use proxy_core::phone::barrier::RankSet;
use proxy_os::bananaphone::{Barrier, Bus, BusError, Options, Share, Within};

use crate::arg::{self, Out};
use crate::call::{self, Done, Failure};
use crate::handle::Kind;
use crate::record::{self, record};
use crate::status::{self, NRT_STATUS};
use crate::table::Table;

/// One rank's place on the host bus. Any thread may use it, one at a time: a second call meanwhile is `ENC_PROXY_BUSY`.
#[derive(Debug)]
pub struct bananaphone {
    _opaque: [u8; 0],
}

/// Ranks of all buses in one process; a bus has up to 128.
const LIMIT: usize = 1024;
pub(crate) static BUSES: Table<Object, LIMIT> = Table::new(Kind::Bus);

/// Receives messages with any tag.
pub const BP_ANY_TAG: u32 = u32::MAX;
/// Ranks of a bus at most.
pub const BP_MAX_RANKS: u32 = 128;

/// A bus, and whether a call is on it.
#[derive(Debug)]
pub(crate) struct Object(Mutex<Bus>);

/// The value behind a lock that nobody waits for.
pub(crate) fn alone<T>(lock: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
    match lock.try_lock() {
        Ok(guard) => Ok(guard),
        // The handle of an object that a panic went through is poisoned by itself.
        Err(TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => Err(Failure::new(
            status::ENC_PROXY_BUSY,
            "another thread's call is on the object, accepted: one at a time",
        )),
    }
}

impl Object {
    /// The bus, for one call at a time.
    pub(crate) fn alone(&self) -> Result<MutexGuard<'_, Bus>, Failure> {
        alone(&self.0)
    }

    /// This rank's side of a barrier over `ranks`; null = all ranks of the bus.
    ///
    /// # Safety
    /// `ranks`, if not null, is readable for `count` ranks.
    pub(crate) unsafe fn barrier(
        &self,
        number: u32,
        ranks: *const u16,
        count: u32,
    ) -> Result<Barrier, Failure> {
        let bus = alone(&self.0)?;
        // SAFETY: the caller's promise.
        let participants = unsafe { participants(ranks, count, bus.world()) }?;
        Ok(bus.barrier(slot(number)?, participants)?)
    }
}

/// A barrier slot by its number; the bus says which it has.
pub(crate) fn slot(number: u32) -> Result<u16, Failure> {
    u16::try_from(number)
        .map_err(|_| Failure::invalid(format_args!("barrier slot {number}, accepted: 0 to 63")))
}

/// The participants of a barrier on a bus of `world` ranks; null = all of them.
///
/// # Safety
/// `ranks`, if not null, is readable for `count` ranks.
pub(crate) unsafe fn participants(
    ranks: *const u16,
    count: u32,
    world: u16,
) -> Result<RankSet, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { arg::array(ranks, count as usize, world.into(), "ranks") }?;
    match ranks.is_null() {
        true => Ok(RankSet::below(world)),
        false => Ok(given.iter().copied().collect()),
    }
}

/// What a rank is told about its bus, for `bp_create`. All ranks must be told the same, but for `rank`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct bp_config {
    /// `sizeof(bp_config)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Names the bus on this machine, another one for every job and every bus of a job; UTF-8, not empty.
    pub job: *const c_char,
    /// How long to join, in microseconds; 0 = 60 seconds.
    pub timeout_us: u64,
    /// This rank.
    pub rank: u32,
    /// Ranks of the bus, 1 to 128.
    pub world: u32,
    /// Barrier slots, 1 to 64; 0 = 8.
    pub barriers: u32,
    /// Cells of 64 bytes in each rank's ring, a power of two from 2 to 65536; 0 = 256. A message of up to 48 bytes takes one, a longer
    /// one another for each 64 bytes.
    pub cells: u32,
    /// 1 = ranks may run as different users, each of which can break the bus for the others.
    pub any_user: u32,
    /// With `machine_n`: the number in the job of the bus's rank 0. Else 0.
    pub first_rank: u32,
    /// With `machine_n`: the machine, below that. Else 0.
    pub machine: u32,
    /// Machines of a job whose ranks are on several, with a bus each: messages name ranks by their numbers in the job. 0 or 1 = the bus has
    /// all ranks.
    pub machine_n: u32,
    /// How often this rank, when it waits, pauses and looks again before it yields; 0 = 250 times, or not at all where more ranks run on its
    /// CPUs than there are: those of the thread that calls `bp_create`, and ranks with the same. A look is some loads and a pause,
    /// a few tens of nanoseconds. Any number is taken: it costs the CPU, and hides neither the deadline nor a death.
    pub spins: u32,
    /// How often it then yields its CPU and looks before it sleeps; 0 = as long as it has waited for less than 50 microseconds.
    /// Any number, likewise.
    pub yields: u32,
}
record!(bp_config {
    struct_size: usize, flags: u64, job: *const c_char, timeout_us: u64, rank: u32, world: u32, barriers: u32,
    cells: u32, any_user: u32, first_rank: u32, machine: u32, machine_n: u32,
    spins: u32, yields: u32,
});

/// A timeout of a call on the bus, with the name that its messages give it.
pub(crate) fn within(micros: u64, knob: &'static str) -> Within {
    Within::new(arg::long_timeout(micros), knob)
}

/// Which ranks of a job the bus has.
fn share(config: &bp_config) -> Result<Option<Share>, Failure> {
    let (first, machine, machines) = (config.first_rank, config.machine, config.machine_n);
    let refused = || {
        Failure::invalid(format_args!(
            "first_rank {first}, machine {machine}, machine_n {machines}; accepted: up to 65535, a machine below machine_n, and 0 each with one machine"
        ))
    };
    if machines <= 1 {
        let none = first == 0 && machine == 0;
        return none.then_some(None).ok_or_else(refused);
    }
    match (u16::try_from(first), u16::try_from(machine)) {
        (Ok(first), Ok(number)) if machine < machines => Ok(Some(Share {
            machine: number,
            first,
        })),
        _ => Err(refused()),
    }
}

/// # Safety
/// As for `bp_create`.
pub(crate) unsafe fn options(config: &bp_config) -> Result<Options, Failure> {
    // SAFETY: the caller's promise.
    let job = unsafe { arg::text(config.job, "job") }?;
    let small = |name: &str, value: u32| {
        u16::try_from(value)
            .map_err(|_| Failure::invalid(format_args!("{name} is {value}, accepted: up to 65535")))
    };
    if job.is_empty() || config.any_user > 1 {
        return Err(Failure::invalid(format_args!(
            "job \"{job}\", any_user {}; accepted: a name, and 0 or 1",
            config.any_user
        )));
    }
    let mut options = Options::new(
        job,
        small("rank", config.rank)?,
        small("world", config.world)?,
    );
    options.any_user = config.any_user == 1;
    options.share = share(config)?;
    if config.barriers != 0 {
        options.barriers = small("barriers", config.barriers)?;
    }
    let given = |number: u32| (number != 0).then_some(number);
    (options.spins, options.yields) = (given(config.spins), given(config.yields));
    if config.cells != 0 {
        options.cells = config.cells;
    }
    if config.timeout_us != 0 {
        options.deadline = within(config.timeout_us, "bp_config.timeout_us");
    }
    Ok(options)
}

/// Joins the bus of a job, or opens it. Returns when this rank is on it; `bp_connect` waits for the others.
///
/// - `bus`: receives the handle; give it back by `bp_cleanup`.
///
/// Errors: `ENC_PROXY_JOIN`, `NRT_TIMEOUT`, `ENC_PROXY_PEER_DEAD`, `ENC_PROXY_WRONG_THREAD`, `NRT_RESOURCE`, `NRT_INVALID`; nothing is left of a join that failed.
/// Threads: any but a worker's.
///
/// # Safety
/// `config` is readable for the size that it says and its `job` up to its end, `bus` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_create(
    config: *const bp_config,
    bus: *mut *mut bananaphone,
) -> NRT_STATUS {
    call::plain("bp_create", || {
        // SAFETY: the caller's promise.
        let config = unsafe { record::read(config) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(bus, "bus") }?;
        // SAFETY: the caller's promise.
        let options = unsafe { options(&config) }?;
        call::may_wait()?;
        // First: the other ranks would see this one come and go.
        let place = call::reserve(&BUSES)?;
        let made = Bus::create(&options)?;
        out.set(call::fill(place, Object(Mutex::new(made))));
        Ok(())
    })
}

/// Waits until all ranks are on the bus.
///
/// - `timeout_us`: microseconds to wait at most.
///
/// Errors: `NRT_TIMEOUT` (the text lists the missing ranks), `ENC_PROXY_PEER_DEAD`, `ENC_PROXY_JOIN` (another rank could not), `ENC_PROXY_BUSY`,
/// `NRT_INVALID_HANDLE`.
/// Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`).
#[unsafe(no_mangle)]
pub extern "C" fn bp_connect(bus: *mut bananaphone, timeout_us: u64) -> NRT_STATUS {
    call::with("bp_connect", &BUSES, bus, |bus| {
        call::may_wait()?;
        Ok(alone(&bus.0)?.connect(within(timeout_us, "timeout_us of bp_connect"))?)
    })
}

/// Sends a message to one rank. Returns when it is in this rank's ring; a message longer than `bp_capacity` goes in parts.
///
/// - `to`: another rank of the bus. `tag`: below 2^31 as the bus accepts it; the text of an error says the limit.
/// - `data`, `bytes`: the message; may be empty.
/// - `timeout_us`: microseconds to wait at most while the ring is full.
///
/// Errors: `NRT_TIMEOUT`, `ENC_PROXY_PEER_DEAD`, `NRT_CLOSED` (after a hang-up), `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`.
/// Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`).
///
/// # Safety
/// `data` is readable for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_send(
    bus: *mut bananaphone,
    to: u32,
    tag: u32,
    data: *const u8,
    bytes: usize,
    timeout_us: u64,
) -> NRT_STATUS {
    call::with("bp_send", &BUSES, bus, |bus| {
        // SAFETY: the caller's promise.
        let message = unsafe { arg::array(data, bytes, arg::longest::<u8>(), "data") }?;
        let within = within(timeout_us, "timeout_us of bp_send");
        call::may_wait()?;
        Ok(alone(&bus.0)?.send(rank(to)?, tag, message, within)?)
    })
}

/// Sends a message to all other ranks; each receives it as any other. Arguments, errors and threads: as for `bp_send`.
///
/// # Safety
/// `data` is readable for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_broadcast(
    bus: *mut bananaphone,
    tag: u32,
    data: *const u8,
    bytes: usize,
    timeout_us: u64,
) -> NRT_STATUS {
    call::with("bp_broadcast", &BUSES, bus, |bus| {
        // SAFETY: the caller's promise.
        let message = unsafe { arg::array(data, bytes, arg::longest::<u8>(), "data") }?;
        let within = within(timeout_us, "timeout_us of bp_broadcast");
        call::may_wait()?;
        Ok(alone(&bus.0)?.broadcast(tag, message, within)?)
    })
}

fn rank(number: u32) -> Result<u16, Failure> {
    u16::try_from(number).map_err(|_| {
        Failure::invalid(format_args!(
            "rank {number}, accepted: below {BP_MAX_RANKS}"
        ))
    })
}

/// Receives the next message of a rank. Messages of one rank with the same tag come in the order in which they were sent.
///
/// - `from`: another rank of the bus. `tag`: the tag wanted, or `BP_ANY_TAG`.
/// - `buffer`, `bytes`: room for the message.
/// - `length`: receives its length, also with `ENC_PROXY_TOO_SMALL`, after which the message is still the next of such a call.
/// - `got_tag`: receives its tag; may be NULL.
/// - `timeout_us`: microseconds to wait at most.
///
/// Errors: `NRT_TIMEOUT`, `ENC_PROXY_PEER_DEAD`, `ENC_PROXY_TOO_SMALL`, `ENC_PROXY_CROWDED`, `NRT_CLOSED`, `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`.
/// What was written to `buffer` means nothing on error. Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`).
///
/// # Safety
/// `buffer` is writable for `bytes`, `length` writable, `got_tag` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_recv(
    bus: *mut bananaphone,
    from: u32,
    tag: u32,
    buffer: *mut u8,
    bytes: usize,
    length: *mut usize,
    got_tag: *mut u32,
    timeout_us: u64,
) -> NRT_STATUS {
    call::with("bp_recv", &BUSES, bus, |bus| {
        // SAFETY: the caller's promise.
        let buffer = unsafe { arg::buffer(buffer, bytes, "buffer") }?;
        // SAFETY: the caller's promise.
        let length = unsafe { Out::new(length, "length") }?;
        // SAFETY: the caller's promise.
        let got_tag = unsafe { Out::optional(got_tag, "got_tag") }?;
        let wanted = (tag != BP_ANY_TAG).then_some(tag);
        let within = within(timeout_us, "timeout_us of bp_recv");
        call::may_wait()?;
        let received = alone(&bus.0)?.recv_into(rank(from)?, wanted, buffer, within);
        match received {
            Ok((tag, bytes)) => {
                length.set(bytes);
                if let Some(got_tag) = got_tag {
                    got_tag.set(tag);
                }
                Ok(())
            }
            Err(error) => {
                if let BusError::TooSmall { bytes } = error {
                    length.set(bytes);
                }
                Err(error.into())
            }
        }
    })
}

/// Gives `own` to all ranks and gets what all have given. All ranks must call it, in the same order if more than once.
///
/// - `own`, `bytes`: this rank's part; the parts may differ in size.
/// - `all`, `stride`: room for one part of up to `stride` bytes per rank; part `r` begins at `r * stride`.
/// - `lengths`: receives the length of each part, in order of rank; may be NULL.
/// - `timeout_us`: microseconds to wait at most.
///
/// Errors: `ENC_PROXY_TOO_SMALL` (a part is longer than `stride`; the exchange is over all the same), `NRT_TIMEOUT`, `ENC_PROXY_PEER_DEAD`, `NRT_CLOSED`, `ENC_PROXY_BUSY`,
/// `NRT_INVALID`, `NRT_INVALID_HANDLE`.
/// Threads: any but a worker's (`ENC_PROXY_WRONG_THREAD`).
///
/// # Safety
/// `own` is readable for `bytes`, `all` writable for the bus's ranks times `stride`, `lengths` for as many lengths, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_all_gather(
    bus: *mut bananaphone,
    own: *const u8,
    bytes: usize,
    all: *mut u8,
    stride: usize,
    lengths: *mut usize,
    timeout_us: u64,
) -> NRT_STATUS {
    call::with("bp_all_gather", &BUSES, bus, |bus| {
        let mut bus = alone(&bus.0)?;
        // SAFETY: the caller's promise.
        let own = unsafe { arg::array(own, bytes, arg::longest::<u8>(), "own") }?;
        let room = usize::from(bus.world()).checked_mul(stride);
        let room = room.ok_or_else(|| Failure::invalid(format_args!("stride is {stride}")))?;
        // SAFETY: the caller's promise.
        let all = unsafe { arg::buffer(all, room, "all") }?;
        // SAFETY: the caller's promise.
        let lengths = unsafe { Out::optional(lengths, "lengths") }?;
        call::may_wait()?;
        let parts = bus.all_gather(own, within(timeout_us, "timeout_us of bp_all_gather"))?;
        let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
        if longest > stride {
            return Err(Failure::new(
                status::ENC_PROXY_TOO_SMALL,
                format_args!("a part has {longest} bytes, stride is {stride}"),
            ));
        }
        for (rank, part) in parts.iter().enumerate() {
            all[rank * stride..][..part.len()].copy_from_slice(part);
            if let Some(lengths) = &lengths {
                // SAFETY: the caller's promise: one place per rank.
                unsafe { lengths.set_at(rank, part.len()) };
            }
        }
        Ok(())
    })
}

/// Bytes of the longest message that is sent in one piece. Errors: `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
///
/// # Safety
/// `bytes` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bp_capacity(bus: *mut bananaphone, bytes: *mut usize) -> NRT_STATUS {
    call::with("bp_capacity", &BUSES, bus, |bus| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(bytes, "bytes") }?;
        out.set(alone(&bus.0)?.capacity());
        Ok(())
    })
}

/// Leaves the bus: peers that wait for this rank are told at once. Messages of this rank are not received any more, and barriers that need
/// it fail. The handle stays, for `bp_cleanup`.
///
/// Errors: `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn bp_hangup(bus: *mut bananaphone) -> NRT_STATUS {
    call::with("bp_hangup", &BUSES, bus, |bus| -> Done {
        alone(&bus.0)?.hangup();
        Ok(())
    })
}

/// Hangs up, if that has not been done, and gives back memory, descriptors and threads. Barriers keep the memory until they are hung up.
///
/// Errors: `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn bp_cleanup(bus: *mut bananaphone) -> NRT_STATUS {
    call::destroy("bp_cleanup", &BUSES, bus, |bus| -> Done {
        alone(&bus.0)?.hangup();
        Ok(())
    })
}
