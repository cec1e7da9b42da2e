//! `enc_glb_comm`: a rank's global communicator, host side: its place on the host bus and its share of a group, set up and freed together.
//!
//! ```text
//!   enc_setup_global_comm   join the bus -> meet all ranks -> exchange signature and unique id -> share the worker -> on leaders: the exchange
//!   enc_free_global_comm    give the worker up, its tasks first -> end the exchange between machines -> leave the bus
//! ```
//!
//! A setup that fails undoes what it has done, in the opposite order. A free that fails has undone nothing.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use proxy_core::phone::barrier::RankSet;
use proxy_os::bananaphone::bootstrap::{DIGEST, UNIQUE_ID};
use proxy_os::bananaphone::leaders::{MACHINES, Stopped};
use proxy_os::bananaphone::task::TaskBarrier;
use proxy_os::global_comm::{Exchange, Freed, Setup};
use proxy_os::nccom::Library;
use proxy_os::{DeviceWord, GlobalComm, Group, ProxyQueue, Settings};

use crate::arg::{self, Out};
use crate::barrier;
use crate::bus::{self, BP_MAX_RANKS, alone, bp_config};
use crate::call::{self, Failure};
use crate::comm::{COMMS, ENC_PROXY_UNIQUE_ID_BYTES, HINT, Lead, enc_proxy_comm, number};
use crate::group::{self, GROUPS, enc_proxy_group, enc_proxy_release_t};
use crate::handle::Kind;
use crate::library::{LIBRARIES, enc_proxy_library};
use crate::record::{self, OutRecord, record};
use crate::settings::{self, enc_proxy_settings};
use crate::status::{self, NRT_STATUS};
use crate::table::Table;

/// One rank's global communicator. Any thread may use it, one at a time: a second call meanwhile is `ENC_PROXY_BUSY`.
#[derive(Debug)]
pub struct enc_glb_comm {
    _opaque: [u8; 0],
}

/// As many as a process can have ranks on buses.
const LIMIT: usize = 1024;
pub(crate) static GLOBAL_COMMS: Table<Object, LIMIT> = Table::new(Kind::GlobalComm);

/// Bytes of a signature: a digest of the collectives that a rank is to run.
pub const ENC_PROXY_SIGNATURE_BYTES: usize = 16;
const _: () = assert!(ENC_PROXY_SIGNATURE_BYTES == DIGEST);
const _: () = assert!(ENC_PROXY_UNIQUE_ID_BYTES == UNIQUE_ID);

/// The communicator and, by their number, the contexts whose barriers are on its bus.
#[derive(Debug)]
pub(crate) struct Object {
    /// Empty once it is freed, or when a panic went through a free.
    comm: Mutex<Option<Whole>>,
    contexts: User,
}

/// A global communicator and, on a leader, what its exchange needs.
#[derive(Debug)]
struct Whole {
    comm: GlobalComm,
    /// Given back when the exchange has ended, and else never: its thread may be inside the library.
    lead: ManuallyDrop<Option<Lead>>,
}

/// Held by each context that uses a global communicator.
pub(crate) type User = Arc<()>;

impl Object {
    fn alone(&self) -> Result<MutexGuard<'_, Option<Whole>>, Failure> {
        alone(&self.comm)
    }

    /// The barrier task of a context on the queue `queue`, and what the context is to hold as long as it lives.
    ///
    /// # Safety
    /// As for [`bus::participants`].
    pub(crate) unsafe fn barrier(
        &self,
        queue: &Arc<ProxyQueue>,
        (slot, ranks, count): (u32, *const u16, u32),
        semaphores: Vec<DeviceWord>,
        timeout_us: u64,
    ) -> Result<(TaskBarrier, User), Failure> {
        let mut comm = self.alone()?;
        let comm = &mut comm.as_mut().ok_or_else(gone)?.comm;
        if !Arc::ptr_eq(comm.queue(), queue) {
            return Err(Failure::invalid(format_args!(
                "the context's group is {}, accepted: that of its glb_comm, {}",
                queue.gid(),
                comm.queue().gid()
            )));
        }
        let slot = bus::slot(slot)?;
        let world = comm.bus().world();
        // SAFETY: the caller's promise.
        let participants: RankSet = unsafe { bus::participants(ranks, count, world) }?;
        let within = barrier::within(timeout_us);
        let task = comm.task_barrier(slot, participants, semaphores, within)?;
        Ok((task, Arc::clone(&self.contexts)))
    }
}

