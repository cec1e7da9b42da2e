//! `enc_proxy_group`: a share of a group, its queue and its worker.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::sync::{Arc, Mutex, TryLockError};

use proxy_core::Gid;
use proxy_os::registry::Released;
use proxy_os::{Group, Health, ProxyQueue, Release, left};

use crate::arg::{self, Out};
use crate::call::{self, Failure};
use crate::handle::Kind;
use crate::record::{self, OutRecord, record};
use crate::settings::{self, enc_proxy_settings};
use crate::status::{self, NRT_STATUS};
use crate::table::Table;

/// One share of a group: the ranks of a group have one queue and one worker thread, `proxy-<tid>`.
#[derive(Debug)]
pub struct enc_proxy_group {
    _opaque: [u8; 0],
}

/// Shares, of all groups of a process.
const LIMIT: usize = 1024;
pub(crate) static GROUPS: Table<Object, LIMIT> = Table::new(Kind::Group);

/// A share and, beside the lock, its queue.
#[derive(Debug)]
pub(crate) struct Object {
    share: Mutex<Group>,
    pub(crate) queue: Arc<ProxyQueue>,
}

impl From<Group> for Object {
    fn from(share: Group) -> Self {
        let queue = Arc::clone(share.queue());
        let share = Mutex::new(share);
        Self { share, queue }
    }
}

/// How a group is released.
pub type enc_proxy_release_t = u32;
/// Tasks are driven to their end.
pub const ENC_PROXY_DRAIN: enc_proxy_release_t = 0;
/// Tasks end at once with `ENC_PROXY_ABORTED`.
pub const ENC_PROXY_ABORT: enc_proxy_release_t = 1;

/// Which group, for `enc_proxy_group_acquire`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_group_config {
    /// `sizeof(enc_proxy_group_config)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// The device; its group is `device / NEURON_RT_RANKS_PER_NETWORK_PROXY`.
    pub device: u32,
    /// Must be 0.
    pub reserved: u32,
    /// NULL = those of the environment. What they say of the worker counts for the first share only.
    pub settings: *mut enc_proxy_settings,
    /// How long to wait, in microseconds, while somebody else is creating or releasing the group; 0 = not at all. Not at all either on a
    /// worker's thread.
    pub timeout_us: u64,
}
record!(enc_proxy_group_config {
    struct_size: usize, flags: u64, device: u32, reserved: u32, settings: *mut enc_proxy_settings, timeout_us: u64,
});

/// Counters of a worker since its start. Each is exact by itself; together they are not one instant.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_group_counters {
    /// `sizeof(enc_proxy_group_counters)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Passes over the active tasks.
    pub ticks: u64,
    /// Pauses between ticks that moved nothing.
    pub pauses: u64,
    /// Times the worker gave its core away.
    pub yields: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Appends that had to wake it: each is one system call.
    pub rings: u64,
    /// Tasks that ended with an error.
    pub failures: u64,
    /// Tasks that are not done.
    pub unfinished: u64,
    /// The group's id.
    pub gid: u32,
    /// Shares of the group.
    pub sharers: u32,
    /// Kernel id of the worker's thread.
    pub tid: u32,
    /// 0.
    pub reserved: u32,
}
record!(enc_proxy_group_counters {
    struct_size: usize,
    flags: u64,
    ticks: u64,
    pauses: u64,
    yields: u64,
    sleeps: u64,
    rings: u64,
    failures: u64,
    unfinished: u64,
    gid: u32,
    sharers: u32,
    tid: u32,
    reserved: u32,
});

/// Takes a share of a device's group. The first share starts the worker; the caller's own CPUs are not changed.
///
/// - `group`: receives the handle; give it back by `enc_proxy_group_release`.
///
/// Errors: `ENC_PROXY_SETTING`, `NRT_RESOURCE` (worker, doorbell or CPUs could not be had; 1024 shares are alive), `NRT_FAIL_HOST_MEM_ALLOC`,
/// `NRT_TIMEOUT`, `NRT_INVALID`, `NRT_INVALID_HANDLE` (of the settings). Threads: any.
///
/// # Safety
/// `config` is readable for the size that it says, `group` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_group_acquire(
    config: *const enc_proxy_group_config,
    group: *mut *mut enc_proxy_group,
) -> NRT_STATUS {
    call::plain("enc_proxy_group_acquire", || {
        // SAFETY: the caller's promise.
        let config = unsafe { record::read(config) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(group, "group") }?;
        if config.reserved != 0 {
            return Err(Failure::invalid("reserved is not 0"));
        }
        let settings = settings::applied(config.settings)?;
        let patience = call::patience(arg::long_timeout(config.timeout_us));
        // First: a worker would be started in vain.
        let place = call::reserve(&GROUPS)?;
        let share = Group::for_device(config.device, &settings, patience)?;
        out.set(call::fill(place, share.into()));
        Ok(())
    })
}

/// The way of a release with this number.
pub(crate) fn way(number: enc_proxy_release_t) -> Result<Release, Failure> {
    match number {
        ENC_PROXY_DRAIN => Ok(Release::Drain),
        ENC_PROXY_ABORT => Ok(Release::Abort),
        _ => Err(Failure::invalid(format_args!(
            "way is {number}, accepted: ENC_PROXY_DRAIN (0) or ENC_PROXY_ABORT (1)"
        ))),
    }
}