fn gone() -> Failure {
    Failure::new(
        status::NRT_INVALID_HANDLE,
        "the global communicator has been freed",
    )
}

/// What a global communicator is made of, for `enc_setup_global_comm`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_glb_comm_config {
    /// `sizeof(enc_glb_comm_config)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// The host bus, which all ranks of this machine join. Its `timeout_us` is the deadline of each step that waits for other ranks; 0 =
    /// `NEURON_RT_PROXY_BUS_TIMEOUT`.
    pub bus: *const bp_config,
    /// NULL = those of the environment.
    pub settings: *mut enc_proxy_settings,
    /// A digest of this rank's collectives, 16 bytes: all ranks must have the same. NULL = nothing is exchanged, on no rank.
    pub signature: *const u8,
    /// On rank 0 with a signature: what makes the unique id that all ranks get. Else not looked at.
    pub library: *mut enc_proxy_library,
    /// The device of this rank, which says what group it is in.
    pub device: u32,
    /// Ranks of the communicator that the unique id is for; 0 = those of the bus.
    pub rank_n: u32,
    /// On the lowest rank of one machine among several, its leader: the library's communicator of all ranks, by whose bootstrap messages the leaders
    /// exchange, so that barriers span the machines. NULL = there is one machine, or this rank leads none.
    pub leader_comm: *mut enc_proxy_comm,
    /// The leaders' ranks in `leader_comm`, in order of machine, the same on all of them.
    pub leaders: *const u32,
    /// Their number, at least 1 with `leader_comm`; else 0.
    pub leader_n: u32,
    /// The place of this machine among them; machine 0 decides.
    pub machine: u32,
}
record!(enc_glb_comm_config {
    struct_size: usize, flags: u64, bus: *const bp_config, settings: *mut enc_proxy_settings, signature: *const u8,
    library: *mut enc_proxy_library, device: u32, rank_n: u32, leader_comm: *mut enc_proxy_comm, leaders: *const u32, leader_n: u32, machine: u32,
});

/// Sets up a rank's global communicator: joins the host bus and waits for all its ranks, compares signatures and hands out the unique id, and
/// shares or starts the worker of the rank's group.
///
/// - `glb_comm`: receives the handle; give it back by `enc_free_global_comm`. Contexts name it for their barrier; `enc_proxy_glb_comm_get_group` has
///   its group.
///
/// Errors: those of `bp_create` and `bp_connect`; `ENC_PROXY_MISMATCH` (signatures differ) or `ENC_PROXY_NO_UNIQUE_ID` (there is no
/// id, or not for ranks that differ), one of them on every rank; those of
/// `enc_proxy_group_acquire`; `ENC_PROXY_BUSY` (another one exchanges over `leader_comm`); `ENC_PROXY_WRONG_THREAD`. The text names the step; what was done before it has been undone. Threads: any but a worker's. Waits for other
/// ranks, up to the deadline in each step.
///
/// # Safety
/// `config` is readable for the size that it says, its `bus` as for `bp_create`, its `signature`, if not null, for 16 bytes, its `leaders` for
/// `leader_n` ranks; `glb_comm` is writable. Until the free nobody else makes bootstrap calls on `leader_comm`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_setup_global_comm(
    config: *const enc_glb_comm_config,
    glb_comm: *mut *mut enc_glb_comm,
) -> NRT_STATUS {
    call::plain("enc_setup_global_comm", || {
        // SAFETY: the caller's promise.
        let config = unsafe { record::read(config) }?;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(glb_comm, "glb_comm") }?;
        call::may_wait()?;
        let settings = settings::applied(config.settings)?;
        // First: the other ranks would see this one come and go, and `leader_comm` would stay taken.
        let place = call::reserve(&GLOBAL_COMMS)?;
        // SAFETY: the caller's promise.
        let whole = unsafe { across(&config, &settings) }?;
        let object = Object {
            comm: Mutex::new(Some(whole)),
            contexts: User::default(),
        };
        out.set(call::fill(place, object));
        Ok(())
    })
}

/// The whole of it, with the exchange between machines on a leader.
///
/// # Safety
/// As for `enc_setup_global_comm`.
unsafe fn across(config: &enc_glb_comm_config, settings: &Settings) -> Result<Whole, Failure> {
    let (count, limit) = (config.leader_n as usize, MACHINES);
    // SAFETY: the caller's promise.
    let leaders = unsafe { arg::array(config.leaders, count, limit, "leaders") }?;
    if config.leader_comm.is_null() {
        if count > 0 {
            let text = "leader_n is not 0, accepted: 0 without leader_comm";
            return Err(Failure::invalid(text));
        }
        // SAFETY: the caller's promise.
        let comm = unsafe { set_up(config, settings) }?;
        let lead = ManuallyDrop::new(None);
        return Ok(Whole { comm, lead });
    }
    // SAFETY: the caller's promise.
    let (link, lead) = unsafe { call::other(&COMMS, config.leader_comm)?.lead() }?;
    // SAFETY: the caller's promise.
    let comm = unsafe { set_up(config, settings) }?;
    let comm = comm.between_machines(link, leaders, config.machine as usize)?;
    let lead = ManuallyDrop::new(Some(lead));
    Ok(Whole { comm, lead })
}

/// # Safety
/// As for `enc_setup_global_comm`.
unsafe fn set_up(config: &enc_glb_comm_config, settings: &Settings) -> Result<GlobalComm, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { record::read(config.bus) }?;
    // SAFETY: the caller's promise.
    let mut bus = unsafe { bus::options(&given) }?;
    if given.timeout_us == 0 {
        bus.deadline = settings.bus_within();
    }
    let device = config.device;
    if config.signature.is_null() {
        let exchange = None;
        return Ok(GlobalComm::setup(Setup {
            bus,
            device,
            settings,
            exchange,
        })?);
    }
    let mut digest = [0; ENC_PROXY_SIGNATURE_BYTES];
    let bytes = digest.len();
    // SAFETY: the caller's promise.
    digest.copy_from_slice(unsafe { arg::array(config.signature, bytes, bytes, "signature") }?);
    let ranks = match config.rank_n {
        0 => bus.world.into(),
        ranks => number(ranks, "rank_n")?,
    };
    let library = match given.rank {
        0 => Some(call::other(&LIBRARIES, config.library)?),
        _ => None,
    };
    let mut refused = None;
    let mut make_id = || {
        let library: &Arc<Library> = library.as_ref()?;
        let made = library.get_unique_id(ranks, HINT);
        made.map_err(|error| refused = Some(error))
            .ok()
            .map(|id| id.0)
    };
    let exchange = Some(Exchange {
        digest,
        make_id: &mut make_id,
    });
    let made = GlobalComm::setup(Setup {
        bus,
        device,
        settings,
        exchange,
    });
    made.map_err(|error| {
        let mut failure = Failure::from(error);
        if let Some(refused) = refused {
            failure.text = format!("{}: {refused}", failure.text);
        }
        failure
    })
}

/// Words of a set of ranks of a bus.
pub const ENC_PROXY_RANK_WORDS: usize = 2;
const _: () = assert!(ENC_PROXY_RANK_WORDS * 64 == BP_MAX_RANKS as usize);

/// How a global communicator was freed.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct enc_glb_comm_freed {
    /// `sizeof(enc_glb_comm_freed)`.
    pub struct_size: usize,
    /// Must be 0.
    pub flags: u64,
    /// Ranks of the bus that had died without hanging up: rank `r` is bit `r % 64` of `dead[r / 64]`.
    pub dead: [u64; ENC_PROXY_RANK_WORDS],
    /// Their number.
    pub dead_n: u32,
    /// Shares of the group that are left.
    pub others: u32,
    /// 1 = the exchange between machines did not end in time: it may be inside the library for ever, so that `leader_comm` cannot be destroyed.
    pub detached: u32,
    /// 0.
    pub reserved: u32,
}
record!(enc_glb_comm_freed {
    struct_size: usize,
    flags: u64,
    dead: [u64; ENC_PROXY_RANK_WORDS],
    dead_n: u32,
    others: u32,
    detached: u32,
    reserved: u32,
});

impl From<Freed> for enc_glb_comm_freed {
    fn from(freed: Freed) -> Self {
        let mut dead = [0; ENC_PROXY_RANK_WORDS];
        for rank in freed.dead.iter() {
            dead[usize::from(rank) / 64] |= 1 << (rank % 64);
        }
        Self {
            struct_size: 0,
            flags: 0,
            dead,
            dead_n: freed.dead.len(),
            others: group::left(freed.group),
            detached: (freed.leaders == Some(Stopped::Detached)).into(),
            reserved: 0,
        }
    }
}