/// Shares that are left after a release.
pub(crate) const fn left(released: Released) -> u32 {
    match released {
        Released::Ended => 0,
        Released::Kept(others) => others,
    }
}

/// Gives up a share. The last one ends the worker: with `ENC_PROXY_DRAIN` after all tasks, with `ENC_PROXY_ABORT` at once.
/// Contexts of the group stay valid handles; what they are asked for is refused.
///
/// - `way`: `ENC_PROXY_DRAIN` or `ENC_PROXY_ABORT`; only the last share's counts.
/// - `timeout_us`: how long the worker may take, in microseconds; not at all on the thread of another worker.
/// - `others`: receives the number of shares that are left; may be NULL.
///
/// Errors: `NRT_TIMEOUT` (the text lists what is unfinished), `ENC_PROXY_STUCK` (the text names the library's call), `ENC_PROXY_WRONG_THREAD`,
/// `ENC_PROXY_BUSY` (another thread is releasing it), `NRT_INVALID`, `NRT_INVALID_HANDLE`. After an error the handle is still
/// good, for another release. Threads: any but the worker's own.
///
/// # Safety
/// `others` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_group_release(
    group: *mut enc_proxy_group,
    way: enc_proxy_release_t,
    timeout_us: u64,
    others: *mut u32,
) -> NRT_STATUS {
    call::destroy("enc_proxy_group_release", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::optional(others, "others") }?;
        let way = self::way(way)?;
        let mut share = match group.share.try_lock() {
            Ok(share) => share,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let text = "another thread is releasing the share";
                return Err(Failure::new(status::ENC_PROXY_BUSY, text));
            }
        };
        let released = share.release(way, call::patience(arg::long_timeout(timeout_us)))?;
        out.into_iter().for_each(|out| out.set(left(released)));
        Ok(())
    })
}

/// What the group's worker has done so far. Errors: `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also while the worker is stuck.
///
/// # Safety
/// `counters`, if not null, is readable and writable for the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_group_get_counters(
    group: *mut enc_proxy_group,
    counters: *mut enc_proxy_group_counters,
) -> NRT_STATUS {
    call::with("enc_proxy_group_get_counters", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let out = unsafe { OutRecord::new(counters) }?;
        let (now, gid) = (group.queue.counters(), group.queue.gid());
        out.fill(enc_proxy_group_counters {
            struct_size: 0,
            flags: 0,
            ticks: now.ticks,
            pauses: now.pauses,
            yields: now.yields,
            sleeps: now.sleeps,
            rings: now.rings,
            failures: now.failures,
            unfinished: group.queue.unfinished().len() as u64,
            gid: gid.0,
            sharers: Group::sharers(Gid(gid.0)),
            tid: group.queue.tid(),
            reserved: 0,
        });
        Ok(())
    })
}

/// How a group does.
pub type enc_proxy_health_t = u32;
/// Every task moves, or there is none.
pub const ENC_PROXY_HEALTH_OK: enc_proxy_health_t = 0;
/// A task has not moved for longer than the stall threshold (`NEURON_RT_PROXY_STALL_MS`).
pub const ENC_PROXY_HEALTH_STALLED: enc_proxy_health_t = 1;
/// The worker died.
pub const ENC_PROXY_HEALTH_DEAD: enc_proxy_health_t = 2;

/// How a group does, as of the watchdog's last look.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_proxy_group_health {
    /// `sizeof(enc_proxy_group_health)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// For how long the task that has moved least has not, in microseconds; 0 unless stalled.
    pub stalled_us: u64,
    /// One of `ENC_PROXY_HEALTH_OK`, `_STALLED`, `_DEAD`.
    pub state: enc_proxy_health_t,
    /// Workers of this process whose release gave up while they were inside the collective library, and that still are.
    pub workers_left: u32,
}
record!(enc_proxy_group_health {
    struct_size: usize,
    flags: u64,
    stalled_us: u64,
    state: enc_proxy_health_t,
    workers_left: u32,
});

/// How the group does. Errors: `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any, also while the worker is stuck.
///
/// # Safety
/// `health`, if not null, is readable and writable for the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_group_get_health(
    group: *mut enc_proxy_group,
    health: *mut enc_proxy_group_health,
) -> NRT_STATUS {
    call::with("enc_proxy_group_get_health", &GROUPS, group, |group| {
        // SAFETY: the caller's promise.
        let out = unsafe { OutRecord::new(health) }?;
        let (state, stalled_us) = match group.queue.health() {
            Health::Ok => (ENC_PROXY_HEALTH_OK, 0),
            Health::Stalled(time) => (ENC_PROXY_HEALTH_STALLED, arg::micros(time)),
            Health::Dead => (ENC_PROXY_HEALTH_DEAD, 0),
        };
        out.fill(enc_proxy_group_health {
            struct_size: 0,
            flags: 0,
            stalled_us,
            state,
            workers_left: left::count(),
        });
        Ok(())
    })
}