/// Frees a rank's global communicator: gives its share of the group up, as by `enc_proxy_group_release`, ends the exchange between machines, and
/// leaves the bus. Waits for no other
/// rank.
///
/// - `way`: `ENC_PROXY_DRAIN` or `ENC_PROXY_ABORT`; only the group's last share's counts.
/// - `timeout_us`: how long worker and exchange may take together, in microseconds; not at all on the thread of another worker.
/// - `freed`: receives who had died, and more; may be NULL.
///
/// Errors: `ENC_PROXY_BUSY` (contexts have their barrier on its bus, destroy them first; or another thread's call is on it), those of
/// `enc_proxy_group_release`. After an error nothing has been undone and the handle is still good. Threads: any but the worker's own.
///
/// # Safety
/// `freed`, if not null, is readable and writable for the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_free_global_comm(
    glb_comm: *mut enc_glb_comm,
    way: enc_proxy_release_t,
    timeout_us: u64,
    freed: *mut enc_glb_comm_freed,
) -> NRT_STATUS {
    call::destroy("enc_free_global_comm", &GLOBAL_COMMS, glb_comm, |object| {
        // SAFETY: the caller's promise.
        let out = unsafe { OutRecord::optional(freed) }?;
        let way = group::way(way)?;
        let mut place = object.alone()?;
        let users = Arc::strong_count(&object.contexts) - 1;
        if users > 0 {
            return Err(Failure::new(
                status::ENC_PROXY_BUSY,
                match users {
                    1 => "1 context uses the global communicator; destroy it first".to_owned(),
                    _ => {
                        format!("{users} contexts use the global communicator; destroy them first")
                    }
                },
            ));
        }
        let Some(Whole { comm, lead }) = place.take() else {
            // A panic went through an earlier free: nothing is left to be undone, and nothing is known.
            return Ok(());
        };
        match comm.free(way, call::patience(arg::long_timeout(timeout_us))) {
            Ok(freed) => {
                if freed.leaders != Some(Stopped::Detached) {
                    drop(ManuallyDrop::into_inner(lead));
                }
                out.into_iter().for_each(|out| out.fill(freed.into()));
                Ok(())
            }
            Err(not_freed) => {
                let error = not_freed.error;
                let comm = not_freed.comm;
                *place = Some(Whole { comm, lead });
                Err(error.into())
            }
        }
    })
}

/// The unique id that the ranks have got at the setup.
///
/// - `unique_id`: receives 128 bytes.
///
/// Errors: `NRT_INVALID` (nothing was exchanged), `ENC_PROXY_BUSY`, `NRT_INVALID_HANDLE`. Threads: any.
///
/// # Safety
/// `unique_id` is writable for 128 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_glb_comm_get_unique_id(
    glb_comm: *mut enc_glb_comm,
    unique_id: *mut u8,
) -> NRT_STATUS {
    let name = "enc_proxy_glb_comm_get_unique_id";
    call::with(name, &GLOBAL_COMMS, glb_comm, |object| {
        let to = unique_id.cast::<[u8; ENC_PROXY_UNIQUE_ID_BYTES]>();
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(to, "unique_id") }?;
        let comm = object.alone()?;
        let comm = &comm.as_ref().ok_or_else(gone)?.comm;
        let none = || Failure::invalid("the setup had no signature, so no unique id was exchanged");
        out.set(*comm.unique_id().ok_or_else(none)?);
        Ok(())
    })
}

/// A further share of its group, for functions that take a group: contexts, tickets, aborts, reports. It may outlive the global communicator.
///
/// - `group`: receives the handle; give it back by `enc_proxy_group_release`.
///
/// Errors: `NRT_RESOURCE`, `ENC_PROXY_BUSY`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
///
/// # Safety
/// `group` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_glb_comm_get_group(
    glb_comm: *mut enc_glb_comm,
    group: *mut *mut enc_proxy_group,
) -> NRT_STATUS {
    let name = "enc_proxy_glb_comm_get_group";
    call::with(name, &GLOBAL_COMMS, glb_comm, |object| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(group, "group") }?;
        let comm = object.alone()?;
        let comm = &comm.as_ref().ok_or_else(gone)?.comm;
        // The group lives as the communicator has a share of it, so nothing is started and no settings count.
        let share = Group::acquire(comm.queue().gid(), &Settings::default(), Duration::ZERO)?;
        out.set(call::handle(&GROUPS, group::Object::from(share))?);
        Ok(())
    })
}
